"""How many delayed messages are due when: a bar for each bucket of the broker's timeline, the nearest at the left."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_duration, parse_time
from goqueue_admin.dashboard.views import numbers
from goqueue_admin.dashboard.views.chart import Piece

Timeline = Mapping[str, Any]

OVERDUE = "overdue"
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_GAP = 1


class Bar(NamedTuple):
    """What it is about, how many, and in which tone."""

    label: str
    number: int
    tone: str = "first"


def bars(timeline: Timeline) -> list[Bar]:
    """What is overdue, and then what is due within ever longer times; none as long as nothing is known."""
    if "buckets" not in timeline:
        return []
    ahead = ends(timeline)
    later = [Bar(f"<{format_duration(end)}", one["count"]) for end, one in zip(ahead, timeline["buckets"], strict=True)]
    return [Bar(OVERDUE, timeline["overdue"], "bad"), *later]


def ends(timeline: Timeline) -> list[float]:
    """How many seconds ahead each bucket ends."""
    buckets = timeline["buckets"]
    return [(parse_time(one["to"]) - parse_time(buckets[0]["from"])) / NANOSECONDS for one in buckets]


def joined(timelines: Iterable[Timeline]) -> Timeline:
    """Of several topics together. They were asked one after the other, so a bucket of each is as far ahead."""
    known = [one for one in timelines if "buckets" in one]
    if not known:
        return {}
    counts = [sum(found) for found in zip(*([one["count"] for one in line["buckets"]] for line in known), strict=True)]
    return {
        "pending": sum(one["pending"] for one in known),
        "overdue": sum(one["overdue"] for one in known),
        "next_due": min((one["next_due"] for one in known if one["next_due"]), default=None),
        "buckets": [{**one, "count": count} for one, count in zip(known[0]["buckets"], counts, strict=True)],
    }


def broker_now(timeline: Timeline, answered_ns: int, now_ns: int) -> int:
    """The time of the broker, whose clock decides what is due; ours as long as it has not said."""
    if not timeline.get("buckets"):
        return now_ns
    return parse_time(timeline["buckets"][0]["from"]) + max(0, now_ns - answered_ns)


# --- drawn ---


def drawn(found: Sequence[Bar], width: int, height: int) -> list[list[Piece]]:
    """Bars with their number above them and their label below; what is there at all is to be seen."""
    if not found or height < 2:
        return []
    wide = _widths(len(found), width)
    rows = height - 2  # one for the numbers, which stand on the bars, and one for the labels
    most = max(bar.number for bar in found) or 1
    tall = [max(1, round(bar.number / most * rows * 8)) if bar.number else 0 for bar in found]
    lines = [_row(found, wide, tall, row) for row in range(rows, -1, -1)]
    lines.append([_centred(bar.label, cells, _label_tone(bar)) for bar, cells in zip(found, wide, strict=True)])
    return lines


def _widths(count: int, width: int) -> list[int]:
    """Of each with its gap; what is left over goes to the first ones."""
    least, rest = divmod(max(width, count), count)
    return [least + (index < rest) for index in range(count)]


def _row(found: Sequence[Bar], wide: Sequence[int], tall: Sequence[int], row: int) -> list[Piece]:
    """A row, counted from the lowest."""
    pieces = []
    for bar, cells, eighths in zip(found, wide, tall, strict=True):
        full, part = divmod(eighths, 8)
        if row < full or (row == full and part):
            pieces.append(_centred((_EIGHTHS[8] if row < full else _EIGHTHS[part]) * (cells - _GAP), cells, bar.tone))
        elif bar.number and row == full + bool(part):
            pieces.append(_centred(numbers.short(bar.number), cells, "title"))
        else:
            pieces.append(Piece(" " * cells, ""))
    return pieces


def _label_tone(bar: Bar) -> str:
    return bar.tone if bar.label == OVERDUE and bar.number else "muted"


def _centred(text: str, cells: int, tone: str) -> Piece:
    room = max(0, cells - _GAP)
    return Piece(text[:room].center(room) + " " * (cells - room), tone)
