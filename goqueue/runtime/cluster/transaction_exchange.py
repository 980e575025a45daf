"""Transactions over several nodes: what a coordinator asks of the leaders of partitions and the coordinators of groups,
and what this node does for coordinators on others.

A request names the leader epoch of its log and that of its coordinator. So one that comes late does nothing: its log
has another leader meanwhile, another coordinator was here, or the transaction has ended (`OpenTransactions`, and the
same in groups). The coordinator repeats what was not answered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, TypeVar

from goqueue.broker.core.open_transactions import TransactionEnd, TransactionId
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.partition_ref import LogRef, PartitionRef
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.routing import Routing
from goqueue.broker.core.work import Promise
from goqueue.broker.groups.settle_commands import SettleCommand
from goqueue.broker.groups.settlement import SettleCommandReply
from goqueue.broker.groups.shards import GroupEnd
from goqueue.broker.internal_topics import TRANSACTIONS
from goqueue.broker.transactions.completion import MOVING
from goqueue.broker.transactions.shards import TransactionShard
from goqueue.cluster.participant_messages import (
    AcksCounted,
    AcksKept,
    AskOutcomes,
    AskParticipant,
    BatchStored,
    CoordinatorId,
    CountAcks,
    EndHere,
    EndInGroup,
    FindGroups,
    GroupsFound,
    KeepAcks,
    KeepOffsets,
    KeepReceipts,
    ListTransactions,
    OutcomesTold,
    ParticipantAnswered,
    ParticipantRequest,
    ParticipantResult,
    StoreBatch,
    TransactionsListed,
    Whose,
)
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.refusals import error_of, refusal_of
from goqueue.errors import (
    BrokerUnreachable,
    GoQueueError,
    MessageTooLarge,
    NotCoordinator,
    TopicNotFound,
    TransactionPending,
)
from goqueue.limits import CLUSTER_DATA_BYTES_MAX, CLUSTER_WINDOW_BYTES, MIB
from goqueue.quantities import format_size
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.deferred import Deferred
from goqueue.runtime.runtime import Runtime

_PATIENCE_SECONDS = 1.5
"""For the next leader of a participant. Then the client is asked to repeat its request."""
_PAUSE_SECONDS = 0.02
_BATCH_BYTES_MAX = CLUSTER_DATA_BYTES_MAX - MIB
_LIST_SECONDS = 2.0
"""For another node to list its transactions."""
_LEVEL = 2
"""The feature level of transactions over several nodes."""
T = TypeVar("T")


TransactionLister = Callable[[ListTransactions], Awaitable[bytes]]


class TransactionExchange:
    """The questions of the coordinators on this node, and its answers to others. Created on the loop."""

    def __init__(self, member: ClusterNode, runtime: Runtime, list_transactions: TransactionLister) -> None:
        self._member, self._runtime, self._broker = member, runtime, runtime.broker
        self._list_transactions = list_transactions
        self._numbers = count(1)
        self._waiting: dict[int, tuple[str, Callable[[Any], None]]] = {}
        """Nodes that were asked, and what is called with the answer or an error."""
        self._seen: dict[int, int] = {}
        """The latest leader epoch of each coordinator that has asked this node."""
        self._run = OwnedTasks("a transaction over several nodes", runtime.on_failure.emit).run
        member.handlers |= {
            AskParticipant: self._on_asked,
            ParticipantAnswered: self._on_answered,
            ListTransactions: self._on_list,
            AskOutcomes: self._on_outcomes_asked,
            OutcomesTold: lambda _, answer: self._settle(answer.number, answer),
            TransactionsListed: lambda _, answer: self._settle(answer.number, answer.content),
        }
        member.on_disconnected.subscribe(self._on_disconnected)
        self._broker.transactions.lookup.port.send_ends = self._send_ends
        self._broker.groups.send_end = self._send_group_end
        runtime.transaction_runner.remote = self

    # --- questions ---

    def _ask(self, log: Partition, by: Partition, request: ParticipantRequest, told: Callable[[Any], None]) -> None:
        """Ask the leader of a log on behalf of the coordinator of another one; call `told` with the result or error."""
        role = log.leadership
        assert role is not None, "logs of a cluster have leaders"
        link = self._member.network.links.get(role.leader)
        if link is None:
            told(_unreachable(role.leader))
            return
        number = next(self._numbers)
        self._waiting[number] = role.leader, told
        place = PartitionId(self._broker.topic(log.topic).created_ns, log.number)
        link.send(AskParticipant(number, place, role.leader_epoch, _coordinator_id(by), request))

    def _on_answered(self, _: PeerLink, answer: ParticipantAnswered) -> None:
        self._settle(answer.number, answer.result if answer.refusal is None else error_of(answer.refusal))

    def _settle(self, number: int, result: Any) -> None:
        if (waiting := self._waiting.pop(number, None)) is not None:
            waiting[1](result)

    def _on_disconnected(self, node: str) -> None:
        for number in [number for number, (asked, _) in self._waiting.items() if asked == node]:
            self._settle(number, _unreachable(node))

    async def _at_leader(self, log: Partition, by: Partition, request: ParticipantRequest) -> Any:
        role = log.leadership
        assert role is not None, "logs of a cluster have leaders"
        if isinstance(request, StoreBatch):
            await self._until_room(role.leader)
        if not role.is_elsewhere:
            return await self._do(log, role.leader_epoch, _coordinator_id(by), request)
        answer: Deferred[Any] = Deferred()
        self._ask(log, by, request, answer.resolve)
        return await answer

    async def _until_room(self, node: str) -> None:
        """Wait until a node has taken most of what was sent to it: more than it takes would cost the connection."""
        while (link := self._member.network.links.get(node)) is not None and link.waiting_bytes > CLUSTER_WINDOW_BYTES:
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _settled(self, log: Partition, shard: TransactionShard, request: ParticipantRequest) -> Any:
        """Ask until the leader has answered. The transaction may end meanwhile, which the leader says."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE_SECONDS
        while True:
            shard.journal.refuse_when_closed()
            try:
                return await self._at_leader(log, shard.journal.partition, request)
            except MOVING as error:
                if loop.time() > until:
                    raise TransactionPending(
                        f"partition {log.number} of topic {log.topic} has no leader that answers: {error.sentence}",
                        hint="repeat the request: what was done is not done twice",
                        retry_after=_PAUSE_SECONDS,
                    ) from None
            await asyncio.sleep(_PAUSE_SECONDS)

    # --- for coordinators ---

    def store(self, partition: Partition, shard: TransactionShard, request: StoreBatch) -> Deferred[Placement]:
        if len(request.frames) > _BATCH_BYTES_MAX:
            raise MessageTooLarge(
                f"a batch of {format_size(len(request.frames))} is larger than nodes send to each other in a"
                f" transaction, which is {format_size(_BATCH_BYTES_MAX)}",
                hint="send it in several requests",
            )
        answer: Deferred[Placement] = Deferred()
        self._run(_resolve(answer, self._store(partition, shard, request)))
        return answer

    async def _store(self, partition: Partition, shard: TransactionShard, request: StoreBatch) -> Placement:
        stored: BatchStored = await self._settled(partition, shard, request)
        return Placement(tuple(stored.pieces), stored.time_ns, stored.duplicate)

    async def in_group(self, number: int, shard: TransactionShard, request: ParticipantRequest) -> Any:
        """Have the coordinator of some groups do what a transaction needs."""
        return await self._settled(self._broker.groups.partitions[number], shard, request)

    def _send_ends(
        self, partition: Partition, log: LogRef, ends: Sequence[TransactionEnd], by: Partition
    ) -> Promise[None]:
        ended: Promise[None] = Promise()
        rows = tuple((end.producer, end.epoch, end.is_commit) for end in ends)
        self._ask(partition, by, EndHere(rows, log.is_delayed), ended)
        return ended

    def _send_group_end(self, end: GroupEnd, ended: Promise[None], by: Partition) -> None:
        log = self._broker.groups.partitions[self._broker.groups.number(end.group)]
        self._ask(log, by, EndInGroup(end.whose, end.group, end.is_commit, end.failed), ended)

    # --- lists ---

    async def lists_of_others(self, state: str, limit: int) -> dict[str, bytes | None]:
        """Ask all other nodes; return the answer of each, None where there is none in time."""
        nodes = sorted(self._member.log.state.nodes.keys() - {self._member.settings.node})
        found = await asyncio.gather(*(self._list_of(node, state, limit) for node in nodes))
        return dict(zip(nodes, found, strict=True))

    async def _list_of(self, node: str, state: str, limit: int) -> bytes | None:
        content: bytes | None = await self._answer_of(node, lambda number: ListTransactions(number, state, limit))
        return content

    async def _answer_of(self, node: str, question: Callable[[int], ListTransactions | AskOutcomes]) -> Any:
        """Ask one node; return None if there is no answer in time."""
        link = self._member.network.links.get(node)
        if link is None or self._member.log.state.feature_level < _LEVEL:
            return None
        number, answer = next(self._numbers), Deferred[Any]()
        self._waiting[number] = node, answer.resolve
        link.send(question(number))
        timer = asyncio.get_running_loop().call_later(_LIST_SECONDS, self._settle, number, _unreachable(node))
        try:
            return await answer
        except GoQueueError:
            return None
        finally:
            timer.cancel()

    # --- outcomes ---

    async def outcomes_of(self, whose: tuple[Whose, ...]) -> OutcomesTold | None:
        """Ask all coordinators what became of transactions; None unless each has answered in its latest epoch."""
        me, roles = self._member.settings.node, [one.leadership for one in self._broker.transactions.partitions]
        nodes = {role.leader for role in roles if role is not None} - {me, ""}
        asked = (self._answer_of(node, lambda number: AskOutcomes(number, whose)) for node in sorted(nodes))
        told = [one for one in await asyncio.gather(*asked) if one is not None]
        told.append(self._outcomes_here(0, whose))
        epochs = {one.partition: one.leader_epoch for answer in told for one in answer.coordinators}
        for number in range(len(roles)):
            if epochs.get(number, 0) < max(1, self._latest_epoch(number)):
                return None
        open_ones, committed = ({one for answer in told for one in found(answer)} for found in (_open, _committed))
        return OutcomesTold(0, (), tuple(open_ones), tuple(committed))

    def _outcomes_here(self, number: int, whose: Sequence[Whose]) -> OutcomesTold:
        transactions = self._broker.transactions
        logs = [one.journal.partition for one in transactions]
        led = tuple(_coordinator_id(one) for one in logs if one.leadership is not None and one.leadership.knows_end)
        wanted = [TransactionId(*one) for one in whose]
        open_ones = tuple(one for one in wanted if transactions.is_open(one))
        return OutcomesTold(number, led, open_ones, tuple(one for one in wanted if transactions.was_committed(one)))

    def _on_outcomes_asked(self, link: PeerLink, asked: AskOutcomes) -> None:
        link.send(self._outcomes_here(asked.number, asked.whose))

    def _on_list(self, link: PeerLink, asked: ListTransactions) -> None:
        self._run(self._list(link, asked))

    async def _list(self, link: PeerLink, asked: ListTransactions) -> None:
        with suppress(GoQueueError):  # as if this node were gone
            link.send(TransactionsListed(asked.number, await self._list_transactions(asked)))

    # --- as a participant ---

    def _on_asked(self, link: PeerLink, asked: AskParticipant) -> None:
        self._run(self._answer(link, asked))

    async def _answer(self, link: PeerLink, asked: AskParticipant) -> None:
        try:
            log = self._log(asked.log)
            result = await self._do(log, asked.leader_epoch, asked.coordinator, asked.request)
        except GoQueueError as error:
            link.send(ParticipantAnswered(asked.number, None, refusal_of(error)))
        else:
            link.send(ParticipantAnswered(asked.number, result))

    def _log(self, log: PartitionId) -> Partition:
        for topic in self._broker.topics.values():
            if topic.created_ns == log.topic_id:
                return topic.partition(log.partition)
        raise TopicNotFound(f"node {self._member.settings.node} has no topic with the id {log.topic_id} any more")

    async def _do(
        self, log: Partition, leader_epoch: int, coordinator: CoordinatorId, request: ParticipantRequest
    ) -> ParticipantResult | None:
        """Do what a coordinator asks for, as the leader of this epoch. Raises what it is refused with."""
        refuse = partial(self._refuse_late, log, leader_epoch, coordinator)
        refuse()
        self._seen[coordinator.partition] = max(coordinator.leader_epoch, self._seen.get(coordinator.partition, 0))
        match request:
            case StoreBatch():
                return await self._store_here(log, request, refuse)
            case EndHere():
                ends = [TransactionEnd(*row) for row in request.ends]
                ended = await self._runtime.perform(
                    self._broker.transactions.lookup.port.end_transactions(
                        LogRef(log.topic, log.number, request.is_delayed), ends
                    )
                )
                await self._runtime.perform(ended.kept())
                return None
            case EndInGroup():
                done: Promise[None] = Promise()
                whose = TransactionId(*request.whose)
                self._broker.groups.end_here(GroupEnd(request.group, whose, request.is_commit, request.failed), done)
                await self._runtime.perform(done.kept())
                return None
        return await self._keep(log.number, request)

    def _refuse_late(self, log: Partition, leader_epoch: int, coordinator: CoordinatorId) -> None:
        role = log.leadership
        assert role is not None, "logs of a cluster have leaders"
        if not role.knows_end or role.leader_epoch != leader_epoch:
            raise role.refusal()
        known = self._latest_epoch(coordinator.partition)
        if coordinator.leader_epoch < known:
            raise NotCoordinator(
                f"the coordinator of epoch {coordinator.leader_epoch} was replaced: {TRANSACTIONS}/"
                f"{coordinator.partition} is in epoch {known}",
                hint="ask the coordinator of now",
            )

    def _latest_epoch(self, number: int) -> int:
        """Return the latest leader epoch of a coordinator that this node knows of."""
        role = self._broker.transactions.partitions[number].leadership
        return max(self._seen.get(number, 0), 0 if role is None else role.leader_epoch)

    async def _store_here(self, log: Partition, request: StoreBatch, refuse: Callable[[], None]) -> BatchStored:
        topic, runner = self._broker.topic(log.topic), self._runtime.transaction_runner
        partition = self._broker.log(LogRef(log.topic, log.number, request.is_delayed))
        whose = TransactionId(*request.whose)

        def check(_: ProducerMark) -> None:
            refuse()

        if request.is_marked:
            routing = Routing(topic, request.partitions) if request.partitions else None
            limit = topic.settings.max_message_bytes
            pending = await runner.store(partition, bytearray(request.frames), limit, check, routing)
        else:
            pending = await runner.store_unmarked(partition, bytearray(request.frames), whose, request.sequence, check)
        placement = await pending
        return BatchStored(placement.pieces, placement.time_ns, placement.duplicate)

    async def _keep(self, number: int, request: ParticipantRequest) -> ParticipantResult | None:
        """Do what a transaction asks of groups that are coordinated here."""
        acks = self._broker.groups.at(number).transaction_acks
        assert not isinstance(request, EndHere), "that is for logs"
        whose = TransactionId(*request.whose)
        acks.refuse_over(whose)
        match request:
            case KeepOffsets():
                offsets = {PartitionRef(topic, partition): offset for topic, partition, offset in request.offsets}
                rule = partial(acks.offsets, request.group, request.member, request.generation, offsets, whose)
                await self._runtime.ask(rule)
                return None
            case KeepAcks():
                commands = [SettleCommand("ack", *one[:3], tuple(map(tuple, one[3]))) for one in request.acks]  # type: ignore[arg-type]
                return _kept(
                    await self._runtime.ask(partial(acks.acks, request.group, request.member, commands, whose))
                )
            case KeepReceipts():
                return _kept(await self._runtime.ask(partial(acks.receipts, request.receipts, request.member, whose)))
            case CountAcks():
                return AcksCounted(acks.count(request.group, whose))
            case FindGroups():
                return GroupsFound(tuple(acks.groups_of(request.receipts, whose)))
        raise AssertionError(f"no group does {request}")


def _kept(replies: list[SettleCommandReply]) -> AcksKept:
    return AcksKept(tuple(refusal_of(one) if isinstance(one, GoQueueError) else None for one in replies))


def _open(told: OutcomesTold) -> tuple[Whose, ...]:
    return told.opened


def _committed(told: OutcomesTold) -> tuple[Whose, ...]:
    return told.committed


def _coordinator_id(log: Partition) -> CoordinatorId:
    assert log.leadership is not None, "logs of a cluster have leaders"
    return CoordinatorId(log.number, log.leadership.leader_epoch)


def _unreachable(node: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"node {node} cannot be reached", hint="it is tried again")


async def _resolve(answer: Deferred[T], work: Awaitable[T]) -> None:
    try:
        answer.resolve(await work)
    except GoQueueError as error:
        answer.resolve(error)
