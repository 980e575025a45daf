"""The answers of a leader to nodes that have no replica of its partition: what `remote_partition` asks."""

from collections.abc import Callable, Sequence
from typing import Any

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.view import Isolation, PartitionView, tally_spans
from goqueue.broker.core.work import Work, no_work
from goqueue.errors import RequestInvalid
from goqueue.storage.reads import ReadResult
from goqueue.storage.transaction_index import as_edges


def answer_question(partition: Partition, question: str, arguments: Sequence[Any]) -> Work[Any]:
    """Return the answer, as plain values. Raises RequestInvalid for what this version does not know."""
    rule = _ANSWERS.get(question)
    if rule is None:
        raise RequestInvalid(f"this node does not know the question {question!r} about a partition", problems=[])
    return (yield from rule(partition, *arguments))


def _view(partition: Partition, *, is_committed: bool) -> PartitionView:
    isolation: Isolation = "read_committed" if is_committed else "read_uncommitted"
    return PartitionView(partition, isolation)


def _read(partition: Partition, offset: int, max_bytes: int, skip_damage: bool) -> Work[Any]:
    return _plain((yield from partition.read(offset, max_bytes, skip_damage=skip_damage)))


def _read_uncommitted(partition: Partition, offset: int, max_bytes: int, skip_damage: bool) -> Work[Any]:
    return _plain((yield from partition.read_uncommitted(offset, max_bytes, skip_damage=skip_damage)))


def _plain(read: ReadResult) -> tuple[Any, ...]:
    skipped = [(one.position, one.end, one.first_offset, one.next_offset, one.reason) for one in read.skipped]
    return b"".join(read.buffers), read.next_offset, skipped


def _tally(partition: Partition, is_committed: bool, spans: list[list[int]], is_dated: bool) -> Work[Any]:
    view = _view(partition, is_committed=is_committed)
    found = yield from tally_spans(view, [(first, end) for first, end in spans], is_dated=is_dated)
    return found.messages, found.first_ns


def _edges(partition: Partition, first: int, end: int) -> Work[Any]:
    found = yield from partition.aborted.edges(first, end)
    return found.tolist()


def _count_in(partition: Partition, lane: int, ranges: list[list[int]]) -> Work[int]:
    return partition.lanes.count_in(lane, as_edges([(first, end) for first, end in ranges]))


_ANSWERS: dict[str, Callable[..., Work[Any]]] = {
    "positions": no_work,
    "read": _read,
    "read_uncommitted": _read_uncommitted,
    "offset_for_time": lambda partition, time_ns: partition.offset_for_time(time_ns),
    "tally": _tally,
    "edges": _edges,
    "is_single": lambda partition, first: partition.lanes.is_single(first),
    "next": lambda partition, *found: partition.lanes.next(*found),
    "count": lambda partition, *found: partition.lanes.count(*found),
    "count_in": _count_in,
    "spans": lambda partition, *found: partition.lanes.spans(*found),
}
