"""Copies of messages in logs that other nodes lead: dead letters, and redriven messages.

The leader of the target stores each copy once, for any coordinator that asks, and however often. A copy says where its
original is, and from which end of the target it may have been stored: the leader searches from there, and stores what
it does not find. So a coordinator that was replaced does no harm with a request that arrives late.

What the search cannot see is what is on its way: it was appended here and is not committed. That is kept in memory, and
a leader answers nothing before all that it inherited is committed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.partition_ref import LogRef, PartitionRef
from goqueue.broker.core.work import Promise, Work
from goqueue.errors import GoQueueError
from goqueue.limits import READ_BYTES
from goqueue.storage import frame
from goqueue.wire.sections import ORIGIN_HEADER


class Copy(NamedTuple):
    """A message to store once."""

    frame: bytes
    origin: bytes
    """The value of its origin header."""
    since: int
    """An earlier copy with this origin, below this offset of the target, is another one."""


class _Append:
    """Copies that are on their way, and those who wait for them."""

    def __init__(self) -> None:
        self._result: Placement | GoQueueError | None = None
        self._waiting: list[Promise[Placement]] = []

    def settle(self, result: Placement | GoQueueError) -> None:
        self._result = result
        for promise in self._waiting:
            promise(result)

    def wait(self) -> Work[Placement]:
        promise: Promise[Placement] = Promise()
        if self._result is None:
            self._waiting.append(promise)
        else:
            promise(self._result)
        return (yield from promise.kept())


class CopyStore:
    """Stores copies in the partitions that this node leads."""

    def __init__(self, find: Callable[[LogRef], Partition]) -> None:
        self._find = find
        self._on_their_way: dict[tuple[PartitionRef, bytes], _Append] = {}

    def store(self, target: PartitionRef, copies: Sequence[Copy]) -> Work[None]:
        """Store the copies that are not there; all are committed when this returns."""
        partition = self._find(LogRef(*target))
        self._refuse_unless_settled(partition)
        # A target that is shorter was created anew.
        missing = {one.origin: one if one.since <= partition.log_end else one._replace(since=0) for one in copies}
        offset = max(partition.earliest, min(copy.since for copy in missing.values()))
        while offset < partition.high_watermark:
            read = yield from partition.read_uncommitted(offset, READ_BYTES, skip_damage=True)
            for buffer in read.buffers:
                found: list[tuple[bytes, int]] = yield partial(lambda content: list(_origins(content)), buffer)
                for origin, at in found:
                    if origin in missing and at >= missing[origin].since:
                        del missing[origin]
            offset = read.next_offset
        # Nothing is waited for from here to the append.
        self._refuse_unless_settled(partition)
        appends = {origin: self._on_their_way.get((target, origin)) for origin in missing}
        waiting = {append: None for append in appends.values() if append is not None}
        if new := [copy for origin, copy in missing.items() if appends[origin] is None]:
            waiting[self._append(partition, target, new)] = None
        for append in waiting:
            yield from append.wait()

    def _append(self, partition: Partition, target: PartitionRef, copies: Sequence[Copy]) -> _Append:
        append, keys = _Append(), [(target, copy.origin) for copy in copies]

        def settled(result: Placement | GoQueueError) -> None:
            for key in keys:
                del self._on_their_way[key]
            append.settle(result)

        self._on_their_way |= dict.fromkeys(keys, append)
        if partition.offer([copy.frame for copy in copies], settled):
            partition.commit()
        return append

    @staticmethod
    def _refuse_unless_settled(partition: Partition) -> None:
        leadership = partition.leadership
        if leadership is not None and not leadership.knows_end:
            raise leadership.refusal()


def _origins(buffer: memoryview) -> Iterator[tuple[bytes, int]]:
    """Yield the origin and the offset of copies."""
    for position in frame.walk(buffer):
        if buffer[position + frame.AT_FLAGS] & frame.HAS_HEADERS:
            headers = frame.decode(buffer, position).headers
            if headers and headers[0][0] == ORIGIN_HEADER:
                yield headers[0][1], frame.offset_at(buffer, position)
