"""Dead-letter topics, errors and dead letters as rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goqueue.clock import NANOSECONDS
from goqueue.console.dead_letters import error_text, holds_dead_letters, origin_of
from goqueue.drawing.bars import bar
from goqueue.quantities import format_count, parse_time
from goqueue_admin.dashboard.views import formats, message
from goqueue_admin.dashboard.views.table import TableColumn

if TYPE_CHECKING:
    from goqueue.client import TopicInfo
    from goqueue.client.admin_requests import TopicDetails


ErrorCountsJson = Mapping[str, Any]
DeadLetterJson = Mapping[str, Any]

AT_ONCE_MAX = 200
BYTES_AT_ONCE = 4 * 2**20
"""Maximum size of an answer, estimated from the average message size."""

RECOUNT_SECONDS = 10
RECOUNT_SECONDS_MAX = 60


def page_size(total: int, size: int, most: int = AT_ONCE_MAX) -> int:
    """Return how many dead letters to read at once."""
    average = size / total if total else 1
    return max(1, min(most, int(BYTES_AT_ONCE / max(average, 1))))


class RecountSchedule:
    """Decides when to count dead letters again, since counting reads all of them.

    New messages make a recount due soon; without any it is due later, since redrives are not visible.
    """

    def __init__(self) -> None:
        self._counted: dict[str, tuple[int, int | None]] = {}

    def note(self, topic: str, total: int, counted_ns: int) -> None:
        """Record a count and the number of messages at that time."""
        if counted_ns and self._counted.get(topic, (0, 0))[0] != counted_ns:
            self._counted[topic] = (counted_ns, total)

    def expire(self) -> None:
        """Make all counts due."""
        self._counted = {topic: (counted_ns, None) for topic, (counted_ns, _) in self._counted.items()}

    def is_due(self, topic: str, total: int, now_ns: int) -> bool:
        counted_ns, counted = self._counted.get(topic, (0, None))
        if counted is None:
            return True
        wait = RECOUNT_SECONDS if counted != total else RECOUNT_SECONDS_MAX
        return now_ns - counted_ns >= wait * NANOSECONDS


class PageOffsets(tuple[tuple[int, int], ...]):
    """Offsets by partition, hashable as part of a call."""

    __slots__ = ()

    def items(self) -> Iterator[tuple[int, int]]:
        return iter(self)


def newest_offsets(info: "TopicInfo", most: int) -> PageOffsets:
    """Return offsets near the end of each partition, `most` messages together."""
    each = max(1, most // max(1, len(info.partition_offsets)))
    held = info.partition_offsets.items()
    return PageOffsets((int(number), max(offsets.earliest, offsets.latest - each)) for number, offsets in held)


# --- the topics ---


@dataclass(frozen=True)
class DeadLetterTopicRow:
    """A dead-letter topic; None means not counted yet."""

    name: str
    letters: int | None
    is_complete: bool
    reasons: int | None
    most_frequent: str | None
    messages: int
    size: int


def topic_rows(
    topics: "Sequence[TopicDetails] | None", counts_of: Callable[[str], ErrorCountsJson]
) -> list[DeadLetterTopicRow] | None:
    if topics is None:
        return None
    return [_topic_row(one, counts_of(one.name)) for one in topics if holds_dead_letters(one)]


def _topic_row(topic: "TopicDetails", counts: ErrorCountsJson) -> DeadLetterTopicRow:
    errors: Mapping[str, int] | None = counts.get("errors")
    return DeadLetterTopicRow(
        name=topic.name,
        letters=None if errors is None else sum(errors.values()),
        is_complete=bool(counts.get("complete", True)),
        reasons=None if errors is None else len(errors),
        most_frequent=None if not errors else error_text(next(iter(errors))),
        messages=topic.total_messages,
        size=topic.total_size_bytes,
    )


def topic_columns() -> tuple[TableColumn[DeadLetterTopicRow], ...]:
    return (
        TableColumn("TOPIC", lambda line: line.name, width=16, grows=True, tone=_topic_tone),
        TableColumn(
            "LETTERS",
            lambda line: line.letters,
            formats.count,
            9,
            right=True,
            moves=True,
            rising="bad",
            tone=_topic_tone,
        ),
        TableColumn("REASONS", lambda line: line.reasons, formats.count, 7, right=True, rank=2),
        TableColumn("MOST FREQUENT", lambda line: line.most_frequent, width=20, grows=True, most=80, rank=1),
        TableColumn("KEPT", lambda line: line.messages, formats.count, 9, right=True, rank=3, tone="muted"),
        TableColumn("SIZE", lambda line: line.size, formats.size, 8, right=True, rank=4, tone="muted"),
    )


def _topic_tone(line: DeadLetterTopicRow) -> str:
    return "warn" if line.letters else "muted"


# --- why they failed ---


@dataclass(frozen=True)
class ErrorRow:
    """An error with its count and newest message."""

    error: str
    count: int
    part: float
    newest: str | None
    group: str | None


def error_rows(counts: ErrorCountsJson, newest: Sequence[DeadLetterJson]) -> list[ErrorRow] | None:
    errors: Mapping[str, int] | None = counts.get("errors")
    if errors is None:
        return None
    total = sum(errors.values())
    last: dict[str, DeadLetterJson] = {}
    for one in newest:
        known = last.get(one.get("error", ""))
        if known is None or one["timestamp"] > known["timestamp"]:
            last[one.get("error", "")] = one
    return [
        ErrorRow(
            error=error,
            count=count,
            part=formats.share(count, total),
            newest=last[error]["timestamp"] if error in last else None,
            group=last[error].get("group") if error in last else None,
        )
        for error, count in errors.items()
    ]


def error_columns() -> tuple[TableColumn[ErrorRow], ...]:
    return (
        TableColumn("COUNT", lambda line: line.count, formats.count, 9, right=True, moves=True, rising="bad"),
        TableColumn("SHARE", lambda line: line.part, _share_bar, 12, rank=2, tone="first"),
        TableColumn("ERROR", lambda line: error_text(line.error), width=24, grows=True, most=120),
        TableColumn("NEWEST", lambda line: line.newest, format_moment, 19, rank=1),
        TableColumn("GROUP", lambda line: line.group, width=10, grows=True, rank=3, tone="muted"),
    )


def _share_bar(part: float) -> str:
    return f"{bar(part, 1.0, 7):<7} {formats.percent(part):>4}"


def format_moment(text: str) -> str:
    return text[:19].replace("T", " ")


# --- the letters ---


def position_text(letter: DeadLetterJson) -> str:
    return f"{letter['partition']}@{letter['offset']}"


def dead_letter_key(letter: DeadLetterJson) -> str:
    """Return the key of a row: position, key and error, for filters."""
    return f"{position_text(letter)} {message.key_text(letter) or ''} {letter.get('error', '')}"


def dead_letter_columns() -> tuple[TableColumn[DeadLetterJson], ...]:
    return (
        TableColumn("PLACE", _position, lambda place: f"{place[0]}@{place[1]}", 9),
        TableColumn("TIME", lambda one: one["timestamp"], format_moment, 19),
        TableColumn("TRIES", lambda one: one.get("attempts"), formats.count, 5, right=True, rank=4),
        TableColumn("ORIGIN", origin_of, width=14, grows=True, rank=3, tone="muted"),
        TableColumn("KEY", message.key_text, width=12, grows=True, most=32, rank=2),
        TableColumn("ERROR", lambda one: error_text(one.get("error", "")), width=18, grows=True, most=60, rank=5),
        TableColumn("GROUP", lambda one: one.get("group"), width=10, grows=True, rank=6, tone="muted"),
        TableColumn("VALUE", message.value_preview, width=24, grows=True, most=200, rank=1),
    )


def _position(letter: DeadLetterJson) -> tuple[int, int]:
    return letter["partition"], letter["offset"]


def facts(letter: DeadLetterJson) -> Iterator[tuple[str, str, str]]:
    """Return the facts of a message: name, text, tone."""
    attempts = letter.get("attempts")
    yield "error", error_text(letter.get("error", "")), "bad"
    if attempts is not None:
        yield "attempts", f"{format_count(attempts)}{_span(letter)}", ""
    yield from (
        (name, str(text), "") for name, text in (("group", letter.get("group")), ("origin", origin_of(letter))) if text
    )
    yield "time", letter["timestamp"], ""
    yield "key", "-" if letter.get("key") is None else str(message.key_text(letter)), ""
    yield "priority", str(letter.get("priority", "")), ""
    yield from (
        (f"header {name}", text, "accent")
        for name, text in message.header_texts(letter)
        if not _is_added_by_broker(name)
    )


def _is_added_by_broker(name: str) -> bool:
    return name.startswith("dlq.")


def _span(letter: DeadLetterJson) -> str:
    first, last = letter.get("first_time"), letter.get("last_time")
    if not first or not last:
        return ""
    seconds = (parse_time(last) - parse_time(first)) / NANOSECONDS
    return f" in {formats.seconds(max(0.0, seconds))}, first at {format_moment(first)}"
