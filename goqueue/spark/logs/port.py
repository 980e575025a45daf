"""The interface of a source of logs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from goqueue.storage.compaction_progress import CompactionProgress
from goqueue.storage.disk import File
from goqueue.storage.index import Index
from goqueue.storage.log_view import LogView, SegmentView
from goqueue.storage.segment_scan import true_entry

PartitionRef = tuple[str, int]
"""A topic and the number of a partition."""

Isolation = Literal["read_committed", "read_uncommitted"]
READ_COMMITTED: Isolation = "read_committed"
READ_UNCOMMITTED: Isolation = "read_uncommitted"
"""Shows the messages of open and of aborted transactions as well."""


@dataclass(frozen=True, slots=True)
class TransactionDecisions:
    """The known results of transactions in a range of offsets."""

    aborted: Sequence[tuple[int, int]]
    """Their messages: from the first offset up to, not including, the second."""
    end: int
    """From here on some may be open."""


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A file of frames, and where to start looking in it."""

    file: File
    index: Index
    is_proven: bool = False
    """Whether the entries can be believed unseen: all before one have lower offsets and no later times."""

    def entry(self, number: int, end: int) -> int:
        """Return the last entry from this one down that is true; or -1."""
        return number if self.is_proven else true_entry(self.file, self.index, number, end)


class LogSource(Protocol):
    """It travels to the executors, so it is small, and opens what it needs where it is asked."""

    @property
    def name(self) -> str:
        """The path or URL."""
        ...

    @property
    def isolation(self) -> Isolation:
        """Which messages of transactions are seen."""
        ...

    def topics(self) -> dict[str, tuple[int, ...]]:
        """Return the partitions of every topic, including internal topics where they can be read."""
        ...

    def view(self, topic: str, partition: int) -> LogView:
        """Return the segments of a partition that may be read now."""
        ...

    def touched(self) -> Mapping[tuple[str, int], int]:
        """Return partitions with open transactions and their first offsets, where a view does not have them."""
        ...

    def open(self, topic: str, partition: int, segment: SegmentView) -> OpenSegment:
        """Open a segment; raise SegmentNotFound where it was removed or replaced since it was viewed."""
        ...

    def waits(self) -> bool:
        """Test if plans end before open transactions, so that everything read is decided."""
        ...

    def decided(
        self, topic: str, partition: int, first: int, end: int, segments: Sequence[SegmentView]
    ) -> TransactionDecisions | None:
        """Return the results of the transactions whose messages lie there; None where the log has to be searched."""
        ...

    def compaction(self, topic: str, partition: int) -> CompactionProgress | None:
        """Return how far a partition was compacted; None where that is not known."""
        ...

    def close(self) -> None:
        """End connections."""
        ...

    def path(self, topic: str, partition: int, segment: SegmentView) -> str:
        """Return the name of a segment, for messages."""
        ...
