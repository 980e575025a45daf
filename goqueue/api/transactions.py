"""Producers and their transactions."""

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from goqueue.api.delayed_logs import transaction_log
from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import (
    Epoch,
    Generation,
    GroupName,
    MemberId,
    Offset,
    PartitionKey,
    PartitionNumber,
    ProducerId,
    TopicName,
    TransactionalId,
)
from goqueue.api.offsets import offsets_by_ref
from goqueue.api.outgoing_message import EncodedMessage, MessageEncoder, OutgoingMessage
from goqueue.api.problems import invalid
from goqueue.api.publishing import check_transaction, known_transaction, publishable_topic
from goqueue.api.settling import (
    Handle,
    LeaseRanges,
    SettleResult,
    check_lease_groups,
    check_ranges,
    refuse_too_many,
    settled,
    statement,
)
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.splits import NO_PARENT
from goqueue.broker.core.topic import Topic
from goqueue.broker.groups.settlement import SettleCommandReply
from goqueue.broker.transactions.records import EndedTransaction, TransactionState
from goqueue.broker.transactions.refusals import reason_text
from goqueue.broker.transactions.shards import TransactionShard
from goqueue.clock import NANOSECONDS
from goqueue.errors import ProducerNotFound, SchemaViolation
from goqueue.limits import (
    EPOCH_MAX,
    REASON_CHARACTERS_MAX,
    RECEIPTS_MAX,
    SEQUENCE_COUNT,
    TRANSACTION_PARTICIPANTS_MAX,
    TRANSACTION_SECONDS,
    TRANSACTION_SECONDS_MAX,
    TRANSACTION_SECONDS_MIN,
)
from goqueue.quantities import quoted

_MILLISECOND_NS = NANOSECONDS // 1000
_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")

TimeoutMs = Annotated[
    int,
    Meta(
        ge=round(TRANSACTION_SECONDS_MIN * 1000),
        le=round(TRANSACTION_SECONDS_MAX * 1000),
        description="Its transaction is aborted after this time without a request.",
    ),
]


class InitProducerRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A new producer. A transactional id is for transactions."""

    transactional_id: TransactionalId | None = None
    transaction_timeout_ms: TimeoutMs = round(TRANSACTION_SECONDS * 1000)
    producer_id: Annotated[
        ProducerId | None,
        Meta(description="With the epoch, the former producer id: refused if another producer has replaced it."),
    ] = None
    epoch: Epoch | None = None

    @property
    def former(self) -> TransactionId | None:
        if self.producer_id is None and self.epoch is None:
            return None
        if self.producer_id is None or self.epoch is None or self.transactional_id is None:
            raise invalid("producer_id", "needs an epoch and a transactional_id", "give all three, or none of them")
        return TransactionId(self.producer_id, self.epoch)


class InitProducerResponse(Struct, omit_defaults=True):
    producer_id: int
    epoch: int = msgspec.field(name="epoch")
    transactional_id: str | None = None
    transaction_timeout_ms: int | None = None


class ProducerHeartbeatRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    epoch: Epoch
    transactional_id: TransactionalId | None = None


class ProducerHeartbeatResponse(Struct):
    ok: bool


async def init(call: ApiCall, body: InitProducerRequest) -> InitProducerResponse:
    former = body.former
    if body.transactional_id is None:
        call.access.require_any("write", "topic")
        return InitProducerResponse(await call.runtime.new_producer(), 0)
    call.app.refuse_before_level("transactions")
    call.access.require("write", "transactional_id", body.transactional_id)
    timeout_ms = body.transaction_timeout_ms
    coordinator = call.runtime.broker.transactions.of(body.transactional_id)
    work = coordinator.init(body.transactional_id, timeout_ms * _MILLISECOND_NS, former)
    record = await call.runtime.transaction_runner.in_time(call.runtime.decide(work), body.transactional_id)
    return InitProducerResponse(record.producer, record.epoch, record.id, timeout_ms)


async def heartbeat(call: ApiCall, body: ProducerHeartbeatRequest) -> ProducerHeartbeatResponse:
    """Record a heartbeat. Producers without a transactional id have no timeout."""
    text = call.parameters["producer"]
    if not _NUMBER.fullmatch(text):
        raise ProducerNotFound(f"there is no producer {quoted(text)}", hint="POST /producers/init gives a number")
    transactions, whose = call.runtime.broker.transactions, TransactionId(int(text), body.epoch)
    _check_producer(call, whose, body.transactional_id)
    call.runtime.broker.producer_ids.refuse_unless_given(int(text))
    if body.transactional_id is not None or known_transaction(call, whose) is not None:
        transactions.of_transaction(whose, body.transactional_id).current(whose, body.transactional_id)
    return ProducerHeartbeatResponse(True)


def _check_producer(call: ApiCall, whose: TransactionId, name: str | None) -> None:
    """Check the transactional id of a producer; one without an id needs a topic to write to."""
    if name is None and known_transaction(call, whose) is None:
        call.access.require_any("write", "topic")
    else:
        check_transaction(call, whose, name)


_Note = Annotated[str, Meta(max_length=REASON_CHARACTERS_MAX)]


class _Meant(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    producer_id: ProducerId
    epoch: Epoch

    @property
    def whose(self) -> TransactionId:
        return TransactionId(self.producer_id, self.epoch)


class TransactionRequest(_Meant, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The transaction of a request."""

    transactional_id: TransactionalId


class TransactionRefRequest(_Meant, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The transaction of a request, with an optional transactional id."""

    transactional_id: TransactionalId | None = None


class BeginTransactionResponse(Struct):
    transaction_id: str
    state: TransactionState
    epoch: int
    transaction_timeout_ms: int


class TransactionPublishRequest(OutgoingMessage, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A message, and its transaction."""

    producer_id: ProducerId
    epoch: Epoch
    topic: TopicName
    transactional_id: TransactionalId | None = None
    sequence: (
        Annotated[
            int,
            Meta(
                ge=0,
                lt=SEQUENCE_COUNT,
                description="The sequence of this message in its partition; a retry is not stored twice.",
            ),
        ]
        | None
    ) = None


class TransactionPublishResponse(Struct):
    partition: int
    offset: int
    duplicate: bool
    delayed: bool


class AddPartitionRequest(TransactionRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    topic: TopicName
    partition: PartitionNumber


class AddPartitionResponse(Struct):
    added: bool
    transaction_id: str


class JoinTransactionRequest(TransactionRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    begin: bool = False


class JoinTransactionResponse(Struct):
    member_id: Annotated[int, Meta(description="A producer id; its batches have epoch 0.")]
    transaction_id: str


class CommitTransactionRequest(TransactionRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    members: (
        Annotated[
            list[ProducerId],
            Meta(
                max_length=TRANSACTION_PARTICIPANTS_MAX,
                description="Producers whose messages are committed. Default: all that have joined.",
            ),
        ]
        | None
    ) = None
    note: Annotated[_Note, Meta(description="Kept with the latest transaction.")] = ""


class AbortTransactionRequest(TransactionRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    reason: Annotated[_Note, Meta(description="The reason, for its producer.")] = ""


class EndTransactionResponse(Struct):
    transaction_id: str
    state: TransactionState
    producer_id: Annotated[int, Meta(description="Of the next transaction.")]
    epoch: Annotated[int, Meta(description="Of the next transaction.")]


class TransactionOffsetsRequest(TransactionRefRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    group: GroupName
    offsets: Annotated[
        dict[TopicName, dict[PartitionKey, Offset]],
        Meta(description="By topic and partition, valid if the transaction is committed."),
    ]
    member_id: MemberId | None = None
    generation: Generation | None = None


class TransactionOffsetsResponse(Struct):
    ok: bool
    transaction_id: str


class TransactionAcksRequest(TransactionRefRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Receipt handles, or ranges of leases of a member."""

    receipts: Annotated[list[Handle], Meta(min_length=1, description=f"At most {RECEIPTS_MAX:,}.")] | None = None
    group: GroupName | None = None
    member_id: MemberId | None = None
    acks: Annotated[list[LeaseRanges], Meta(min_length=1)] | None = None


class TransactionAcksResponse(Struct):
    results: Annotated[list[SettleResult], Meta(description="One for each entry, in their order.")]
    transaction_id: str


def _coordinator(call: ApiCall, body: TransactionRequest | TransactionRefRequest) -> TransactionShard:
    """Return the coordinator of a transaction, if the client may write to it."""
    check_transaction(call, body.whose, body.transactional_id)
    return call.runtime.broker.transactions.of_transaction(body.whose, body.transactional_id)


async def begin(call: ApiCall, body: TransactionRequest) -> BeginTransactionResponse:
    coordinator = _coordinator(call, body)
    record = await call.runtime.decide(coordinator.begin(body.whose, body.transactional_id))
    return BeginTransactionResponse(
        str(record.whose), record.state, record.epoch, record.timeout_ns * 1000 // NANOSECONDS
    )


async def publish(call: ApiCall, body: TransactionPublishRequest) -> TransactionPublishResponse:
    """Publish one message."""
    whose = TransactionId(body.producer_id, body.epoch)
    check_transaction(call, whose, body.transactional_id)
    call.access.require("write", "topic", body.topic)
    coordinator = call.runtime.broker.transactions.of_transaction(whose, body.transactional_id)
    coordinator.current(whose, body.transactional_id)
    topic = await publishable_topic(call, body.topic)
    encoder = MessageEncoder(topic, call.runtime.clock.now_ns(), is_transactional=True)
    (content,) = encoder.encode_all([body])
    if topic.validation:
        await _check(call, topic, content, body)
    is_delayed, count = content.due_ns is not None, 0
    while count != len(topic.partitions):  # partitions may be added while this waits
        count = len(topic.partitions)
        partition = content.partition or await _placed(call, topic, content, body)
        log_ref = LogRef(topic.name, partition.number, is_delayed)
        await call.runtime.decide(coordinator.enlist(whose, [log_ref], name=body.transactional_id))
        chosen = transaction_log(call, partition, is_delayed=is_delayed)  # its name may be that of another one now
        await call.runtime.load_producers(chosen)
    placement: Placement = await (
        await call.runtime.transaction_runner.offer(
            whose, chosen, [content.frame], body.sequence, body.transactional_id, is_delayed=is_delayed
        )
    )
    return TransactionPublishResponse(partition.number, placement.first_offset, placement.duplicate, is_delayed)


async def _check(call: ApiCall, topic: Topic, content: EncodedMessage, body: TransactionPublishRequest) -> None:
    """Check a message against its schema, unless it is a retry of one that was stored before the schema changed."""
    try:
        await call.app.payload_checks.check(topic, [content.frame], place="")
    except SchemaViolation:
        if body.sequence is None:
            raise
        partition = content.partition or await _placed(call, topic, content, body)
        chosen = transaction_log(call, partition, is_delayed=content.due_ns is not None)
        mark = ProducerMark(body.producer_id, body.epoch, body.sequence, 1)
        if not await call.app.payload_checks.was_accepted(chosen, mark):
            raise


async def _placed(call: ApiCall, topic: Topic, content: EncodedMessage, body: TransactionPublishRequest) -> Partition:
    """Return the partition of a key; for a retry the one in which it was stored before partitions were added."""
    placed = topic.place(content.key)
    if body.sequence is None or content.due_ns is not None:
        return placed
    mark, number = ProducerMark(body.producer_id, body.epoch, body.sequence, 1), placed.number
    while (split := topic.splits.get(number)) is not None and split.parent != NO_PARENT:
        number = split.parent
        parent = topic.partition(number)
        await call.runtime.load_producers(parent)
        if parent.producers is not None and parent.producers.has_stored(mark):
            return parent
    return placed


async def add_partition(call: ApiCall, body: AddPartitionRequest) -> AddPartitionResponse:
    coordinator, log_ref = _coordinator(call, body), LogRef(body.topic, body.partition)
    call.access.require("write", "topic", body.topic)
    record = await call.runtime.decide(coordinator.enlist(body.whose, [log_ref], name=body.transactional_id))
    return AddPartitionResponse(True, str(record.whose))


async def offsets(call: ApiCall, body: TransactionOffsetsRequest) -> TransactionOffsetsResponse:
    """Add offsets that are committed with the transaction."""
    coordinator = _coordinator(call, body)
    call.access.require("read", "group", body.group)
    for topic in body.offsets:
        call.access.require("read", "topic", topic)
    wanted = offsets_by_ref(body.offsets)
    work = coordinator.enlist(body.whose, (), name=body.transactional_id, groups=[body.group])
    record = await call.runtime.decide(work)
    who = body.member_id, body.generation
    await call.runtime.transaction_runner.keep_offsets(body.whose, body.transactional_id, body.group, who, wanted)
    return TransactionOffsetsResponse(True, str(record.whose))


async def acks(call: ApiCall, body: TransactionAcksRequest) -> TransactionAcksResponse:
    """Add acks that are committed with the transaction."""
    coordinator, runner = _coordinator(call, body), call.runtime.transaction_runner
    named = body.whose, body.transactional_id
    keep: Callable[[], Awaitable[list[SettleCommandReply]]]
    if body.receipts is not None and body.acks is None:
        refuse_too_many(len(body.receipts), "receipts")
        groups = await runner.groups_of_receipts(*named, body.receipts)
        keep = partial(runner.keep_receipts, *named, body.receipts, body.member_id)
    elif body.acks is not None and body.receipts is None and body.group is not None and body.member_id is not None:
        check_ranges({"acks": body.acks})
        groups, statements = [body.group], [statement("ack", one) for one in body.acks]
        keep = partial(runner.keep_acks, *named, body.group, body.member_id, statements)
    else:
        raise invalid("acks", "or receipts: one of them is needed, and with acks also group and member_id")
    check_lease_groups(call, groups, body.receipts or [""])
    work = coordinator.enlist(body.whose, (), name=body.transactional_id, groups=groups)
    record = await call.runtime.decide(work)
    return TransactionAcksResponse([settled("ack", verdict) for verdict in await keep()], str(record.whose))


async def join(call: ApiCall, body: JoinTransactionRequest) -> JoinTransactionResponse:
    coordinator = _coordinator(call, body)
    work = coordinator.join(body.whose, body.transactional_id, begin=body.begin)
    record, member = await call.runtime.decide(work)
    return JoinTransactionResponse(member, str(record.whose))


async def commit(call: ApiCall, body: CommitTransactionRequest) -> EndTransactionResponse:
    return await _end(call, body, is_commit=True, counted=body.members, note=body.note)


async def abort(call: ApiCall, body: AbortTransactionRequest) -> EndTransactionResponse:
    return await _end(call, body, is_commit=False, reason=reason_text(body.reason))


def _check_end(call: ApiCall, body: TransactionRequest, *, is_commit: bool) -> None:
    """Check the right to end a transaction. An operator may abort what it may delete."""
    if is_commit or not call.access.may("delete", "transactional_id", body.transactional_id):
        check_transaction(call, body.whose, body.transactional_id)


async def _end(call: ApiCall, body: TransactionRequest, **how: Any) -> EndTransactionResponse:
    """End a transaction. Return the next epoch; another producer that has taken over has a later one."""
    _check_end(call, body, is_commit=how["is_commit"])
    coordinator = call.runtime.broker.transactions.of(body.transactional_id)
    work = coordinator.end(body.whose, body.transactional_id, **how)
    ended: EndedTransaction = await call.runtime.transaction_runner.in_time(
        call.runtime.decide(work), body.transactional_id
    )
    following = ended.whose.epoch + 1
    if following <= EPOCH_MAX:
        return EndTransactionResponse(str(ended.whose), ended.state, ended.whose.producer, following)
    known = coordinator.register.by_id[body.transactional_id]
    return EndTransactionResponse(str(ended.whose), ended.state, known.producer, known.epoch)
