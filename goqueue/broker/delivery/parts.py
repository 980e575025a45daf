"""All of a cursor in records that are small enough to be written, and the cursor's record from those again."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from goqueue.broker.delivery.changes import Held, Range, Stands
from goqueue.limits import STANDS_BYTES

# Bytes of one range of each list in JSON, at most: numbers have up to 19 digits, a character of a reason six bytes.
_RANGE_BYTES = 42
_RETRY_BYTES = 130
_GRANT_BYTES = 600
_RUN_BYTES = 20
_MOVE_BYTES = 3_600
_PLEDGE_BYTES = 180

_LISTS = ("acked", "waiting", "leases", "moving", "pledged")
_RANGES_AT_ONCE = 10_000  # of one lease in one piece


def in_parts(stands: Stands) -> list[Stands]:
    """The record itself where it is small enough. To be written in one append."""
    if _weight(stands) <= STANDS_BYTES:
        return [stands]
    chunks: list[dict[str, list[Any]]] = [{}]
    size = 0
    for name, item, weight in _pieces(stands):
        if size and size + weight > STANDS_BYTES:
            chunks.append({})
            size = 0
        chunks[-1].setdefault(name, []).append(item)
        size += weight
    empty: dict[str, list[Any]] = {name: [] for name in _LISTS}
    last = len(chunks) - 1
    return [replace(stands, **empty | chunk, part=part, more=part < last) for part, chunk in enumerate(chunks)]


def joined(parts: Sequence[Stands]) -> Stands:
    """What was told in parts, as one."""
    if len(parts) == 1:
        return parts[0]
    whole: dict[str, Any] = {name: list(chain.from_iterable(map(attrgetter(name), parts))) for name in _LISTS}
    whole["leases"] = list(_whole_leases(whole["leases"]))
    return replace(parts[-1], **whole, part=0, more=False)


def _weight(stands: Stands) -> int:
    ranges = len(stands.acked) + sum(len(held.left) for held in stands.leases)
    return (
        _RANGE_BYTES * ranges
        + _RETRY_BYTES * len(stands.waiting)
        + sum(_granted_bytes(held) for held in stands.leases)
        + _MOVE_BYTES * len(stands.moving)
        + _PLEDGE_BYTES * len(stands.pledged)
    )


def _pieces(stands: Stands) -> Iterator[tuple[str, Any, int]]:
    """Each with the list that it is of, and how many bytes it takes at most."""
    for acked in stands.acked:
        yield "acked", acked, _RANGE_BYTES
    for waiting in stands.waiting:
        yield "waiting", waiting, _RETRY_BYTES
    for held in stands.leases:
        for left in _slices(held.left):
            yield "leases", held._replace(left=left), _granted_bytes(held) + _RANGE_BYTES * len(left)
    for move in stands.moving:
        yield "moving", move, _MOVE_BYTES
    for pledge in stands.pledged:
        yield "pledged", pledge, _PLEDGE_BYTES


def _granted_bytes(held: Held) -> int:
    """However little is left of it, it tells all that it was given for."""
    return _GRANT_BYTES + _RUN_BYTES * len(held.grant.runs) + _RANGE_BYTES * len(held.gaps)


def _slices(ranges: list[Range]) -> Iterator[list[Range]]:
    for start in range(0, max(1, len(ranges)), _RANGES_AT_ONCE):
        yield ranges[start : start + _RANGES_AT_ONCE]


def _whole_leases(pieces: Iterable[Held]) -> Iterator[Held]:
    """A lease may have been told in several pieces, which follow each other."""
    under_way: Held | None = None
    for piece in pieces:
        if under_way is not None and under_way.grant.id == piece.grant.id:
            under_way = piece._replace(left=[*under_way.left, *piece.left])
            continue
        if under_way is not None:
            yield under_way
        under_way = piece
    if under_way is not None:
        yield under_way
