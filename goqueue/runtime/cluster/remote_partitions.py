"""The partitions that other nodes lead and of which this one has no replica: asked and followed for its groups.

A question goes to the leader and is answered with its positions. A leader that is followed tells its positions once,
when they have changed; then this node follows again, as long as the partition is used. So a leader sends one message
for all that it commits within a round trip, and nothing while nothing happens.

After a change of the leader, or an interruption, the positions are asked for anew, and all who wait are woken: what
failed meanwhile is tried again then.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_answers import answer_question
from goqueue.broker.core.remote_partition import PartitionPositions, RemotePartition, positions_of
from goqueue.broker.core.work import Promise, Work
from goqueue.cluster.feature_levels import needed_level
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.peer_messages import AskPartition, FollowPartition, PartitionAnswered, PartitionMoved
from goqueue.cluster.refusals import error_of, refusal_of
from goqueue.errors import GoQueueError, LeaderUnavailable
from goqueue.limits import CLUSTER_ASK_SECONDS, CLUSTER_QUEUED_ANSWER_BYTES, CLUSTER_REMOTE_IDLE_SECONDS
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.runtime import Runtime

_RETRY_SECONDS = 0.25
_PAUSE_SECONDS = 0.005
_LARGE = ("read", "read_uncommitted")


class _Asked(NamedTuple):
    node: str
    partition: RemotePartition
    answer: Promise[Any]
    timer: asyncio.TimerHandle


class RemotePartitions:
    """The questions of this node, and its answers to others. Created on the loop."""

    def __init__(self, member: ClusterNode, runtime: Runtime) -> None:
        self._member, self._runtime = member, runtime
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._asked: dict[int, _Asked] = {}
        self._known: dict[tuple[str, int], RemotePartition] = {}
        self._following: dict[RemotePartition, str] = {}
        """The leaders that tell when there is more."""
        self._by_log: dict[PartitionId, RemotePartition] = {}
        self._unfollowed: dict[RemotePartition, None] = {}
        """Partitions whose leader cannot be reached."""
        self._used: dict[RemotePartition, float] = {}
        """When a partition was used last, in the loop's time."""
        self._followers: dict[tuple[PeerLink, PartitionId], FollowPartition] = {}
        """The last message of each node that waits for a change of a partition here; earlier ones get no answer."""
        self._turns: dict[PeerLink, asyncio.Lock] = {}
        self._retry: asyncio.TimerHandle | None = None
        self._tasks = OwnedTasks("an answer about a partition", runtime.on_failure.emit)
        member.handlers |= {
            AskPartition: self._on_asked,
            PartitionAnswered: self._on_answered,
            FollowPartition: self._on_follow,
            PartitionMoved: self._on_moved,
        }
        member.on_disconnected.subscribe(self._on_disconnected)
        member.on_state.subscribe(self._on_state)
        for _, found in runtime.broker.partitions():
            self._adopt(found)
        runtime.broker.on_partition_opened.subscribe(self._adopt)

    async def stop(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        for number in list(self._asked):
            self._settle(number, LeaderUnavailable("the broker is stopping"))
        await self._tasks.stop()

    def _adopt(self, partition: Partition) -> None:
        """Be the source of a partition without a log here; one that has got a log is read there."""
        key = partition.topic, partition.number
        if (before := self._known.pop(key, None)) is not None:
            self._forget(before)
        if isinstance(partition, RemotePartition):
            partition.source = self
            self._known[key] = partition

    def _forget(self, partition: RemotePartition) -> None:
        for one in (self._following, self._unfollowed, self._used):
            one.pop(partition, None)
        self._by_log = {log: one for log, one in self._by_log.items() if one is not partition}
        partition.wake()

    # --- ask ---

    def ask(self, partition: RemotePartition, question: str, arguments: Sequence[Any]) -> Work[Any]:
        node, link = self._leader(partition)
        if link is None:
            raise _unavailable(partition)
        self._number += 1
        number, answer = self._number, Promise[Any]()
        late = LeaderUnavailable(f"node {node} has not answered about {partition.topic}/{partition.number} in time")
        timer = self._tasks.call_later(CLUSTER_ASK_SECONDS, self._settle, number, late)
        self._asked[number] = _Asked(node, partition, answer, timer)
        link.send(AskPartition(number, self._id(partition), question, tuple(arguments)))
        self.follow(partition)
        return (yield from answer.kept())

    def _leader(self, partition: RemotePartition) -> tuple[str, PeerLink | None]:
        node = "" if partition.leadership is None else partition.leadership.leader
        if self._member.log.state.feature_level < needed_level(AskPartition):
            return node, None
        return node, self._member.network.links.get(node)

    def _id(self, partition: Partition) -> PartitionId:
        return PartitionId(self._runtime.broker.topic(partition.topic).created_ns, partition.number)

    def _settle(self, number: int, result: Any) -> None:
        if (asked := self._asked.pop(number, None)) is not None:
            asked.timer.cancel()
            asked.answer(result)

    def _on_answered(self, _: PeerLink, message: PartitionAnswered) -> None:
        asked = self._asked.get(message.number)
        if asked is None:
            return
        if message.positions is not None:
            self._learn(asked.partition, message.positions)
        self._settle(message.number, message.answer if message.refusal is None else error_of(message.refusal))

    @staticmethod
    def _learn(partition: RemotePartition, told: PartitionPositions) -> None:
        before = partition.positions
        partition.learn(told)
        if _shown(before) != _shown(partition.positions):
            partition.wake()

    # --- follow ---

    def follow(self, partition: RemotePartition) -> None:
        self._used[partition] = self._loop.time()
        if partition not in self._following and partition not in self._unfollowed:
            self._begin(partition, None)

    def _begin(self, partition: RemotePartition, known: PartitionPositions | None) -> None:
        if self._known.get((partition.topic, partition.number)) is not partition:
            self._forget(partition)
            return
        node, link = self._leader(partition)
        if link is None:
            self._unfollowed[partition] = None
            if self._retry is None:
                self._retry = self._tasks.call_later(_RETRY_SECONDS, self._try_again)
            return
        log = self._id(partition)
        self._following[partition], self._by_log[log] = node, partition
        link.send(FollowPartition(log, known))

    def _try_again(self) -> None:
        self._retry, waiting = None, list(self._unfollowed)
        self._unfollowed.clear()
        for partition in waiting:
            self._begin_anew(partition)

    def _begin_anew(self, partition: RemotePartition) -> None:
        self._following.pop(partition, None)
        if partition.topic in self._runtime.broker.topics:
            self._begin(partition, None)
        else:
            self._forget(partition)

    def _on_moved(self, link: PeerLink, message: PartitionMoved) -> None:
        partition = self._by_log.get(message.log)
        if partition is None or self._following.get(partition) != link.node:
            return
        del self._following[partition], self._by_log[message.log]
        partition.learn(message.positions)
        partition.wake()
        if self._loop.time() - self._used.get(partition, 0.0) < CLUSTER_REMOTE_IDLE_SECONDS:
            self._begin(partition, partition.positions)

    def _on_disconnected(self, node: str) -> None:
        self._turns = {link: turn for link, turn in self._turns.items() if link.node != node}
        self._followers = {key: message for key, message in self._followers.items() if key[0].node != node}
        for partition in [partition for partition, leader in self._following.items() if leader == node]:
            self._begin_anew(partition)
        self._fail(lambda asked: asked.node == node)

    def _on_state(self, _: object) -> None:
        for partition, node in list(self._following.items()):
            if partition.leadership is None or partition.leadership.leader != node:
                self._begin_anew(partition)
        self._fail(lambda asked: asked.partition.leadership is None or asked.partition.leadership.leader != asked.node)

    def _fail(self, is_lost: Any) -> None:
        for number in [number for number, asked in self._asked.items() if is_lost(asked)]:
            self._settle(number, _unavailable(self._asked[number].partition))

    # --- answer ---

    def _led(self, log: PartitionId) -> Partition | None:
        """Return a partition that is led here, with all that it inherited committed."""
        replica = self._member.replicas.local.get(log)
        return replica.partition if replica is not None and replica.leadership.knows_end else None

    def _on_asked(self, link: PeerLink, message: AskPartition) -> None:
        self._tasks.run(self._answer(link, message))

    async def _answer(self, link: PeerLink, message: AskPartition) -> None:
        if message.question in _LARGE:  # in turn, so that few wait in memory
            async with self._turns.setdefault(link, asyncio.Lock()):
                while link.waiting_bytes > CLUSTER_QUEUED_ANSWER_BYTES and not link.is_closing:
                    await asyncio.sleep(_PAUSE_SECONDS)
                await self._answer_now(link, message)
        else:
            await self._answer_now(link, message)

    async def _answer_now(self, link: PeerLink, message: AskPartition) -> None:
        partition, answer, refusal = self._led(message.log), None, None
        if partition is None:
            refusal = refusal_of(LeaderUnavailable("this node does not lead the partition", retry_after=1))
            link.send(PartitionAnswered(message.number, None, None, refusal))
            return
        try:
            answer = await self._runtime.perform(answer_question(partition, message.question, message.arguments))
        except GoQueueError as error:
            refusal = refusal_of(error)
        link.send(PartitionAnswered(message.number, positions_of(partition), answer, refusal))

    def _on_follow(self, link: PeerLink, message: FollowPartition) -> None:
        self._followers[link, message.log] = message
        self._look(link, message)

    def _look(self, link: PeerLink, message: FollowPartition) -> None:
        """Tell the positions when they are others; also later, if this node leads the partition then."""
        key = link, message.log
        if self._followers.get(key) is not message:  # the other node has asked again, as after changes of the leader
            return
        replica = self._member.replicas.local.get(message.log)
        if replica is None or link.is_closing:
            del self._followers[key]
            return
        positions = positions_of(replica.partition)
        if replica.leadership.knows_end and (message.known is None or _shown(positions) != _shown(message.known)):
            del self._followers[key]
            link.send(PartitionMoved(message.log, positions))
        else:
            replica.partition.watch(partial(self._look_soon, link, message))

    def _look_soon(self, link: PeerLink, message: FollowPartition) -> None:
        self._tasks.call_soon(self._look, link, message)


def _shown(positions: PartitionPositions) -> tuple[int, int, int, int]:
    """Return what readers wait for."""
    return positions.leader_epoch, positions.earliest, positions.high_watermark, positions.last_stable


def _unavailable(partition: RemotePartition) -> LeaderUnavailable:
    name = f"partition {partition.number} of topic {partition.topic}"
    role = partition.leadership
    leader = f"node {role.leader} leads {name} and" if role is not None and role.leader else f"the leader of {name}"
    return LeaderUnavailable(
        f"{leader} cannot be asked now",
        hint="retry in a moment",
        retry_after=1,
        topic=partition.topic,
        partition=partition.number,
    )
