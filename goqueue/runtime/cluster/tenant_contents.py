"""The contents of a tenant by the nodes that coordinate them: groups, transactional ids, keys and subjects.

A tenant is deleted by the leader of the tenants' log, and each node deletes what it coordinates. As leaders may change
meanwhile, the nodes are asked until all of them have nothing left.
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from goqueue.broker.core.work import Promise, Work
from goqueue.broker.tenants.administration import TenantAdministration
from goqueue.broker.tenants.naming import prefix_of
from goqueue.broker.tenants.removal import TenantContents, contents_of, remove_coordinated
from goqueue.cluster.peer_messages import TenantAnswered, TenantAsked
from goqueue.errors import GoQueueError, LeaderUnavailable
from goqueue.quantities import quoted
from goqueue.runtime.cluster.cluster_log import ClusterLog
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.cluster.followed_logs import SHARED_LEVEL
from goqueue.runtime.cluster.node_requests import NodeRequests
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.runtime import Runtime

_ROUNDS = 20
_ANSWER_SECONDS = 30.0
_PAUSE_SECONDS = 0.2


class AskingMember(Protocol):
    """The part of a node of the cluster that is needed here."""

    settings: ClusterSettings
    log: ClusterLog


class ContentsOfTenants:
    """The questions of one node, and its answers. Created on the loop."""

    def __init__(
        self,
        member: AskingMember,
        runtime: Runtime,
        requests: NodeRequests,
        tasks: OwnedTasks,
        tenants: TenantAdministration,
    ) -> None:
        self._member, self._runtime, self._requests, self._tasks = member, runtime, requests, tasks
        tenants.remove_elsewhere = self.remove_elsewhere
        requests.serve(TenantAsked, TenantAnswered, self._on_asked)

    @property
    def _others(self) -> list[str]:
        state = self._member.log.state
        if state.feature_level < SHARED_LEVEL:
            return []
        return sorted(one for one in state.nodes if one not in state.fenced and one != self._member.settings.node)

    async def ask_others(self, tenant: str, *, removes: bool = False) -> list[TenantAnswered]:
        """Return what the other nodes have. Raises BrokerUnreachable and RequestTimedOut."""
        asked = (
            self._requests.ask_within(_ANSWER_SECONDS, node, lambda number: TenantAsked(number, tenant, removes))
            for node in self._others
        )
        return list(await asyncio.gather(*asked))

    async def whole(self, tenant: str, own: TenantContents) -> TenantContents:
        """Return the contents of a tenant with those that other nodes coordinate."""
        others = await self.ask_others(tenant)
        return TenantContents(
            own.topics,
            own.partitions,
            own.size_bytes,
            sorted({*own.groups, *_all(one.groups for one in others)}),
            own.members + sum(sum(one.groups.values()) for one in others),
            own.keys,
            own.subjects,
            sorted({*own.transactional_ids, *_all(one.transactional_ids for one in others)}),
        )

    def remove_elsewhere(self, tenant: str) -> Work[None]:
        """Have the other nodes delete what they coordinate; ends when nothing is left anywhere."""
        if not self._others:
            return
        removed: Promise[GoQueueError | None] = Promise()
        self._tasks.run(self._remove(tenant, removed))
        yield from removed.kept()

    async def _remove(self, tenant: str, removed: Promise[GoQueueError | None]) -> None:
        try:
            for _ in range(_ROUNDS):
                answers = await self.ask_others(tenant, removes=True)
                await self._runtime.perform(remove_coordinated(self._runtime.broker, tenant))
                own = contents_of(self._runtime.broker, tenant)
                if not (own.keys or own.groups or own.subjects or own.transactional_ids) and not any(
                    one.groups or one.transactional_ids or one.keys or one.subjects or one.problem for one in answers
                ):
                    removed(None)
                    return
                await asyncio.sleep(_PAUSE_SECONDS)
            problem = next((one.problem for one in answers if one.problem), "leaders have changed")
            raise LeaderUnavailable(
                f"not all of tenant {quoted(tenant)} is deleted yet: {problem}", hint="it goes on", retry_after=1
            )
        except GoQueueError as error:
            removed(error)

    async def _on_asked(self, asked: TenantAsked) -> TenantAnswered:
        broker, problem = self._runtime.broker, ""
        if asked.removes:
            try:
                await self._runtime.perform(remove_coordinated(broker, asked.tenant))
            except GoQueueError as error:
                problem = error.sentence
        prefix, found = prefix_of(asked.tenant), contents_of(broker, asked.tenant)
        groups = {one.group: len(one.members) for one in broker.groups.groups() if one.group.startswith(prefix)}
        return TenantAnswered(
            asked.number, groups, tuple(found.transactional_ids), tuple(found.subjects), tuple(found.keys), problem
        )


def _all(names: Iterable[Iterable[str]]) -> set[str]:
    return {one for some in names for one in some}
