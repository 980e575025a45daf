"""Transactions and their partitions and groups as rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from goqueue.console.transactions import (
    ended_verb,
    format_lifetime,
    format_rounded_duration,
    format_touched_partitions,
    is_open,
)
from goqueue.limits import TRANSACTION_HUNG_SECONDS
from goqueue.quantities import format_count, format_duration
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.table import TableColumn

TransactionJson = Mapping[str, Any]

AT_ONCE = 500
"""Maximum number of transactions in the list."""
NEAR_SHARE = 0.25
"""Share of the timeout that is left when a transaction counts as near its timeout."""
_PLACES = 20
"""Maximum number of partitions named in a row."""

_MARKS = {"": "●", "warn": "▲", "bad": "◆"}
"""Shapes besides the colors."""
_WORDS = {
    "prepare_commit": "committing",
    "prepare_abort": "aborting",
    "complete_commit": "committed",
    "complete_abort": "aborted",
}


def others_held_back(one: TransactionJson) -> int:
    """Return the number of messages of other producers held back by it."""
    count: int = one["held_back"] - one["messages"]
    return max(0, count)


def attention_tone(one: TransactionJson) -> str:
    """Return its tone: bad if it hangs and holds back messages of other producers."""
    if one["obstacle"]:
        return "bad"
    if one["state"] != "ongoing":
        return ""
    is_hung = one["age_seconds"] >= TRANSACTION_HUNG_SECONDS and one["held_back"] > 0
    if is_hung and others_held_back(one):
        return "bad"
    return "warn" if is_hung or is_near(one) else ""


def is_near(one: TransactionJson) -> bool:
    """Return True if it is near its timeout."""
    left: float | None = one["expires_in_seconds"]
    return left is not None and left <= NEAR_SHARE * one["timeout_seconds"]


def state_mark(one: TransactionJson) -> str:
    if not is_open(one):
        return "○"
    return "◐" if one["state"] != "ongoing" and not one["obstacle"] else _MARKS[attention_tone(one)]


def state_tone(one: TransactionJson) -> str:
    if not is_open(one):
        return "muted"
    return attention_tone(one) or ("good" if one["state"] == "ongoing" else "accent")


# --- figures ---


def open_numbers(stats: TransactionJson, one_is_bad: bool) -> list[LabeledNumber]:
    if "active_transactions" not in stats:
        return []
    told = [LabeledNumber(formats.count(stats["active_transactions"]), "open")]
    if stats["active_transactions"]:
        oldest = stats["oldest_age_seconds"]
        is_hung = oldest >= TRANSACTION_HUNG_SECONDS and stats["held_back"]
        colour = "bad" if one_is_bad else "warn" if is_hung else ""
        told.append(LabeledNumber(format_rounded_duration(oldest), "the oldest", colour))
        told.append(_count_number(stats["held_back"], "message", " held back", colour))
    if stats["prepared"]:
        told.append(LabeledNumber(formats.count(stats["prepared"]), "being ended"))
    return told


def ended_numbers(stats: TransactionJson) -> list[LabeledNumber]:
    if "committed_total" not in stats:
        return []
    told = [
        LabeledNumber(formats.count(stats["committed_total"]), "committed"),
        LabeledNumber(formats.count(stats["aborted_total"]), "aborted"),
    ]
    reasons = sorted(stats["aborted_by_reason"].items(), key=lambda item: -item[1])
    told += [
        LabeledNumber(formats.count(count), f"by {reason}") for reason, count in reasons if count and reason != "asked"
    ]
    if stats["committed_total"] or stats["aborted_total"]:
        told.append(LabeledNumber(formats.milliseconds(stats["avg_duration"] * 1000), "on average"))
    return [*told, _count_number(stats["transactional_ids"], "transactional id")]


def _count_number(count: int, noun: str, more: str = "", tone: str = "") -> LabeledNumber:
    return LabeledNumber(formats.count(count), f"{noun}{'' if count == 1 else 's'}{more}", tone)


# --- a list ---


@dataclass(frozen=True)
class TransactionRow:
    """A transactional id with its transaction; `told` is the answer of the broker."""

    told: TransactionJson
    touched: str
    state: str

    @property
    def name(self) -> str:
        return str(self.told["transactional_id"])


def transaction_rows(found: Sequence[TransactionJson] | None) -> list[TransactionRow] | None:
    if found is None:
        return None
    return [TransactionRow(one, _touched(one["partitions"]), _state(one)) for one in found]


def _state(one: TransactionJson) -> str:
    return f"{state_mark(one)} {_WORDS.get(one['state'], one['state'])}"


def _touched(places: Sequence[TransactionJson]) -> str:
    more = len(places) - _PLACES
    return (
        format_touched_partitions(places)
        if more <= 0
        else f"{format_touched_partitions(places[:_PLACES])} and {format_count(more)} more"
    )


def transaction_columns() -> tuple[TableColumn[TransactionRow], ...]:
    return (
        TableColumn("ID", lambda line: line.name, width=14, grows=True, tone=lambda line: attention_tone(line.told)),
        TableColumn("STATE", lambda line: line.state, width=12, tone=lambda line: state_tone(line.told)),
        TableColumn(
            "AGE",
            _if_open("age_seconds"),
            format_rounded_duration,
            6,
            right=True,
            tone=lambda line: attention_tone(line.told),
        ),
        TableColumn("IDLE", _if_open("idle_seconds"), format_rounded_duration, 6, right=True, rank=3),
        TableColumn(
            "LEFT", _if_open("expires_in_seconds"), format_rounded_duration, 6, right=True, rank=1, tone=_left_tone
        ),
        TableColumn("HELD BACK", _if_open("held_back"), formats.count, 9, right=True, tone=_held_tone),
        TableColumn("PARTITIONS", _touched_by, width=11, grows=True, rank=2),
        TableColumn("GROUPS", lambda line: " ".join(line.told["groups"]) or None, width=8, grows=True, rank=4),
        TableColumn("OWN", _if_open("messages"), formats.count, 8, right=True, rank=5),
        TableColumn("TRANSACTION", lambda line: line.told["transaction_id"], width=11, rank=6, tone="muted"),
    )


def _touched_by(line: TransactionRow) -> str | None:
    return None if line.touched == formats.NO_VALUE else line.touched


def _if_open(name: str) -> Callable[[TransactionRow], Any]:
    """Return a value that only open transactions have."""
    return lambda line: line.told[name] if is_open(line.told) else None


def _left_tone(line: TransactionRow) -> str:
    return "warn" if is_near(line.told) else ""


def _held_tone(line: TransactionRow) -> str:
    return attention_tone(line.told) if is_open(line.told) and attention_tone(line.told) == "bad" else ""


# --- one ---


def transaction_numbers(one: TransactionJson) -> list[LabeledNumber]:
    if not one:
        return []
    told = [LabeledNumber(f"{state_mark(one)} {one['state']}", "", state_tone(one))]
    if not is_open(one):
        return told
    told.append(LabeledNumber(format_rounded_duration(one["age_seconds"]), "open", attention_tone(one)))
    told.append(
        LabeledNumber(
            format_rounded_duration(one["idle_seconds"]), f"idle of {format_duration(one['timeout_seconds'])}"
        )
    )
    if one["expires_in_seconds"] is not None:
        told.append(
            LabeledNumber(format_rounded_duration(one["expires_in_seconds"]), "left", "warn" if is_near(one) else "")
        )
    return told


def held_back_numbers(one: TransactionJson) -> list[LabeledNumber]:
    if not one or not is_open(one):
        return []
    told = [LabeledNumber(formats.count(one["messages"]), "of its own")]
    behind = others_held_back(one)
    told.append(LabeledNumber(formats.count(behind), "of others behind them", attention_tone(one) if behind else ""))
    told += [LabeledNumber(formats.count(count), f"acknowledged by {group}") for group, count in acks_pending(one)]
    return told


def acks_pending(one: TransactionJson) -> list[tuple[str, int]]:
    """Return the messages acked in the transaction, by group; a list does not have them."""
    held = one["pledged"] or {}
    return [(group, held.get(group, 0)) for group in one["groups"]]


def transaction_facts(one: TransactionJson, outlook: str, now_ns: int) -> Iterator[tuple[str, str, str]]:
    yield "next", outlook, attention_tone(one) if is_open(one) else ""
    yield "producer", f"{one['producer_id']}, epoch {one['epoch']}: transaction {one['transaction_id']}", ""
    if one["members"]:
        yield "members", format_members(one["members"]), ""
    if one["last"]:
        yield "last", last_ended(one["last"], now_ns), "warn" if ended_verb(one["last"]) == "aborted" else ""
        if one["last"]["note"]:
            yield "note", one["last"]["note"], ""


def format_members(found: Sequence[int]) -> str:
    named = ", ".join(map(str, found[:_PLACES]))
    more = len(found) - _PLACES
    return f"{format_count(len(found), 'producer')} beside it: {named}{f' and {more:,} more' if more > 0 else ''}"


def last_ended(ended: TransactionJson, now_ns: int) -> str:
    """Describe how the previous transaction ended."""
    because = f": {ended['reason']}" if ended["reason"] else ""
    when = formats.seconds(formats.age_seconds(ended["ended_at"], now_ns))
    return f"{ended['transaction_id']} was {ended_verb(ended)} {when} ago, after {format_lifetime(ended)}{because}"


# --- what it has touched ---


@dataclass(frozen=True)
class TransactionTargetRow:
    """A partition or group in the transaction."""

    kind: str
    name: str
    target: tuple[str, ...]
    """The subject of the screen that shows it."""
    first: int | None
    own: int
    held_back: int | None


def target_rows(one: TransactionJson) -> list[TransactionTargetRow] | None:
    """Return partitions, the most held back first, then groups."""
    if not one:
        return None
    found = [_target_row(place) for place in one["partitions"]]
    found.sort(key=lambda line: -(line.held_back or 0))
    return found + [
        TransactionTargetRow("group", group, (group,), None, count, None) for group, count in acks_pending(one)
    ]


def _target_row(place: TransactionJson) -> TransactionTargetRow:
    name, number = place["topic"], str(place["partition"])
    kind, target = ("delayed", (name,)) if place["delayed"] else ("partition", (name, number))
    return TransactionTargetRow(
        kind, f"{name}/{number}", target, place["first_offset"], place["messages"], place["held_back"]
    )


def target_key(line: TransactionTargetRow) -> str:
    return f"{line.kind} {line.name}"


def target_columns() -> tuple[TableColumn[TransactionTargetRow], ...]:
    return (
        TableColumn("TOUCHES", lambda line: line.name, width=20, grows=True),
        TableColumn("KIND", lambda line: line.kind, width=9, tone="muted"),
        TableColumn("FIRST", lambda line: line.first, formats.count, 13, right=True, rank=1),
        TableColumn("OWN", lambda line: line.own, formats.count, 10, right=True),
        TableColumn("HELD BACK", lambda line: line.held_back, formats.count, 10, right=True, tone=_place_tone),
    )


def _place_tone(line: TransactionTargetRow) -> str:
    return "warn" if (line.held_back or 0) > line.own else ""
