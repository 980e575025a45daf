"""Questions between coordinators: to store copies of messages in partitions that another node leads, and for groups."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

from goqueue.broker.core.copies import Copy
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.publish_port import PublishPort
from goqueue.broker.core.work import Promise, Work
from goqueue.cluster.peer_messages import CopiesStored, GroupsListed, ListGroups, StoreCopies
from goqueue.errors import BrokerUnreachable, GoQueueError, LeaderUnavailable, RequestTimedOut, TopicNotFound
from goqueue.quantities import quoted
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.deferred import Deferred
from goqueue.runtime.runtime import Runtime

_LIST_SECONDS = 2.0
"""For another node to list its groups."""

GroupLister = Callable[[ListGroups], Awaitable[bytes]]


class CoordinatorExchange:
    """The questions of this node, and its answers to others. Created on the loop."""

    def __init__(self, member: ClusterNode, runtime: Runtime, port: PublishPort, list_groups: GroupLister) -> None:
        self._member, self._runtime, self._port, self._list_groups = member, runtime, port, list_groups
        self._numbers = count(1)
        self._waiting: dict[int, tuple[str, Callable[[Any], None]]] = {}
        """Nodes that were asked, and what is called with the answer or an error."""
        self._run = OwnedTasks("an answer to another coordinator", runtime.on_failure.emit).run
        member.handlers |= {
            StoreCopies: self._on_copies,
            CopiesStored: lambda _, answer: self._settle(answer.number, _result(answer)),
            ListGroups: self._on_list,
            GroupsListed: lambda _, answer: self._settle(answer.number, answer.content),
        }
        member.on_disconnected.subscribe(self._on_disconnected)
        port.send_copies = self.send_copies

    def _settle(self, number: int, result: Any) -> None:
        if (waiting := self._waiting.pop(number, None)) is not None:
            waiting[1](result)

    def _on_disconnected(self, node: str) -> None:
        for number in [number for number, (asked, _) in self._waiting.items() if asked == node]:
            self._settle(number, _unreachable(node))

    # --- copies ---

    def send_copies(self, node: str, target: PartitionRef, copies: Sequence[Copy]) -> Work[None]:
        """Ask the leader of the target; its copies are committed when this returns."""
        topic, link = self._runtime.broker.topic(target.topic), self._member.network.links.get(node)
        if link is None:
            raise _unreachable(node)
        number, stored = next(self._numbers), Promise[None]()
        self._waiting[number] = node, stored
        link.send(StoreCopies(number, topic.name, topic.created_ns, target.partition, tuple(copies)))
        yield from stored.kept()

    def _on_copies(self, link: PeerLink, asked: StoreCopies) -> None:
        self._run(self._store_copies(link, asked))

    async def _store_copies(self, link: PeerLink, asked: StoreCopies) -> None:
        problem = ""
        try:
            topic = self._runtime.broker.topic(asked.topic)
            if topic.created_ns != asked.topic_id:
                raise TopicNotFound(f"topic {quoted(asked.topic)} was created anew")
            copies = [Copy(*one) for one in asked.copies]
            await self._runtime.perform(self._port.store_here(PartitionRef(topic.name, asked.partition), copies))
        except GoQueueError as error:
            problem = error.sentence
        link.send(CopiesStored(asked.number, problem))

    # --- lists of groups ---

    async def groups_of_others(self, after: str, limit: int, *, has_details: bool) -> dict[str, bytes | None]:
        """Ask all other nodes; return the answer of each, None where there is none in time."""
        nodes = sorted(self._member.log.state.nodes.keys() - {self._member.settings.node})
        found = await asyncio.gather(*(self._groups_of(node, after, limit, has_details=has_details) for node in nodes))
        return dict(zip(nodes, found, strict=True))

    async def _groups_of(self, node: str, after: str, limit: int, *, has_details: bool) -> bytes | None:
        link = self._member.network.links.get(node)
        if link is None:
            return None
        number, answer = next(self._numbers), Deferred[bytes]()
        self._waiting[number] = node, answer.resolve
        link.send(ListGroups(number, after, limit, has_details))
        timer = asyncio.get_running_loop().call_later(
            _LIST_SECONDS, self._settle, number, RequestTimedOut(f"node {node} did not list its groups in time")
        )
        try:
            return await answer
        except GoQueueError:
            return None
        finally:
            timer.cancel()

    def _on_list(self, link: PeerLink, asked: ListGroups) -> None:
        self._run(self._answer_list(link, asked))

    async def _answer_list(self, link: PeerLink, asked: ListGroups) -> None:
        try:
            link.send(GroupsListed(asked.number, await self._list_groups(asked)))
        except GoQueueError:  # as if this node were gone
            return


def _result(answer: CopiesStored) -> GoQueueError | None:
    return LeaderUnavailable(answer.problem, retry_after=1) if answer.problem else None


def _unreachable(node: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"node {node} cannot be reached", hint="it is tried again")
