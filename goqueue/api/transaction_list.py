"""Transactions as operators see them: how long they are open, and what they hold back."""

from typing import Annotated, Literal

import msgspec

from goqueue.api.call import Call
from goqueue.api.producers import TransactionalId
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.records import Ended, Registered, Touched
from goqueue.broker.transactions.refusals import why
from goqueue.broker.transactions.states import OPEN, State
from goqueue.clock import NANOSECONDS
from goqueue.errors import ProducerNotFound
from goqueue.quantities import format_time, quoted

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
    held_back: Annotated[int, msgspec.Meta(description="In all partitions together.")]
    reason: Annotated[str, msgspec.Meta(description="Why it is being aborted.")]
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
    coordinator = call.runtime.broker.transactions
    register = coordinator.register
    if query.transactional_id is not None:
        known = register.by_id.get(query.transactional_id)
        found = [] if known is None else [known]
    elif query.state == "open":
        found = list(register.open_ones())
    else:
        found = list(register.by_id.values())
    states = OPEN if query.state == "open" else {query.state}
    chosen = [one for one in found if query.state == "all" or one.state in states]
    return TransactionList([body(coordinator, one) for one in chosen[: query.limit]], len(chosen))


async def describe(call: Call) -> TransactionBody:
    coordinator, name = call.runtime.broker.transactions, call.parameters["transactional_id"]
    known = coordinator.register.by_id.get(name)
    if known is None:
        raise ProducerNotFound(f"there is no transactional id {quoted(name)}", hint="GET /transactions?state=all")
    return body(coordinator, known)


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
        held_back=coordinator.places.held_back(),
    )


def body(coordinator: TransactionCoordinator, record: Registered) -> TransactionBody:
    is_open = record.state in OPEN
    partitions = [_touched(coordinator, record, touched) for touched in record.partitions]
    age_ns = coordinator.clock.now_ns() - record.began_ns if is_open else 0
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
        age_seconds=age_ns / NANOSECONDS,
        idle_seconds=coordinator.patience.idle_ns(record) / NANOSECONDS,
        timeout_seconds=record.timeout_ns / NANOSECONDS,
        held_back=sum(one.held_back for one in partitions),
        reason=why(record.reason) if record.reason else "",
        last=None if record.last is None else _ended(record.last),
    )


def _touched(coordinator: TransactionCoordinator, record: Registered, touched: Touched) -> TouchedBody:
    partition, spot = coordinator.places.partition(touched), touched.spot
    first: int | None = None
    held_back = 0
    if partition is not None:
        whose = (record.whose, *((member, 0) for member in record.members))
        opened = (partition.open.of(*one) for one in whose)
        first = min((one.first_offset for one in opened if one is not None), default=None)
        held_back = 0 if first is None else max(0, partition.high_watermark - first)
    return TouchedBody(spot.topic, spot.partition, spot.is_delayed, first, held_back)


def _ended(last: Ended) -> EndedBody:
    reason = why(last.reason) if last.reason else ""
    began_at, ended_at = format_time(last.began_ns), format_time(last.ended_ns)
    return EndedBody(str(last.whose), last.state, began_at, ended_at, reason, last.note)
