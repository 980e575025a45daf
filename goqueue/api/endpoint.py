"""The row of the table that describes an endpoint, and what its handler gets.

Routing, validation, the OpenAPI document, permissions and metric labels are made from the rows.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_type_hints

from msgspec import Struct
from msgspec.structs import fields

from goqueue.api.access import UNRESTRICTED, Access
from goqueue.api.dialect import OWN, Dialect
from goqueue.api.gate import RequestGate
from goqueue.api.http.certificates import CertificateStore
from goqueue.api.http.message import HttpRequest
from goqueue.api.led_requests import LedRequests
from goqueue.api.message_json import DecompressedMemory
from goqueue.api.permissions import OPEN, Permission
from goqueue.broker.core.remote_partition import refreshed
from goqueue.broker.core.topic import Topic
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.errors import (
    ControllerUnavailable,
    GoQueueError,
    LeaderUnavailable,
    NotInCluster,
    PartitionNotFound,
    TopicNotFound,
)
from goqueue.limits import HTTP_CONNECTIONS, IN_FLIGHT_MESSAGES, REQUEST_BYTES, SESSION_SECONDS
from goqueue.observe.history import History
from goqueue.observe.logs import RecentLogs
from goqueue.observe.metrics import Metrics
from goqueue.quantities import quoted
from goqueue.runtime.alert_runner import AlertRunner
from goqueue.runtime.backup_runner import BackupRunner
from goqueue.runtime.backup_schedule import BackupSchedule, backup_facts
from goqueue.runtime.cluster.cluster_facts import cluster_condition
from goqueue.runtime.cluster.cluster_node import ClusterNode
from goqueue.runtime.cluster.coordinator_exchange import CoordinatorExchange
from goqueue.runtime.cluster.kept_records import KeptRecords
from goqueue.runtime.cluster.replica_sizes import ReplicaSizeExchange
from goqueue.runtime.cluster.tenant_contents import ContentsOfTenants
from goqueue.runtime.cluster.transaction_exchange import TransactionExchange
from goqueue.runtime.doctor_facts import DoctorFactsCollector
from goqueue.runtime.metrics_scraper import MetricsScraper
from goqueue.runtime.payload_check_runner import PayloadCheckRunner
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.usage_runner import UsageRunner
from goqueue.storage.scan import Frames

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_TOPICS_ALONE = 1
"""The feature level of a cluster that shares topics and groups, and no transactions."""


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """A method, a path, the types of the request and the answer."""

    method: Method
    path: str
    """With its parameters in braces: `/topics/{topic}`."""
    handler: Callable[..., Awaitable[Any]]
    """Gets an `ApiCall`, and `query` and `body` if it names them; returns an `answer` or an `HttpResponse`.

    The types of these three are those of its annotations, where the row gives none.
    """
    summary: str
    tag: str = ""
    query: type | None = None
    """A msgspec struct whose fields are the query's parameters."""
    body: type | None = None
    """A msgspec struct that the JSON body is decoded to."""
    body_bytes: int | None = REQUEST_BYTES
    """The largest body; None if only the server's own limit applies."""
    decode_large: Callable[[type, bytearray], Any] | None = None
    """Decodes a large body on a thread, if decoding it at once would block other requests."""
    frames: bool = False
    """The body may be frames instead (`application/vnd.goqueue.frames`)."""
    answer: Any = None
    """A msgspec struct, or another type that msgspec describes; None if the answer is not JSON."""
    answer_type: str = "application/json"
    status: int = 200
    unwell_status: int | None = None
    """The status of an answer of the same type that reports a failure."""
    permission: Permission = OPEN
    """Set for all rows of the table from `PERMISSIONS`."""
    waits: bool = False
    """A request may wait long: it ends when its sender loses the permission."""
    may_be_large: bool = False
    """The answer may have megabytes: the request is refused while other answers hold too much memory."""
    is_hot: bool = False
    """The handler waits mostly for the broker itself, and runs without a task until it waits for something else.

    A poll has a task all the same: without one, a group whose consumers are killed took longer to be drained at times.
    """
    dialect: Dialect = OWN
    """How requests and answers are written."""
    aliases: tuple[str, ...] = ()
    """Further paths, with the same parameters in the same order."""
    led: str = ""
    """The followed log of a cluster that it is about: its leader makes changes, and knows the newest."""
    is_led_change: bool = False
    """Whether it changes what that log records; else it is answered here, unless it finds nothing."""
    is_repeatable: bool = False
    """Whether such a change may be sent to the next leader without knowing whether the former one has made it."""
    errors: tuple[type[GoQueueError], ...] = ()
    """Possible errors, besides those of any request."""
    example: Any = None
    answer_example: Any = None
    is_change: bool = field(init=False)
    """Whether it is an administrative change, which is audited. Reading keys and rules needs the same right."""
    is_guarded: bool = field(init=False)
    """Whether it may wait long, or is an administrative change."""
    is_body_optional: bool = field(init=False)
    """Whether a POST may have no body: no field of it is required."""
    arguments: "Callable[[ApiCall], tuple[Any, ...]]" = field(init=False)
    """Returns the query and the body, if the handler names them."""
    charge: "Callable[[ApiCall, TenantMeter, Awaitable[Any]], Awaitable[Any]] | None" = None
    """Charges the quotas of a tenant and runs the handler; set for rows of the table from `CHARGES`."""

    def __post_init__(self) -> None:
        kinds = get_type_hints(self.handler)
        returned = kinds.get("return")
        kinds["answer"] = next((kind for kind in get_args(returned) or (returned,) if _is_struct(kind)), None)
        for name in ("query", "body", "answer"):
            if getattr(self, name) is None:
                object.__setattr__(self, name, kinds.get(name))
        object.__setattr__(self, "is_change", self.method != "GET" and self.permission.changes_broker)
        object.__setattr__(self, "is_guarded", self.waits or self.is_change)
        object.__setattr__(self, "is_body_optional", self.method == "POST" and _has_no_required_field(self.body))
        object.__setattr__(self, "arguments", _ARGUMENTS["query" in kinds, "body" in kinds])


_ARGUMENTS: "dict[tuple[bool, bool], Callable[[ApiCall], tuple[Any, ...]]]" = {
    (False, False): lambda _: (),
    (True, False): lambda call: (call.query,),
    (False, True): lambda call: (call.body,),
    (True, True): lambda call: (call.query, call.body),
}
"""By whether a handler names `query` and `body`."""


def _is_struct(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def _has_no_required_field(kind: Any) -> bool:
    return _is_struct(kind) and not any(one.required for one in fields(kind))


_PARTITION = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class MemberDefaults:
    """Settings of members that do not give their own."""

    session_timeout: float = SESSION_SECONDS
    max_in_flight: int = IN_FLIGHT_MESSAGES


@dataclass(slots=True)
class ApiContext:
    """State that all handlers share."""

    runtime: Runtime
    metrics: Metrics
    history: History
    default_partitions: int
    default_settings: dict[str, Any]
    openapi: Callable[[], bytes]
    """Makes the OpenAPI document. The first call takes long, and belongs on a thread."""
    auto_create: bool = False
    groups: MemberDefaults = field(default_factory=MemberDefaults)
    creating: "dict[str, asyncio.Future[Topic]]" = field(default_factory=dict)
    """Topics that are being created because a client publishes to them."""
    connections_max: int = HTTP_CONNECTIONS
    connections_wanted: int = HTTP_CONNECTIONS
    """The setting; more than `connections_max` if the limit of open files is too low."""
    check_answers: Callable[[], None] = lambda: None
    """Raises BrokerOverloaded if no large answer should be begun now."""
    decompressed: DecompressedMemory = field(default_factory=DecompressedMemory)
    recent_logs: RecentLogs = field(default_factory=RecentLogs)
    """Filled by the daemon's log handler."""
    gate: RequestGate | None = None
    """None if the broker has neither authentication nor tenants."""
    meters: TenantMeters | None = None
    """None if the broker has no tenants, as `usage`."""
    usage: UsageRunner | None = None
    certificates: CertificateStore | None = None
    """None if the broker listens without TLS, or another server listens."""
    cluster: ClusterNode | None = None
    """None if the broker runs alone."""
    led: LedRequests | None = None
    """Finds the leaders of followed logs in a cluster."""
    is_joining: bool = False
    """Whether that is still to come: the node listens, and has not started in its cluster."""
    contents: ContentsOfTenants | None = None
    """Asks other nodes of a cluster for what they coordinate for a tenant."""
    kept: KeptRecords | None = None
    """What this node had before its cluster, and the cluster has not taken."""
    coordinators: CoordinatorExchange | None = None
    """The other nodes of a cluster that shares its groups."""
    transactions: TransactionExchange | None = None
    """The same for transactions."""
    replica_sizes: ReplicaSizeExchange | None = None
    """Asks the leaders of partitions how large these are."""
    payload_checks: PayloadCheckRunner = field(init=False)
    gatherer: DoctorFactsCollector = field(init=False)
    alerts: AlertRunner = field(init=False)
    """Set by the service."""
    backups: BackupRunner = field(init=False)
    """As are the alerts."""
    backup_schedule: BackupSchedule = field(init=False)
    scraper: MetricsScraper = field(init=False)

    def __post_init__(self) -> None:
        self.payload_checks = PayloadCheckRunner(self.runtime)
        self.gatherer = DoctorFactsCollector(
            self.runtime,
            self.history,
            connections_max=self.connections_max,
            connections_wanted=self.connections_wanted,
            tls=lambda: None if self.certificates is None else self.certificates.facts(),
            cluster=lambda: cluster_condition(self.cluster, () if self.kept is None else self.kept.problems),
            backups=lambda: backup_facts(self.backups, self.backup_schedule, self.runtime.clock.now_ns()),
        )
        self.scraper = MetricsScraper(self.runtime, self.metrics)

    def refuse_before_level(self, what: str) -> None:
        """Refuse what a node of a cluster does only once all nodes know it."""
        if self.cluster is not None and self.cluster.log.state.feature_level == _TOPICS_ALONE:
            raise NotInCluster(
                f"not all nodes of the cluster know {what} over several nodes: some run an earlier version",
                hint="upgrade them; see `goqueue-cli cluster nodes`",
                what=what,
            )

    def refuse_while_joining(self) -> None:
        """Raise while this node does not know who answers for what all nodes share."""
        if self.is_joining:
            raise LeaderUnavailable(
                "this node has not started in its cluster yet",
                hint="retry in a moment, or ask another node",
                retry_after=1,
            )

    def as_known(self, error: GoQueueError) -> GoQueueError:
        """Return an error to be retried instead of one that may only say what this node does not know yet."""
        member = self.cluster
        if member is None or member.is_registered or not isinstance(error, TopicNotFound):
            return error
        return ControllerUnavailable(
            f"{error.sentence}; but node {member.settings.node} is not registered in the cluster and may not know all",
            hint="retry in a moment, or ask another node",
            retry_after=1,
        )

    @property
    def authenticates(self) -> bool:
        """True if requests need a key."""
        return self.gate is not None and self.gate.authenticates


@dataclass(slots=True)
class ApiCall:
    """One request to one endpoint."""

    app: ApiContext
    request: HttpRequest
    parameters: dict[str, str]
    """Path parameters, percent-decoded."""
    query: Any = None
    body: Any = None
    access: Access = UNRESTRICTED
    meter: TenantMeter | None = None
    """The use of quotas by the tenant of the request; None outside of a tenant's world."""
    walked: dict[int, Frames] | None = None
    """The frames in the body by the number of their section, if charges have looked for them."""
    charged_bytes: int | None = None
    """The size of the one message that was charged; it is given back if the message is not stored."""
    messages_max: int | None = None
    """How many messages the quotas of the tenant let a read hand out; None: any number."""

    @property
    def runtime(self) -> Runtime:
        return self.app.runtime

    def shown(self, error: GoQueueError) -> GoQueueError:
        """Return an error as a part of the answer: with the names that its tenant knows."""
        return error if self.request.world is None else self.request.world.shown(error)

    def count_read(self, topic: str, messages: int, size: int, *, is_polled: bool = False) -> None:
        """Count messages that are handed out, by a poll or by a read without a group."""
        counts = self.app.metrics.topic(topic)
        counts.messages_read += messages
        counts.bytes_read += size
        if (meter := self.meter) is not None:
            if is_polled:
                meter.count_consumed(messages, size)
            else:
                meter.count_read(messages, size)

    async def learn_ends(self, *topics: str | None) -> None:
        """Learn where the partitions end of which this node has no replica. Raises LeaderUnavailable."""
        for name in topics:
            topic = None if name is None else self.runtime.broker.topics.get(name)
            for partition in () if topic is None else topic.partitions:
                await self.runtime.perform(refreshed(partition))

    @property
    def partition(self) -> int:
        """The partition number in the path."""
        text = self.parameters["partition"]
        if _PARTITION.fullmatch(text):
            return int(text)
        raise PartitionNotFound(f"{quoted(text)} is not the number of a partition", hint="partitions count from 0")
