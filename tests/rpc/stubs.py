"""Channels and stubs for tests, and errors as programs see them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from goqueue.rpc.v1 import (
    ack_pb2_grpc,
    admin_pb2_grpc,
    consume_pb2_grpc,
    delayed_pb2_grpc,
    health_pb2_grpc,
    offset_pb2_grpc,
    publish_pb2_grpc,
    schema_pb2_grpc,
    topic_pb2_grpc,
    transaction_pb2_grpc,
)
from goqueue.testing.broker import LocalBroker

Metadata = tuple[tuple[str, str], ...]


class Stubs:
    """All services of a broker on one channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.acks: Any = ack_pb2_grpc.AckServiceStub(channel)  # type: ignore[no-untyped-call]
        self.admin: Any = admin_pb2_grpc.AdminServiceStub(channel)  # type: ignore[no-untyped-call]
        self.consume: Any = consume_pb2_grpc.ConsumeServiceStub(channel)  # type: ignore[no-untyped-call]
        self.delayed: Any = delayed_pb2_grpc.DelayedServiceStub(channel)  # type: ignore[no-untyped-call]
        self.health: Any = health_pb2_grpc.HealthServiceStub(channel)  # type: ignore[no-untyped-call]
        self.offsets: Any = offset_pb2_grpc.OffsetServiceStub(channel)  # type: ignore[no-untyped-call]
        self.publish: Any = publish_pb2_grpc.PublishServiceStub(channel)  # type: ignore[no-untyped-call]
        self.schemas: Any = schema_pb2_grpc.SchemaServiceStub(channel)  # type: ignore[no-untyped-call]
        self.topics: Any = topic_pb2_grpc.TopicServiceStub(channel)  # type: ignore[no-untyped-call]
        self.transactions: Any = transaction_pb2_grpc.TransactionServiceStub(channel)  # type: ignore[no-untyped-call]


@contextmanager
def stubs_of(broker: LocalBroker, credentials: grpc.ChannelCredentials | None = None) -> Iterator[Stubs]:
    address = broker.daemon.rpc_address
    assert address is not None
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
    if credentials is None:
        channel = grpc.insecure_channel(address, options)
    else:
        channel = grpc.secure_channel(address, credentials, options)
    with channel:
        yield Stubs(channel)


class Refused:
    """An error of a call: the status, and its details."""

    def __init__(self, error: Any) -> None:
        self.code: grpc.StatusCode = error.code()
        self.sentence: str = error.details()
        self.reason, self.hint, self.retry_seconds = "", "", 0.0
        self.fields: dict[str, str] = {}
        metadata = dict(error.trailing_metadata() or ())
        if "grpc-status-details-bin" in metadata:
            self._read(Status.FromString(metadata["grpc-status-details-bin"]).details)

    def _read(self, details: Iterable[Any]) -> None:
        for one in details:
            info, retry, fields = ErrorInfo(), RetryInfo(), BadRequest()
            if one.Unpack(info):
                self.reason, self.hint = info.reason, info.metadata["hint"]
            elif one.Unpack(retry):
                self.retry_seconds = retry.retry_delay.ToTimedelta().total_seconds()
            elif one.Unpack(fields):
                self.fields = {each.field: each.description for each in fields.field_violations}


def refusal(call: Any, *given: Any, **options: Any) -> Refused:
    """Return the error of a call that must fail, or of a stream."""
    with pytest.raises(grpc.RpcError) as caught:
        _completed(call, *given, **options)
    return Refused(caught.value)


def _completed(call: Any, *given: Any, **options: Any) -> None:
    answer = call(*given, **options)
    if hasattr(answer, "__next__"):
        list(answer)


def messages_of(responses: Iterable[Any]) -> Iterator[Any]:
    """Yield the messages of a stream."""
    for response in responses:
        yield from response.messages.messages
