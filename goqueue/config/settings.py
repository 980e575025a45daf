"""Every setting: its name, type, default, bounds and what it does, each said once.

A setting is a field of these classes, and the rest of the program reads it there: sizes are bytes,
durations are seconds. To add one, add a field; the check, the environment variable, the flag, the
templates and `docs/configuration.md` follow from it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from goqueue import limits
from goqueue.config.kinds import (
    DURATION,
    HOST,
    HOST_NAMES,
    INTEGER,
    ORIGINS,
    PATH,
    SIZE,
    SWITCH,
    Kind,
    Rule,
    Value,
    choice,
)
from goqueue.config.problem import Origin
from goqueue.quantities import format_duration, quoted


def _rule(
    kind: Kind, sentence: str, *, least: Value | None = None, most: Value | None = None, flag: str | None = None
) -> dict[str, Rule]:
    return {"rule": Rule(sentence, kind, least, most, flag)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """How messages are kept on disk and in memory."""

    flush: Literal["always", "interval"] = field(
        default="always",
        metadata=_rule(
            choice("always", "interval"),
            "When a publish is answered: `always` after its messages are synced to the device, `interval` as soon"
            " as they are written, so that a power failure can lose the messages of the last `flush_interval`.",
        ),
    )
    flush_interval: float = field(
        default=limits.FLUSH_INTERVAL_SECONDS,
        metadata=_rule(
            DURATION,
            "How long written messages may wait for their sync when `flush` is `interval`; not used otherwise.",
            least=limits.FLUSH_INTERVAL_SECONDS_MIN,
            most=limits.FLUSH_INTERVAL_SECONDS_MAX,
        ),
    )
    segment_bytes: int = field(
        default=limits.SEGMENT_BYTES,
        metadata=_rule(
            SIZE,
            "Size at which a partition begins a new segment file; old messages are removed by whole segments.",
            least=limits.SEGMENT_BYTES_MIN,
            most=limits.SEGMENT_BYTES_MAX,
        ),
    )
    segment_age: float = field(
        default=float(limits.SEGMENT_AGE_SECONDS),
        metadata=_rule(
            DURATION,
            "Age at which a partition begins a new segment file even when the last one is not full.",
            least=limits.SEGMENT_AGE_SECONDS_MIN,
            most=limits.SEGMENT_AGE_SECONDS_MAX,
        ),
    )
    tail_bytes: int = field(
        default=limits.TAIL_BYTES,
        metadata=_rule(
            SIZE,
            "Memory for the newest messages of all partitions together; readers that keep up are served from it.",
            least=limits.TAIL_BYTES_MIN,
            most=limits.TAIL_BYTES_MAX,
        ),
    )
    upkeep_interval: float = field(
        default=limits.UPKEEP_SECONDS,
        metadata=_rule(
            DURATION,
            "How often the broker looks for messages that retention or compaction may remove.",
            least=0.1,
            most=3600,
        ),
    )
    retention_jump_percent: int = field(
        default=limits.RETENTION_JUMP_PERCENT,
        metadata=_rule(
            INTEGER,
            "How much of a topic may be removed for its age in the hour after the clock has jumped ahead, in percent;"
            " 100 believes every clock.",
            least=0,
            most=100,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """How clients reach the broker."""

    host: str = field(
        default="127.0.0.1",
        metadata=_rule(
            HOST,
            "Address to listen on; 127.0.0.1 is reached from this machine alone, 0.0.0.0 from all its networks.",
            flag="--host",
        ),
    )
    port: int = field(
        default=limits.PORT,
        metadata=_rule(
            INTEGER, "Port to listen on; 0 takes a free one and says which.", least=0, most=65535, flag="--port"
        ),
    )
    allowed_hosts: str = field(
        default="none",
        metadata=_rule(
            HOST_NAMES,
            "Names by which clients may call the broker, with commas between them, or `*` for any. IP addresses,"
            " localhost, the machine's own name and `host` are allowed always. It keeps out web pages whose names"
            " were made to resolve to the broker.",
        ),
    )
    allowed_origins: str = field(
        default="none",
        metadata=_rule(
            ORIGINS,
            "Origins of web pages that may use the broker from a browser, such as `http://localhost:3000`, with commas"
            " between them, or `*` for any. Programs that are no browsers need none.",
        ),
    )
    request_bytes: int = field(
        default=limits.HTTP_BODY_BYTES,
        metadata=_rule(
            SIZE,
            "The largest body of a request; what is larger is refused before it is read.",
            least=64 * limits.KIB,
            most=1024 * limits.MIB,
        ),
    )
    in_flight_bytes: int = field(
        default=limits.IN_FLIGHT_BYTES,
        metadata=_rule(
            SIZE,
            "Requests and messages that may be under way at once; beyond it clients are told to wait and try again.",
            least=limits.MIB,
            most=1024 * 1024 * limits.MIB,
        ),
    )
    connections: int = field(
        default=limits.HTTP_CONNECTIONS,
        metadata=_rule(
            INTEGER,
            "Connections that may be open at once; more are refused. Fewer where the limit of open files leaves fewer.",
            least=1,
            most=1_000_000,
        ),
    )
    idle_timeout: float = field(
        default=float(limits.HTTP_IDLE_SECONDS),
        metadata=_rule(DURATION, "How long a connection may stay open without a request.", least=1, most=3600),
    )
    stop_timeout: float = field(
        default=limits.STOP_SECONDS,
        metadata=_rule(
            DURATION, "How long requests in progress may take when the broker is stopped.", least=0.1, most=600
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsConfig:
    """What a topic is like for which nobody said otherwise."""

    auto_create: bool = field(
        default=False,
        metadata=_rule(SWITCH, "Whether publishing to a topic that does not exist creates it; else that is refused."),
    )
    partitions: int = field(
        default=limits.PARTITIONS,
        metadata=_rule(INTEGER, "How many partitions a new topic has.", least=1, most=limits.PARTITIONS_MAX),
    )
    retention: float = field(
        default=limits.RETENTION_HOURS * 3600,
        metadata=_rule(
            DURATION,
            "How long a new topic keeps its messages.",
            least=1,
            most=limits.RETENTION_HOURS_MAX * 3600,
        ),
    )
    max_message_bytes: int = field(
        default=limits.MESSAGE_BYTES,
        metadata=_rule(
            SIZE,
            "The largest message of a new topic: key, value and headers together.",
            least=limits.MESSAGE_BYTES_MIN,
            most=limits.VALUE_BYTES_MAX,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsConfig:
    """How consumer groups work, and what becomes of messages that they fail at."""

    session_timeout: float = field(
        default=limits.SESSION_SECONDS,
        metadata=_rule(
            DURATION,
            "How long a member may go without a sign of life, if it does not say when it joins.",
            least=limits.SESSION_SECONDS_MIN,
            most=limits.SESSION_SECONDS_MAX,
        ),
    )
    revocation_timeout: float = field(
        default=limits.REVOCATION_SECONDS,
        metadata=_rule(
            DURATION,
            "How long a member may take to give up a partition that another one is to have; then it is taken.",
            least=1,
            most=3600,
        ),
    )
    retention: float = field(
        default=float(limits.GROUP_RETENTION_SECONDS),
        metadata=_rule(
            DURATION,
            "How long a group without members is remembered, with what it has read.",
            least=1,
            most=10 * 365 * 24 * 3600,
        ),
    )
    max_in_flight: int = field(
        default=limits.IN_FLIGHT_MESSAGES,
        metadata=_rule(
            INTEGER,
            "How many messages a member may have and not have settled, if it does not say when it joins.",
            least=1,
            most=limits.IN_FLIGHT_MESSAGES_MAX,
        ),
    )
    visibility_timeout: float = field(
        default=limits.VISIBILITY_SECONDS,
        metadata=_rule(
            DURATION,
            "How long a message is lent to a member before it is handed out again, if the poll does not say.",
            least=limits.VISIBILITY_SECONDS_MIN,
            most=limits.VISIBILITY_SECONDS_MAX,
        ),
    )
    max_retries: int = field(
        default=limits.RETRIES_MAX,
        metadata=_rule(
            INTEGER, "How often a message that failed is tried again before it is a dead letter.", least=0, most=1000
        ),
    )
    retry_delay: float = field(
        default=limits.RETRY_SECONDS,
        metadata=_rule(
            DURATION, "Before the first retry; twice as long before each further one.", least=0.001, most=3600
        ),
    )
    max_retry_delay: float = field(
        default=limits.RETRY_SECONDS_MAX,
        metadata=_rule(
            DURATION,
            "The longest that a retry waits by itself.",
            least=0.001,
            most=limits.RETRY_DELAY_SECONDS_MAX,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """What the broker writes to stderr."""

    level: Literal["debug", "info", "warning", "error"] = field(
        default="info",
        metadata=_rule(choice("debug", "info", "warning", "error"), "The least important lines that are written."),
    )
    format: Literal["text", "json"] = field(
        default="text",
        metadata=_rule(choice("text", "json"), "Lines for people, or a JSON object in each line."),
    )
    requests: int = field(
        default=limits.REQUESTS_LOGGED,
        metadata=_rule(
            INTEGER,
            "Requests that are logged in one second; of the others only the number is. 0 logs none.",
            least=0,
            most=100_000,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings, and where each of them came from."""

    data_dir: str = field(
        default="./goqueue-data",
        metadata=_rule(
            PATH,
            "Directory that holds everything the broker stores; a relative one starts where the broker is started.",
        ),
    )
    server: ServerConfig = field(default_factory=ServerConfig, metadata={"section": ServerConfig})
    topics: TopicsConfig = field(default_factory=TopicsConfig, metadata={"section": TopicsConfig})
    storage: StorageConfig = field(default_factory=StorageConfig, metadata={"section": StorageConfig})
    groups: GroupsConfig = field(default_factory=GroupsConfig, metadata={"section": GroupsConfig})
    log: LogConfig = field(default_factory=LogConfig, metadata={"section": LogConfig})
    origins: Mapping[str, Origin] = field(default_factory=dict, compare=False, repr=False)

    def value(self, setting: "Setting") -> Value:
        found: Any = self
        for name in setting.key.split("."):
            found = getattr(found, name)
        value: Value = found
        return value

    def origin(self, setting: "Setting") -> Origin:
        return self.origins.get(setting.key, Origin())


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    key: str
    default: Value
    rule: Rule

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
        """The sentence and the default, for a place that has room for a line."""
        return f"{self.rule.sentence} [default: {self.format(self.default)}]"

    @property
    def bounds(self) -> str:
        """`4KiB to 2GiB`, or nothing for a setting that is no quantity."""
        if self.rule.least is None or self.rule.most is None:
            return ""
        return f"{self.rule.kind.format(self.rule.least)} to {self.rule.kind.format(self.rule.most)}"

    def parse(self, text: str) -> Value:
        """The value that `text` stands for, or a ValueError that says why there is none."""
        rule = self.rule
        value = rule.kind.parse(text)
        if isinstance(value, str):
            return value
        if isinstance(rule.least, int | float) and value < rule.least:
            raise ValueError(f"{quoted(text)} is too small: at least {rule.kind.format(rule.least)}")
        if isinstance(rule.most, int | float) and value > rule.most:
            raise ValueError(f"{quoted(text)} is too large: at most {rule.kind.format(rule.most)}")
        return value

    def format(self, value: Value) -> str:
        return self.rule.kind.format(value)


def _table(section: type, prefix: str = "") -> Iterator[Setting]:
    for item in fields(section):
        if "rule" in item.metadata:
            default: Any = item.default
            yield Setting(prefix + item.name, default, item.metadata["rule"])
        elif "section" in item.metadata:
            yield from _table(item.metadata["section"], f"{prefix}{item.name}.")


def _sections(owner: type, prefix: str = "") -> Iterator[tuple[str, str]]:
    for item in fields(owner):
        if "section" in item.metadata:
            section = item.metadata["section"]
            yield prefix + item.name, str(section.__doc__)
            yield from _sections(section, f"{prefix}{item.name}.")


SETTINGS: tuple[Setting, ...] = tuple(_table(Config))
SECTIONS: Mapping[str, str] = dict(_sections(Config))
"""What each section is about, by its key."""


def build(values: Mapping[str, Value], origins: Mapping[str, Origin]) -> Config:
    """A configuration of these values, and of defaults for the rest."""
    config: Config = _build(Config, values, "", origins=dict(origins))
    return config


def _build(section: type, values: Mapping[str, Value], prefix: str, **given: Any) -> Any:
    for item in fields(section):
        key = prefix + item.name
        if "section" in item.metadata:
            given[item.name] = _build(item.metadata["section"], values, f"{key}.")
        elif key in values:
            given[item.name] = values[key]
    return section(**given)


def conflicts(values: Mapping[str, Value]) -> Iterator[tuple[str, str]]:
    """Settings that are fine alone and not together: the key to change, and why."""
    merged = {setting.key: setting.default for setting in SETTINGS} | dict(values)
    delay, longest = merged["groups.retry_delay"], merged["groups.max_retry_delay"]
    if float(delay) > float(longest):
        yield (
            "groups.max_retry_delay",
            f"{format_duration(float(longest), exact=True)} is shorter than groups.retry_delay"
            f" ({format_duration(float(delay), exact=True)})",
        )
    age, interval = merged["storage.segment_age"], merged["storage.flush_interval"]
    if merged["storage.flush"] == "interval" and float(age) < float(interval):
        yield (
            "storage.segment_age",
            f"{format_duration(float(age), exact=True)} is shorter than storage.flush_interval"
            f" ({format_duration(float(interval), exact=True)}): a segment would end before its first sync",
        )
