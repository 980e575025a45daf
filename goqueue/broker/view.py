"""A partition as its readers see it: what is committed, or everything."""

from collections.abc import Sequence
from typing import Literal

from goqueue.broker.partition import Partition
from goqueue.broker.transactions.hiding import has_message
from goqueue.broker.work import Work
from goqueue.limits import OFFSET_MAX
from goqueue.storage.aborted import EMPTY, Edges, as_edges, common
from goqueue.storage.extent import Read
from goqueue.storage.marker import Range
from goqueue.storage.survey import Damage

Isolation = Literal["read_committed", "read_uncommitted"]


class View:
    """Of one partition, for readers of one kind."""

    __slots__ = ("is_committed", "partition")

    def __init__(self, partition: Partition, isolation: Isolation = "read_committed") -> None:
        self.partition = partition
        self.is_committed = isolation == "read_committed"

    @property
    def earliest(self) -> int:
        return self.partition.earliest

    @property
    def end(self) -> int:
        """These readers do not see this offset yet."""
        return self.partition.last_stable if self.is_committed else self.partition.high_watermark

    def read(self, offset: int, max_bytes: int, *, skip_damage: bool = False) -> Work[Read]:
        """From this offset on, whole frames with a message among them; none only where nothing is left."""
        if self.is_committed:
            return (yield from self.partition.read(offset, max_bytes, skip_damage=skip_damage))
        skipped: tuple[Damage, ...] = ()
        while True:
            read = yield from self.partition.read_uncommitted(offset, max_bytes, skip_damage=skip_damage)
            skipped += read.skipped
            if not read.buffers or any(map(has_message, read.buffers)):
                return Read(read.buffers, read.next_offset, skipped)
            offset = read.next_offset

    def seen_from(self, offset: int) -> Work[int]:
        """This offset, or the first one behind the messages that begin here and that these readers never see."""
        end = self.end
        while self.is_committed and offset < end:
            known = yield from self.partition.aborted.at(offset, offset + 1)
            if (following := known.behind(offset)) == offset:
                break
            offset = following
        return offset

    def roughly_hidden(self, first: int, end: int) -> int:
        """How many messages of a stretch these readers never see, as far as that is in memory."""
        return self.partition.aborted.roughly(first, end) if self.is_committed else 0

    def count_in_lane(self, lane: int, first: int, end: int) -> Work[int]:
        """How many messages of a lane these readers see of a stretch; markers, which lanes do not know apart, count."""
        lanes = self.partition.lanes
        count = yield from lanes.count(lane, first, end, OFFSET_MAX)
        if count and self.is_committed:
            count -= yield from lanes.count_in(lane, (yield from self.partition.aborted.edges(first, end)))
        return count

    def hidden_in(self, spans: Sequence[Range]) -> Work[Edges]:
        """What these readers never see of some spans in one segment, which rise."""
        if not self.is_committed:
            return EMPTY.edges
        known = yield from self.partition.aborted.at(spans[0][0], spans[-1][1])
        return common(as_edges(spans), known.edges)

    def __repr__(self) -> str:
        return f"<View of {self.partition} up to {self.end}>"
