"""Whether the messages of transactions in a log, the markers of their ends, and what caches say of them agree.

Each segment gives an account of itself while it is checked; together they tell what is wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from goqueue.errors import FrameInvalid
from goqueue.storage import frame
from goqueue.storage.aborted import Edges, as_edges, common, load, runs_of, union
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.marker import Range, decode_marker, of_transactions
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment


class Fault(NamedTuple):
    """Something that does not agree."""

    path: str
    sentence: str
    is_cache: bool
    """Whether it may be removed."""
    is_wrong: bool = True
    """Else it is not whole, as after a loss of power."""


@dataclass(slots=True)
class Account:
    """What one segment holds of transactions."""

    segment: Segment
    runs: list[Edges] = field(default_factory=list)
    """Their messages."""
    aborted: list[Range] = field(default_factory=list)
    """What markers in it say was aborted, there or before."""
    committed: list[Range] = field(default_factory=list)
    stored: Edges | None = None
    """What the file beside it says."""
    faults: list[Fault] = field(default_factory=list)

    def note(self, frames: Frames) -> None:
        """These are in it."""
        messages, markers = of_transactions(frames)
        if messages.any():
            self.runs.append(runs_of(frames.offsets[messages]))
        for position in frames.positions[markers].tolist():
            self._note_marker(frame.decode(frames.buffer.data, position))

    def _note_marker(self, message: frame.Message) -> None:
        try:
            marker = decode_marker(message)
        except FrameInvalid as error:
            self.faults.append(Fault(self.segment.path, error.sentence, is_cache=False))
            return
        edges = [edge for pair in marker.ranges for edge in pair]
        if any(one >= other for one, other in zip(edges[::2], edges[1::2], strict=True)) or edges != sorted(edges):
            problem = "has ranges that do not rise"
        elif edges and edges[-1] > message.offset:
            problem = "speaks of messages behind it"
        else:
            (self.committed if marker.is_commit else self.aborted).extend(marker.ranges)
            return
        sentence = f"the marker at offset {message.offset} {problem}"
        self.faults.append(Fault(self.segment.path, sentence, is_cache=False))

    def compare(self, disk: Disk, end: int) -> None:
        """Take the file beside it into account, if there is one; `end` is where the segment ends."""
        segment, path = self.segment, self.segment.aborted_path
        if disk.kind(path) != "file":
            return
        found = load(read_all(disk, path), segment.base_offset, end, segment.size)
        if found is None:
            sentence = "is not whole, or of another segment; it is made again when it is needed"
            self.faults.append(Fault(path, sentence, is_cache=True, is_wrong=False))
        else:
            self.stored = found.aborted.edges


def faults_of(accounts: Sequence[Account], *, is_whole: bool) -> Iterator[Fault]:
    """What is wrong in a log, of which these are all segments. Where it is not whole, a file may know of markers that
    are lost since."""
    aborted = union(as_edges(()), *(as_edges(one.aborted) for one in accounts))
    committed = union(as_edges(()), *(as_edges(one.committed) for one in accounts))
    for account in accounts:
        yield from account.faults
        messages = union(as_edges(()), *account.runs)
        for first, end in common(common(messages, aborted), committed).tolist()[:1]:
            sentence = f"of offsets {first} to {end - 1} one marker says that they were committed, another says aborted"
            yield Fault(account.segment.path, sentence, is_cache=False)
        if is_whole and account.stored is not None and not np.array_equal(account.stored, common(messages, aborted)):
            yield Fault(account.segment.aborted_path, "does not say what the log says", is_cache=True)
