"""Transactions as operators see them: how long they are open, and what they hold back.

The rows are made in slices, and everybody else is served in between.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated, Literal

import msgspec

from goqueue.api.call import Call
from goqueue.api.producers import TransactionalId
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.records import Ended, Registered, Touched
from goqueue.broker.transactions.refusals import why
from goqueue.broker.transactions.register import Register
from goqueue.broker.transactions.states import OPEN, State
from goqueue.clock import NANOSECONDS
from goqueue.errors import ProducerNotFound
from goqueue.quantities import format_time, quoted
from goqueue.runtime.slices import Slices

_ROWS = 1_000
_Chosen = Literal[
    "open", "all", "empty", "ongoing", "prepare_commit", "prepare_abort", "complete_commit", "complete_abort"
]


class ListQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    state: Annotated[_Chosen, msgspec.Meta(description="open: those that hold something back.")] = "open"
    transactional_id: TransactionalId | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = _ROWS


class TouchedBody(msgspec.Struct):
    topic: str
    partition: int
    delayed: bool
    first_offset: Annotated[int | None, msgspec.Meta(description="Of its first message here; null while it has none.")]
    messages: Annotated[int, msgspec.Meta(description="Of its own here, so far.")]
    held_back: Annotated[int, msgspec.Meta(description="Offsets that readers do not see because of it.")]


class EndedBody(msgspec.Struct):
    transaction_id: str
    state: State
    began_at: str
    ended_at: str
    reason: str
    note: str


class TransactionBody(msgspec.Struct, kw_only=True):
    transaction_id: str
    transactional_id: str
    producer_id: int
    epoch: int
    state: State
    started_at: str | None
    partitions: list[TouchedBody]
    groups: list[str]
    members: list[int]
    age_seconds: float
    idle_seconds: Annotated[float, msgspec.Meta(description="Since something was heard of it.")]
    timeout_seconds: float
    expires_in_seconds: Annotated[
        float | None,
        msgspec.Meta(description="Until it is aborted, if nothing is heard of it; null where none is open."),
    ]
    messages: Annotated[int, msgspec.Meta(description="Of its own, in all partitions together.")]
    held_back: Annotated[int, msgspec.Meta(description="In all partitions together.")]
    pledged: Annotated[
        dict[str, int] | None,
        msgspec.Meta(description="Messages of each group that it acknowledges; null in lists."),
    ] = None
    reason: Annotated[str, msgspec.Meta(description="Why it is being aborted.")]
    obstacle: Annotated[
        str | None, msgspec.Meta(description="Why what is decided could not be carried out yet, where it was tried.")
    ]
    last: Annotated[EndedBody | None, msgspec.Meta(description="The transaction before this one.")]


class TransactionList(msgspec.Struct):
    transactions: list[TransactionBody]
    total: Annotated[int, msgspec.Meta(description="How many there are, with those that the limit has left out.")]


class TransactionStats(msgspec.Struct, kw_only=True):
    active_transactions: int
    committed_total: int
    aborted_total: int
    avg_duration: Annotated[float, msgspec.Meta(description="In seconds, of those that ended since the start.")]
    aborted_by_reason: dict[str, int]
    prepared: Annotated[int, msgspec.Meta(description="Decided, and not carried out everywhere yet.")]
    transactional_ids: int
    oldest_age_seconds: float
    held_back: int


async def browse(call: Call) -> TransactionList:
    query: ListQuery = call.query
    chosen = list(_chosen(call.runtime.broker.transactions.register, query))
    slices, rows = Slices(), list[TransactionBody]()
    for record in chosen[: query.limit]:
        rows.append(body(call, record))
        await slices.rest()
    return TransactionList(rows, len(chosen))


def _chosen(register: Register, query: ListQuery) -> Iterator[Registered]:
    """The oldest of those that are open come first, then the others, the one that was used last before all."""
    found: Iterable[Registered]
    if query.transactional_id is not None:
        known = register.by_id.get(query.transactional_id)
        found = () if known is None else (known,)
    elif query.state == "open" or query.state in OPEN:
        found = register.open_ones()
    else:
        found = chain(register.open_ones(), register.closed_ones())
    states = OPEN if query.state == "open" else {query.state}
    return (one for one in found if query.state == "all" or one.state in states)


async def describe(call: Call) -> TransactionBody:
    name = call.parameters["transactional_id"]
    known = call.runtime.broker.transactions.register.by_id.get(name)
    if known is None:
        raise ProducerNotFound(f"there is no transactional id {quoted(name)}", hint="GET /transactions?state=all")
    found, pledges = body(call, known), call.runtime.broker.coordinator.pledges
    found.pledged = {group: pledges.count(group, known.whose) for group in known.groups}
    return found


async def stats(call: Call) -> TransactionStats:
    coordinator = call.runtime.broker.transactions
    counts, now_ns = coordinator.counts, coordinator.clock.now_ns()
    open_ones = list(coordinator.register.open_ones())
    aborted = sum(counts.aborted.values())
    ended = counts.committed + aborted
    return TransactionStats(
        active_transactions=len(open_ones),
        committed_total=counts.committed,
        aborted_total=aborted,
        avg_duration=counts.seconds / ended if ended else 0.0,
        aborted_by_reason=dict(counts.aborted),
        prepared=sum(one.state != "ongoing" for one in open_ones),
        transactional_ids=len(coordinator.register),
        oldest_age_seconds=max(((now_ns - one.began_ns) / NANOSECONDS for one in open_ones), default=0.0),
        held_back=sum(count for _, count in coordinator.places.held_back()),
    )


def body(call: Call, record: Registered) -> TransactionBody:
    coordinator, obstacle = call.runtime.broker.transactions, call.runtime.broker.ending.obstacles.get(record.id)
    is_open, now_ns = record.state in OPEN, coordinator.clock.now_ns()
    partitions = [_touched(coordinator, record, touched) for touched in record.partitions]
    left_ns = coordinator.patience.expires_ns(record) - now_ns if record.state == "ongoing" else None
    return TransactionBody(
        transaction_id=str(record.whose),
        transactional_id=record.id,
        producer_id=record.producer,
        epoch=record.epoch,
        state=record.state,
        started_at=format_time(record.began_ns) if is_open else None,
        partitions=partitions,
        groups=list(record.groups),
        members=list(record.members),
        age_seconds=(now_ns - record.began_ns) / NANOSECONDS if is_open else 0.0,
        idle_seconds=coordinator.patience.idle_ns(record) / NANOSECONDS,
        timeout_seconds=record.timeout_ns / NANOSECONDS,
        expires_in_seconds=None if left_ns is None else max(0, left_ns) / NANOSECONDS,
        messages=sum(one.messages for one in partitions),
        held_back=sum(one.held_back for one in partitions),
        reason=why(record.reason) if record.reason else "",
        obstacle=None if obstacle is None else obstacle.sentence,
        last=None if record.last is None else _ended(record.last),
    )


def _touched(coordinator: TransactionCoordinator, record: Registered, touched: Touched) -> TouchedBody:
    held, spot = coordinator.places.held_by(record, touched), touched.spot
    return TouchedBody(spot.topic, spot.partition, spot.is_delayed, held.first_offset, held.messages, held.held_back)


def _ended(last: Ended) -> EndedBody:
    reason = why(last.reason) if last.reason else ""
    began_at, ended_at = format_time(last.began_ns), format_time(last.ended_ns)
    return EndedBody(str(last.whose), last.state, began_at, ended_at, reason, last.note)
