"""Delayed messages as rows, numbers and timeline bars."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.console.formatting import priority_name
from goqueue.drawing.bars import ColumnBar
from goqueue.quantities import format_count, format_duration, format_size, parse_time
from goqueue_admin.dashboard.views import formats, message
from goqueue_admin.dashboard.views.dead_letters import format_moment
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import TableColumn

TimelineJson = Mapping[str, Any]

OVERDUE = "overdue"


def timeline_bars(timeline: TimelineJson) -> list[ColumnBar]:
    """Return a bar for overdue messages and one for each bucket; none while nothing is known."""
    if "buckets" not in timeline:
        return []
    overdue = timeline["overdue"]
    labels = [f"<{format_duration(end)}" for end in bucket_ends(timeline)]
    later = [_bar(one["count"], label, "first") for label, one in zip(labels, timeline["buckets"], strict=True)]
    return [_bar(overdue, OVERDUE, "bad")._replace(label_tone="bad" if overdue else "muted"), *later]


def _bar(count: int, label: str, tone: str) -> ColumnBar:
    return ColumnBar(count, formats.short(count), label, tone)


def bucket_ends(timeline: TimelineJson) -> list[float]:
    """Return the end of each bucket, in seconds from now."""
    buckets = timeline["buckets"]
    return [(parse_time(one["to"]) - parse_time(buckets[0]["from"])) / NANOSECONDS for one in buckets]


def joined_timeline(timelines: Iterable[TimelineJson]) -> TimelineJson:
    """Add up the timelines of several topics, bucket by bucket."""
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


def broker_now(timeline: TimelineJson, answered_ns: int, now_ns: int) -> int:
    """Return the broker's time, or ours before its first answer."""
    if not timeline.get("buckets"):
        return now_ns
    return parse_time(timeline["buckets"][0]["from"]) + max(0, now_ns - answered_ns)


DelayedJson = Mapping[str, Any]

AT_ONCE = 200
STATES = ("pending", "delivered", "cancelled", "expired")

TIMELINES_MAX = 50
"""Maximum number of topics whose timeline is read."""
_MANY = 100_000
_AGAIN_SECONDS = 10
"""Pause before a large topic is read again: the broker scans all its due times."""


def format_ahead(seconds: float) -> str:
    """Format seconds until something; negative if it is overdue."""
    whole = round(seconds)
    return format_duration(whole) if whole else "now"


def time_until(seconds: float) -> str:
    """Format seconds until something, within a sentence."""
    whole = round(seconds)
    if not whole:
        return "now"
    return f"in {format_duration(whole)}" if whole > 0 else f"{format_duration(-whole)} ago"


def seconds_until(text: str, now_ns: int) -> float:
    return (parse_time(text) - now_ns) / NANOSECONDS


# --- figures ---


def topic_numbers(found: TimelineJson, now_ns: int) -> list[LabeledNumber]:
    if "pending" not in found:
        return []
    told = [LabeledNumber(formats.count(found["pending"]), "pending")]
    told += _next(found["next_due"], now_ns)
    if found["overdue"]:
        told.append(LabeledNumber(formats.count(found["overdue"]), "overdue", "bad"))
    return told


def all_topics_numbers(stats: DelayedJson, now_ns: int) -> list[LabeledNumber]:
    if "pending_count" not in stats:
        return []
    told = [LabeledNumber(formats.count(stats["pending_count"]), "pending")]
    told += _next(stats["next_due"], now_ns)
    words = ("delivered", "cancelled", "expired", "rescheduled")
    tones = {"expired": "warn"} if stats["expired_count"] else {}
    told += [LabeledNumber(formats.count(stats[f"{word}_count"]), word, tones.get(word, "")) for word in words]
    return told


def _next(due: str | None, now_ns: int) -> list[LabeledNumber]:
    if due is None:
        return []
    return [LabeledNumber(formats.seconds(max(0, round(seconds_until(due, now_ns)))), "until the next")]


def wheel_numbers(stats: DelayedJson) -> list[LabeledNumber]:
    if "wheel" not in stats:
        return []
    told = lateness(stats)
    if stats["avg_delay"] is not None:
        told.append(LabeledNumber(formats.seconds(stats["avg_delay"]), "delay on average"))
    held = [(one["entries"], f"in ticks of {formats.milliseconds(one['tick_ms'])}") for one in stats["wheel"]]
    told += [LabeledNumber(formats.count(count), noun) for count, noun in held if count]
    if stats["parked"]:
        told.append(LabeledNumber(formats.count(stats["parked"]), "parked"))
    return told


def lateness(stats: DelayedJson) -> list[LabeledNumber]:
    if stats.get("late_p50") is None:
        return []
    half, most = (formats.milliseconds(stats[name] * 1000) for name in ("late_p50", "late_p99"))
    return [LabeledNumber(f"{half} / {most}", "late (p50 / p99)")]


# --- topics ---


@dataclass(frozen=True)
class DelayedTopicRow:
    """A topic with delayed messages; None means not known yet."""

    name: str
    pending: int
    seconds: float | None
    """Until the next is due."""
    overdue: int | None = None
    within: tuple[int, ...] = ()
    """Counts due within a minute, an hour, a day, and later."""


def asked_topics(stats: DelayedJson) -> list[str]:
    """Return the topics whose timeline is read, the largest first."""
    topics: Mapping[str, int] = stats.get("topics") or {}
    return sorted(topics, key=lambda name: -topics[name])[:TIMELINES_MAX]


def is_due(pending: int, asked_ns: int, now_ns: int) -> bool:
    """Return True if the timeline of a topic should be read again."""
    return pending <= _MANY or now_ns - asked_ns >= _AGAIN_SECONDS * NANOSECONDS


def topic_rows(
    stats: DelayedJson | None, timeline_of: Callable[[str], TimelineJson], now_ns: Callable[[str], int]
) -> list[DelayedTopicRow] | None:
    if not stats:
        return None
    return [_topic_row(name, count, timeline_of(name), now_ns(name)) for name, count in stats["topics"].items()]


def _topic_row(name: str, pending: int, found: TimelineJson, now_ns: int) -> DelayedTopicRow:
    if "buckets" not in found:
        return DelayedTopicRow(name, pending, None)
    seconds = None if not found["next_due"] else seconds_until(found["next_due"], now_ns)
    return DelayedTopicRow(name, pending, seconds, found["overdue"], tuple(_within(found)))


def _within(found: TimelineJson) -> Iterator[int]:
    rows = list(zip(bucket_ends(found), (one["count"] for one in found["buckets"]), strict=True))
    begin = 0.0
    for end in (60.0, 3_600.0, 86_400.0, float("inf")):
        yield sum(count for seconds, count in rows if begin < seconds <= end)
        begin = end


def topic_columns() -> tuple[TableColumn[DelayedTopicRow], ...]:
    nearer = (
        TableColumn(title, _within_count(index), formats.count, 8, right=True, rank=rank)
        for index, (title, rank) in enumerate((("<1m", 1), ("<1h", 2), ("<1d", 4), ("LATER", 5)))
    )
    return (
        TableColumn("TOPIC", lambda line: line.name, width=16, grows=True),
        TableColumn("PENDING", lambda line: line.pending, formats.count, 10, right=True, moves=True, rising="bad"),
        TableColumn("NEXT DUE", lambda line: line.seconds, format_ahead, 10, right=True),
        TableColumn("OVERDUE", lambda line: line.overdue or None, formats.count, 7, right=True, rank=3, tone="bad"),
        *nearer,
    )


def _within_count(index: int) -> Callable[[DelayedTopicRow], int | None]:
    return lambda line: line.within[index] if line.within else None


# --- messages ---


class DelayedPage(NamedTuple):
    """The start of a page: a due time and a number of messages to skip.

    Messages that are delivered meanwhile go from the front: a count from there would pass over as many.
    """

    due_from: str | None = None
    skip: int = 0


def next_page(cut: DelayedPage, messages: Sequence[DelayedJson]) -> DelayedPage:
    last = messages[-1]["deliver_at"]
    same = sum(one["deliver_at"] == last for one in messages)
    return DelayedPage(last, same + (cut.skip if last == cut.due_from else 0))


class DelayedRow(NamedTuple):
    """A delayed message, as the broker describes it, and its seconds until due."""

    told: DelayedJson
    seconds: float

    @property
    def place(self) -> tuple[int, int]:
        return self.told["partition"], self.told["offset"]


def delayed_rows(messages: Sequence[DelayedJson], now_ns: int) -> list[DelayedRow]:
    return [DelayedRow(one, seconds_until(one["deliver_at"], now_ns)) for one in messages]


def place_text(place: tuple[int, int]) -> str:
    return f"{place[0]}@{place[1]}"


def place_of(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition("@")
    return int(partition), int(offset)


def delayed_key(line: DelayedRow) -> str:
    return place_text(line.place)


def delayed_columns() -> tuple[TableColumn[DelayedRow], ...]:
    return (
        TableColumn("PLACE", lambda line: line.place, place_text, 9),
        TableColumn("DUE IN", lambda line: line.seconds, format_ahead, 8, right=True, tone=_due_tone),
        TableColumn("DUE", lambda line: line.told["deliver_at"], format_moment, 19, rank=1),
        TableColumn("PRIORITY", lambda line: line.told["priority"], priority_name, 10, rank=4),
        TableColumn("KEY", lambda line: message.key_text(line.told), width=12, grows=True, most=48, rank=2),
        TableColumn("SIZE", lambda line: line.told["size"], formats.size, 7, right=True, rank=3),
        TableColumn("STATE", lambda line: line.told["state"], width=9, rank=5, tone=_state_tone),
        TableColumn("SCHEDULED", lambda line: line.told["scheduled_at"], format_moment, 19, rank=6, tone="muted"),
    )


def _due_tone(line: DelayedRow) -> str:
    if line.told["state"] != "pending":
        return "muted"
    return "warn" if line.seconds <= -1 else "accent" if line.seconds <= 60 else ""


def _state_tone(line: DelayedRow) -> str:
    return {"pending": "muted", "delivered": "good", "expired": "warn"}.get(line.told["state"], "")


def facts(told: DelayedJson, now_ns: int) -> Iterator[tuple[str, str, str]]:
    """Return the facts of a message: name, text, tone."""
    state = told["state"]
    when = f"{time_until(seconds_until(told['deliver_at'], now_ns))}, at {told['deliver_at']}"
    yield "due", when, "accent" if state == "pending" else ""
    yield "state", state, "" if state == "pending" else "warn"
    if told["scheduled_at"] is None:
        yield "damaged", "its bytes cannot be read", "bad"
    else:
        yield "scheduled", f"{time_until(seconds_until(told['scheduled_at'], now_ns))}, at {told['scheduled_at']}", ""
    yield "key", message.key_text(told) or "-", ""
    yield "priority", priority_name(told["priority"]), ""
    yield "size", format_size(told["size"]), ""
    yield from ((f"header {name}", text, "accent") for name, text in message.header_texts(told))


def format_delayed_count(count: int) -> str:
    return format_count(count, "delayed message")
