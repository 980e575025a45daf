"""Transactions: what producers do in them."""

from collections.abc import Callable
from functools import partial
from typing import Annotated

import msgspec

from goqueue.api.call import Call
from goqueue.api.groups import GroupName, TopicName
from goqueue.api.members import Generation, MemberId
from goqueue.api.offsets import PartitionNumber
from goqueue.api.producers import Epoch, ProducerId, TransactionalId
from goqueue.api.publishing import OutgoingMessage, inbox, topic_named, understood
from goqueue.api.settling import Handle, LeaseRanges, Offset, Settled, check_ranges, refuse_too_many, settled, statement
from goqueue.broker.delivery.settlement import Told, Verdict
from goqueue.broker.partition import Placement
from goqueue.broker.transactions.records import Ended, Spot
from goqueue.broker.transactions.refusals import in_words
from goqueue.broker.transactions.states import State
from goqueue.broker.transactions.whose import Whose
from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid
from goqueue.limits import (
    EPOCH_MAX,
    PARTITIONS_MAX,
    REASON_CHARACTERS_MAX,
    RECEIPTS_MAX,
    SEQUENCE_COUNT,
    TRANSACTION_PARTICIPANTS_MAX,
)

_Number = Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX - 1)]
_Note = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX)]


class _Meant(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    producer_id: ProducerId
    epoch: Epoch

    @property
    def whose(self) -> Whose:
        return Whose(self.producer_id, self.epoch)


class Named(_Meant, forbid_unknown_fields=True, kw_only=True):
    """Which transaction is meant."""

    transactional_id: TransactionalId


class Unnamed(_Meant, forbid_unknown_fields=True, kw_only=True):
    """The same, where the transactional id need not be said."""

    transactional_id: TransactionalId | None = None


class Begun(msgspec.Struct):
    transaction_id: str
    state: State
    epoch: int
    transaction_timeout_ms: int


class PublishIn(OutgoingMessage, forbid_unknown_fields=True, kw_only=True):
    """A message, and the transaction that it belongs to."""

    producer_id: ProducerId
    epoch: Epoch
    topic: TopicName
    transactional_id: TransactionalId | None = None
    sequence: (
        Annotated[
            int,
            msgspec.Meta(
                ge=0, lt=SEQUENCE_COUNT, description="Of this message in its partition; then a retry is known."
            ),
        ]
        | None
    ) = None


class PublishedIn(msgspec.Struct):
    partition: int
    offset: int
    duplicate: bool
    delayed: bool


class AddPartition(Named, forbid_unknown_fields=True, kw_only=True):
    topic: TopicName
    partition: _Number


class PartitionAdded(msgspec.Struct):
    added: bool
    transaction_id: str


class Join(Named, forbid_unknown_fields=True, kw_only=True):
    begin: bool = False


class JoinedIn(msgspec.Struct):
    member_id: Annotated[int, msgspec.Meta(description="A producer id; its batches have epoch 0.")]
    transaction_id: str


class Commit(Named, forbid_unknown_fields=True, kw_only=True):
    members: (
        Annotated[
            list[ProducerId],
            msgspec.Meta(
                max_length=TRANSACTION_PARTICIPANTS_MAX,
                description="Those whose messages count; else of all who have joined.",
            ),
        ]
        | None
    ) = None
    note: Annotated[_Note, msgspec.Meta(description="Is kept, and told with the latest transaction.")] = ""


class Abort(Named, forbid_unknown_fields=True, kw_only=True):
    reason: Annotated[_Note, msgspec.Meta(description="Why; its producer is told.")] = ""


class EndedAnswer(msgspec.Struct):
    transaction_id: str
    state: State
    producer_id: Annotated[int, msgspec.Meta(description="Of the next transaction.")]
    epoch: Annotated[int, msgspec.Meta(description="Of the next transaction.")]


class OffsetsIn(Unnamed, forbid_unknown_fields=True, kw_only=True):
    group: GroupName
    offsets: Annotated[
        dict[TopicName, dict[PartitionNumber, Offset]],
        msgspec.Meta(description="By topic and partition: everything below is done with if it is committed."),
    ]
    member_id: MemberId | None = None
    generation: Generation | None = None


class OffsetsTaken(msgspec.Struct):
    ok: bool
    transaction_id: str


class AcksIn(Unnamed, forbid_unknown_fields=True, kw_only=True):
    """Receipts, or ranges of leases of a member."""

    receipts: Annotated[list[Handle], msgspec.Meta(min_length=1, description=f"At most {RECEIPTS_MAX:,}.")] | None = (
        None
    )
    group: GroupName | None = None
    member_id: MemberId | None = None
    acks: Annotated[list[LeaseRanges], msgspec.Meta(min_length=1)] | None = None


class AcksTaken(msgspec.Struct):
    results: Annotated[list[Settled], msgspec.Meta(description="One for each entry, in their order.")]
    transaction_id: str


async def begin(call: Call) -> Begun:
    body: Named = call.body
    coordinator = call.runtime.broker.transactions
    record = await call.runtime.decide(coordinator.begin(body.whose, body.transactional_id))
    return Begun(str(record.whose), record.state, record.epoch, record.timeout_ns * 1000 // NANOSECONDS)


async def publish(call: Call) -> PublishedIn:
    """One message."""
    body: PublishIn = call.body
    whose, coordinator = Whose(body.producer_id, body.epoch), call.runtime.broker.transactions
    coordinator.current(whose, body.transactional_id)
    topic = await topic_named(call, body.topic)
    content = understood(body, topic, call.runtime.clock.now_ns())
    partition, is_delayed = content.partition or topic.place(content.key), content.due_ns is not None
    spot = Spot(topic.name, partition.number, is_delayed)
    await call.runtime.decide(coordinator.enlist(whose, [spot], name=body.transactional_id))
    chosen = inbox(call, partition) if is_delayed else partition  # by now its name may be that of another one
    placement: Placement = await (await call.runtime.notary.offer(whose, chosen, [content.frame], body.sequence))
    return PublishedIn(partition.number, placement.first_offset, placement.duplicate, is_delayed)


async def add_partition(call: Call) -> PartitionAdded:
    body: AddPartition = call.body
    coordinator, spot = call.runtime.broker.transactions, Spot(body.topic, body.partition)
    record = await call.runtime.decide(coordinator.enlist(body.whose, [spot], name=body.transactional_id))
    return PartitionAdded(True, str(record.whose))


async def offsets(call: Call) -> OffsetsTaken:
    """Committed with the transaction."""
    body: OffsetsIn = call.body
    coordinator, pledges = call.runtime.broker.transactions, call.runtime.broker.coordinator.pledges
    wanted = {
        (topic, int(number)): offset for topic, numbers in body.offsets.items() for number, offset in numbers.items()
    }
    work = coordinator.enlist(body.whose, (), name=body.transactional_id, groups=[body.group])
    record = await call.runtime.decide(work)
    pledge = partial(pledges.offsets, body.group, body.member_id, body.generation, wanted, body.whose)
    await call.runtime.ask(pledge)
    return OffsetsTaken(True, str(record.whose))


async def acks(call: Call) -> AcksTaken:
    """Acknowledged with the transaction."""
    body: AcksIn = call.body
    coordinator, pledges = call.runtime.broker.transactions, call.runtime.broker.coordinator.pledges
    pledge: Callable[[Told], None]
    if body.receipts is not None and body.acks is None:
        refuse_too_many(len(body.receipts), "receipts")
        groups = pledges.groups_of(body.receipts, body.whose)
        pledge = partial(pledges.receipts, body.receipts, body.member_id, body.whose)
    elif body.acks is not None and body.receipts is None and body.group is not None and body.member_id is not None:
        check_ranges({"acks": body.acks})
        groups, statements = [body.group], [statement("ack", one) for one in body.acks]
        pledge = partial(pledges.acks, body.group, body.member_id, statements, body.whose)
    else:
        problem = {"place": "acks", "problem": "or receipts: one of them is needed, and with acks group and member_id"}
        raise RequestInvalid(f"acks {problem['problem']}", problems=[problem])
    work = coordinator.enlist(body.whose, (), name=body.transactional_id, groups=groups)
    record = await call.runtime.decide(work)
    verdicts: list[Verdict] = await call.runtime.ask(pledge)
    return AcksTaken([settled("ack", verdict) for verdict in verdicts], str(record.whose))


async def join(call: Call) -> JoinedIn:
    body: Join = call.body
    coordinator = call.runtime.broker.transactions
    work = coordinator.join(body.whose, body.transactional_id, begin=body.begin)
    record, member = await call.runtime.decide(work)
    return JoinedIn(member, str(record.whose))


async def commit(call: Call) -> EndedAnswer:
    body: Commit = call.body
    coordinator = call.runtime.broker.transactions
    work = coordinator.end(body.whose, body.transactional_id, is_commit=True, counted=body.members, note=body.note)
    ended = await call.runtime.notary.in_time(call.runtime.decide(work), body.transactional_id)
    return _ended(call, body, ended)


async def abort(call: Call) -> EndedAnswer:
    body: Abort = call.body
    coordinator = call.runtime.broker.transactions
    work = coordinator.end(body.whose, body.transactional_id, is_commit=False, reason=in_words(body.reason))
    ended = await call.runtime.notary.in_time(call.runtime.decide(work), body.transactional_id)
    return _ended(call, body, ended)


def _ended(call: Call, body: Named, ended: Ended) -> EndedAnswer:
    """The next epoch is the one behind this end: somebody who has taken over since has another one."""
    following = ended.whose.epoch + 1
    if following <= EPOCH_MAX:
        return EndedAnswer(str(ended.whose), ended.state, ended.whose.producer, following)
    known = call.runtime.broker.transactions.register.by_id[body.transactional_id]
    return EndedAnswer(str(ended.whose), ended.state, known.producer, known.epoch)
