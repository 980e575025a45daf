"""Questions between nodes for the ends of replicas, and elections of the longest one where a topic allows that.

The controller waits for all replicas of a partition without a leader, or for half a minute. A replica counts only if
its process is the registered one: another one may be about to say that it has everything.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from typing import Protocol

from goqueue.clock import NANOSECONDS
from goqueue.cluster.controller_requests import ElectLeader
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.recovery import AskEnds, EndsTold, ReplicaExtent, find_longest, longest_wanted
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import CLUSTER_LONGEST_SECONDS
from goqueue.runtime.cluster.cluster_log import ClusterLog
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.cluster.controller_runner import ControllerRunner
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import MessageHandler, PeerLink
from goqueue.runtime.cluster.peer_network import PeerNetwork
from goqueue.runtime.cluster.proposals import forget
from goqueue.runtime.cluster.replicas import Replicas

_log = logging.getLogger("goqueue.cluster")

_ANSWER_SECONDS = 3.0
_LEVEL = 2
"""The feature level of these questions."""

Ends = dict[PartitionId, dict[str, ReplicaExtent]]
"""By node."""


class RecoveringNode(Protocol):
    """The part of a node of the cluster that asks for ends."""

    settings: ClusterSettings
    log: ClusterLog
    network: PeerNetwork
    handlers: dict[type, MessageHandler]
    on_disconnected: Signal[[str]]
    replicas: Replicas
    office: ControllerRunner

    def now(self) -> int: ...


class RecoveryExchange:
    """Asks, and answers the questions of others."""

    def __init__(self, member: RecoveringNode, tasks: OwnedTasks) -> None:
        self._member = member
        self._tasks = tasks
        self._numbers = count(1)
        self._waiting: dict[int, tuple[str, asyncio.Future[EndsTold]]] = {}
        self._since_ns: dict[PartitionId, int] = {}
        """Since when partitions have no leader."""
        self._electing: asyncio.Task[None] | None = None
        member.handlers[AskEnds] = self._on_question
        member.handlers[EndsTold] = self._on_answer
        member.on_disconnected.subscribe(self._ended)

    # --- questions ---

    async def ask(self, logs: Iterable[PartitionId]) -> Ends:
        """Return the ends of these replicas at all nodes that answer in time."""
        wanted, me = tuple(logs), self._member.settings.node
        nodes = list(self._member.network.links) if self._member.log.state.feature_level >= _LEVEL else []
        answers = await asyncio.gather(self._own_in_time(wanted), *(self._ask(node, wanted) for node in nodes))
        found: Ends = {log: {} for log in wanted}
        for node, answer in zip((me, *nodes), answers, strict=True):
            for log, end in answer:
                if log in found:
                    found[log][node] = end
        return found

    async def _ask(self, node: str, logs: tuple[PartitionId, ...]) -> Iterable[tuple[PartitionId, ReplicaExtent]]:
        number = next(self._numbers)
        answer: asyncio.Future[EndsTold] = asyncio.get_running_loop().create_future()
        self._waiting[number] = node, answer
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                self._member.network.send(node, AskEnds(number, logs))
                return (await answer).ends
        except TimeoutError:
            return ()
        finally:
            del self._waiting[number]

    def _ended(self, node: str) -> None:
        for asked, answer in self._waiting.values():
            if asked == node and not answer.done():
                answer.set_result(EndsTold(0, ()))

    def _on_answer(self, link: PeerLink, told: EndsTold) -> None:
        asked, answer = self._waiting.get(told.number, ("", None))
        if answer is not None and asked == link.node and not answer.done():
            answer.set_result(told)

    # --- answers ---

    def _on_question(self, link: PeerLink, asked: AskEnds) -> None:
        self._tasks.run(self._answer(link, asked))

    async def _answer(self, link: PeerLink, asked: AskEnds) -> None:
        link.send(EndsTold(asked.number, await self._own_in_time(asked.logs)))

    async def _own_in_time(self, logs: tuple[PartitionId, ...]) -> tuple[tuple[PartitionId, ReplicaExtent], ...]:
        found: dict[PartitionId, ReplicaExtent | None] = {}
        with suppress(TimeoutError):  # a disk stands still: what is known is told
            async with asyncio.timeout(_ANSWER_SECONDS):
                for log in logs:
                    found[log] = await self._member.replicas.end_of(log)
        return tuple((log, end) for log, end in found.items() if end is not None)

    # --- elections of the longest ---

    def look(self) -> None:
        """Look for partitions without a leader that may be led by the longest replica; called while in office."""
        member = self._member
        try:
            controller = member.office.in_office()
        except GoQueueError:
            self._since_ns.clear()
            return
        waiting = longest_wanted(controller.state, member.settings.unclean_election)
        self._since_ns = {log: self._since_ns.get(log, member.now()) for log in waiting}
        is_electing = self._electing is not None and not self._electing.done()
        if waiting and not is_electing and controller.state.feature_level >= _LEVEL:
            self._electing = self._tasks.run(self._elect(tuple(waiting)))

    async def _elect(self, logs: tuple[PartitionId, ...]) -> None:
        member = self._member
        ends = await self.ask(logs)
        for log in logs:
            try:
                controller = member.office.in_office()
                state = controller.state.partitions.get(log)
                if state is None or state.leader or log not in self._since_ns:
                    continue
                usable = {
                    node: end
                    for node, end in ends[log].items()
                    if controller.is_up(node) and end.broker_epoch == controller.state.nodes[node][1]
                }
                waited_ns = member.now() - self._since_ns[log]
                if not usable.keys() >= set(state.replicas) and waited_ns < CLUSTER_LONGEST_SECONDS * NANOSECONDS:
                    continue
                if node := find_longest(state.replicas, usable):
                    _log.warning("node %s leads %s as the longest replica there is: what it lacks is lost", node, log)
                    forget(member.office.append(controller.elect(ElectLeader(log, node, is_unclean=True))))
            except GoQueueError as error:
                _log.info("no replica of %s is elected: %s", log, error)
