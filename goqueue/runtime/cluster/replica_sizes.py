"""The sizes of partitions and of what their replicas lack, as their leaders know them: asked of all nodes."""

import asyncio
from collections.abc import Iterable
from itertools import count

from goqueue.cluster.feature_levels import needed_level
from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.peer_messages import AskReplicaSizes, ReplicaSizes, ReplicaSizesTold
from goqueue.runtime.cluster.catch_up import bytes_from
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.peer_link import PeerLink

_ANSWER_SECONDS = 2.0


class ReplicaSizeExchange:
    """The questions of this node, and its answers to others. Created on the loop."""

    def __init__(self, member: ClusterNode) -> None:
        self._member = member
        self._numbers = count(1)
        self._waiting: dict[int, tuple[str, asyncio.Future[tuple[ReplicaSizes, ...]]]] = {}
        member.handlers |= {AskReplicaSizes: self._on_question, ReplicaSizesTold: self._on_answer}
        member.on_disconnected.subscribe(self._on_disconnected)

    async def sizes(self, logs: Iterable[PartitionId]) -> dict[PartitionId, ReplicaSizes]:
        """Return what the leaders of these partitions know; those that do not answer in time are left out."""
        wanted, partitions = list(logs), self._member.log.state.partitions
        by_leader: dict[str, list[PartitionId]] = {}
        for log in wanted:
            if (state := partitions.get(log)) is not None and state.leader:
                by_leader.setdefault(state.leader, []).append(log)
        found = await asyncio.gather(*(self._ask(node, tuple(asked)) for node, asked in by_leader.items()))
        return {row.log: row for rows in found for row in rows}

    async def _ask(self, node: str, logs: tuple[PartitionId, ...]) -> tuple[ReplicaSizes, ...]:
        if node == self._member.settings.node:
            return self._sizes_here(logs)
        link = self._member.network.links.get(node)
        if link is None or self._member.log.state.feature_level < needed_level(AskReplicaSizes):
            return ()
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting[number] = node, answer
        link.send(AskReplicaSizes(number, logs))
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return tuple(await answer)
        except TimeoutError:
            return ()
        finally:
            del self._waiting[number]

    def _on_question(self, link: PeerLink, asked: AskReplicaSizes) -> None:
        link.send(ReplicaSizesTold(asked.number, self._sizes_here(asked.logs)))

    def _on_answer(self, _: PeerLink, told: ReplicaSizesTold) -> None:
        if told.number in self._waiting:
            self._settle(told.number, told.sizes)

    def _on_disconnected(self, node: str) -> None:
        for number in [number for number, (asked, _) in self._waiting.items() if asked == node]:
            self._settle(number, ())

    def _settle(self, number: int, sizes: tuple[ReplicaSizes, ...]) -> None:
        answer = self._waiting[number][1]
        if not answer.done():
            answer.set_result(sizes)

    def _sizes_here(self, logs: Iterable[PartitionId]) -> tuple[ReplicaSizes, ...]:
        return tuple(size for log in logs if (size := sizes_of(self._member, log)) is not None)


def sizes_of(member: ClusterNode, log: PartitionId) -> ReplicaSizes | None:
    """Return the sizes of a partition, if this node leads it."""
    replica = member.replicas.local.get(log)
    leader = None if replica is None else replica.leader
    if replica is None or leader is None:
        return None
    content, transfers, now = replica.partition.log, member.replicas.catch_up.transfers, member.now()
    left: dict[str, tuple[int, int]] = {}
    for node in leader.state.adding:
        follower, transfer = leader.followers.get(node), transfers.get((log, node))
        lacks = bytes_from(content, max(0, -1 if follower is None else follower.match))
        left[node] = lacks, 0 if transfer is None else transfer.rate_at(now)
    return ReplicaSizes(log, content.size, left)
