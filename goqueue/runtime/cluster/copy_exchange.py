"""Has other nodes store copies of messages in the partitions that they lead, and stores those of others."""

import asyncio
from collections.abc import Sequence
from itertools import count

from goqueue.broker.core.copies import Copy
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.publish_port import PublishPort
from goqueue.broker.core.work import Promise, Work
from goqueue.cluster.peer_messages import CopiesStored, StoreCopies
from goqueue.errors import BrokerUnreachable, GoQueueError, LeaderUnavailable, TopicNotFound
from goqueue.quantities import quoted
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.runtime import Runtime


class CopyExchange:
    """The questions of this node, and its answers to others. Created on the loop."""

    def __init__(self, member: ClusterNode, runtime: Runtime, port: PublishPort) -> None:
        self._member, self._runtime, self._port = member, runtime, port
        self._numbers = count(1)
        self._waiting: dict[int, tuple[str, Promise[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        member.handlers[StoreCopies] = self._on_question
        member.handlers[CopiesStored] = self._on_answer
        member.on_disconnected.subscribe(self._on_disconnected)
        port.send_copies = self.send

    def send(self, node: str, target: PartitionRef, copies: Sequence[Copy]) -> Work[None]:
        """Ask the leader; its copies are committed when this returns."""
        topic, link = self._runtime.broker.topic(target.topic), self._member.network.links.get(node)
        if link is None:
            raise _unreachable(node)
        number, stored = next(self._numbers), Promise[None]()
        self._waiting[number] = node, stored
        link.send(StoreCopies(number, topic.name, topic.created_ns, target.partition, tuple(copies)))
        yield from stored.kept()

    def _on_answer(self, _: PeerLink, answer: CopiesStored) -> None:
        if (waiting := self._waiting.pop(answer.number, None)) is not None:
            waiting[1](LeaderUnavailable(answer.problem, retry_after=1) if answer.problem else None)

    def _on_disconnected(self, node: str) -> None:
        for number in [number for number, (asked, _) in self._waiting.items() if asked == node]:
            self._waiting.pop(number)[1](_unreachable(node))

    def _on_question(self, link: PeerLink, asked: StoreCopies) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(link, asked))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, link: PeerLink, asked: StoreCopies) -> None:
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


def _unreachable(node: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"node {node}, which leads the target, cannot be reached", hint="it is tried again")
