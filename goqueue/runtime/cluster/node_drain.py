"""The node's own part in being drained: it finishes publishes before others lead, so that none fails.

The controller moves the leaders when this node asks for it, or after a while if it does not.
"""

import asyncio
from contextlib import suppress

from goqueue.cluster.controller_requests import DrainNode
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.local_replica import LocalReplica
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.runtime import Runtime

_FINISH_SECONDS = 0.5
_PAUSE_SECONDS = 0.002


class NodeDrain:
    """Watches whether this node is to be drained. Created on the loop."""

    def __init__(self, member: ClusterNode, runtime: Runtime, tasks: OwnedTasks) -> None:
        self._member, self._runtime, self._tasks = member, runtime, tasks
        self._was_draining = False
        member.on_state.subscribe(lambda _: self._look())

    def _look(self) -> None:
        is_draining = self._member.settings.node in self._member.log.state.draining
        if is_draining and not self._was_draining and self._member.is_registered:
            self._tasks.run(self._give_leaders_away())
        self._was_draining = is_draining

    async def _give_leaders_away(self) -> None:
        me, state = self._member.settings.node, self._member.log.state
        leaving = [one for one in self._member.replicas.local.values() if one.leader and len(one.leader.state.isr) > 1]
        for replica in leaving:
            replica.leadership.hand_over()
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                while self._runtime.in_flight_bytes:
                    await asyncio.sleep(_PAUSE_SECONDS)
        with suppress(GoQueueError):
            if me in state.draining:
                await self._member.ask(DrainNode(me, True))
        for replica in leaving:
            self._take_back(replica)

    @staticmethod
    def _take_back(replica: LocalReplica) -> None:
        """Lead on, if no other replica leads in its place, or the same one leads again."""
        role = replica.leadership
        role.is_handing_over = False
        if replica.leader is not None:
            role.is_leading = True
            replica.partition.wake()
