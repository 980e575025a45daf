"""Check that transactional messages, their markers and the transaction indexes of a log agree.

Each segment is checked by itself; together the checks tell what is wrong.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from goqueue.errors import FrameInvalid
from goqueue.storage import frame
from goqueue.storage.disk import Disk, read_all
from goqueue.storage.scan import Frames
from goqueue.storage.segment import Segment
from goqueue.storage.transaction_index import Edges, as_edges, intersection, parse_aborted, to_ranges, union
from goqueue.storage.transaction_marker import OffsetRange, classify_transactional, decode_marker


class TransactionFault(NamedTuple):
    """Something that does not agree."""

    path: str
    sentence: str
    is_cache: bool
    """Whether it may be removed."""
    is_wrong: bool = True
    """Else it is not whole, as after a loss of power."""


@dataclass(slots=True)
class SegmentTransactionCheck:
    """The transactional messages and markers of one segment, for `fsck`."""

    segment: Segment
    runs: list[Edges] = field(default_factory=list)
    """Their messages."""
    aborted: list[OffsetRange] = field(default_factory=list)
    """What markers in it say was aborted, there or before."""
    committed: list[OffsetRange] = field(default_factory=list)
    stored: Edges | None = None
    """What the file beside it says."""
    faults: list[TransactionFault] = field(default_factory=list)

    def note(self, frames: Frames) -> None:
        """These are in it."""
        messages, markers = classify_transactional(frames)
        if messages.any():
            self.runs.append(to_ranges(frames.offsets[messages]))
        for position in frames.positions[markers].tolist():
            self._note_marker(frame.decode(frames.buffer.data, position))

    def _note_marker(self, message: frame.StoredMessage) -> None:
        try:
            marker = decode_marker(message)
        except FrameInvalid as error:
            self.faults.append(TransactionFault(self.segment.path, error.sentence, is_cache=False))
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
        self.faults.append(TransactionFault(self.segment.path, sentence, is_cache=False))

    def compare(self, disk: Disk, end: int) -> None:
        """Take the file beside it into account, if there is one; `end` is where the segment ends."""
        segment, path = self.segment, self.segment.aborted_path
        if disk.kind(path) != "file":
            return
        found = parse_aborted(read_all(disk, path), segment.base_offset, end, segment.size)
        if found is None:
            sentence = "is not whole, or of another segment; it is made again when it is needed"
            self.faults.append(TransactionFault(path, sentence, is_cache=True, is_wrong=False))
        else:
            self.stored = found.aborted.edges


def find_transaction_faults(
    accounts: Sequence[SegmentTransactionCheck], *, is_whole: bool
) -> Iterator[TransactionFault]:
    """Yield what is wrong in a log with these segments. Where it is not whole, a file may know of markers that
    are lost since."""
    aborted = union(as_edges(()), *(as_edges(one.aborted) for one in accounts))
    committed = union(as_edges(()), *(as_edges(one.committed) for one in accounts))
    for account in accounts:
        yield from account.faults
        messages = union(as_edges(()), *account.runs)
        for first, end in intersection(intersection(messages, aborted), committed).tolist()[:1]:
            sentence = f"of offsets {first} to {end - 1} one marker says that they were committed, another says aborted"
            yield TransactionFault(account.segment.path, sentence, is_cache=False)
        if (
            is_whole
            and account.stored is not None
            and not np.array_equal(account.stored, intersection(messages, aborted))
        ):
            yield TransactionFault(account.segment.aborted_path, "does not say what the log says", is_cache=True)
