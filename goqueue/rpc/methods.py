"""All methods of the package, with the functions that answer them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from goqueue.rpc import administration, consuming, positions, publishing, settling, subscribing, transactions
from goqueue.rpc.endpoints import endpoint_method
from goqueue.rpc.session import CallSession, SessionRegistry
from goqueue.rpc.stored_messages import MessageReader
from goqueue.rpc.stubs import services

SPECIAL: dict[str, Any] = {
    "PublishService.Publish": publishing.publish,
    "PublishService.PublishStream": publishing.publish_stream,
    "PublishService.PublishBatch": publishing.publish_batch,
    "PublishService.PublishBatches": publishing.publish_batches,
    "PublishService.PublishAll": publishing.publish_all,
    "AckService.Ack": settling.ack,
    "AckService.Nack": settling.nack,
    "AckService.Reject": settling.reject,
    "AckService.ExtendVisibility": settling.extend,
    "AckService.BatchAck": settling.ack_batch,
    "AckService.Settle": settling.settle,
    "AckService.SettleStream": settling.settle_stream,
    "OffsetService.CommitOffsets": positions.commit,
    "OffsetService.FetchOffsets": positions.fetch,
    "OffsetService.ResetOffsets": positions.reset,
    "TransactionService.AddAcks": transactions.add_acks,
    "TransactionService.AddOffsets": transactions.add_offsets,
    "TransactionService.ListTransactions": transactions.list_transactions,
    "TransactionService.DescribeTransaction": transactions.describe,
    "ConsumeService.Consume": consuming.consume,
    "ConsumeService.Subscribe": subscribing.Subscription,
    "AdminService.Call": administration.call,
    "AdminService.ListEndpoints": administration.list_endpoints,
    "HealthService.Check": administration.check,
    "HealthService.Watch": administration.watch,
}
"""Methods that are more than one endpoint, or another shape."""


def handlers(
    registry: SessionRegistry, reader: MessageReader, time_ns: Callable[[], int]
) -> list[grpc.GenericRpcHandler]:
    """Return the handlers of all services."""
    special = SPECIAL | {
        "ConsumeService.Consume": partial(consuming.consume, reader=reader, time_ns=time_ns),
        "ConsumeService.Subscribe": partial(_subscribe, registry, reader, time_ns),
    }
    return [_service(registry, service, special) for service in services()]


def _service(registry: SessionRegistry, service: ServiceDescriptor, special: dict[str, Any]) -> grpc.GenericRpcHandler:
    found = {}
    for method in service.methods:
        function = special.get(f"{service.name}.{method.name}") or endpoint_method(method)
        found[method.name] = _handler(registry, method, function)
    return grpc.method_handlers_generic_handler(service.full_name, found)


def _handler(registry: SessionRegistry, method: MethodDescriptor, function: Any) -> grpc.RpcMethodHandler:
    make = grpc.stream_stream_rpc_method_handler if method.server_streaming else grpc.stream_unary_rpc_method_handler
    serve = registry.streaming if method.server_streaming else registry.unary
    return make(
        serve(function, has_requests=method.client_streaming),
        request_deserializer=GetMessageClass(method.input_type).FromString,
        response_serializer=GetMessageClass(method.output_type).SerializeToString,
    )


def _subscribe(
    registry: SessionRegistry, reader: MessageReader, time_ns: Callable[[], int], session: CallSession, request: Any
) -> Any:
    messages = subscribing.Subscription(session, request, reader, registry.finish_later).run()
    return consuming.with_heartbeats(messages, consuming.idle_seconds(request), time_ns)
