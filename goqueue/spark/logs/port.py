"""What a place with logs can be asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from goqueue.storage.disk import File
from goqueue.storage.index import Index
from goqueue.storage.visit import LogView, SegmentView

Isolation = Literal["read_committed", "read_uncommitted"]
READ_COMMITTED: Isolation = "read_committed"
READ_UNCOMMITTED: Isolation = "read_uncommitted"
"""Shows the messages of open and of aborted transactions as well."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What is known of the transactions in a range of offsets."""

    aborted: Sequence[tuple[int, int]]
    """Their messages: from the first offset up to, not including, the second."""
    end: int
    """From here on some may be open."""


@dataclass(frozen=True, slots=True)
class OpenSegment:
    """A file of frames, and where to start looking in it."""

    file: File
    index: Index


class Logs(Protocol):
    """It travels to the executors, so it is small, and opens what it needs where it is asked."""

    @property
    def name(self) -> str:
        """What people call it: a path or a URL."""
        ...

    @property
    def isolation(self) -> Isolation:
        """Which messages of transactions are seen."""
        ...

    def topics(self) -> dict[str, tuple[int, ...]]:
        """The partitions of every topic, the broker's own topics included where they can be read."""
        ...

    def view(self, topic: str, partition: int) -> LogView:
        """What may be read of a partition at this moment."""
        ...

    def touched(self) -> Mapping[tuple[str, int], int]:
        """Partitions in which transactions may be open, where a view does not tell, and from which offset on."""
        ...

    def open(self, topic: str, partition: int, segment: SegmentView) -> OpenSegment:
        """One of its segments; SegmentNotFound where it has been removed or replaced since it was viewed."""
        ...

    def waits(self) -> bool:
        """Whether what is planned ends before whatever is open, so that all that is read is decided."""
        ...

    def decided(
        self, topic: str, partition: int, first: int, end: int, segments: Sequence[SegmentView]
    ) -> Decided | None:
        """What became of the transactions whose messages lie there; None where the log itself has to tell."""
        ...

    def path(self, topic: str, partition: int, segment: SegmentView) -> str:
        """What people call this segment."""
        ...
