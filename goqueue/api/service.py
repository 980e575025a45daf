"""One broker with everything that answers requests, without a server: started and stopped on a running event loop."""

import asyncio
import logging
import os
import socket
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

import msgspec

from goqueue import __version__
from goqueue.api.endpoint import ApiCall, ApiContext, MemberDefaults
from goqueue.api.gate import AccessGate, RequestGate
from goqueue.api.groups import GroupListQuery, list_coordinated
from goqueue.api.http.certificates import CertificateStore
from goqueue.api.http.message import HttpRequest
from goqueue.api.http.origin_guard import OriginGuard
from goqueue.api.http.server import Server
from goqueue.api.http.server_state import HttpLimits
from goqueue.api.openapi import openapi_document
from goqueue.api.pipeline import HttpObserver, RequestPipeline
from goqueue.api.shared_state import SharedState
from goqueue.api.table import ENDPOINTS
from goqueue.api.tenant_access import TenantGate, TenantKeyGate
from goqueue.api.tenant_pipeline import TenantPipeline
from goqueue.api.tenant_rows import in_worlds
from goqueue.api.tenant_shares import TenantShares
from goqueue.api.transaction_list import transactions_here
from goqueue.backup.opening import open_target
from goqueue.backup.retention import BackupRetention
from goqueue.backup.target import BackupTarget
from goqueue.broker.core.leadership import Leadership
from goqueue.broker.groups.coordinator import GroupSettings
from goqueue.broker.groups.retries import DeliveryPolicy
from goqueue.broker.internal_topics import FOLLOWED
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.clock import NANOSECONDS, Clock
from goqueue.cluster.feature_levels import FEATURE_LEVEL
from goqueue.cluster.participant_messages import ListTransactions
from goqueue.cluster.peer_messages import ListGroups
from goqueue.config import Config
from goqueue.config.value_types import list_items
from goqueue.limits import RPC_CONNECTIONS, SECURITY_TICK_SECONDS, TLS_HANDSHAKES
from goqueue.observe.alerts import AlertSettings
from goqueue.observe.logs import REQUESTS, AccessLog
from goqueue.observe.metrics import Metrics
from goqueue.observe.process_metrics import open_files_max
from goqueue.runtime.access_runner import AccessRunner, create_bootstrap_key
from goqueue.runtime.alert_runner import AlertRunner
from goqueue.runtime.audit_runner import AuditFile
from goqueue.runtime.backup_runner import BackupRunner
from goqueue.runtime.backup_schedule import BackupSchedule
from goqueue.runtime.cluster.cluster_facts import cluster_metrics
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.cluster_settings import cluster_settings
from goqueue.runtime.cluster.coordinator_exchange import CoordinatorExchange
from goqueue.runtime.cluster.hanging_transactions import HangingTransactions
from goqueue.runtime.cluster.leader_shards import LeaderShards
from goqueue.runtime.cluster.node_drain import NodeDrain
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.remote_partitions import RemotePartitions
from goqueue.runtime.cluster.replica_sizes import ReplicaSizeExchange
from goqueue.runtime.cluster.transaction_exchange import TransactionExchange
from goqueue.runtime.event_loop import LoopLatencyMeter
from goqueue.runtime.fair_turn import FairTurn
from goqueue.runtime.history_sampler import HistorySampler
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.runtime_settings import RuntimeSettings
from goqueue.runtime.tenant_runner import TenantRunner
from goqueue.runtime.usage_runner import UsageRunner
from goqueue.runtime.webhook import Webhook
from goqueue.storage.disk import Disk
from goqueue.storage.log import LogSettings
from goqueue.storage.store import StoreSettings, process_name
from goqueue.wire.headers import METADATA

if TYPE_CHECKING:
    from goqueue.runtime.metrics_export import MetricsExport
    from goqueue.runtime.trace_export import TraceExport
from goqueue.runtime.tracer import TracingSettings

REGISTRY_CONNECTIONS = 256
"""Of the schema registry's own port. Its clients cache schemas, and ask rarely."""


class BrokerService:
    """The broker of one data directory, and the pipeline of its requests."""

    def __init__(self, config: Config, disk: Disk, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._started_ns = clock.now_ns()
        self.metrics = Metrics(__version__, log_sizes=self._log_sizes)
        self.runtime = Runtime(disk, clock, self.metrics, runtime_settings(config))
        self._sampler = HistorySampler(self.runtime, self.metrics)
        self._lag = LoopLatencyMeter(self.metrics.observe_loop_lag)
        registry_connections = 0 if config.schemas.registry_port == "none" else REGISTRY_CONNECTIONS
        further_connections = registry_connections + (0 if config.grpc.port == "none" else RPC_CONNECTIONS)
        files_max = open_files_max()
        limits = _limits(config).within(None if files_max is None else files_max - further_connections)
        self.connections_max = limits.connections
        """Below the setting if the limit of open files is lower."""
        self.metrics.connections_limit = self.connections_max
        self.context = self._context()
        self.guard = _guard(config)
        self.endpoints = in_worlds(ENDPOINTS) if config.tenants.enabled else ENDPOINTS
        new_pipeline = TenantPipeline if config.tenants.enabled else RequestPipeline
        self.pipeline = new_pipeline(self.endpoints, self.context, self.guard)
        requests = config.log.requests
        access = AccessLog(logging.getLogger(REQUESTS), per_second=requests, clock=clock) if requests else None
        observer = self._observer = HttpObserver(self.metrics, access)
        self.server = Server(self.pipeline, limits=limits, observer=observer, clock=clock)
        self.server.has_tenants = config.tenants.enabled
        """Listens if it is started; has the limits and totals of clients also where another server listens."""
        self.registry_server: Server | None = None
        """Answers only the paths of the schema registry, if it has a port of its own."""
        if registry_connections:
            pipeline = new_pipeline([row for row in self.endpoints if row.tag == "schemas"], self.context, self.guard)
            own = replace(limits, connections=registry_connections)
            self.registry_server = Server(pipeline, limits=own, observer=observer, clock=clock)
            self.registry_server.has_tenants = config.tenants.enabled
        self.context.check_answers = self.server.check_answers
        self.context.alerts = self._alerts = AlertRunner(
            self.runtime, self.context.gatherer, alert_settings(config), _webhook(config), config.alerts.interval
        )
        self.context.backups = self._backups = BackupRunner(
            self.runtime, backup_target(config, disk), config.backup.rate, backup_retention(config)
        )
        self.context.backup_schedule = BackupSchedule(self._backups, clock, config.backup.interval)
        self.metrics.cluster = lambda: cluster_metrics(self.context.cluster)
        self.metrics.backups = partial(_backup_metrics, self._backups)
        self._access_runner: AccessRunner | None = None
        self._tenant_runner: TenantRunner | None = None
        self._audit_file: AuditFile | None = None
        self._tasks = OwnedTasks("a part of the node in the cluster", self.runtime.on_failure.emit)
        self._remotes: RemotePartitions | None = None
        self._shared: SharedState | None = None
        self._coordinators: list[LeaderShards] = []
        self._trace_export: TraceExport | None = None
        self._metrics_export: MetricsExport | None = None

    def use(self, certificates: CertificateStore) -> None:
        """Take the certificate of the listener: its names are host names of the broker, and operators see its state."""
        self.context.certificates = certificates
        self.metrics.tls_expiry_seconds = lambda: certificates.current.expires_ns / NANOSECONDS
        certificates.on_load(lambda loaded: self.guard.allow(loaded.names))

    def start(self) -> None:
        """Recover the data directory."""
        if self._backups.target is not None:
            self._backups.target.refuse_unusable()
        owner = process_name("goqueue serve", os.getpid())
        self.runtime.start(os.path.abspath(self.config.data_dir), owner, store_settings(self.config))
        self.server.on_stop = self.runtime.refuse_new_work
        self.context.is_joining = self.runtime.broker.groups.settings.is_replicated
        if self.context.gate is not None:
            self._open_gate(self.context.gate)
        if self.runtime.broker.tenants is not None:
            self._tenant_runner = TenantRunner(self.runtime)
            broker, defaults = self.runtime.broker, self.config.quotas.limits()
            self.context.usage = UsageRunner(self.runtime, broker.usage_log, defaults)
            self.context.scraper.usage = self.context.gatherer.usage = self.context.usage
            self.context.meters = self._observer.meters = self.context.usage.meters
            self._share_among_tenants(self.context.usage.meters)
        self._lag.start()
        self._sampler.start()
        if self.config.tracing.export != "none":
            self._export_traces()
        if self.config.metrics.export != "none":
            self._export_metrics()
        self._alerts.start(_source(self.config))
        self._backups.start()
        self.context.backup_schedule.start()

    async def start_cluster(self, client_address: str) -> None:
        """Join the cluster, if there is one in the configuration. The address is that of the listener for clients."""
        if self.config.cluster.peers != "none":
            member = ClusterNode(self.runtime, cluster_settings(self.config.cluster, client_address))
            broker = self.runtime.broker
            topics, groups, transactions = broker.topics, broker.groups, broker.transactions
            if groups.settings.is_replicated:  # nothing is recorded before the cluster says who leads
                followed = [partition for name in FOLLOWED for partition in topics[name].partitions]
                for log in (*followed, *groups.partitions, *transactions.partitions):
                    log.leadership = Leadership(log.topic, log.number, member.settings.node)
                checks, meters = self.context.payload_checks, self.context.meters
                self._shared = SharedState(member, self.runtime, checks, self._tasks, meters, self.pipeline)
            self.context.replica_sizes = ReplicaSizeExchange(member)
            NodeDrain(member, self.runtime, self._tasks)
            await member.start()
            self.context.cluster = member
            if self._shared is not None:
                self._shared.start()
                self.context.led, self.context.kept = self._shared.led, self._shared.kept
                self.context.contents, self.context.is_joining = self._shared.contents, False
                self.context.coordinators = CoordinatorExchange(member, self.runtime, groups.port, self._list_groups)
                self._remotes = RemotePartitions(member, self.runtime)
                self.context.transactions = TransactionExchange(member, self.runtime, self._list_transactions)
                HangingTransactions(self.runtime, self.context.transactions, self._tasks)
                self._coordinators = [LeaderShards(shards, self._tasks) for shards in (groups, transactions)]
                for one in self._coordinators:
                    member.on_state.subscribe(partial(_look, one))
            self._tasks.run(self._tell_version(member))

    async def _list_groups(self, asked: ListGroups) -> bytes:
        """Return the groups that are coordinated here, for another node."""
        request = HttpRequest("GET", "/groups", "", {}, bytearray(), "", "", 0)
        query = GroupListQuery(asked.has_details, asked.limit or None, asked.after)
        return msgspec.json.encode(await list_coordinated(ApiCall(self.context, request, {}), query))

    async def _list_transactions(self, asked: ListTransactions) -> bytes:
        """Return the transactions that are coordinated here, or their statistics, for another node."""
        request = HttpRequest("GET", "/transactions", "", {}, bytearray(), "", "", 0)
        return msgspec.json.encode(await transactions_here(ApiCall(self.context, request, {}), asked))

    async def _tell_version(self, member: ClusterNode) -> None:
        """Let all answers say the version of what this node knows of the cluster."""
        while True:
            self.server.say_always(METADATA, str(member.log.applied_end))
            await member.changed.wait()

    def _share_among_tenants(self, meters: TenantMeters) -> None:
        gate, turn = self.context.gate, self.runtime.turn
        assert gate is not None, "a broker with tenants has a gate"
        assert isinstance(turn, FairTurn), "a broker with tenants shares its turns"
        for server in (self.server, self.registry_server):
            if server is not None:
                server.share_of = TenantShares(gate, meters, turn)

    async def stop(self) -> None:
        """Write everything. No request may be in progress any more."""
        self._lag.stop()
        await self._tasks.stop()
        if self._remotes is not None:
            await self._remotes.stop()
        for coordinators in self._coordinators:
            coordinators.stop()
        if self.context.cluster is not None:
            await self.context.cluster.stop()
            await self._stop_shared()
        await self._alerts.stop()
        await self.context.backup_schedule.stop()
        await self._backups.stop()
        await self._sampler.stop()
        exports = (self._trace_export, self._metrics_export)
        await asyncio.gather(*(export.stop() for export in exports if export is not None))
        if self._access_runner is not None:
            self._access_runner.stop()
        if self._tenant_runner is not None:
            await self._tenant_runner.stop()
        if self.context.usage is not None:
            await self.context.usage.stop()
        await self.runtime.stop()
        if self._audit_file is not None:
            self._audit_file.close()

    async def _stop_shared(self) -> None:
        if self._shared is not None:
            await self._shared.stop()

    def _open_gate(self, gate: RequestGate) -> None:
        broker, path = self.runtime.broker, self.config.security.audit_file
        if isinstance(gate, TenantGate | TenantKeyGate) and broker.tenants is not None:
            gate.open_tenants(broker.tenants)
        if not isinstance(gate, AccessGate):
            return
        gate.open(broker.security, broker.audit, has_tenants=broker.tenants is not None)
        if path != "none":
            self._audit_file = AuditFile(os.path.abspath(path), broker.audit)
        self._access_runner = AccessRunner(gate.tick, SECURITY_TICK_SECONDS)

    def _export_traces(self) -> None:
        from goqueue.runtime.trace_export import TraceExport  # noqa: PLC0415 - other brokers start sooner without it

        self._trace_export = TraceExport(self.runtime, self.config.tracing, _source(self.config))
        self.metrics.span_exports = self._trace_export.counts

    def _export_metrics(self) -> None:
        from goqueue.runtime.metrics_export import MetricsExport  # noqa: PLC0415 - as above

        self._metrics_export = MetricsExport(
            self.context.scraper, self.config.metrics, _source(self.config), self._clock.now_ns, self._started_ns
        )
        self.metrics.metric_exports = self._metrics_export.counts

    @property
    def lacks_admin_key(self) -> bool:
        security = self.runtime.broker.security
        if not self.context.authenticates or security.has_admin or security.journal.log.obstacle is not None:
            return False
        # The log of a node of a cluster has the keys of the cluster, and only its leader adds to them.
        return not (self.runtime.broker.groups.settings.is_replicated and security.journal.partition.log_end)

    async def create_first_key(self) -> str | None:
        """Create a key with the role admin if authentication is on and there is none yet; return it."""
        return await create_bootstrap_key(self.runtime) if self.lacks_admin_key else None

    def _context(self) -> ApiContext:
        config = self.config
        topics = config.topics
        return ApiContext(
            self.runtime,
            self.metrics,
            self._sampler.history,
            topics.partitions,
            {"retention_hours": topics.retention / 3600, "max_message_bytes": topics.max_message_bytes},
            _openapi,
            topics.auto_create,
            MemberDefaults(config.groups.session_timeout, config.groups.max_in_flight),
            connections_max=self.connections_max,
            connections_wanted=config.server.connections,
            gate=_gate(config),
        )

    def _log_sizes(self) -> dict[str, int]:
        sizes = {name: topic.size for name, topic in self.runtime.broker.topics.items()}
        for delivery in self.runtime.broker.delay_scheduler.deliveries():
            delayed_log = delivery.delays.delayed_log
            sizes[delayed_log.topic] = sizes.get(delayed_log.topic, 0) + delayed_log.log.size
        return sizes


def _look(coordinators: LeaderShards, _: object) -> None:
    coordinators.look()


@cache
def _openapi() -> bytes:
    """Return the OpenAPI document. To make it takes longer than the rest of a start, so that waits for a request."""
    return msgspec.json.encode(openapi_document(ENDPOINTS, __version__))


def _gate(config: Config) -> RequestGate | None:
    if config.security.authentication == "keys":
        return TenantKeyGate() if config.tenants.enabled else AccessGate()
    return TenantGate() if config.tenants.enabled else None


def backup_target(config: Config, disk: Disk) -> BackupTarget | None:
    """Return where backups are kept, if they are."""
    name = config.backup.target
    return None if name == "none" else open_target(name, config.backup, disk)


def backup_retention(config: Config) -> BackupRetention:
    """Return which backups are kept."""
    backup = config.backup
    return BackupRetention(backup.keep_hourly, backup.keep_daily, backup.keep_weekly, backup.keep_monthly)


def _backup_metrics(runner: BackupRunner) -> tuple[float, float, int] | None:
    if runner.target is None:
        return None
    return (runner.newest_ns or 0) / NANOSECONDS, (runner.newest_verified_ns or 0) / NANOSECONDS, runner.failures


def _webhook(config: Config) -> Webhook | None:
    path = config.alerts.webhook_file
    return None if path == "none" else Webhook(os.path.abspath(path), config.alerts.format)


def _source(config: Config) -> str:
    """Return the name of this broker in alerts and exports."""
    port = config.server.port
    return f"{socket.gethostname()}:{port}" if port else socket.gethostname()


def alert_settings(config: Config) -> AlertSettings:
    """Return the settings of alerts of a configuration."""
    alerts = config.alerts
    return AlertSettings(round(alerts.after * NANOSECONDS), round(alerts.repeat * NANOSECONDS), alerts.severity)


def _guard(config: Config) -> OriginGuard:
    server = config.server
    names = {"localhost", socket.gethostname(), server.host, *list_items(server.allowed_hosts)}
    return OriginGuard(hosts=names, origins=list_items(server.allowed_origins))


def _limits(config: Config) -> HttpLimits:
    server = config.server
    return HttpLimits(
        body_bytes=server.request_bytes,
        idle_seconds=server.idle_timeout,
        connections=server.connections,
        bodies_bytes=max(server.in_flight_bytes, server.request_bytes),
        handshakes=0 if config.tls.cert == "none" else TLS_HANDSHAKES,
    )


def store_settings(config: Config) -> StoreSettings:
    """Return the storage settings of a configuration."""
    storage = config.storage
    return StoreSettings(
        flush=storage.flush,
        flush_interval_ns=round(storage.flush_interval * NANOSECONDS),
        tail_bytes=storage.tail_bytes,
        log=LogSettings(storage.segment_bytes, round(storage.segment_age * NANOSECONDS)),
    )


def runtime_settings(config: Config) -> RuntimeSettings:
    """Return the settings of the runtime of a configuration."""
    return RuntimeSettings(
        config.server.in_flight_bytes,
        config.storage.upkeep_interval,
        group_settings(config),
        config.storage.retention_jump_percent,
        config.storage.scrub_rate,
        config.storage.scrub_interval,
        tracing_settings(config),
        config.tenants.enabled,
        config.server.in_flight_bytes * config.tenants.memory_percent // 100,
    )


def tracing_settings(config: Config) -> TracingSettings:
    """Return the tracing settings of a configuration."""
    tracing = config.tracing
    return TracingSettings(
        is_on=tracing.enabled,
        sampling=tracing.sampling,
        records=tracing.records,
        has_files=tracing.files,
        file_bytes=tracing.file_bytes,
        files_bytes=tracing.files_bytes,
    )


def group_settings(config: Config) -> GroupSettings:
    """Return the group settings of a configuration."""
    groups = config.groups
    return GroupSettings(
        policy=DeliveryPolicy(
            visibility_ns=round(groups.visibility_timeout * NANOSECONDS),
            retries_max=groups.max_retries,
            retry_ns=round(groups.retry_delay * NANOSECONDS),
            retry_ns_max=round(groups.max_retry_delay * NANOSECONDS),
        ),
        revocation_ns=round(groups.revocation_timeout * NANOSECONDS),
        retention_ns=round(groups.retention * NANOSECONDS),
        is_replicated=config.cluster.peers != "none" and FEATURE_LEVEL > 0,
    )
