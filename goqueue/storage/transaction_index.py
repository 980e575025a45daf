"""The transaction index of a segment: which of its messages were aborted, as ranges of offsets.

The log says so with markers (`transaction_marker`). A marker lies behind the messages of its transaction, perhaps
several segments behind. So what is known of a sealed segment is kept in a file beside it, `.aborted`, which is a cache
like an index; `docs/format.md` describes it.

What must stay true: an `AbortedRanges` has every aborted offset from `since` up to `until`, and never changes. A
message of a transaction is hidden unless its commit is known: if a marker was damaged, its messages count as aborted.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from goqueue.limits import OFFSET_MAX
from goqueue.storage import disk as files
from goqueue.storage import frame
from goqueue.storage.disk import Disk, File
from goqueue.storage.index import Index
from goqueue.storage.scan import Frames, Positions
from goqueue.storage.segment_scan import Damage, ScanRange, scan_segment
from goqueue.storage.transaction_marker import OffsetRange, classify_transactional, ranges_in

_MAGIC, _VERSION, _PLAIN = b"GQAB", 1, 0x01
_HEADER = struct.Struct(">4sHHQQQI")
_CRC = struct.Struct(">I")
_KINDS = frame.CONTROL | frame.TRANSACTIONAL

Edges = NDArray[np.int64]
"""Ranges as rows: the first offset, and the one behind the last."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class AbortedRanges:
    """Ranges that rise and do not touch."""

    edges: Edges
    since: int = 0
    """From here on all is known,"""
    until: int = OFFSET_MAX
    """and up to here: what follows was open at that time."""

    @classmethod
    def of(cls, ranges: Iterable[OffsetRange] | Edges, since: int = 0, until: int = OFFSET_MAX) -> "AbortedRanges":
        """Ranges in any order."""
        edges = union(as_edges(ranges))
        return NONE_ABORTED if not len(edges) and (since, until) == (0, OFFSET_MAX) else cls(edges, since, until)

    @property
    def firsts(self) -> Positions:
        return self.edges[:, 0]

    @property
    def ends(self) -> Positions:
        return self.edges[:, 1]

    @property
    def bounds(self) -> OffsetRange:
        """The first offset of all, and the one behind the last."""
        return (int(self.edges[0, 0]), int(self.edges[-1, 1])) if len(self.edges) else (0, 0)

    def __len__(self) -> int:
        """Return the number of ranges."""
        return len(self.edges)

    def covers(self, first: int, end: int) -> bool:
        """Return whether everything is known of these offsets."""
        return self.since <= first and end <= self.until

    def is_clean(self, first: int, end: int) -> bool:
        """Return whether none of these offsets is known to be aborted."""
        if not len(self.edges):
            return True
        place = int(np.searchsorted(self.ends, first, "right"))
        return place == len(self.edges) or int(self.firsts[place]) >= end

    def within(self, first: int, end: int) -> list[OffsetRange]:
        """The ranges of this stretch, clipped to it."""
        return [(start, stop) for start, stop in self.clipped(first, end).tolist()]

    def count(self, first: int, end: int) -> int:
        """Count the aborted offsets of this range."""
        clipped = self.clipped(first, end)
        return int((clipped[:, 1] - clipped[:, 0]).sum())

    def behind(self, offset: int) -> int:
        """This offset, or the first one behind the range that it is in."""
        place = int(np.searchsorted(self.ends, offset, "right"))
        return int(self.ends[place]) if place < len(self.edges) and self.firsts[place] <= offset else offset

    def mask(self, frames: Frames) -> Mask:
        """Which of these messages are aborted. Messages outside of transactions never are."""
        if not len(self.edges):
            return np.zeros(len(frames), np.bool_)
        offsets = frames.offsets
        places = np.searchsorted(self.firsts, offsets, "right") - 1
        return (places >= 0) & (offsets < self.ends[places]) & classify_transactional(frames)[0]

    def joined(self, ranges: Iterable[OffsetRange] | Edges) -> "AbortedRanges":
        """With these as well. What stands before all of them, which as a rule is most, is copied as it is."""
        added = as_edges(ranges)
        if not len(added):
            return self
        place = int(np.searchsorted(self.ends, added[:, 0].min()))
        return replace(self, edges=np.concatenate((self.edges[:place], union(self.edges[place:], added))))

    def clipped(self, first: int, end: int) -> Edges:
        """Return the part in this range."""
        low = int(np.searchsorted(self.ends, first, "right"))
        high = max(low, int(np.searchsorted(self.firsts, end)))
        return self.edges[low:high].clip(first, end)

    def __repr__(self) -> str:
        return f"<Aborted {self.edges.tolist()[:8]}, known from {self.since} to {self.until}>"


def as_edges(ranges: Iterable[OffsetRange] | Edges) -> Edges:
    if isinstance(ranges, np.ndarray):
        return ranges
    return np.fromiter(chain.from_iterable(ranges), np.int64).reshape(-1, 2)


NONE_ABORTED = AbortedRanges(as_edges(()))
ABORTED_UNKNOWN = AbortedRanges(as_edges(()), since=OFFSET_MAX)


def union(*sets: Edges) -> Edges:
    """Return the union of these sets, which may overlap."""
    filled = [edges for edges in sets if len(edges)]
    if len(filled) == 1 and len(filled[0]) == 1:  # most transactions are one range
        return filled[0]
    return _where([(edges, 1) for edges in filled], 1) if filled else as_edges(())


def intersection(one: Edges, other: Edges) -> Edges:
    """Return what is in both sets."""
    return _where([(one, 1), (other, 1)], 2)


def difference(one: Edges, other: Edges) -> Edges:
    """Return what is in the first set and not in the second."""
    return _where([(one, 1), (other, -1)], 1)


def _where(sets: Sequence[tuple[Edges, int]], least: int) -> Edges:
    """The offsets where the weights of the ranges that hold them sum up to as much as this."""
    points = np.concatenate([column for edges, _ in sets for column in (edges[:, 0], edges[:, 1])])
    if not len(points):
        return as_edges(())
    steps = np.concatenate([np.full(len(edges), step) for edges, weight in sets for step in (weight, -weight)])
    order = np.argsort(points, kind="stable")
    points, sums = points[order], np.cumsum(steps[order])
    is_last = np.append(points[1:] != points[:-1], True)  # of the steps at one point: what holds behind it
    holds = sums[is_last] >= least
    changes = np.diff(holds, prepend=False) != 0
    edges: Edges = points[is_last][changes].reshape(-1, 2)
    return edges


# --- scan of a segment ---


class SegmentTransactions(NamedTuple):
    """The aborted messages of a segment, and whether it has any of transactions."""

    aborted: AbortedRanges
    is_plain: bool
    """Whether it holds neither messages of transactions nor control records."""
    is_sure: bool = True
    """Whether every marker that it took was found."""


class SegmentTransactionScan:
    """The search for the fate of a segment's transactional messages: in the segment, and then in those behind it,
    one after the other, until nothing is `undecided`. Changes in `scan_segment` alone, which any thread may run."""

    def __init__(self, below: int = OFFSET_MAX) -> None:
        self._below = below  # what comes from here on is not asked for
        self._aborted = as_edges(())
        self.undecided = as_edges(())
        self.is_plain = True
        self._is_first = True

    @property
    def is_over(self) -> bool:
        return not (self._is_first or len(self.undecided))

    def survey(self, file: File, stretch: ScanRange, index: Index | None = None) -> None:
        """The segment itself, and later what follows: as far as it takes."""
        runs: list[Edges] = []
        decided: list[Edges] = []
        aborted: list[Edges] = []
        for piece in scan_segment(file, stretch, index):
            if isinstance(piece, Damage):
                continue
            messages, markers = classify_transactional(piece)
            if markers.any():
                ranges, commits = _decisions(piece)
                decided.append(ranges)
                aborted.append(ranges[~commits])
            if self._is_first:
                self.is_plain = self.is_plain and not (piece.flags & _KINDS).any()
                runs.append(to_ranges(piece.offsets[messages]))
            elif decided:
                self._decide(decided, aborted)
                if self.is_over:
                    return
                decided, aborted = [], []
        if self._is_first:
            self.undecided = intersection(union(NONE_ABORTED.edges, *runs), as_edges([(0, self._below)]))
            self._is_first = False
        self._decide(decided, aborted)

    def _decide(self, decided: list[Edges], aborted: list[Edges]) -> None:
        if decided:
            self._aborted = union(self._aborted, intersection(self.undecided, union(*aborted)))
            self.undecided = difference(self.undecided, union(*decided))

    def found(self, stable: int) -> SegmentTransactions:
        """Return the result, where everything below `stable` had been decided when it began."""
        lost, following = self.undecided.clip(None, stable), self.undecided[self.undecided[:, 1] > stable]
        until = max(stable, int(following[0, 0])) if len(following) else OFFSET_MAX
        # It was decided, but the decision is lost: what is not known to be committed is hidden.
        lost = lost[lost[:, 0] < lost[:, 1]]
        return SegmentTransactions(
            AbortedRanges.of(union(self._aborted, lost), until=until), self.is_plain, not len(lost)
        )


def to_ranges(offsets: Positions) -> Edges:
    """Rising offsets as ranges."""
    breaks = np.flatnonzero(np.diff(offsets) > 1)
    if not len(offsets):
        return as_edges(())
    return np.stack((offsets[np.append(0, breaks + 1)], offsets[np.append(breaks, -1)] + 1), axis=1)


def _decisions(frames: Frames) -> tuple[Edges, Mask]:
    """The ranges in these markers, and which of them were committed. One that says nothing possible is as good as none.

    What one marker says of a message, no other one contradicts.
    """
    ranges, commits = ranges_in(frames)
    rising = (ranges[:, 0] >= 0) & (ranges[:, 0] < ranges[:, 1])
    return ranges[rising], commits[rising]


# --- the file ---


def dump_aborted(found: SegmentTransactions, first: int, end: int, size: int) -> bytes:
    """The bytes of `.aborted`, for a segment from one offset to another, whose log has this size."""
    aborted, is_plain, _ = found
    head = _HEADER.pack(_MAGIC, _VERSION, _PLAIN if is_plain else 0, first, end, size, len(aborted))
    content = head + aborted.firsts.astype(">i8").tobytes() + aborted.ends.astype(">i8").tobytes()
    return content + _CRC.pack(crc32c(content))


def parse_aborted(content: bytes, first: int, end: int, size: int) -> SegmentTransactions | None:
    """Parse `.aborted`; None if it is not that of a segment with this beginning, end and size."""
    body = content[: -_CRC.size]
    if len(content) < _HEADER.size + _CRC.size or _CRC.pack(crc32c(body)) != content[-_CRC.size :]:
        return None
    magic, version, flags, *facts, count = _HEADER.unpack_from(body)
    if (magic, version, *facts) != (_MAGIC, _VERSION, first, end, size) or len(body) != _HEADER.size + 16 * count:
        return None
    columns: Positions = np.frombuffer(body, ">i8", offset=_HEADER.size).astype(np.int64)
    return SegmentTransactions(AbortedRanges.of(columns.reshape(2, -1).T), bool(flags & _PLAIN))


def store_aborted(disk: Disk, path: str, found: SegmentTransactions, first: int, end: int, size: int) -> None:
    """Write the file anew. What a loss of power leaves of it is not believed."""
    files.replace_file(disk, path, dump_aborted(found, first, end, size), durable=False)


def load_aborted(disk: Disk, path: str, first: int, end: int, size: int) -> SegmentTransactions | None:
    return parse_aborted(files.read_all(disk, path), first, end, size) if disk.kind(path) == "file" else None
