"""Transactions for operators: how long they are open, and which messages they hold back."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import TransactionalId
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.transactions.records import (
    OPEN,
    EndedTransaction,
    EnlistedLog,
    TransactionMetadata,
    TransactionState,
)
from goqueue.broker.transactions.refusals import describe_reason
from goqueue.broker.transactions.shards import TransactionShards
from goqueue.clock import NANOSECONDS
from goqueue.cluster.participant_messages import ListTransactions
from goqueue.errors import ProducerNotFound
from goqueue.quantities import format_time, quoted
from goqueue.runtime.event_loop import TimeSlices

_ROWS = 1_000
_Chosen = Literal[
    "open", "all", "empty", "ongoing", "prepare_commit", "prepare_abort", "complete_commit", "complete_abort"
]


class TransactionListQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    state: Annotated[_Chosen, Meta(description="open: transactions that hold messages back.")] = "open"
    transactional_id: TransactionalId | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = _ROWS


class TransactionPartitionJson(Struct):
    topic: str
    partition: int
    delayed: bool
    first_offset: Annotated[int | None, Meta(description="Offset of its first message here; null while it has none.")]
    messages: Annotated[int, Meta(description="Its messages here so far.")]
    held_back: Annotated[int, Meta(description="Offsets that readers cannot see because of it.")]


class EndedTransactionJson(Struct):
    transaction_id: str
    state: TransactionState
    began_at: str
    ended_at: str
    reason: str
    note: str


class TransactionResponse(Struct, kw_only=True):
    transaction_id: str
    transactional_id: str
    producer_id: int
    epoch: int
    state: TransactionState
    started_at: str | None
    partitions: list[TransactionPartitionJson]
    groups: list[str]
    members: list[int]
    age_seconds: float
    idle_seconds: Annotated[float, Meta(description="Seconds since its last request.")]
    timeout_seconds: float
    expires_in_seconds: Annotated[
        float | None, Meta(description="Seconds until it times out without a request; null if none is open.")
    ]
    messages: Annotated[int, Meta(description="Of its own, in all partitions together.")]
    held_back: Annotated[int, Meta(description="In all partitions together.")]
    pledged: Annotated[
        dict[str, int] | None, Meta(description="Messages of each group that it acknowledges; null in lists.")
    ] = None
    reason: Annotated[str, Meta(description="Why it is being aborted.")]
    obstacle: Annotated[
        str | None, Meta(description="Why what is decided could not be carried out yet, where it was tried.")
    ]
    last: Annotated[EndedTransactionJson | None, Meta(description="The transaction before this one.")]


_Missing = Annotated[list[str], Meta(description="Nodes of the cluster that did not answer in time.")]


class TransactionListResponse(Struct, omit_defaults=True):
    transactions: list[TransactionResponse]
    total: Annotated[int, Meta(description="How many there are, with those that the limit has left out.")]
    missing: _Missing = []


class TransactionStatsResponse(Struct, kw_only=True, omit_defaults=True):
    active_transactions: int
    committed_total: int
    aborted_total: int
    avg_duration: Annotated[float, Meta(description="In seconds, of transactions that ended since the start.")]
    aborted_by_reason: dict[str, int]
    prepared: Annotated[int, Meta(description="Decided, but not written to all partitions yet.")]
    transactional_ids: int
    oldest_age_seconds: float
    held_back: int
    missing: _Missing = []


async def browse(call: ApiCall, query: TransactionListQuery) -> TransactionListResponse:
    """List the transactions of all coordinators."""
    found = await _browse_here(call, query)
    if call.app.transactions is None or query.transactional_id is not None:
        return found
    others = await call.app.transactions.lists_of_others(query.state, query.limit)
    for content in others.values():
        if content is not None:
            more = msgspec.json.decode(content, type=TransactionListResponse)
            rows = [_as_described(call, row) for row in more.transactions]
            found.transactions += [row for row in rows if row is not None]
            found.total += more.total - rows.count(None)
    found.transactions.sort(key=lambda row: (row.state not in OPEN, -row.age_seconds))
    del found.transactions[query.limit :]
    found.missing = [node for node, content in others.items() if content is None]
    return found


def _as_described(call: ApiCall, row: TransactionResponse) -> TransactionResponse | None:
    """Return a row of another node as far as the client may see it."""
    may = call.access.may
    if not may("describe", "transactional_id", row.transactional_id):
        return None
    row.partitions = [one for one in row.partitions if may("describe", "topic", one.topic)]
    row.groups = call.access.described("group", row.groups)
    return row


async def transactions_here(
    call: ApiCall, asked: ListTransactions
) -> TransactionListResponse | TransactionStatsResponse:
    """Return what another node asks for: the transactions that this one coordinates, or their statistics."""
    if not asked.state:
        return _stats_here(call)
    state = msgspec.convert(asked.state, _Chosen)
    return await _browse_here(call, TransactionListQuery(state=state, limit=asked.limit or _ROWS))


async def _browse_here(call: ApiCall, query: TransactionListQuery) -> TransactionListResponse:
    found = _chosen(call.runtime.broker.transactions, query)
    chosen = [one for one in found if call.access.may("describe", "transactional_id", one.id)]
    slices, rows = TimeSlices(), list[TransactionResponse]()
    for record in chosen[: query.limit]:
        rows.append(body(call, record))
        await slices.rest()
    return TransactionListResponse(rows, len(chosen))


def _chosen(transactions: TransactionShards, query: TransactionListQuery) -> Iterator[TransactionMetadata]:
    """Yield open transactions, the oldest first, then the others, the most recently used first."""
    found: Iterable[TransactionMetadata]
    if query.transactional_id is not None:
        known = transactions.record(query.transactional_id)
        found = () if known is None else (known,)
    elif query.state == "open" or query.state in OPEN:
        found = transactions.open_ones()
    else:
        found = chain(transactions.open_ones(), transactions.closed_ones())
    states = OPEN if query.state == "open" else {query.state}
    return (one for one in found if query.state == "all" or one.state in states)


async def describe(call: ApiCall) -> TransactionResponse:
    name = call.parameters["transactional_id"]
    known = call.runtime.broker.transactions.record(name)
    if known is None:
        raise ProducerNotFound(f"there is no transactional id {quoted(name)}", hint="GET /transactions?state=all")
    found, runner = body(call, known), call.runtime.transaction_runner
    found.pledged = {group: await runner.count_acks(known.whose, name, group) for group in found.groups}
    return found


async def stats(call: ApiCall) -> TransactionStatsResponse:
    """Return the statistics of all coordinators."""
    found = _stats_here(call)
    if call.app.transactions is None:
        return found
    others = await call.app.transactions.lists_of_others("", 0)
    for content in others.values():
        if content is not None:
            _add(found, msgspec.json.decode(content, type=TransactionStatsResponse))
    found.missing = [node for node, content in others.items() if content is None]
    return found


def _add(found: TransactionStatsResponse, more: TransactionStatsResponse) -> None:
    ended, others = (one.committed_total + one.aborted_total for one in (found, more))
    if others:
        found.avg_duration = (found.avg_duration * ended + more.avg_duration * others) / (ended + others)
    found.oldest_age_seconds = max(found.oldest_age_seconds, more.oldest_age_seconds)
    for name in (
        "active_transactions",
        "committed_total",
        "aborted_total",
        "prepared",
        "transactional_ids",
        "held_back",
    ):
        setattr(found, name, getattr(found, name) + getattr(more, name))
    for reason, count in more.aborted_by_reason.items():
        found.aborted_by_reason[reason] = found.aborted_by_reason.get(reason, 0) + count


def _stats_here(call: ApiCall) -> TransactionStatsResponse:
    transactions = call.runtime.broker.transactions
    counts, now_ns = transactions.counts, transactions.clock.now_ns()
    open_ones = list(transactions.open_ones())
    aborted = sum(counts.aborted.values())
    ended = counts.committed + aborted
    return TransactionStatsResponse(
        active_transactions=len(open_ones),
        committed_total=counts.committed,
        aborted_total=aborted,
        avg_duration=counts.seconds / ended if ended else 0.0,
        aborted_by_reason=dict(counts.aborted),
        prepared=sum(one.state != "ongoing" for one in open_ones),
        transactional_ids=transactions.id_count,
        oldest_age_seconds=max(((now_ns - one.began_ns) / NANOSECONDS for one in open_ones), default=0.0),
        held_back=sum(count for _, count in transactions.lookup.held_back()),
    )


def body(call: ApiCall, record: TransactionMetadata) -> TransactionResponse:
    coordinator = call.runtime.broker.transactions.of(record.id)
    obstacle = coordinator.completer.obstacles.get(record.id)
    is_open, now_ns = record.state in OPEN, coordinator.clock.now_ns()
    may = call.access.may
    partitions = [
        _touched(coordinator, record, touched)
        for touched in record.partitions
        if may("describe", "topic", touched.log_ref.topic)
    ]
    left_ns = coordinator.timeouts.expires_ns(record) - now_ns if record.state == "ongoing" else None
    return TransactionResponse(
        transaction_id=str(record.whose),
        transactional_id=record.id,
        producer_id=record.producer,
        epoch=record.epoch,
        state=record.state,
        started_at=format_time(record.began_ns) if is_open else None,
        partitions=partitions,
        groups=call.access.described("group", record.groups),
        members=list(record.members),
        age_seconds=(now_ns - record.began_ns) / NANOSECONDS if is_open else 0.0,
        idle_seconds=coordinator.timeouts.idle_ns(record) / NANOSECONDS,
        timeout_seconds=record.timeout_ns / NANOSECONDS,
        expires_in_seconds=None if left_ns is None else max(0, left_ns) / NANOSECONDS,
        messages=sum(one.messages for one in partitions),
        held_back=sum(one.held_back for one in partitions),
        reason=describe_reason(record.reason) if record.reason else "",
        obstacle=None if obstacle is None else obstacle.sentence,
        last=None if record.last is None else _ended(record.last),
    )


def _touched(
    coordinator: TransactionCoordinator, record: TransactionMetadata, touched: EnlistedLog
) -> TransactionPartitionJson:
    held, log_ref = coordinator.lookup.held_by(record, touched), touched.log_ref
    return TransactionPartitionJson(
        log_ref.topic, log_ref.partition, log_ref.is_delayed, held.first_offset, held.messages, held.held_back
    )


def _ended(last: EndedTransaction) -> EndedTransactionJson:
    reason = describe_reason(last.reason) if last.reason else ""
    began_at, ended_at = format_time(last.began_ns), format_time(last.ended_ns)
    return EndedTransactionJson(str(last.whose), last.state, began_at, ended_at, reason, last.note)
