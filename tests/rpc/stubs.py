"""Channels and stubs for tests, and errors as programs see them."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from goqueue.rpc.stubs import Stub
from goqueue.testing.broker import LocalBroker

Metadata = tuple[tuple[str, str], ...]


class Stubs:
    """All services of a broker on one channel."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.acks = Stub(channel, "AckService")
        self.admin = Stub(channel, "AdminService")
        self.consume = Stub(channel, "ConsumeService")
        self.delayed = Stub(channel, "DelayedService")
        self.health = Stub(channel, "HealthService")
        self.offsets = Stub(channel, "OffsetService")
        self.publish = Stub(channel, "PublishService")
        self.schemas = Stub(channel, "SchemaService")
        self.topics = Stub(channel, "TopicService")
        self.transactions = Stub(channel, "TransactionService")


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
