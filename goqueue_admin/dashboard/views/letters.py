"""Dead letters: which topics have some, why they failed, and each of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_count, parse_time
from goqueue_admin.dashboard.views import chart, content, numbers
from goqueue_admin.dashboard.views.table import Column

if TYPE_CHECKING:
    from goqueue.client import TopicInfo
    from goqueue.client.insight import TopicDetails

Counts = Mapping[str, Any]
Letter = Mapping[str, Any]

SUFFIX = ".dlq"
UNSAID = "(nobody has said why)"
AT_ONCE_MAX = 200
BYTES_AT_ONCE = 4 * 2**20
"""Of an answer with letters and their values; to be told how large they are on average is enough."""

RECOUNT_SECONDS = 10
RECOUNT_SECONDS_MAX = 60


def own_name(topic: str) -> str:
    """A topic is named by itself or by its dead letters."""
    return topic if topic.endswith(SUFFIX) else f"{topic}{SUFFIX}"


def at_once(total: int, size: int, most: int = AT_ONCE_MAX) -> int:
    """How many letters are asked for together."""
    average = size / total if total else 1
    return max(1, min(most, int(BYTES_AT_ONCE / max(average, 1))))


class Recount:
    """When to count again: the broker looks at every letter for it, so not each time that somebody looks.

    New ones make it worth while. That some were sent back is not seen from outside, so now and then it is done anyhow.
    """

    def __init__(self) -> None:
        self._counted: dict[str, tuple[int, int | None]] = {}

    def note(self, topic: str, total: int, counted_ns: int) -> None:
        """When it was counted last, and how many messages there were then."""
        if counted_ns and self._counted.get(topic, (0, 0))[0] != counted_ns:
            self._counted[topic] = (counted_ns, total)

    def expire(self) -> None:
        """Whatever was counted is not so any more."""
        self._counted = {topic: (counted_ns, None) for topic, (counted_ns, _) in self._counted.items()}

    def is_due(self, topic: str, total: int, now_ns: int) -> bool:
        counted_ns, counted = self._counted.get(topic, (0, None))
        if counted is None:
            return True
        wait = RECOUNT_SECONDS if counted != total else RECOUNT_SECONDS_MAX
        return now_ns - counted_ns >= wait * NANOSECONDS


class Start(tuple[tuple[int, int], ...]):
    """Partitions and offsets, as a part of a question: equal ones are the same question."""

    __slots__ = ()

    def items(self) -> Iterator[tuple[int, int]]:
        return iter(self)


def newest_start(info: "TopicInfo", most: int) -> Start:
    """So far from the end of each partition that all of them together have `most`."""
    each = max(1, most // max(1, len(info.partition_offsets)))
    held = info.partition_offsets.items()
    return Start((int(number), max(offsets.earliest, offsets.latest - each)) for number, offsets in held)


# --- the topics ---


@dataclass(frozen=True)
class TopicLine:
    """A topic of dead letters; what is None was not counted yet."""

    name: str
    letters: int | None
    is_complete: bool
    reasons: int | None
    most_frequent: str | None
    messages: int
    size: int


def topic_lines(topics: "Sequence[TopicDetails] | None", counts_of: Callable[[str], Counts]) -> list[TopicLine] | None:
    if topics is None:
        return None
    return [_topic_line(one, counts_of(one.name)) for one in topics if one.name.endswith(SUFFIX)]


def _topic_line(topic: "TopicDetails", counts: Counts) -> TopicLine:
    errors: Mapping[str, int] | None = counts.get("errors")
    return TopicLine(
        name=topic.name,
        letters=None if errors is None else sum(errors.values()),
        is_complete=bool(counts.get("complete", True)),
        reasons=None if errors is None else len(errors),
        most_frequent=None if not errors else next(iter(errors)) or UNSAID,
        messages=topic.total_messages,
        size=topic.total_size_bytes,
    )


def topic_key(line: TopicLine) -> str:
    return line.name


def topic_columns() -> tuple[Column[TopicLine], ...]:
    return (
        Column("TOPIC", topic_key, width=16, grows=True, tone=_topic_tone),
        Column(
            "LETTERS",
            lambda line: line.letters,
            numbers.count,
            9,
            right=True,
            moves=True,
            rising="bad",
            tone=_topic_tone,
        ),
        Column("REASONS", lambda line: line.reasons, numbers.count, 7, right=True, rank=2),
        Column("MOST FREQUENT", lambda line: line.most_frequent, width=20, grows=True, most=80, rank=1),
        Column("KEPT", lambda line: line.messages, numbers.count, 9, right=True, rank=3, tone=lambda _: "muted"),
        Column("SIZE", lambda line: line.size, numbers.size, 8, right=True, rank=4, tone=lambda _: "muted"),
    )


def _topic_tone(line: TopicLine) -> str:
    return "warn" if line.letters else "muted"


# --- why they failed ---


@dataclass(frozen=True)
class ErrorLine:
    """A reason, how many failed for it, and the newest of those that were looked at."""

    error: str
    count: int
    part: float
    newest: str | None
    group: str | None


def error_lines(counts: Counts, newest: Sequence[Letter]) -> list[ErrorLine] | None:
    errors: Mapping[str, int] | None = counts.get("errors")
    if errors is None:
        return None
    total = sum(errors.values())
    last: dict[str, Letter] = {}
    for one in newest:
        known = last.get(one.get("error", ""))
        if known is None or one["timestamp"] > known["timestamp"]:
            last[one.get("error", "")] = one
    return [
        ErrorLine(
            error=error,
            count=count,
            part=numbers.share(count, total),
            newest=last[error]["timestamp"] if error in last else None,
            group=last[error].get("group") if error in last else None,
        )
        for error, count in errors.items()
    ]


def error_key(line: ErrorLine) -> str:
    return line.error


def error_columns() -> tuple[Column[ErrorLine], ...]:
    return (
        Column("COUNT", lambda line: line.count, numbers.count, 9, right=True, moves=True, rising="bad"),
        Column("SHARE", lambda line: line.part, _share, 12, rank=2, tone=lambda _: "first"),
        Column("ERROR", lambda line: line.error or UNSAID, width=24, grows=True, most=120),
        Column("NEWEST", lambda line: line.newest, moment, 19, rank=1),
        Column("GROUP", lambda line: line.group, width=10, grows=True, rank=3, tone=lambda _: "muted"),
    )


def _share(part: float) -> str:
    return f"{chart.bar(part, 7)} {numbers.percent(part):>4}"


def moment(text: str) -> str:
    """A time as a table shows it."""
    return text[:19].replace("T", " ")


# --- the letters ---


def place_of(letter: Letter) -> str:
    return f"{letter['partition']}@{letter['offset']}"


def letter_key(letter: Letter) -> str:
    """Where it lies, and what else one looks for with a filter."""
    return f"{place_of(letter)} {content.key(letter) or ''} {letter.get('error', '')}"


def letter_columns() -> tuple[Column[Letter], ...]:
    return (
        Column("PLACE", _place, lambda place: f"{place[0]}@{place[1]}", 9),
        Column("TIME", lambda one: one["timestamp"], moment, 19),
        Column("TRIES", lambda one: one.get("attempts"), numbers.count, 5, right=True, rank=4),
        Column("ORIGIN", origin, width=14, grows=True, rank=3, tone=lambda _: "muted"),
        Column("KEY", content.key, width=12, grows=True, most=32, rank=2),
        Column("ERROR", lambda one: one.get("error") or UNSAID, width=18, grows=True, most=60, rank=5),
        Column("GROUP", lambda one: one.get("group"), width=10, grows=True, rank=6, tone=lambda _: "muted"),
        Column("VALUE", content.preview, width=24, grows=True, most=200, rank=1),
    )


def _place(letter: Letter) -> tuple[int, int]:
    return letter["partition"], letter["offset"]


def origin(letter: Letter) -> str | None:
    topic, partition, offset = (letter.get(f"origin_{part}") for part in ("topic", "partition", "offset"))
    if topic is None:
        return None
    return str(topic) if partition is None or offset is None else f"{topic}/{partition}@{offset}"


def facts(letter: Letter) -> Iterator[tuple[str, str, str]]:
    """What is known of one besides its value: name, text, tone."""
    attempts = letter.get("attempts")
    yield "error", letter.get("error") or UNSAID, "bad"
    if attempts is not None:
        yield "attempts", f"{format_count(attempts)}{_span(letter)}", ""
    yield from (
        (name, str(text), "") for name, text in (("group", letter.get("group")), ("origin", origin(letter))) if text
    )
    yield "time", letter["timestamp"], ""
    yield "key", "-" if letter.get("key") is None else str(content.key(letter)), ""
    yield "priority", str(letter.get("priority", "")), ""
    yield from ((f"header {name}", text, "accent") for name, text in content.headers(letter) if not _is_ours(name))


def _is_ours(name: str) -> bool:
    """What the broker has added when it failed is told in other words."""
    return name.startswith("dlq.")


def _span(letter: Letter) -> str:
    first, last = letter.get("first_time"), letter.get("last_time")
    if not first or not last:
        return ""
    seconds = (parse_time(last) - parse_time(first)) / NANOSECONDS
    return f" in {numbers.seconds(max(0.0, seconds))}, first at {moment(first)}"
