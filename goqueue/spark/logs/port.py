"""What a place with logs can be asked."""

from dataclasses import dataclass
from typing import Protocol

from goqueue.storage.disk import File
from goqueue.storage.index import Index
from goqueue.storage.visit import LogView, SegmentView


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

    def topics(self) -> dict[str, tuple[int, ...]]:
        """The partitions of every topic, the broker's own topics included where they can be read."""
        ...

    def view(self, topic: str, partition: int) -> LogView:
        """What may be read of a partition at this moment."""
        ...

    def open(self, topic: str, partition: int, segment: SegmentView) -> OpenSegment:
        """One of its segments; SegmentNotFound where it has been removed or replaced since it was viewed."""
        ...

    def path(self, topic: str, partition: int, segment: SegmentView) -> str:
        """What people call this segment."""
        ...
