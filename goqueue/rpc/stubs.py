"""Stubs of the services for programs in Python, made from the descriptors of the `.proto` files."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from goqueue.rpc.v1 import (
    ack_pb2,
    admin_pb2,
    consume_pb2,
    delayed_pb2,
    health_pb2,
    offset_pb2,
    publish_pb2,
    schema_pb2,
    topic_pb2,
    transaction_pb2,
)

FILES = (
    publish_pb2,
    consume_pb2,
    ack_pb2,
    offset_pb2,
    topic_pb2,
    delayed_pb2,
    transaction_pb2,
    schema_pb2,
    admin_pb2,
    health_pb2,
)


def services() -> Iterator[ServiceDescriptor]:
    """Yield all services of the package."""
    for file in FILES:
        yield from file.DESCRIPTOR.services_by_name.values()


_SERVICES = {service.name: service for service in services()}
_KINDS = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}


class Stub:
    """The methods of one service, by their names: `Stub(channel, "PublishService").Publish(request)`."""

    def __init__(self, channel: Any, service: str) -> None:
        """The channel is one of `grpc` or of `grpc.aio`."""
        described = _SERVICES[service]
        for method in described.methods:
            make = getattr(channel, _KINDS[method.client_streaming, method.server_streaming])
            call = make(
                f"/{described.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, call)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
