"""The options of the data source, called as those of Spark's Kafka connector are; all that is wrong is told at once."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goqueue.client.environment import environment_key
from goqueue.client.tls import TlsOptions
from goqueue.config import load
from goqueue.errors import ConfigInvalid, GoQueueError, RequestInvalid
from goqueue.nearest import nearest
from goqueue.quantities import parse_size, parse_time, quoted
from goqueue.spark.logs.port import READ_COMMITTED, READ_UNCOMMITTED, Isolation, LogSource, PartitionRef
from goqueue.spark.reading.backup_place import STORE_OPTIONS, BackupPlace
from goqueue.spark.reading.plan import ReadBound, ReadPoint, TimePoint, TopicSelection, check_pattern

if TYPE_CHECKING:
    from goqueue.spark.typed.options import TypedOptions

TLS_OPTIONS = ("goqueue.caFile", "goqueue.clientCert", "goqueue.clientKey")
SCHEMA_OPTIONS = (
    "schemas",
    "schemaSubject",
    "schemaVersion",
    "keySchemaSubject",
    "keySchemaVersion",
    "includeKeyData",
    "mode",
)
READ_OPTIONS = (
    "path",
    "backup",
    "backupId",
    *STORE_OPTIONS,
    "goqueue.url",
    "goqueue.token",
    "goqueue.tenant",
    *TLS_OPTIONS,
    "subscribe",
    "subscribePattern",
    "assign",
    "delayed",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBytesPerTrigger",
    "minPartitions",
    "splitBytes",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "groupId",
    "isolation",
    *SCHEMA_OPTIONS,
)
_SAME = {
    "kafka.bootstrap.servers": "goqueue.url",
    "server": "goqueue.url",
    "servers": "goqueue.url",
    "goqueue.servers": "goqueue.url",
    "tenant": "goqueue.tenant",
    "topic": "subscribe",
    "topics": "subscribe",
}
"""Names of options that other programs have, where none of ours is alike."""
_EARLIEST, _LATEST = -2, -1  # how Kafka writes them among offsets
_MILLISECOND = 1_000_000
_COUNT_DIGITS_MAX = 18  # more than there will be of anything, and safe in 64 bits


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed options."""

    path: str | None
    url: str | None
    token: str | None
    selection: TopicSelection
    is_delayed: bool
    isolation: Isolation
    start: ReadBound | None
    end: ReadBound | None
    columns: tuple[str, ...] | None
    has_headers: bool
    fails_on_loss: bool
    split_bytes: int | None
    partitions_least: int | None
    offsets_per_trigger: int | None
    offsets_least: int | None
    trigger_delay: float
    bytes_per_trigger: int | None
    group: str | None
    tls: TlsOptions | None = None
    tenant: str = ""
    """The tenant whose names are meant; empty for a key of a tenant, and for the names of the broker."""
    typed: "TypedOptions | None" = None
    """None: no columns are typed by schemas."""
    backup: BackupPlace | None = None

    def logs(self) -> LogSource:
        """Open the logs. Imported here, because a broker needs the client and a directory does not."""
        if self.backup is not None:
            return self.backup.logs(is_delayed=self.is_delayed, isolation=self.isolation)
        if self.url is not None:
            from goqueue.spark.logs.broker import BrokerLogs  # noqa: PLC0415

            return BrokerLogs(
                self.url,
                self.token,
                is_delayed=self.is_delayed,
                isolation=self.isolation,
                tls=self.tls,
                tenant=self.tenant,
            )
        from goqueue.spark.logs.directory import DirectoryLogs  # noqa: PLC0415

        assert self.path is not None
        return DirectoryLogs.at(self.path, is_delayed=self.is_delayed, isolation=self.isolation)


class OptionReader:
    """The given options, read one by one; problems are collected until all are known."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        self.problems: list[str] = []
        names = {name.lower(): name for name in known}
        for name in given:
            if name.lower() not in names:
                same = _SAME.get(name.lower())
                meant = same if same in known else nearest(name, list(known))
                self.problems.append(f"{quoted(name)} is no option" + (f" (did you mean {meant}?)" if meant else ""))

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def take(self, name: str, read: Callable[[str], Any]) -> Any:
        """Return the value parsed by `read`; None where it is missing or wrong."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return read(text)
        except (ValueError, GoQueueError) as error:
            self.problems.append(f"{name}: {error}")
            return None

    def one_of(self, *names: str, is_needed: bool) -> None:
        """Check that at most one of these is given."""
        found = [name for name in names if self.text(name) is not None]
        if len(found) > 1:
            self.problems.append(f"{' and '.join(found)} exclude each other: give one of them")
        if is_needed and not found:
            self.problems.append(f"one of {', '.join(names[:-1])} and {names[-1]} is needed")

    def check(self) -> None:
        if self.problems:
            raise RequestInvalid(
                "the options of format goqueue are wrong: " + "; ".join(self.problems),
                hint="docs/spark.md lists all options",
                problems=self.problems,
            )


def read_options(given: Mapping[str, str]) -> ReadOptions:
    options = OptionReader(given, READ_OPTIONS)
    options.one_of("path", "backup", "goqueue.url", is_needed=True)
    if options.text("goqueue.tenant") and options.text("goqueue.url") is None:
        options.problems.append("goqueue.tenant needs goqueue.url: a directory has the full names")
    options.one_of("subscribe", "subscribePattern", "assign", is_needed=False)
    found = ReadOptions(
        path=options.text("path"),
        url=options.text("goqueue.url"),
        token=_token(options),
        selection=TopicSelection(
            options.take("subscribe", parse_names) or (),
            options.take("subscribePattern", _pattern),
            options.take("assign", _assignment),
        ),
        is_delayed=options.take("delayed", parse_boolean) or False,
        isolation=options.take("isolation", parse_isolation) or READ_COMMITTED,
        start=_bound(options, "starting", "earliest"),
        end=_bound(options, "ending", "latest"),
        columns=options.take("columns", parse_names),
        has_headers=options.take("includeHeaders", parse_boolean) or False,
        fails_on_loss=options.take("failOnDataLoss", parse_boolean) is not False,
        split_bytes=options.take("splitBytes", parse_split_size),
        partitions_least=options.take("minPartitions", parse_count),
        offsets_per_trigger=options.take("maxOffsetsPerTrigger", parse_count),
        offsets_least=options.take("minOffsetsPerTrigger", parse_count),
        trigger_delay=options.take("maxTriggerDelay", read_duration) or 15 * 60.0,
        bytes_per_trigger=options.take("maxBytesPerTrigger", parse_split_size),
        group=options.text("groupId"),
        tls=tls_options(options),
        tenant=options.text("goqueue.tenant") or "",
        typed=_typed(options),
        backup=_backup(options),
    )
    options.check()
    return found


def _backup(options: OptionReader) -> BackupPlace | None:
    """Return the named backup. What is not given is that of the driver's environment."""
    target = options.text("backup")
    if target is None:
        options.problems += [f"{name} needs the option backup" for name in ("backupId", *STORE_OPTIONS)
                             if options.text(name) is not None]  # fmt: skip
        return None
    given = {f"backup.{setting}": options.text(name) for name, setting in STORE_OPTIONS.items()}
    try:
        settings = load(None, os.environ, given).backup
    except ConfigInvalid as error:
        options.problems.append(error.sentence)
        return None
    return BackupPlace(target, options.text("backupId"), settings)


def _typed(options: OptionReader) -> "TypedOptions | None":
    """Return the options of typed columns. Imported here, because other reads need none of it."""
    schemas = options.text("schemas")
    if schemas is None:
        options.problems += [f"{name} needs the option schemas" for name in SCHEMA_OPTIONS[1:] if options.text(name)]
        return None
    from goqueue.spark.typed.options import PartOptions, TypedOptions, parse_mode, parse_version  # noqa: PLC0415

    return TypedOptions(
        schemas,
        PartOptions(options.text("schemaSubject"), options.take("schemaVersion", parse_version)),
        PartOptions(options.text("keySchemaSubject"), options.take("keySchemaVersion", parse_version)),
        has_key=options.take("includeKeyData", parse_boolean) or False,
        is_strict=options.take("mode", parse_mode) == "FAILFAST",
    )


# --- how values are written ---


def _token(options: OptionReader) -> str | None:
    """Return the key of the options or, for a broker, that of the driver's environment: executors have another."""
    given = options.text("goqueue.token")
    return environment_key() if given is None and options.text("goqueue.url") is not None else given


def tls_options(options: OptionReader) -> TlsOptions | None:
    """Return the files of the options, or those of the driver's environment."""
    found = TlsOptions(*map(options.text, TLS_OPTIONS)).or_environment()
    return found if any(found) else None


def tls_to_options(tls: TlsOptions | None) -> dict[str, str]:
    """Return the options that `tls_options` reads."""
    return {name: path for name, path in zip(TLS_OPTIONS, tls or (), strict=False) if path is not None}


def parse_names(text: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise ValueError(f"{quoted(text)} names nothing")
    return found


def parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{quoted(text)} is neither true nor false")
    return text.lower() == "true"


def parse_count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= _COUNT_DIGITS_MAX and int(text)):
        raise ValueError(f"{quoted(text)} is not a number above 0")
    return int(text)


def parse_split_size(text: str) -> int:
    found = parse_size(text)
    if not found:
        raise ValueError(f"{quoted(text)} is no size to read in")
    return found


def read_duration(text: str) -> float:
    from goqueue.quantities import parse_duration  # noqa: PLC0415

    return parse_duration(text)


def parse_time_point(text: str) -> TimePoint:
    """Parse milliseconds since the epoch, as in Kafka, or a written time."""
    if text.isascii() and text.isdecimal() and len(text) <= 15:
        return TimePoint(int(text) * _MILLISECOND)
    return TimePoint(parse_time(text))


def parse_isolation(text: str) -> Isolation:
    if text not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise ValueError(f"{quoted(text)} is neither {READ_COMMITTED} nor {READ_UNCOMMITTED}")
    return READ_COMMITTED if text == READ_COMMITTED else READ_UNCOMMITTED


def _pattern(text: str) -> str:
    check_pattern(text)
    return text


def _assignment(text: str) -> dict[str, tuple[int, ...]]:
    found = _object(text, '{"orders": [0, 1]}')
    for topic, numbers in found.items():
        if not (isinstance(numbers, list) and numbers and all(type(one) is int and one >= 0 for one in numbers)):
            raise ValueError(f"the partitions of {quoted(topic)} are {numbers}; write them as in [0, 1]")
    return {topic: tuple(numbers) for topic, numbers in found.items()}


def _bound(options: OptionReader, end: str, otherwise: ReadPoint) -> ReadBound | None:
    """Choose a time for all over times for each, and these over offsets, as Kafka's connector does."""
    point = options.take(f"{end}Timestamp", parse_time_point)
    times = options.take(f"{end}OffsetsByTimestamp", _times)
    bound: ReadBound | None = options.take(f"{end}Offsets", _offsets)
    if bound is not None and end == "ending" and "earliest" in (bound.given.values() or (bound.otherwise,)):
        options.problems.append("endingOffsets: earliest is where nothing has been read yet; latest, or offsets")
    if point is not None:
        return ReadBound(point)
    if times is not None:
        return ReadBound(otherwise, times)
    if bound is not None and bound.given:
        return ReadBound(otherwise, bound.given)
    return bound


def _offsets(text: str) -> ReadBound:
    if text.lower() == "earliest":
        return ReadBound("earliest")
    if text.lower() == "latest":
        return ReadBound("latest")
    found = _by_place(text, '{"orders": {"0": 23}}', "an offset, -2 for the earliest or -1 for the latest", _EARLIEST)
    words: dict[int, ReadPoint] = {_EARLIEST: "earliest", _LATEST: "latest"}
    return ReadBound("earliest", {ref: words.get(offset, offset) for ref, offset in found.items()})


def _times(text: str) -> dict[PartitionRef, ReadPoint]:
    found = _by_place(text, '{"orders": {"0": 1760000000000}}', "milliseconds since the epoch", 0)
    return {ref: TimePoint(time * _MILLISECOND) for ref, time in found.items()}


def _by_place(text: str, example: str, meaning: str, least: int) -> dict[PartitionRef, int]:
    found: dict[PartitionRef, int] = {}
    for topic, partitions in _object(text, example).items():
        if type(partitions) is not dict:
            raise ValueError(f"{quoted(topic)} has {quoted(str(partitions))}; write it as in {example}")
        for number, value in partitions.items():
            if not (number.isascii() and number.isdecimal() and type(value) is int and least <= value < 2**63):
                raise ValueError(f"partition {quoted(number)} of {quoted(topic)} has {value}; it takes {meaning}")
            found[topic, int(number)] = value
    return found


def _object(text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not (isinstance(found, dict) and found):
        raise ValueError(f"{quoted(text)} is not what is expected here; write it as in {example}")
    return found
