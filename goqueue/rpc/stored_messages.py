"""Frames as messages of a response."""

from collections.abc import Iterator, Sequence

from goqueue.api.message_json import DecompressedMemory, DecompressionBudget, frame_positions
from goqueue.broker.groups.settle_commands import ReceiptHandle
from goqueue.rpc.transcoding import timestamp
from goqueue.rpc.v1 import types_pb2
from goqueue.storage import frame
from goqueue.wire.leases import LeaseDescription


class MessageReader:
    """Makes messages of frames. It may be used on any thread."""

    def __init__(self, memory: DecompressedMemory) -> None:
        self._memory = memory

    def read(
        self, topic: str, partition: int, frames: memoryview, lease: LeaseDescription | None = None
    ) -> list[types_pb2.Message]:
        """Return the messages among frames. Raises BrokerOverloaded."""
        with self._memory.budget() as budget:
            return list(_messages(topic, partition, frames, lease, budget))


def _messages(
    topic: str, partition: int, frames: memoryview, lease: LeaseDescription | None, budget: DecompressionBudget
) -> Iterator[types_pb2.Message]:
    for position in frame_positions(frames):
        if frames[position + frame.AT_FLAGS] & frame.CONTROL:
            continue
        found = frame.decode(frames, position)
        value = budget.decompress(found)
        message = types_pb2.Message(
            topic=topic,
            partition=partition,
            offset=found.offset,
            timestamp=timestamp(found.timestamp_ns),
            key=found.key or b"",
            value=found.value if value is None else value,
            priority=found.priority,
            tombstone=found.is_tombstone,
        )
        if found.headers:
            _add_headers(message, found.headers)
        if lease is not None:
            message.retry_count = lease.attempt - 1
            message.receipt_handle = str(ReceiptHandle(topic, partition, found.offset, lease.attempt, lease.lease))
        yield message


def _add_headers(message: types_pb2.Message, headers: Sequence[tuple[str, bytes]]) -> None:
    own = [(name, bytes(value)) for name, value in headers if not name.startswith("__")]
    is_plain = len({name for name, _ in own}) == len(own)
    for name, value in own:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            is_plain = False
        else:
            if name not in message.headers:
                message.headers[name] = text
    if not is_plain:
        message.raw_headers.extend(types_pb2.Header(name=name, value=value) for name, value in own)
