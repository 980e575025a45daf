"""Facts about a broker as plain values: everything that findings are derived from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from goqueue.observe.group_condition import GroupCondition, group_condition, unattended_condition
from goqueue.quantities import format_disk
from goqueue.storage.recovery import RemovedTail
from goqueue.storage.segment_scan import Damage

LogRole = Literal[
    "topic", "topics", "groups", "transactions", "operations", "keys", "audit", "schemas", "tenants", "usage"
]


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """The file system that holds the data directory."""

    path: str
    total_bytes: int
    used_bytes: int
    free_bytes: int
    """Available to processes that are not root."""
    growth: float = 0.0
    """Bytes per second by which the used space grew, throughout the last minutes."""

    def __str__(self) -> str:
        return format_disk(self.used_bytes, self.free_bytes, self.total_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnwritableLog:
    """A log that accepts no messages."""

    log: str
    reason: str
    hint: str | None = None
    is_open: bool = True
    """False if it could not be opened, so that it cannot be read either."""
    role: LogRole = "topic"
    """What it holds: messages, or the broker's records of topics, groups or transactions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamagedRange:
    """Offsets whose messages cannot be read."""

    log: str
    path: str
    damage: Damage


@dataclass(frozen=True, slots=True, kw_only=True)
class LostRecords:
    """Records of an internal log that could not be read at startup."""

    log: str
    count: int
    names: tuple[str, ...] = ()
    """The topics, groups or transactional ids that they may concern."""
    role: LogRole = "topics"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFacts:
    """Findings of the startup."""

    surveyed: int = 0
    """Number of logs that were scanned after an unclean stop."""
    cuts: tuple[RemovedTail, ...] = ()
    """Unanswered writes that recovery removed, at most one of each log."""
    unclaimed: tuple[str, ...] = ()
    """Logs that belong to no topic."""
    restored: Mapping[str, Sequence[Damage]] = field(default_factory=dict)
    """Damaged ranges that were repaired from the backup copy of a log, by its name."""
    lost: tuple[LostRecords, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump:
    """A jump of the clock during which retention is limited."""

    ahead_seconds: float
    start_seconds: float = 0.0
    """The part that the start found: nothing was stored for that time, or the clock jumped meanwhile."""
    seconds_left: float
    """Until retention is no longer limited."""
    percent: int
    """The share of a topic that may be deleted by age meanwhile."""
    held_back: tuple[str, ...] = ()
    """Topics with messages that are kept because of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFacts:
    """The certificate that the broker uses, and why the files are not in use as they are now."""

    path: str
    names: tuple[str, ...]
    issuer: str
    expires_ns: int
    seconds_left: float
    fingerprint: str
    client_auth: Literal["none", "optional", "required"]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class NodeCertificate:
    """The certificate that a node shows to the others."""

    path: str
    seconds_left: float
    error: str | None = None
    """Why its files as they are now are not in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCondition:
    """The cluster, as this node sees it."""

    node: str
    seconds_without_controller: float = 0.0
    failure: str | None = None
    """Why this node takes no part any more."""
    without_vote: tuple[str, ...] = ()
    """Peers on another data directory than the voter."""
    dead: tuple[str, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    """Nodes without a connection, and why, where an operator must act."""
    failed: tuple[tuple[str, str], ...] = ()
    """Other nodes that are alive and take no part any more, and why."""
    waiting_for: tuple[str, ...] = ()
    """Nodes that the first formation waits for."""
    nodes: int = 1
    unserved: tuple[tuple[str, str], ...] = ()
    """Topics that are not here as the cluster has them, and why."""
    unadopted: tuple[tuple[str, str], ...] = ()
    """Files with records from before the cluster that it did not take, and why."""
    offline: tuple[str, ...] = ()
    """Partitions without a leader, as `orders/0`."""
    under_min_isr: tuple[str, ...] = ()
    """Partitions that accept no publishes with acks=all."""
    under_replicated: tuple[str, ...] = ()
    """Partitions with replicas that are not in sync, the others left out."""
    unclean: tuple[str, ...] = ()
    """Partitions whose leader epoch began with an unclean election."""
    away: tuple[str, ...] = ()
    """Partitions that are not led by their preferred leader although it is in sync."""
    lags: tuple[tuple[str, int], ...] = ()
    """Nodes that lag in partitions which this one leads, with the messages that they lack."""
    damaged: tuple[tuple[str, str], ...] = ()
    """Logs of this node that are damaged and being repaired from other replicas, and why they are not so far."""
    differing: tuple[tuple[str, str, int], ...] = ()
    """Logs with sound messages that differ from those of another node, the node, and the first offset."""
    repaired: tuple[tuple[str, int, int], ...] = ()
    """Logs that were, with the number of ranges and their bytes."""
    stalled_moves: tuple[tuple[str, str], ...] = ()
    """Partitions whose move does not go on, and why."""
    certificate: NodeCertificate | None = None
    """None without TLS between nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupFacts:
    """The backups of a broker that has a target for them."""

    target: str
    interval_seconds: float = 0.0
    """Of the schedule; 0 without one."""
    verified_seconds: float | None = None
    """Age of the newest backup whose verification found nothing; None without any."""
    problem: str | None = None
    """Why the last backup failed."""
    target_problem: str | None = None
    """Why backups that were there cannot be reached any more."""
    key_problem: str | None = None
    """Why the key file cannot be used."""
    locked: tuple[str, ...] = ()
    """Backups that are encrypted with keys which the broker does not have."""
    damaged: tuple[str, ...] = ()
    """Backups whose verification found something."""
    newest: str = ""
    """The id of the newest backup; empty without any."""
    unavailable: tuple[str, ...] = ()
    """Logs that it lacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTenant:
    """A tenant that is not active, and whose requests were refused lately."""

    tenant: str
    status: str
    reason: str
    requests: int
    """Refused in the last minute or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """The broker's process now and in the last minute."""

    loop_seconds: float | None = None
    """Maximum latency of the event loop, without the worst samples. None: not measured yet."""
    stall_seconds: float = 0.0
    """The longest pause of the process within the last hour."""
    flush_seconds: float | None = None
    """Maximum duration of a flush, without the worst samples. None: there was none."""
    sync_failures: int = 0
    """Since startup."""
    in_flight_bytes: int = 0
    in_flight_bytes_max: int = 1
    open_files: int | None = None
    open_files_max: int | None = None
    connections: int = 0
    connections_max: int = 1
    connections_wanted: int = 1
    """The setting; above `connections_max` if the limit of open files allows fewer."""
    clock_behind_seconds: float = 0.0
    """How far the wall clock is behind the newest message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPartitionFacts:
    """One partition of a group that has unfinished messages."""

    topic: str
    partition: int
    messages: int
    """Not finished by the group."""
    ready: int
    """Those that could be processed now: not waiting for a retry or a move to the dead-letter queue."""
    seconds: float
    """Age of the oldest one."""
    rate: float
    incoming: float
    idle_seconds: float
    """Since the last one was finished, or since startup."""
    in_flight: int = 0
    member: str | None = None
    retention_seconds: float | None = None
    """The topic's retention time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostMessages:
    """Messages that retention deleted before a group received them."""

    topic: str
    partition: int
    messages: int
    is_continuing: bool = False
    """True while the committed offset is below the first offset of the partition: more losses may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonMessage:
    """A message that was delivered many times and is still unfinished."""

    topic: str
    partition: int
    offset: int
    deliveries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """One consumer group."""

    name: str
    members: int = 0
    empty_seconds: float | None = None
    """How long it has had no members; None while it has some."""
    deleted_in_seconds: float | None = None
    """Seconds until it is deleted, if no member joins."""
    rebalance_seconds: float | None = None
    """How long a rebalance has been running; None if there is none."""
    awaited: tuple[str, ...] = ()
    """The members that the rebalance waits for."""
    lag: int = 0
    """Offsets from the committed offsets to the ends; exactly messages for groups with `places`."""
    places: tuple[GroupPartitionFacts, ...] = ()
    """Filled for groups that were examined closely."""
    losses: tuple[LostMessages, ...] = ()
    poison_messages: tuple[PoisonMessage, ...] = ()
    ranges: int = 0
    """Unfinished ranges in its largest partition."""
    leaving: int = 0
    """Messages that wait to be moved to the dead-letter queue."""
    leaving_seconds: float = 0.0
    """How long the oldest of them has waited."""

    @property
    def condition(self) -> GroupCondition:
        if self.empty_seconds is not None and self.lag and not self.places:  # not examined closely
            return unattended_condition(self.empty_seconds)
        return group_condition(self.places, self.empty_seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFacts:
    """Dead letters of one topic that were not redriven."""

    topic: str
    """The dead-letter topic: one that ends with `.dlq`, or that a setting names."""
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedFacts:
    """Overdue delayed messages of one partition."""

    topic: str
    partition: int
    messages: int
    seconds: float
    """How long the oldest of them is overdue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptySubject:
    """A subject without a schema, against which a topic checks its messages."""

    topic: str
    subject: str
    setting: str
    """The topic's setting that asks for the check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBackMessages:
    """Messages of one partition that readers cannot see behind an open transaction."""

    topic: str
    partition: int
    messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionFacts:
    """A transaction that has been open for long, or that could not be ended."""

    name: str
    """The transactional id."""
    transaction: str
    state: Literal["ongoing", "prepare_commit", "prepare_abort"]
    seconds: float
    """Since it began, or since its commit or abort was decided."""
    idle_seconds: float = 0.0
    """Since the last request of its producer."""
    expires_in: float | None = None
    """Until it is aborted, without another request."""
    messages: int = 0
    """Its own messages among `held_back`."""
    held_back: tuple[HeldBackMessages, ...] = ()
    obstacle: str | None = None
    """Why the last attempt to end it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaFacts:
    """A quota of a tenant that is nearly used up, over its soft limit, or refuses requests."""

    tenant: str
    quota: str
    used: float = 0.0
    limit: float | None = None
    soft_limit: float | None = None
    percent: float = 0.0
    is_rate: bool = False
    violations: int = 0
    throttled_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """Everything that the doctor examines."""

    uptime_seconds: float
    partitions: int = 0
    disk: DiskFacts | None = None
    process: ProcessFacts = field(default_factory=ProcessFacts)
    tls: TlsFacts | None = None
    """None if the broker listens without TLS."""
    cluster: ClusterCondition | None = None
    """None if the broker runs alone."""
    gone_directory: str | None = None
    """Path of the data directory, if the directory that the broker opened there was removed or replaced."""
    backups: BackupFacts | None = None
    """None without a target for backups."""
    refused: tuple[str, ...] = ()
    """Logs whose last write failed with a full disk."""
    refusal: str | None = None
    """The error of that write."""
    shut: tuple[UnwritableLog, ...] = ()
    damages: tuple[DamagedRange, ...] = ()
    start: StartFacts = field(default_factory=StartFacts)
    clock_jump: ClockJump | None = None
    groups: tuple[GroupFacts, ...] = ()
    dead_letters: tuple[DeadLetterFacts, ...] = ()
    delayed: tuple[DelayedFacts, ...] = ()
    checked_topics: int = 0
    """Topics whose messages are checked against schemas."""
    empty_subjects: tuple[EmptySubject, ...] = ()
    quotas: tuple[QuotaFacts, ...] = ()
    """Those that may be a problem."""
    tenants: int | None = None
    """None if the broker has none."""
    refused_tenants: tuple[RefusedTenant, ...] = ()
    transactions_open: int = 0
    transactions: tuple[TransactionFacts, ...] = ()
    """Transactions that may have a problem."""
