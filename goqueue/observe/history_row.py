"""One row of the long history: what happened within some seconds, and its bytes.

A row stands for a slot, a number of seconds since 1970 divided by the length of the slot. Two rows of one slot are
merged: of rates the mean over their seconds, of everything else the largest. Groups are named by a hash, so a row
needs no table of names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nlargest
from operator import mul
from struct import Struct
from typing import NamedTuple, TypeVar

from crc32c import crc32c

from goqueue.limits import HISTORY_GROUPS_MAX
from goqueue.storage.disk import Buffer

SERIES = (
    "published",
    "published_bytes",
    "read",
    "read_bytes",
    "settled",
    "requests",
    "publish_p50_ms",
    "publish_p99_ms",
    "flush_p99_ms",
    "loop_lag_ms",
    "total_lag",
    "disk_used_bytes",
    "stored_bytes",
    "in_flight_bytes",
    "connections",
)
RATES = 6
"""The first series are rates per second."""

_HEAD = Struct(">IHHqd")  # checksum, numbers of series and groups, slot, seconds
_VALUES = Struct(f">{len(SERIES)}d")
_GROUP = Struct(">8sff")
_POINT = Struct(">ff")
_CHECKSUM_BYTES = 4
_KEY_BYTES = 8
_AT_GROUPS = _HEAD.size + _VALUES.size
ROW_BYTES = _AT_GROUPS + HISTORY_GROUPS_MAX * _GROUP.size
"""The most that a row takes."""

Key = TypeVar("Key", str, bytes)

Values = tuple[float, ...]
"""A number for each series."""


class GroupPoint(NamedTuple):
    """A group in one row: its lag in messages, and how many it settled per second."""

    lag: float
    rate: float


@dataclass(frozen=True, slots=True)
class HistoryRow:
    slot: int
    seconds: float
    """How much of the slot was seen."""
    values: Values
    groups: Mapping[bytes, GroupPoint]
    """By `group_key`."""


def group_key(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=_KEY_BYTES).digest()


def most_behind(groups: Mapping[Key, GroupPoint]) -> Mapping[Key, GroupPoint]:
    """Return as many groups as a row holds, those with the most lag."""
    if len(groups) <= HISTORY_GROUPS_MAX:
        return groups
    return dict(nlargest(HISTORY_GROUPS_MAX, groups.items(), key=lambda one: (one[1], one[0])))


def merge_rows(slot: int, one: HistoryRow, other: HistoryRow) -> HistoryRow:
    parts = ((one.seconds, one.values), (other.seconds, other.values))
    groups, seconds = dict(one.groups), one.seconds + other.seconds
    for key, point in other.groups.items():
        known = groups.get(key)
        if known is not None:
            rate = (one.seconds * known.rate + other.seconds * point.rate) / seconds
            groups[key] = GroupPoint(max(known.lag, point.lag), rate)
        else:
            groups[key] = point
    return HistoryRow(slot, seconds, merge_values(parts), groups)


def merge_values(parts: Iterable[tuple[float, Values]]) -> Values:
    """Merge the values of some seconds each."""
    seconds, values = zip(*parts, strict=True)
    columns, total = list(zip(*values, strict=True)), sum(seconds)
    rates = (sum(map(mul, seconds, column)) / total for column in columns[:RATES])
    return (*rates, *map(max, columns[RATES:]))


# --- bytes ---


def encode_row(row: HistoryRow) -> bytes:
    groups = most_behind(row.groups)
    head = _HEAD.pack(0, len(SERIES), len(groups), row.slot, row.seconds)
    values = _VALUES.pack(*(round(value, 3) for value in row.values))
    content = b"".join((head, values, *(_GROUP.pack(key, *point) for key, point in groups.items())))[_CHECKSUM_BYTES:]
    return crc32c(content).to_bytes(_CHECKSUM_BYTES, "big") + content


def whole_row(content: Buffer) -> bytes | None:
    """Return the bytes of the row at the beginning of `content`; None if there is none, or it is damaged."""
    if len(content) < _AT_GROUPS:
        return None
    checksum, series, groups, slot, seconds = _HEAD.unpack_from(content)
    size = _AT_GROUPS + groups * _GROUP.size
    if series != len(SERIES) or size > len(content) or slot < 0 or not seconds > 0:
        return None
    row = bytes(content[:size])
    return row if crc32c(row[_CHECKSUM_BYTES:]) == checksum else None


def decode_row(row: bytes) -> HistoryRow:
    slot, seconds = span_of(row)
    groups = {key: GroupPoint(lag, rate) for key, lag, rate in _GROUP.iter_unpack(row[_AT_GROUPS:])}
    return HistoryRow(slot, seconds, values_of(row), groups)


def span_of(row: bytes) -> tuple[int, float]:
    """Return slot and seconds."""
    _, _, _, slot, seconds = _HEAD.unpack_from(row)
    return slot, seconds


def values_of(row: bytes) -> Values:
    return _VALUES.unpack_from(row, _HEAD.size)


def point_of(row: bytes, key: bytes) -> GroupPoint | None:
    """Return the point of a group. Searching the bytes is faster than decoding them."""
    at = row.find(key, _AT_GROUPS)
    while at >= 0 and (at - _AT_GROUPS) % _GROUP.size:
        at = row.find(key, at + 1)
    return GroupPoint(*_POINT.unpack_from(row, at + _KEY_BYTES)) if at >= 0 else None
