"""Transactions: what producers do in them."""

from typing import Annotated

import msgspec

from goqueue.api.call import Call
from goqueue.api.groups import TopicName
from goqueue.api.producers import Epoch, ProducerId, TransactionalId
from goqueue.api.publishing import OutgoingMessage, topic_named, understood
from goqueue.broker.partition import Placement
from goqueue.broker.transactions.records import Ended, Registered, Spot, Whose
from goqueue.broker.transactions.refusals import ASKED
from goqueue.broker.transactions.states import State
from goqueue.clock import NANOSECONDS
from goqueue.limits import (
    EPOCH_MAX,
    PARTITIONS_MAX,
    REASON_CHARACTERS_MAX,
    SEQUENCE_COUNT,
    TRANSACTION_PARTICIPANTS_MAX,
)

_Number = Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX - 1)]
_Note = Annotated[str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX)]


class Named(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Which transaction is meant."""

    producer_id: ProducerId
    epoch: Epoch
    transactional_id: TransactionalId

    @property
    def whose(self) -> Whose:
        return Whose(self.producer_id, self.epoch)


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


async def begin(call: Call) -> Begun:
    body: Named = call.body
    coordinator = call.runtime.broker.transactions
    record = await call.runtime.decide(coordinator.begin(body.whose, body.transactional_id))
    return Begun(record.whose.id, record.state, record.epoch, record.timeout_ns * 1000 // NANOSECONDS)


async def publish(call: Call) -> PublishedIn:
    """One message."""
    body: PublishIn = call.body
    whose, coordinator = Whose(body.producer_id, body.epoch), call.runtime.broker.transactions
    coordinator.current(whose, body.transactional_id)
    topic = await topic_named(call, body.topic)
    [content] = understood([body], topic, call.runtime.clock.now_ns(), is_transactional=True)
    partition, is_delayed = content.partition or topic.place(content.key), content.due_ns is not None
    spot = Spot(topic.name, partition.number, is_delayed)
    await call.runtime.decide(coordinator.enlist(whose, [spot], name=body.transactional_id))
    chosen, _ = coordinator.places.find(spot)
    placement: Placement = await (await call.runtime.notary.offer(whose, chosen, [content.frame], body.sequence))
    return PublishedIn(partition.number, placement.first_offset, placement.duplicate, is_delayed)


async def add_partition(call: Call) -> PartitionAdded:
    body: AddPartition = call.body
    spot = Spot(body.topic, body.partition)
    record = await _enlist(call, body, [spot])
    return PartitionAdded(True, record.whose.id)


async def _enlist(call: Call, body: Named, spots: list[Spot]) -> Registered:
    coordinator = call.runtime.broker.transactions
    return await call.runtime.decide(coordinator.enlist(body.whose, spots, name=body.transactional_id))


async def join(call: Call) -> JoinedIn:
    body: Join = call.body
    coordinator = call.runtime.broker.transactions
    work = coordinator.join(body.whose, body.transactional_id, begin=body.begin)
    record, member = await call.runtime.decide(work)
    return JoinedIn(member, record.whose.id)


async def commit(call: Call) -> EndedAnswer:
    body: Commit = call.body
    coordinator = call.runtime.broker.transactions
    work = coordinator.end(body.whose, body.transactional_id, is_commit=True, counted=body.members, note=body.note)
    ended = await call.runtime.notary.in_time(call.runtime.decide(work), body.transactional_id)
    return _ended(call, body, ended)


async def abort(call: Call) -> EndedAnswer:
    body: Abort = call.body
    coordinator = call.runtime.broker.transactions
    reason = body.reason or ASKED
    work = coordinator.end(body.whose, body.transactional_id, is_commit=False, reason=reason)
    ended = await call.runtime.notary.in_time(call.runtime.decide(work), body.transactional_id)
    return _ended(call, body, ended)


def _ended(call: Call, body: Named, ended: Ended) -> EndedAnswer:
    """The next epoch is the one behind this end: somebody who has taken over since has another one."""
    following = ended.whose.epoch + 1
    if following <= EPOCH_MAX:
        return EndedAnswer(ended.whose.id, ended.state, ended.whose.producer, following)
    known = call.runtime.broker.transactions.register.by_id[body.transactional_id]
    return EndedAnswer(ended.whose.id, ended.state, known.producer, known.epoch)
