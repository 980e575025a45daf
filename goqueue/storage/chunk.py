"""Frames that were appended together, on their way from the owner of a log to its files."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from goqueue.errors import GoQueueError
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment

Acknowledge = Callable[[GoQueueError | None], None]
"""Hears once: None when the messages are safe, otherwise why they are not."""


@dataclass(slots=True, eq=False)
class Chunk:
    """An append, with all that the flusher needs to write it."""

    segment: Segment
    position: int
    first_offset: int
    frames: Frames
    entry_number: int
    """How many entries the segment's index has before this chunk."""
    entries: bytes
    times: bytes
    """What `.index` and `.timeindex` gain from that entry on."""
    acknowledge: Acknowledge | None
    settled: bool = False
    verdict: GoQueueError | None = None

    @property
    def next_offset(self) -> int:
        return self.first_offset + len(self.frames)

    @property
    def size(self) -> int:
        return len(self.frames.buffer)

    def settle(self, verdict: GoQueueError | None) -> None:
        """It is known what became of it. Who appended it is told later, when all state is as it should be."""
        self.settled, self.verdict = True, verdict


def answer(chunks: Iterable[Chunk]) -> None:
    """Tell everybody who appended. One whose `acknowledge` raises does not keep it from the others."""
    failures: list[Exception] = []
    for chunk in chunks:
        acknowledge, chunk.acknowledge = chunk.acknowledge, None
        if acknowledge is not None:
            try:
                acknowledge(chunk.verdict)
            except Exception as failure:
                failures.append(failure)
    if failures:
        raise ExceptionGroup("acknowledgements failed", failures)
