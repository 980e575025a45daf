"""State that all nodes of a cluster know: API keys, schemas and tenants, each in a log that every node follows."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from goqueue.api.http.message import RequestHandler
from goqueue.api.led_requests import LedRequests
from goqueue.broker.broker import Broker
from goqueue.broker.core.journal import Journal
from goqueue.broker.core.names import SECURITY
from goqueue.broker.core.partition import Partition
from goqueue.broker.schemas.logs import SCHEMAS
from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.logs import TENANTS
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.broker.tenants.naming import tenant_of
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.followed_logs import FollowedLogs
from goqueue.runtime.cluster.kept_records import Adopter, KeptRecords
from goqueue.runtime.cluster.node_requests import NodeRequests
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.quota_shares import QuotaShares
from goqueue.runtime.cluster.tenant_contents import ContentsOfTenants
from goqueue.runtime.payload_check_runner import PayloadCheckRunner
from goqueue.runtime.runtime import Runtime


class SharedState:
    """The followed logs of one node, and the requests about them. Created on the loop, before the node starts."""

    def __init__(
        self,
        member: ClusterNode,
        runtime: Runtime,
        checks: PayloadCheckRunner,
        tasks: OwnedTasks,
        meters: TenantMeters | None,
        answer: RequestHandler,
    ) -> None:
        """`meters` are those of tenants, if the broker has them; `answer` answers a request here."""
        self._tasks = tasks
        broker = runtime.broker
        journals: dict[str, tuple[Journal[Any], Callable[[], None]]] = {
            SECURITY: (broker.security.journal, broker.security.on_change.emit),
            SCHEMAS: (broker.schemas.journal, _nothing),
        }
        adopters: dict[str, Adopter] = {SCHEMAS: broker.schemas.adopt}
        if broker.tenants is not None:
            journals[TENANTS] = broker.tenants.journal, broker.tenants.on_change.emit
            adopters[TENANTS] = broker.tenants.adopt
        self.logs = FollowedLogs(member, tasks, journals)
        self.requests = NodeRequests(member, runtime.on_failure.emit)
        self.led = LedRequests(self.logs, self.requests, answer)
        self.kept = KeptRecords(
            runtime, self.requests, {topic: (self.logs[topic], adopt) for topic, adopt in adopters.items()}
        )
        runtime.before_anew |= {SECURITY: _drop, **dict.fromkeys(adopters, self.kept.keep)}
        self.contents: ContentsOfTenants | None = None
        if broker.tenants is not None:
            self.contents = ContentsOfTenants(member, runtime, self.requests, tasks, broker.tenants)
        self._shares: QuotaShares | None = None
        if meters is not None:
            meters.share = 1 / max(1, len(member.settings.peers))
            self._shares = QuotaShares(
                member, self.requests, self.logs[TENANTS], meters, runtime.clock, partial(_amounts, broker)
            )
        checks.catch_up = partial(self.led.catch_up, SCHEMAS)
        member.on_state.subscribe(lambda _: self.logs.look())

    def start(self) -> None:
        """Look at the logs, and offer what was kept; the node of the cluster has started."""
        self.logs.look()
        self.kept.start()
        if self._shares is not None:
            self._tasks.run(self._shares.run())

    async def stop(self) -> None:
        self.logs.stop()
        await self.kept.stop()
        await self.requests.stop()


def _amounts(broker: Broker) -> dict[str, Counter[str]]:
    """Count what each tenant has that this node coordinates."""
    return {
        kinds.GROUPS: Counter(tenant_of(one.group) for one in broker.groups.groups()),
        kinds.OPEN_TRANSACTIONS: Counter(tenant_of(one.id) for one in broker.transactions.open_ones()),
    }


def _nothing() -> None:
    """Do nothing: who asks looks at the state."""


def _drop(partition: Partition) -> None:
    """Keep no API keys of a node that joins a cluster."""
