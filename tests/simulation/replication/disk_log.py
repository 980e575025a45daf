"""The log of one replica on a simulated disk, and the messages between replicas."""

from random import Random
from typing import NamedTuple

from goqueue.cluster.epoch_index import EpochIndex
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import DataHeader, IsrChange, OpenReplica, ReplicationMessage
from tests.simulation.cluster.oracles import Entry

BEGIN = "begin"
"""The value of the first record of an epoch."""


class DiskLog:
    """Records, of which the last ones may not be durable. `index` is shared with the core that uses the log."""

    def __init__(self) -> None:
        self.records: list[Entry] = []
        self.index = EpochIndex()
        self.high_watermark = 0
        self.saved_high_watermark = 0
        """The checkpoint, which is written now and then."""
        self.offsets: dict[object, int] = {}
        """Where each value is: this is what a broker derives for producers."""
        self.is_fenced = False
        """The disk has refused something: nothing is written until the process starts again."""
        self.is_damaged = False

    @property
    def start(self) -> int:
        return self.index.start

    @property
    def end(self) -> int:
        return self.index.start + len(self.records)

    def at(self, offset: int) -> Entry:
        return self.records[offset - self.index.start]

    def epoch_before(self, offset: int) -> int:
        return self.at(offset - 1).epoch if offset > self.start else self.index.epoch_before(offset)

    def append(self, entries: tuple[Entry, ...]) -> None:
        self.offsets.update((entry.value, offset) for offset, entry in enumerate(entries, self.end))
        self.records += entries

    def cut(self, end: int) -> None:
        """Remove the records from this offset on; the core changes the index."""
        for entry in self.records[end - self.start :]:
            self.offsets.pop(entry.value, None)
        del self.records[end - self.start :]

    def forget_below(self, start: int) -> None:
        """Remove the records below this offset; the core changes the index."""
        del self.records[: start - self.start]

    def crash(self, random: Random) -> None:
        """Lose any part of what is not durable."""
        kept = random.randint(min(self.index.durable_end, self.end), self.end)
        self.lose(kept)

    def lose(self, end: int) -> None:
        """Lose everything from this offset on; what is left is durable."""
        self.cut(end)
        self.index.cut(end)
        self.high_watermark = max(self.start, min(self.saved_high_watermark, end))
        self.is_fenced = False

    def __repr__(self) -> str:
        index, fenced = self.index, ", fenced" if self.is_fenced else ""
        return f"{self.start}..{self.high_watermark}..{index.durable_end}..{self.end} {index.rows[-4:]}{fenced}"


class Data(NamedTuple):
    """Records that a leader pushes."""

    header: DataHeader
    entries: tuple[Entry, ...]
    rows: tuple[tuple[int, int], ...]


class Confirmed(NamedTuple):
    """Ends of logs that are durable at a follower: epoch and end by partition."""

    rows: tuple[tuple[PartitionId, int, int], ...]


class Told(NamedTuple):
    """High watermarks of a leader: epoch, high watermark and log start by partition."""

    rows: tuple[tuple[PartitionId, int, int, int], ...]


class Refused(NamedTuple):
    """The controller's answer to a change of the ISR."""

    request: IsrChange
    attempt: int
    is_final: bool


class Asked(NamedTuple):
    """A leader asks for another ISR."""

    request: IsrChange
    attempt: int


class Registration(NamedTuple):
    """Says that a process has started, and which logs have lost something."""

    node: str
    directory: str
    incarnation: str
    damaged: tuple[PartitionId, ...]


DataMessage = Data | Confirmed | Told | Refused | Registration | OpenReplica | ReplicationMessage
