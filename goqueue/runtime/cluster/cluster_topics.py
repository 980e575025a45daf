"""The topics of a cluster on one of its nodes: made here as the controller has decided them, and changed by asking it.

The local catalog and the local logs follow the committed records, one topic after the other. A topic of an earlier
life is deleted only when the cluster knows that it was. What the cluster does not know was here before it: the node
offers it to the controller.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from goqueue.broker.core.catalog import TopicCreated
from goqueue.broker.core.names import SECURITY, is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.splits import NO_PARENT, Split
from goqueue.broker.core.topic import Topic, TopicSpec, log_name
from goqueue.broker.core.work import Callback
from goqueue.broker.internal_topics import CATALOG, FOLLOWED, GROUPS, TRANSACTIONS
from goqueue.broker.losses import UnavailableLog
from goqueue.broker.scaling import ScaledTopic
from goqueue.cluster.controller_requests import (
    AdoptTopics,
    AlterTopic,
    ControllerAnswer,
    ControllerRequest,
    CreateTopic,
    DecideSplits,
    DeleteTopic,
    ScaleTopic,
)
from goqueue.cluster.metadata import ClusterState, as_decided
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.peer_messages import Followed
from goqueue.errors import GoQueueError, TopicBusy
from goqueue.limits import CLUSTER_FOLLOW_SECONDS, OFFSET_MAX
from goqueue.quantities import quoted
from goqueue.runtime.cluster.cluster_log import ClusterLog
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import MessageHandler, PeerLink
from goqueue.runtime.cluster.peer_network import PeerNetwork
from goqueue.runtime.cluster.replicas import Replicas
from goqueue.runtime.deferred import Deferred
from goqueue.runtime.runtime import Runtime

_log = logging.getLogger("goqueue.cluster")

_RETRY_SECONDS = 1.0
_OTHERS_SECONDS = 1.0
T = TypeVar("T")


class FollowingNode(Protocol):
    """The part of a node of the cluster that its topics need."""

    settings: ClusterSettings
    log: ClusterLog
    network: PeerNetwork
    replicas: Replicas
    handlers: dict[type, MessageHandler]

    @property
    def is_registered(self) -> bool: ...

    async def ask(self, request: ControllerRequest) -> ControllerAnswer: ...


class ClusterTopics:
    """Follows the cluster. It decides for the broker from `start` on, if this node can share topics."""

    def __init__(self, member: FollowingNode, runtime: Runtime) -> None:
        self._member = member
        self._runtime = runtime
        self.problems: dict[str, str] = {}
        """Topics that are not here as the cluster has decided, and why."""
        self.on_followed: asyncio.Event = asyncio.Event()
        """Set, and cleared at once, when the topics here have become those of a later version."""
        self.followed_end = 0
        """The version of the cluster that the topics here are of."""
        self._followed_of: dict[str, int] = {}
        """The versions of the topics of other nodes."""
        self._dirty: set[str] = set()
        self._pending: dict[str, int] = {}
        """Pending delayed messages of topics that were deleted of late."""
        self._wake = asyncio.Event()
        self._tasks = OwnedTasks("following the topics of the cluster", runtime.on_failure.emit)
        self._run = self._tasks.run
        self._offered = False
        member.handlers[Followed] = self._on_followed

    # --- start and stop ---

    def start(self) -> None:
        if self._member.settings.feature_level:
            self._runtime.broker.decide_by(self)
            self._run(self._follow_all())

    async def stop(self) -> None:
        await self._tasks.stop()

    @property
    def fence(self) -> GoQueueError | None:
        """Why the catalog of this node takes no records any more: no topic and no producer can begin here."""
        log = self._runtime.store.logs.get(log_name(CATALOG, 0))
        return None if log is None else log.fence

    def verdict(self) -> tuple[tuple[PartitionId, ...], bool]:
        """Return the replicas that have lost something that they had confirmed, and whether the catalog is whole."""
        runtime = self._runtime
        loses_tail = runtime.store.resources.flusher.mode != "always"
        lost: list[PartitionId] = []
        shared = self._member.log.state.topics
        for topic, partition in runtime.broker.partitions():
            delays = runtime.broker.delay_scheduler.delays(partition)
            logs = [partition.log] if delays is None else [partition.log, delays.delayed_log.log]
            recovered = [found for log in logs if (found := runtime.store.recovered.get(log.name)) is not None]
            is_torn = any(not one.was_clean and (one.damages or loses_tail) for one in recovered)
            if is_torn or isinstance(partition.log, UnavailableLog):
                topic_id = topic.created_ns
                if is_internal(topic.name) and topic.name in shared:
                    topic_id = shared[topic.name].created_ns
                lost.append(PartitionId(topic_id, partition.number))
        lost += self._member.replicas.shortened - set(lost)
        return tuple(lost), not runtime.broker.has_lost_topics

    @property
    def has_groups(self) -> bool:
        """Return whether there are groups here from before the cluster had any."""
        partitions = self._runtime.broker.topics[GROUPS].partitions
        return GROUPS not in self._member.log.state.topics and any(one.log_end for one in partitions)

    @property
    def has_keys(self) -> bool:
        """Return whether there are API keys here from before the cluster had any."""
        return SECURITY not in self._member.log.state.topics and bool(self._runtime.broker.security.state.keys)

    @property
    def brings(self) -> tuple[str, ...]:
        """Return the internal topics that have records from before the cluster had them."""
        topics, shared = self._runtime.broker.topics, self._member.log.state.topics
        unshared = [one for one in (*FOLLOWED, TRANSACTIONS) if one in topics and one not in shared]
        return tuple(one for one in unshared if any(partition.log_end for partition in topics[one].partitions))

    def refuse_namesake(self, name: str) -> None:
        """Raise if this node has another topic of this name than the cluster: only others can tell of that one."""
        own, state = self._runtime.broker.maker.records().get(name), self._member.log.state
        decided = state.topics.get(name)
        if own is None or decided is None or own.created_ns in (decided.created_ns, *state.deleted):
            return
        leadership = self._runtime.broker.topic(name).partition(0).leadership
        if leadership is not None and not is_internal(name):
            raise leadership.refusal()

    # --- following ---

    def changed(self) -> None:
        """Records were applied."""
        state = self._member.log.state
        self._dirty |= state.take_changed_topics()
        if state.was_told:
            state.was_told = False
            self._dirty |= self._runtime.broker.maker.records().keys()
        self._wake.set()

    async def _follow_all(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            end, state = self._member.log.applied_end, self._member.log.state
            names, self._dirty = self._dirty, set()
            for name in sorted(names):
                await self._follow(name, state)
            self.followed_end = end
            self._tell_followed()
            if names:
                for link in self._member.network.links.values():
                    link.send(Followed(end))
            if state.feature_level and self._member.is_registered and not self._offered:
                self._offered = True
                self._run(self._offer())

    def _tell_followed(self) -> None:
        self.on_followed.set()
        self.on_followed.clear()

    def _on_followed(self, link: PeerLink, message: Followed) -> None:
        self._followed_of[link.node] = message.version
        self._tell_followed()

    async def _follow(self, name: str, state: ClusterState) -> None:
        try:
            await self._make_same(name, state)
            self.problems.pop(name, None)
        except GoQueueError as error:
            if self.problems.get(name) != error.sentence:
                _log.warning("topic %s is not here as the cluster has it: %s", name, error)
            self.problems[name] = error.sentence
            self._member.replicas.point_to_namesakes()
            self._tasks.call_later(_RETRY_SECONDS, self._again, name)

    def _again(self, name: str) -> None:
        self._dirty.add(name)
        self._wake.set()

    async def _make_same(self, name: str, state: ClusterState) -> None:
        runtime, maker = self._runtime, self._runtime.broker.maker
        known = maker.records().get(name)
        if known is not None and known.created_ns in state.deleted:
            self._pending[name] = await _answered(partial(maker.drop, name))
            await runtime.wait_until_left(name)
        decided = state.topics.get(name)
        if decided is None:
            return
        if is_internal(name):  # each node has its logs
            if name in runtime.broker.topics:
                runtime.broker.topics[name].created_ns = decided.created_ns
            return
        states = {one: state.partitions.get(PartitionId(decided.created_ns, one)) for one in range(decided.partitions)}
        if any(one is None for one in states.values()):
            return  # its replicas follow
        me = self._member.settings.node
        here = tuple(number for number, one in states.items() if one is not None and me in one.replicas)
        await _answered(partial(maker.follow, decided, here))
        self._decide_splits(decided, state)

    def _decide_splits(self, decided: TopicCreated, state: ClusterState) -> None:
        """Tell the controller where the parents of added partitions ended, of those that are led here."""
        topic, me = self._runtime.broker.topics[decided.name], self._member.settings.node
        ends: dict[int, Split] = {}
        for number, split in decided.splits.items():
            parent = state.partitions.get(PartitionId(decided.created_ns, split.parent))
            if split.is_decided:
                continue
            if split.parent == NO_PARENT:
                ends[number] = Split(NO_PARENT, 0)
            elif parent is not None and parent.leader == me:  # it is gone if the topic was deleted meanwhile
                ends[number] = Split(split.parent, topic.partition(split.parent).log_end)
        if ends:
            self._run(self._tell_splits(DecideSplits(decided.created_ns, ends)))

    async def _tell_splits(self, request: DecideSplits) -> None:
        try:
            await self._member.ask(request)
        except GoQueueError as error:
            _log.warning("the split offsets of added partitions are not recorded: %s", error)

    async def _offer(self) -> None:
        """Offer the topics that were here before the cluster."""
        state = self._member.log.state
        ids = {topic.created_ns for topic in state.topics.values()} | state.deleted
        own = self._runtime.broker.maker.records()
        unknown = tuple(
            replace(as_decided(one), replicas_here=one.replicas_here)
            for one in own.values()
            if one.created_ns not in ids
        )
        if unknown:
            _log.info("this node brings topics to the cluster: %s", ", ".join(sorted(one.name for one in unknown)))
        try:
            await self._member.ask(AdoptTopics(self._member.settings.node, unknown))
            for topic in unknown:
                self._again(topic.name)
        except GoQueueError as error:
            _log.warning("the topics of this node are not recorded in the cluster: %s", error)
            self._offered = False
            asyncio.get_running_loop().call_later(_RETRY_SECONDS, self._wake.set)

    def controller_changed(self) -> None:
        """Offer again: the new controller does not know who has offered."""
        self._offered = False
        self._wake.set()

    # --- decisions of clients ---

    def create_topic(self, spec: TopicSpec, told: Callback[Topic]) -> None:
        self._decide(CreateTopic(spec.name, spec.partitions, spec.settings), told, lambda: self._topic(spec.name))

    def alter_topic(self, name: str, changes: dict[str, Any], told: Callback[Topic], expected: str = "") -> None:
        self._decide(AlterTopic(name, changes, expected), told, lambda: self._topic(name))

    def delete_topic(self, name: str, told: Callback[int]) -> None:
        self._decide(DeleteTopic(name), told, lambda: self._pending.pop(name, 0))

    def scale_topic(self, name: str, count: int, told: Callback[ScaledTopic], *, accept_key_moves: bool) -> None:
        topic = self._topic(name)
        before = len(topic.partitions)
        is_empty = all(one.log.fence is None and _is_empty(one) for one in topic.partitions)
        self._decide(
            ScaleTopic(name, count, accept_key_moves, is_empty), told, lambda: ScaledTopic(self._topic(name), before)
        )

    def _topic(self, name: str) -> Topic:
        return self._runtime.broker.topic(name)

    def _decide(self, request: ControllerRequest, told: Callback[T], result: Callable[[], T]) -> None:
        self._run(self._decided(request, told, result))

    async def _decided(self, request: ControllerRequest, told: Callback[T], result: Callable[[], T]) -> None:
        """Ask the controller; answer when the topics here are those of its decision."""
        try:
            answer = await self._member.ask(request)
            await self._wait_for(answer.version, request)
            await self._wait_for_others(answer.version)
            found = result()
        except GoQueueError as error:
            told(error)
            return
        await self._wait_to_lead(getattr(request, "name", ""))
        told(found)

    async def _wait_to_lead(self, name: str) -> None:
        """Wait a moment until this node leads what it is to lead, so that clients can publish there at once."""
        topic, me = self._runtime.broker.topics.get(name), self._member.settings.node
        with suppress(TimeoutError):
            async with asyncio.timeout(_OTHERS_SECONDS):
                for partition in [] if topic is None else topic.partitions:
                    while (role := partition.leadership) is not None and role.leader == me and not role.is_leading:
                        woken = asyncio.Event()
                        partition.watch(woken.set)
                        await woken.wait()

    async def _wait_for_others(self, version: int) -> None:
        """Wait a moment for the other nodes, so that clients find the topic there too."""
        state, links = self._member.log.state, self._member.network.links
        with suppress(TimeoutError):
            async with asyncio.timeout(_OTHERS_SECONDS):
                while any(self._followed_of.get(node, 0) < version for node in links if node not in state.fenced):
                    await self.on_followed.wait()

    async def _wait_for(self, version: int, request: ControllerRequest) -> None:
        name = getattr(request, "name", "")
        try:
            async with asyncio.timeout(CLUSTER_FOLLOW_SECONDS):
                while self.followed_end < version:
                    await self.on_followed.wait()
        except TimeoutError:
            raise TopicBusy(f"topic {quoted(name)} is recorded, and not yet so on this node", topic=name) from None
        if name in self.problems:
            raise TopicBusy(
                f"topic {quoted(name)} is recorded, and not so on this node: {self.problems[name]}", topic=name
            )


def _is_empty(partition: Partition) -> bool:
    """Return whether the log has nothing but the first frames of leaders."""
    log = partition.log
    count = log.next_offset - log.first_offset
    return not count or (log.epochs.is_complete and len(log.epochs.rows_below(log.first_offset, OFFSET_MAX)) == count)


async def _answered(rule: Callable[[Callback[T]], None]) -> T:
    """Call a rule of the broker; wait for its durable answer."""
    answer: Deferred[T] = Deferred()
    rule(answer.resolve)
    return await answer
