"""Every setting with its type, default, bounds and description.

The program reads settings as fields of these classes: sizes in bytes, durations in seconds. To add one, add a field;
validation, the environment variable, the flag, the templates and `docs/configuration.md` are derived from it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal, cast

from goqueue import limits
from goqueue.config.backup_settings import BackupConfig
from goqueue.config.cluster_settings import ClusterConfig
from goqueue.config.grpc_settings import GrpcConfig
from goqueue.config.metrics_settings import MetricsConfig
from goqueue.config.problem import Origin
from goqueue.config.quota_settings import QuotasConfig
from goqueue.config.security_settings import SecurityConfig, TlsConfig
from goqueue.config.tracing_settings import TracingConfig
from goqueue.config.value_types import (
    BOOLEAN,
    DURATION,
    HOST,
    HOST_NAMES,
    INTEGER,
    OPTIONAL_NUMBER,
    OPTIONAL_PATH,
    ORIGINS,
    PATH,
    SIZE,
    SettingRule,
    SettingValue,
    choice,
)
from goqueue.config.value_types import setting as _setting
from goqueue.quantities import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """Storage of messages on disk and in memory."""

    flush: Literal["always", "interval"] = _setting(
        "always",
        choice("always", "interval"),
        "When a publish is answered: `always` after its messages are synced to the device, `interval` as soon"
        " as they are written. With `interval`, a power failure can lose the messages of the last "
        "`flush_interval`.",
    )
    flush_interval: float = _setting(
        limits.FLUSH_INTERVAL_SECONDS,
        DURATION,
        "Maximum time until written messages are synced when `flush` is `interval`; unused otherwise.",
        (limits.FLUSH_INTERVAL_SECONDS_MIN, limits.FLUSH_INTERVAL_SECONDS_MAX),
    )
    segment_bytes: int = _setting(
        limits.SEGMENT_BYTES,
        SIZE,
        "Size at which a partition starts a new segment file; retention deletes whole segments.",
        (limits.SEGMENT_BYTES_MIN, limits.SEGMENT_BYTES_MAX),
    )
    segment_age: float = _setting(
        float(limits.SEGMENT_AGE_SECONDS),
        DURATION,
        "Age at which a partition starts a new segment file even if the last one is not full.",
        (limits.SEGMENT_AGE_SECONDS_MIN, limits.SEGMENT_AGE_SECONDS_MAX),
    )
    tail_bytes: int = _setting(
        limits.TAIL_BYTES,
        SIZE,
        "Memory for the newest messages of all partitions together; consumers without lag read from it.",
        (limits.TAIL_BYTES_MIN, limits.TAIL_BYTES_MAX),
    )
    upkeep_interval: float = _setting(
        limits.UPKEEP_SECONDS, DURATION, "How often the broker runs retention and compaction.", (0.1, 3600)
    )
    scrub_rate: int = _setting(
        limits.SCRUB_RATE,
        SIZE,
        "How many bytes a second the broker reads of its own logs to find damage of the disk; 0 turns this off.",
        (0, limits.SCRUB_RATE_MAX),
    )
    scrub_interval: float = _setting(
        limits.SCRUB_SECONDS,
        DURATION,
        "How long after the beginning of a pass over all logs the next one begins; a long pass goes on meanwhile.",
        (1, 31_536_000),
    )
    retention_jump_percent: int = _setting(
        limits.RETENTION_JUMP_PERCENT,
        INTEGER,
        "Maximum share of a topic that retention deletes by age in the hour after the clock jumped ahead, in"
        " percent; 100 turns this protection off.",
        (0, 100),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Network settings: how clients reach the broker."""

    host: str = _setting(
        "127.0.0.1",
        HOST,
        "Address to listen on; 127.0.0.1 accepts only this machine, 0.0.0.0 all its networks.",
        flag="--host",
    )
    port: int = _setting(
        limits.PORT,
        INTEGER,
        "Port to listen on; 0 selects a free port and prints it.",
        (0, 65535),
        flag="--port",
    )
    uds: str = _setting(
        "none",
        OPTIONAL_PATH,
        "Path of a Unix socket to listen on instead of `host` and `port`, or `none`. Its owner and group may connect.",
        flag="--uds",
    )
    fd: str = _setting(
        "none",
        OPTIONAL_NUMBER,
        "File descriptor of a listening socket that a supervisor has opened, used instead of all of these, or"
        " `none`. systemd passes 3.",
        flag="--fd",
    )
    allowed_hosts: str = _setting(
        "none",
        HOST_NAMES,
        "Host names that clients may use for the broker, separated by commas, or `*` for any. IP addresses,"
        " localhost, the machine's own name and `host` are always allowed. This blocks web pages that point their"
        " own name at the broker (DNS rebinding).",
    )
    allowed_origins: str = _setting(
        "none",
        ORIGINS,
        "Origins of web pages that may use the broker from a browser (CORS), such as `http://localhost:3000`, separated"
        " by commas, or `*` for any. Other programs need none.",
    )
    request_bytes: int = _setting(
        limits.HTTP_BODY_BYTES,
        SIZE,
        "Maximum size of a request body; a larger one is refused before it is read.",
        (64 * limits.KIB, 1024 * limits.MIB),
    )
    in_flight_bytes: int = _setting(
        limits.IN_FLIGHT_BYTES,
        SIZE,
        "Maximum size of requests and messages being processed at once; beyond it, clients must wait and retry.",
        (limits.MIB, 1024 * 1024 * limits.MIB),
    )
    connections: int = _setting(
        limits.HTTP_CONNECTIONS,
        INTEGER,
        "Maximum number of open connections; more are refused. The limit of open files can lower it.",
        (1, 1_000_000),
    )
    idle_timeout: float = _setting(
        float(limits.HTTP_IDLE_SECONDS),
        DURATION,
        "Maximum time that a connection stays open without a request.",
        (1, 3600),
    )
    stop_timeout: float = _setting(
        limits.STOP_SECONDS,
        DURATION,
        "Maximum time for requests in progress when the broker stops.",
        (0.1, 600),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsConfig:
    """Defaults of new topics."""

    auto_create: bool = _setting(
        False, BOOLEAN, "Create a topic when a message is published to it; otherwise the publish is refused."
    )
    partitions: int = _setting(
        limits.PARTITIONS, INTEGER, "Number of partitions of a new topic.", (1, limits.PARTITIONS_MAX)
    )
    retention: float = _setting(
        limits.RETENTION_HOURS * 3600,
        DURATION,
        "Retention time of a new topic.",
        (1, limits.RETENTION_HOURS_MAX * 3600),
    )
    max_message_bytes: int = _setting(
        limits.MESSAGE_BYTES,
        SIZE,
        "Maximum size of a message in a new topic: key, value and headers together.",
        (limits.MESSAGE_BYTES_MIN, limits.VALUE_BYTES_MAX),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsConfig:
    """Consumer groups, retries and dead letters."""

    session_timeout: float = _setting(
        limits.SESSION_SECONDS,
        DURATION,
        "Maximum time between heartbeats of a member, unless it sets its own when it joins.",
        (limits.SESSION_SECONDS_MIN, limits.SESSION_SECONDS_MAX),
    )
    revocation_timeout: float = _setting(
        limits.REVOCATION_SECONDS,
        DURATION,
        "Maximum time for a member to revoke a partition; then it is assigned to the other member anyway.",
        (1, 3600),
    )
    retention: float = _setting(
        float(limits.GROUP_RETENTION_SECONDS),
        DURATION,
        "How long a group without members and its offsets are kept.",
        (1, 10 * 365 * 24 * 3600),
    )
    max_in_flight: int = _setting(
        limits.IN_FLIGHT_MESSAGES,
        INTEGER,
        "Maximum number of unsettled messages per member, unless it sets its own when it joins.",
        (1, limits.IN_FLIGHT_MESSAGES_MAX),
    )
    visibility_timeout: float = _setting(
        limits.VISIBILITY_SECONDS,
        DURATION,
        "How long a message is leased to a member before it is redelivered, unless the poll, the group or the topic"
        " sets it.",
        (limits.VISIBILITY_SECONDS_MIN, limits.VISIBILITY_SECONDS_MAX),
    )
    max_retries: int = _setting(
        limits.RETRIES_MAX,
        INTEGER,
        "Number of retries of a failed message before it is moved to the dead-letter queue, unless the group or"
        " the topic sets it.",
        (0, limits.RETRIES_LIMIT),
    )
    retry_delay: float = _setting(
        limits.RETRY_SECONDS,
        DURATION,
        "Delay before the first retry, unless the group or the topic sets it; it doubles with each further retry.",
        (limits.RETRY_SECONDS_MIN, limits.RETRY_SECONDS_LIMIT),
    )
    max_retry_delay: float = _setting(
        limits.RETRY_SECONDS_MAX,
        DURATION,
        "Maximum delay between retries, unless the group, the topic or the consumer sets one.",
        (limits.RETRY_SECONDS_MIN, limits.RETRY_DELAY_SECONDS_MAX),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertsConfig:
    """Messages about findings of the doctor to a webhook."""

    webhook_file: str = _setting(
        "none",
        PATH,
        "File whose first line is the address to send alerts to, and whose second line may be a secret: a bearer token,"
        " or the routing key of PagerDuty. `none` sends nothing.",
    )
    format: Literal["json", "slack", "pagerduty"] = _setting(
        "json",
        choice("json", "slack", "pagerduty"),
        "What is sent: generic JSON, or what Slack or PagerDuty (Events API v2) expects.",
    )
    severity: Literal["critical", "warning"] = _setting(
        "warning", choice("critical", "warning"), "Lowest severity of findings that is sent."
    )
    interval: float = _setting(
        limits.ALERT_SECONDS, DURATION, "How often the broker looks for findings when it has a webhook.", (0.1, 3600)
    )
    after: float = _setting(
        limits.ALERT_AFTER_SECONDS,
        DURATION,
        "How long a finding must last until it is sent, and be absent until it is resolved.",
        (0, 24 * 3600),
    )
    repeat: float = _setting(
        limits.ALERT_REPEAT_SECONDS, DURATION, "After which time an alert is sent again.", (1, 7 * 24 * 3600)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemasConfig:
    """The schema registry."""

    registry_port: str = _setting(
        "none",
        OPTIONAL_NUMBER,
        "Further port on `server.host` that answers only the paths of the schema registry, for clients that expect it"
        " at an address of its own, or `none`; 0 selects a free port. `server.port` answers them as well.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantsConfig:
    """Tenants: teams that share the broker, each with names of its own."""

    enabled: bool = _setting(
        False,
        BOOLEAN,
        "Let operators create tenants, whose keys see nothing but their own topics, groups and schemas. Without it,"
        " keys of tenants are refused.",
    )
    memory_percent: int = _setting(
        limits.TENANT_MEMORY_PERCENT,
        INTEGER,
        "Share of `server.in_flight_bytes` that large requests and answers of one tenant may hold at once, in percent;"
        " beyond it, its clients must wait and retry. A single request or answer always fits.",
        (1, 100),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Log lines on stderr."""

    level: Literal["debug", "info", "warning", "error"] = _setting(
        "info", choice("debug", "info", "warning", "error"), "Lowest level that is logged."
    )
    format: Literal["text", "json"] = _setting(
        "text", choice("text", "json"), "Plain text, or one JSON object per line."
    )
    requests: int = _setting(
        limits.REQUESTS_LOGGED,
        INTEGER,
        "Maximum number of requests logged per second; the others are only counted. 0 logs none.",
        (0, 100_000),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings and their origins."""

    data_dir: str = _setting(
        "./goqueue-data", PATH, "Data directory of the broker; a relative path starts in the working directory."
    )
    server: ServerConfig = field(default_factory=ServerConfig)
    grpc: GrpcConfig = field(default_factory=GrpcConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    tracing: TracingConfig = field(default_factory=TracingConfig)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    alerts: AlertsConfig = field(default_factory=AlertsConfig)
    schemas: SchemasConfig = field(default_factory=SchemasConfig)
    tenants: TenantsConfig = field(default_factory=TenantsConfig)
    backup: BackupConfig = field(default_factory=BackupConfig)
    quotas: QuotasConfig = field(default_factory=QuotasConfig)
    log: LogConfig = field(default_factory=LogConfig)
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False, repr=False)

    def value(self, setting: "Setting") -> SettingValue:
        found: Any = self
        for name in setting.key.split("."):
            found = getattr(found, name)
        value: SettingValue = found
        return value

    def origin(self, setting: "Setting") -> Origin:
        return self.origins.get(setting.key, Origin())


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of `SETTINGS`."""

    key: str
    default: SettingValue
    rule: SettingRule

    @property
    def variable(self) -> str:
        return f"GOQUEUE_{self.key.replace('.', '_').upper()}"

    @property
    def flag(self) -> str:
        return self.rule.flag or f"--{self.key.replace('.', '-').replace('_', '-')}"

    @property
    def section(self) -> str:
        return self.key.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    @property
    def summary(self) -> str:
        """The description and the default in one line."""
        return f"{self.rule.sentence} [default: {self.format(self.default)}]"

    @property
    def bounds(self) -> str:
        """`4KiB to 2GiB`; empty for a setting without bounds."""
        if self.rule.least is None or self.rule.most is None:
            return ""
        return f"{self.rule.kind.format(self.rule.least)} to {self.rule.kind.format(self.rule.most)}"

    def parse(self, text: str) -> SettingValue:
        """Parse a value; raise ValueError with the reason if it is not valid."""
        rule = self.rule
        value = rule.kind.parse(text)
        if isinstance(value, str):
            return value
        if isinstance(rule.least, int | float) and value < rule.least:
            raise ValueError(f"{quoted(text)} is too small: at least {rule.kind.format(rule.least)}")
        if isinstance(rule.most, int | float) and value > rule.most:
            raise ValueError(f"{quoted(text)} is too large: at most {rule.kind.format(rule.most)}")
        return value

    def format(self, value: SettingValue) -> str:
        return self.rule.kind.format(value)


_SECTION_TYPES: Mapping[str, Any] = {item.name: item.type for item in fields(Config) if is_dataclass(item.type)}

SECTIONS: Mapping[str, str] = {name: str(kind.__doc__) for name, kind in _SECTION_TYPES.items()}
"""The description of each section by its key."""

SETTINGS: tuple[Setting, ...] = tuple(
    Setting(f"{prefix}{item.name}", cast("SettingValue", item.default), item.metadata["rule"])
    for prefix, kind in (("", Config), *((f"{name}.", kind) for name, kind in _SECTION_TYPES.items()))
    for item in fields(kind)
    if "rule" in item.metadata
)


def build(values: Mapping[str, SettingValue], origins: Mapping[str, Origin]) -> Config:
    """Build a configuration from these values and the defaults."""
    given: dict[str, dict[str, Any]] = {"": {}, **{name: {} for name in _SECTION_TYPES}}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        given[section][name] = value
    sections = {name: kind(**given[name]) for name, kind in _SECTION_TYPES.items()}
    return Config(**given[""], **sections, origins=dict(origins))
