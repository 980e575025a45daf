"""Transactions: which are open and for how long, what each has touched, and what waits for its end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goqueue.console.transactions import duration, is_open, lasted, touched, verb
from goqueue.limits import TRANSACTION_HUNG_SECONDS
from goqueue.quantities import format_count, format_duration
from goqueue_admin.dashboard.views import numbers
from goqueue_admin.dashboard.views.figure import Figure
from goqueue_admin.dashboard.views.table import Column

Told = Mapping[str, Any]

AT_ONCE = 500
"""The oldest of those that are open: more would not be read, and are asked for every two seconds."""
NEAR_SHARE = 0.25
"""Of its timeout: when so much or less is left, nothing was heard for most of it."""
_PLACES = 20
"""Of one that touches very many partitions, those that a line names."""

_MARKS = {"": "●", "warn": "▲", "bad": "◆"}
"""A shape besides the colour."""
_WORDS = {
    "prepare_commit": "committing",
    "prepare_abort": "aborting",
    "complete_commit": "committed",
    "complete_abort": "aborted",
}


def others(one: Told) -> int:
    """Messages of other producers that nobody sees because of it."""
    count: int = one["held_back"] - one["messages"]
    return max(0, count)


def tone(one: Told) -> str:
    """How much attention it deserves: most where it hangs and keeps readers from what others have written."""
    if one["obstacle"]:
        return "bad"
    if one["state"] != "ongoing":
        return ""
    is_hung = one["age_seconds"] >= TRANSACTION_HUNG_SECONDS and one["held_back"] > 0
    if is_hung and others(one):
        return "bad"
    return "warn" if is_hung or is_near(one) else ""


def is_near(one: Told) -> bool:
    """Whether it is aborted soon."""
    left: float | None = one["expires_in_seconds"]
    return left is not None and left <= NEAR_SHARE * one["timeout_seconds"]


def mark(one: Told) -> str:
    if not is_open(one):
        return "○"
    return "◐" if one["state"] != "ongoing" and not one["obstacle"] else _MARKS[tone(one)]


def state_tone(one: Told) -> str:
    if not is_open(one):
        return "muted"
    return tone(one) or ("good" if one["state"] == "ongoing" else "accent")


# --- figures ---


def open_figures(stats: Told, one_is_bad: bool) -> list[Figure]:
    """What goes on now."""
    if "active_transactions" not in stats:
        return []
    told = [Figure(numbers.count(stats["active_transactions"]), "open")]
    if stats["active_transactions"]:
        oldest = stats["oldest_age_seconds"]
        is_hung = oldest >= TRANSACTION_HUNG_SECONDS and stats["held_back"]
        colour = "bad" if one_is_bad else "warn" if is_hung else ""
        told.append(Figure(duration(oldest), "the oldest", colour))
        told.append(_counted(stats["held_back"], "message", " held back", colour))
    if stats["prepared"]:
        told.append(Figure(numbers.count(stats["prepared"]), "being ended"))
    return told


def ended_figures(stats: Told) -> list[Figure]:
    """What became of others since the broker started."""
    if "committed_total" not in stats:
        return []
    told = [
        Figure(numbers.count(stats["committed_total"]), "committed"),
        Figure(numbers.count(stats["aborted_total"]), "aborted"),
    ]
    reasons = sorted(stats["aborted_by_reason"].items(), key=lambda item: -item[1])
    told += [Figure(numbers.count(count), f"by {reason}") for reason, count in reasons if count and reason != "asked"]
    if stats["committed_total"] or stats["aborted_total"]:
        told.append(Figure(numbers.milliseconds(stats["avg_duration"] * 1000), "on average"))
    return [*told, _counted(stats["transactional_ids"], "transactional id")]


def _counted(count: int, noun: str, more: str = "", tone: str = "") -> Figure:
    return Figure(numbers.count(count), f"{noun}{'' if count == 1 else 's'}{more}", tone)


# --- a list ---


@dataclass(frozen=True)
class TransactionLine:
    """A transactional id and its transaction; `told` is all that the broker says of it."""

    told: Told
    touched: str
    state: str

    @property
    def name(self) -> str:
        return str(self.told["transactional_id"])


def lines(found: Sequence[Told] | None) -> list[TransactionLine] | None:
    if found is None:
        return None
    return [TransactionLine(one, _touched(one["partitions"]), _state(one)) for one in found]


def _state(one: Told) -> str:
    """In a word that is short enough for a narrow terminal."""
    return f"{mark(one)} {_WORDS.get(one['state'], one['state'])}"


def _touched(places: Sequence[Told]) -> str:
    more = len(places) - _PLACES
    return touched(places) if more <= 0 else f"{touched(places[:_PLACES])} and {format_count(more)} more"


def line_key(line: TransactionLine) -> str:
    return line.name


def columns() -> tuple[Column[TransactionLine], ...]:
    return (
        Column("ID", line_key, width=14, grows=True, tone=lambda line: tone(line.told)),
        Column("STATE", lambda line: line.state, width=12, tone=lambda line: state_tone(line.told)),
        Column("AGE", _of_open("age_seconds"), duration, 6, right=True, tone=lambda line: tone(line.told)),
        Column("IDLE", _of_open("idle_seconds"), duration, 6, right=True, rank=3),
        Column("LEFT", _of_open("expires_in_seconds"), duration, 6, right=True, rank=1, tone=_left_tone),
        Column("HELD BACK", _of_open("held_back"), numbers.count, 9, right=True, tone=_held_tone),
        Column("PARTITIONS", _touched_by, width=11, grows=True, rank=2),
        Column("GROUPS", lambda line: " ".join(line.told["groups"]) or None, width=8, grows=True, rank=4),
        Column("OWN", _of_open("messages"), numbers.count, 8, right=True, rank=5),
        Column("TRANSACTION", lambda line: line.told["transaction_id"], width=11, rank=6, tone=lambda _: "muted"),
    )


def _touched_by(line: TransactionLine) -> str | None:
    return None if line.touched == numbers.NOTHING else line.touched


def _of_open(name: str) -> Callable[[TransactionLine], Any]:
    """What only those have that are open."""
    return lambda line: line.told[name] if is_open(line.told) else None


def _left_tone(line: TransactionLine) -> str:
    return "warn" if is_near(line.told) else ""


def _held_tone(line: TransactionLine) -> str:
    return tone(line.told) if is_open(line.told) and tone(line.told) == "bad" else ""


# --- one ---


def figures(one: Told) -> list[Figure]:
    """How it stands now."""
    if not one:
        return []
    told = [Figure(f"{mark(one)} {one['state']}", "", state_tone(one))]
    if not is_open(one):
        return told
    told.append(Figure(duration(one["age_seconds"]), "open", tone(one)))
    told.append(Figure(duration(one["idle_seconds"]), f"idle of {format_duration(one['timeout_seconds'])}"))
    if one["expires_in_seconds"] is not None:
        told.append(Figure(duration(one["expires_in_seconds"]), "left", "warn" if is_near(one) else ""))
    return told


def weight(one: Told) -> list[Figure]:
    """What waits for its end."""
    if not one or not is_open(one):
        return []
    told = [Figure(numbers.count(one["messages"]), "of its own")]
    behind = others(one)
    told.append(Figure(numbers.count(behind), "of others behind them", tone(one) if behind else ""))
    told += [Figure(numbers.count(count), f"acknowledged by {group}") for group, count in pledged(one)]
    return told


def pledged(one: Told) -> list[tuple[str, int]]:
    """Messages of each group that are nobody's until it ends; in a list that is not told."""
    held = one["pledged"] or {}
    return [(group, held.get(group, 0)) for group in one["groups"]]


def facts(one: Told, outlook: str, now_ns: int) -> Iterator[tuple[str, str, str]]:
    """Name, text, tone."""
    yield "next", outlook, tone(one) if is_open(one) else ""
    yield "producer", f"{one['producer_id']}, epoch {one['epoch']}: transaction {one['transaction_id']}", ""
    if one["members"]:
        yield "members", members(one["members"]), ""
    if one["last"]:
        yield "last", last(one["last"], now_ns), "warn" if verb(one["last"]) == "aborted" else ""
        if one["last"]["note"]:
            yield "note", one["last"]["note"], ""


def members(found: Sequence[int]) -> str:
    named = ", ".join(map(str, found[:_PLACES]))
    more = len(found) - _PLACES
    return f"{format_count(len(found), 'producer')} beside it: {named}{f' and {more:,} more' if more > 0 else ''}"


def last(ended: Told, now_ns: int) -> str:
    """How the one before came to its end, by the clock that the screen goes by."""
    because = f": {ended['reason']}" if ended["reason"] else ""
    when = numbers.age(ended["ended_at"], now_ns)
    return f"{ended['transaction_id']} was {verb(ended)} {when} ago, after {lasted(ended)}{because}"


# --- what it has touched ---


@dataclass(frozen=True)
class PlaceLine:
    """A partition that it has written to, or a group that it has acknowledged or committed for."""

    kind: str
    name: str
    target: tuple[str, ...]
    """What the screen is about that shows more of it."""
    first: int | None
    own: int
    held_back: int | None


def places(one: Told) -> list[PlaceLine] | None:
    """Partitions, those that hold back most first, and then groups."""
    if not one:
        return None
    found = [_place(place) for place in one["partitions"]]
    found.sort(key=lambda line: -(line.held_back or 0))
    return found + [PlaceLine("group", group, (group,), None, count, None) for group, count in pledged(one)]


def _place(place: Told) -> PlaceLine:
    name, number = place["topic"], str(place["partition"])
    kind, target = ("delayed", (name,)) if place["delayed"] else ("partition", (name, number))
    return PlaceLine(kind, f"{name}/{number}", target, place["first_offset"], place["messages"], place["held_back"])


def place_key(line: PlaceLine) -> str:
    return f"{line.kind} {line.name}"


def place_columns() -> tuple[Column[PlaceLine], ...]:
    return (
        Column("TOUCHES", lambda line: line.name, width=20, grows=True),
        Column("KIND", lambda line: line.kind, width=9, tone=lambda _: "muted"),
        Column("FIRST", lambda line: line.first, numbers.count, 13, right=True, rank=1),
        Column("OWN", lambda line: line.own, numbers.count, 10, right=True),
        Column("HELD BACK", lambda line: line.held_back, numbers.count, 10, right=True, tone=_place_tone),
    )


def _place_tone(line: PlaceLine) -> str:
    return "warn" if (line.held_back or 0) > line.own else ""
