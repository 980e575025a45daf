"""Delayed messages: how many wait in which topic, which of them is due next, and what each is."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.console.figures import priority
from goqueue.quantities import format_count, format_duration, format_size, parse_time
from goqueue_admin.dashboard.views import content, numbers, timeline
from goqueue_admin.dashboard.views.figure import Figure
from goqueue_admin.dashboard.views.letters import moment
from goqueue_admin.dashboard.views.table import Column
from goqueue_admin.dashboard.views.timeline import Timeline

Told = Mapping[str, Any]

AT_ONCE = 200
STATES = ("pending", "delivered", "cancelled", "expired")

TIMELINES_MAX = 50
"""Of the topics with most, those that are asked for when what is due."""
_MANY = 100_000
_AGAIN_SECONDS = 10
"""Before a topic with many is asked again: the broker looks at the times of all of them."""


def ahead(seconds: float) -> str:
    """How far ahead something is, to the second; with a minus how long ago it was to be."""
    whole = round(seconds)
    return format_duration(whole) if whole else "now"


def in_words(seconds: float) -> str:
    """The same within a sentence."""
    whole = round(seconds)
    if not whole:
        return "now"
    return f"in {format_duration(whole)}" if whole > 0 else f"{format_duration(-whole)} ago"


def seconds_until(text: str, now_ns: int) -> float:
    return (parse_time(text) - now_ns) / NANOSECONDS


# --- figures ---


def figures(found: Timeline, now_ns: int) -> list[Figure]:
    """Of one topic."""
    if "pending" not in found:
        return []
    told = [Figure(numbers.count(found["pending"]), "pending")]
    told += _next(found["next_due"], now_ns)
    if found["overdue"]:
        told.append(Figure(numbers.count(found["overdue"]), "overdue", "bad"))
    return told


def all_figures(stats: Told, now_ns: int) -> list[Figure]:
    """Of all topics; what became of them is counted since the broker started."""
    if "pending_count" not in stats:
        return []
    told = [Figure(numbers.count(stats["pending_count"]), "pending")]
    told += _next(stats["next_due"], now_ns)
    words = ("delivered", "cancelled", "expired", "rescheduled")
    tones = {"expired": "warn"} if stats["expired_count"] else {}
    told += [Figure(numbers.count(stats[f"{word}_count"]), word, tones.get(word, "")) for word in words]
    return told


def _next(due: str | None, now_ns: int) -> list[Figure]:
    return [] if due is None else [Figure(numbers.seconds(max(0, round(seconds_until(due, now_ns)))), "until the next")]


def wheel_figures(stats: Told) -> list[Figure]:
    """How late they were, and where those that wait are held."""
    if "wheel" not in stats:
        return []
    told = lateness(stats)
    if stats["avg_delay"] is not None:
        told.append(Figure(numbers.seconds(stats["avg_delay"]), "delay on average"))
    held = [(one["entries"], f"in ticks of {numbers.milliseconds(one['tick_ms'])}") for one in stats["wheel"]]
    told += [Figure(numbers.count(count), noun) for count, noun in held if count]
    if stats["parked"]:
        told.append(Figure(numbers.count(stats["parked"]), "parked"))
    return told


def lateness(stats: Told) -> list[Figure]:
    """Of the latest that were delivered, in all topics together."""
    if stats.get("late_p50") is None:
        return []
    half, most = (numbers.milliseconds(stats[name] * 1000) for name in ("late_p50", "late_p99"))
    return [Figure(f"{half} / {most}", "late (p50 / p99)")]


# --- topics ---


@dataclass(frozen=True)
class TopicLine:
    """A topic with delayed messages; what is None is not known yet."""

    name: str
    pending: int
    seconds: float | None
    """Until the next is due."""
    overdue: int | None = None
    within: tuple[int, ...] = ()
    """A minute, an hour, a day; and what is due later."""


def asked_topics(stats: Told) -> list[str]:
    """Those that are asked when what is due, those with most first."""
    topics: Mapping[str, int] = stats.get("topics") or {}
    return sorted(topics, key=lambda name: -topics[name])[:TIMELINES_MAX]


def is_due(pending: int, asked_ns: int, now_ns: int) -> bool:
    """Whether to ask a topic for its timeline again."""
    return pending <= _MANY or now_ns - asked_ns >= _AGAIN_SECONDS * NANOSECONDS


def topic_lines(
    stats: Told | None, timeline_of: Callable[[str], Timeline], now_ns: Callable[[str], int]
) -> list[TopicLine] | None:
    if not stats:
        return None
    return [_topic_line(name, count, timeline_of(name), now_ns(name)) for name, count in stats["topics"].items()]


def _topic_line(name: str, pending: int, found: Timeline, now_ns: int) -> TopicLine:
    if "buckets" not in found:
        return TopicLine(name, pending, None)
    seconds = None if not found["next_due"] else seconds_until(found["next_due"], now_ns)
    return TopicLine(name, pending, seconds, found["overdue"], tuple(_within(found)))


def _within(found: Timeline) -> Iterator[int]:
    rows = list(zip(timeline.ends(found), (one["count"] for one in found["buckets"]), strict=True))
    begin = 0.0
    for end in (60.0, 3_600.0, 86_400.0, float("inf")):
        yield sum(count for seconds, count in rows if begin < seconds <= end)
        begin = end


def topic_key(line: TopicLine) -> str:
    return line.name


def topic_columns() -> tuple[Column[TopicLine], ...]:
    nearer = (
        Column(title, _part(index), numbers.count, 8, right=True, rank=rank)
        for index, (title, rank) in enumerate((("<1m", 1), ("<1h", 2), ("<1d", 4), ("LATER", 5)))
    )
    return (
        Column("TOPIC", topic_key, width=16, grows=True),
        Column("PENDING", lambda line: line.pending, numbers.count, 10, right=True, moves=True, rising="bad"),
        Column("NEXT DUE", lambda line: line.seconds, ahead, 10, right=True),
        Column(
            "OVERDUE", lambda line: line.overdue or None, numbers.count, 7, right=True, rank=3, tone=lambda _: "bad"
        ),
        *nearer,
    )


def _part(index: int) -> Callable[[TopicLine], int | None]:
    return lambda line: line.within[index] if line.within else None


# --- messages ---


class Cut(NamedTuple):
    """Where a page begins: so many of those that are due from then on are passed over.

    Messages that are delivered meanwhile go from the front: a count from there would pass over as many.
    """

    due_from: str | None = None
    skip: int = 0


def following(cut: Cut, messages: Sequence[Told]) -> Cut:
    """Where the next page begins."""
    last = messages[-1]["deliver_at"]
    same = sum(one["deliver_at"] == last for one in messages)
    return Cut(last, same + (cut.skip if last == cut.due_from else 0))


@dataclass(frozen=True)
class DelayedLine:
    """A delayed message, and how far ahead it is."""

    partition: int
    offset: int
    seconds: float
    due: str
    priority: int
    key: str | None
    size: int
    state: str
    scheduled: str | None

    @property
    def place(self) -> tuple[int, int]:
        return self.partition, self.offset


def lines(messages: Sequence[Told], now_ns: int) -> list[DelayedLine]:
    return [
        DelayedLine(
            partition=one["partition"],
            offset=one["offset"],
            seconds=seconds_until(one["deliver_at"], now_ns),
            due=one["deliver_at"],
            priority=one["priority"],
            key=content.key(one),
            size=one["size"],
            state=one["state"],
            scheduled=one["scheduled_at"],
        )
        for one in messages
    ]


def place_text(place: tuple[int, int]) -> str:
    return f"{place[0]}@{place[1]}"


def place_of(text: str) -> tuple[int, int]:
    partition, _, offset = text.partition("@")
    return int(partition), int(offset)


def delayed_key(line: DelayedLine) -> str:
    return place_text(line.place)


def columns() -> tuple[Column[DelayedLine], ...]:
    return (
        Column("PLACE", lambda line: line.place, place_text, 9),
        Column("DUE IN", lambda line: line.seconds, ahead, 8, right=True, tone=_due_tone),
        Column("DUE", lambda line: line.due, moment, 19, rank=1),
        Column("PRIORITY", lambda line: line.priority, priority, 10, rank=4),
        Column("KEY", lambda line: line.key, width=12, grows=True, most=48, rank=2),
        Column("SIZE", lambda line: line.size, numbers.size, 7, right=True, rank=3),
        Column("STATE", lambda line: line.state, width=9, rank=5, tone=_state_tone),
        Column("SCHEDULED", lambda line: line.scheduled, moment, 19, rank=6, tone=lambda _: "muted"),
    )


def _due_tone(line: DelayedLine) -> str:
    if line.state != "pending":
        return "muted"
    return "warn" if line.seconds <= -1 else "accent" if line.seconds <= 60 else ""


def _state_tone(line: DelayedLine) -> str:
    return {"pending": "muted", "delivered": "good", "expired": "warn"}.get(line.state, "")


def facts(told: Told, now_ns: int) -> Iterator[tuple[str, str, str]]:
    """What is known of one besides its value: name, text, tone."""
    state = told["state"]
    when = f"{in_words(seconds_until(told['deliver_at'], now_ns))}, at {told['deliver_at']}"
    yield "due", when, "accent" if state == "pending" else ""
    yield "state", state, "" if state == "pending" else "warn"
    if told["scheduled_at"] is None:
        yield "damaged", "its bytes cannot be read", "bad"
    else:
        yield "scheduled", f"{in_words(seconds_until(told['scheduled_at'], now_ns))}, at {told['scheduled_at']}", ""
    yield "key", content.key(told) or "-", ""
    yield "priority", priority(told["priority"]), ""
    yield "size", format_size(told["size"]), ""
    yield from ((f"header {name}", text, "accent") for name, text in content.headers(told))


def counted(count: int) -> str:
    return format_count(count, "delayed message")
