"""The options that all commands of `goqueue spark-inspect` share: what is read, where Spark runs, the output."""

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from goqueue.console import terminal
from goqueue.console.extras import require_extra
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import (
    CaFileFlag,
    ClientCertFlag,
    ClientKeyFlag,
    ContextFlag,
    KeyFileFlag,
    NoHeadersFlag,
    SortFlag,
    flag_parameters,
    take_flags,
    with_parameters,
)
from goqueue.console.options import OptionOrigin, resolve_options
from goqueue.console.rows import Column, Row, parse_sort, sort_rows, write_rows
from goqueue.quantities import format_count, format_size, quoted

if TYPE_CHECKING:
    from goqueue.client.tls import TlsOptions
    from goqueue.console.positions import Position
    from goqueue.spark.logs.port import Isolation, LogSource
    from goqueue.spark.reading.backup_place import BackupPlace
    from goqueue.spark.reading.plan import ReadBound, ReadPlan, ReadPoint, TopicSelection
    from goqueue.spark.session import SparkSession

_MEMORY_KIB_MIN = 512 * 1024

Output = Literal["table", "wide", "json", "jsonl", "yaml", "csv", "parquet"]

PlacesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DIR] [TOPIC]...",
        help="The data directory or a copy of it; none with --url, --context or --backup. Then topics or patterns.",
    ),
]
SkipFlag = Annotated[
    bool, typer.Option("--skip-damage", help="Continue after damaged or removed messages instead of failing.")
]
OutputFlag = Annotated[Output, typer.Option("--output", "-o", help="Form of the output.")]


@dataclass(frozen=True, slots=True)
class ReadFlags:
    """Flags for what is read, and for the form of the output."""

    url: Annotated[str | None, typer.Option("--url", "-u", metavar="URL", help="Read a running broker instead.")] = None
    backup: Annotated[
        str | None, typer.Option("--backup", metavar="TARGET", help="Read a backup in a directory or object store.")
    ] = None
    backup_id: Annotated[
        str | None, typer.Option("--backup-id", metavar="ID", help="Id of the backup. Default: the newest.")
    ] = None
    key_file: Annotated[
        str | None, typer.Option("--key-file", metavar="PATH", help="File with the keys of the backups.")
    ] = None
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="YAML file with settings of the backup's target.")
    ] = None
    context: ContextFlag = None
    api_key: Annotated[
        str | None, typer.Option("--api-key", metavar="KEY", help="API key of the broker (GOQUEUE_API_KEY).")
    ] = None
    api_key_file: KeyFileFlag = None
    tenant: Annotated[
        str,
        typer.Option("--tenant", metavar="TENANT", help="With --url: read the topics of this tenant."),
    ] = ""
    ca_file: CaFileFlag = None
    client_cert: ClientCertFlag = None
    client_key: ClientKeyFlag = None
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="Begin at earliest, an offset, a time, a day, or -24h."),
    ] = None
    last: Annotated[
        str | None, typer.Option("--to", metavar="PLACE", help="End before now, an offset, a time, a day, or -24h.")
    ] = None
    isolation: Annotated[
        Literal["read_committed", "read_uncommitted"],
        typer.Option("--isolation", help="Whether to read messages of open and aborted transactions."),
    ] = "read_committed"
    output: OutputFlag = "table"
    sort_by: SortFlag = None
    no_headers: NoHeadersFlag = False


@dataclass(frozen=True, slots=True)
class SparkFlags:
    """Flags for where Spark runs."""

    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Where Spark runs: local[4], spark://…, k8s://…, yarn."),
    ] = None
    remote: Annotated[
        str | None, typer.Option("--remote", metavar="URL", help="A Spark Connect server: sc://host.")
    ] = None
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
    ] = None
    memory: Annotated[str, typer.Option("--memory", metavar="SIZE", help="Heap of the driver's JVM, as in 2g.")] = "1g"

    def __post_init__(self) -> None:
        require_extra("spark")
        _check_master(self.master)
        _check_memory(self.memory)
        for text in self.conf or ():
            if not re.match(r"spark\.[^=]*=", text):
                raise UsageInvalid(f"--conf: {quoted(text)} is not a setting of Spark", hint="write spark.NAME=VALUE")

    @contextmanager
    def session(self, name: str, *, is_brief: bool = False) -> "Iterator[SparkSession]":
        from goqueue.spark.session import Cluster, session  # noqa: PLC0415 - not before the command is understood

        settings = dict(text.split("=", 1) for text in self.conf or ())
        cluster = Cluster(self.master, self.remote, settings)
        with ExitStack() as owned:
            with terminal.status("starting Spark"):
                spark = owned.enter_context(session(cluster, name=name, is_brief=is_brief, memory=self.memory))
            yield spark


def _check_master(text: str | None) -> None:
    if text is not None and not re.fullmatch(r"local(\[[\d*]+(,\d+)?\]|-cluster\[.*\])?|(spark|k8s)://.+|yarn", text):
        raise UsageInvalid(
            f"--master: {quoted(text)} is not a Spark master", hint="write local[4], spark://HOST:7077 or yarn"
        )


def _check_memory(text: str) -> None:
    """Check the size of a JVM; Spark does not start with less than 512m."""
    found = re.fullmatch(r"(\d+)([kmgt])", text.lower())
    if found is None:
        raise UsageInvalid(f"--memory: {quoted(text)} is not the size of a JVM", hint="write it as in 512m or 4g")
    if int(found[1]) * 1024 ** "kmgt".index(found[2]) < _MEMORY_KIB_MIN:
        raise UsageInvalid(f"--memory {text} is too little for Spark", hint="the minimum is 512m")


@dataclass(frozen=True, slots=True)
class InspectRequest:
    """The shared options of one call."""

    path: str | None
    """The data directory; None where a broker or a backup is read."""
    url: str | None
    token: str | None
    topics: tuple[str, ...]
    """Names or patterns; empty for all."""
    flags: ReadFlags
    cluster: SparkFlags
    tls: "TlsOptions | None" = None
    backup: "BackupPlace | None" = None

    @property
    def for_people(self) -> bool:
        return self.flags.output in {"table", "wide"}

    @property
    def tls_flags(self) -> dict[str, str | None]:
        """The flags of TLS, for every broker of the call."""
        flags = self.flags
        return {"ca_file": flags.ca_file, "client_cert": flags.client_cert, "client_key": flags.client_key}

    def logs(self, *, all_frames: bool = False) -> "LogSource":
        """Open the logs; with `all_frames`, messages of open and aborted transactions count as well."""
        isolation: Isolation = "read_uncommitted" if all_frames else self.flags.isolation
        if self.url is not None:
            from goqueue.client import address  # noqa: PLC0415 - not before the command is understood
            from goqueue.console.session import reach  # noqa: PLC0415
            from goqueue.spark.logs.broker import BrokerLogs  # noqa: PLC0415

            reach(address.parse_all(self.url), flag="`--url URL`")
            return BrokerLogs(self.url, self.token, isolation=isolation, tls=self.tls, tenant=self.flags.tenant)
        if self.backup is not None:
            return self.backup.logs(isolation=isolation)
        from goqueue.spark.logs.directory import DirectoryLogs  # noqa: PLC0415

        assert self.path is not None
        return DirectoryLogs.at(self.path, isolation=isolation)

    def plan(self, logs: "LogSource", topics: tuple[str, ...] | None = None) -> "ReadPlan":
        """Decide what is read, of the selected topics or of these."""
        from goqueue.spark.reading.plan import TopicSelection, make_plan  # noqa: PLC0415

        selection = self.selection(logs) if topics is None else TopicSelection(topics)
        return make_plan(logs, selection, *self.bounds())

    def bounds(self) -> "tuple[ReadBound, ReadBound]":
        from goqueue.spark.reading.plan import ReadBound  # noqa: PLC0415

        start, end = _points(self.flags)
        return ReadBound(start), ReadBound(end)

    def time_range(self) -> tuple[int | None, int | None]:
        """Return --from and --to as times in nanoseconds; an offset is refused."""
        from goqueue.spark.reading.plan import TimePoint  # noqa: PLC0415

        found: list[int | None] = []
        for flag, point in zip(("--from", "--to"), _points(self.flags), strict=True):
            if isinstance(point, int):
                raise UsageInvalid(f"{flag}: offset {point} is not a time", hint="name a time, a day, or -24h")
            found.append(point.time_ns if isinstance(point, TimePoint) else None)
        return found[0], found[1]

    def selection(self, logs: "LogSource") -> "TopicSelection":
        from fnmatch import fnmatchcase  # noqa: PLC0415

        from goqueue.spark.reading.plan import TopicSelection  # noqa: PLC0415

        known = logs.topics() if any(map(_is_pattern, self.topics)) else {}
        listed = [name for name in known if not name.startswith("__")]
        chosen: list[str] = []
        for topic in self.topics:
            matching = [name for name in listed if fnmatchcase(name, topic)] if _is_pattern(topic) else [topic]
            if not matching:
                hint = f"there are: {', '.join(listed[:5])}" if listed else "there are no topics"
                raise UsageInvalid(f"no topic matches {quoted(topic)}", hint=hint)
            chosen += matching
        return TopicSelection(tuple(dict.fromkeys(chosen)))

    def spark(self, *, is_brief: bool = False) -> "AbstractContextManager[SparkSession]":
        return self.cluster.session("goqueue spark-inspect", is_brief=is_brief)

    @contextmanager
    def progress(self, spark: "SparkSession", plan: "ReadPlan", action: str = "reading") -> Iterator[None]:
        from goqueue.spark.progress import progress  # noqa: PLC0415

        with progress(spark, what=action, total_messages=plan.messages, total_bytes=plan.size):
            yield

    def write(self, rows: Sequence[Row], columns: Sequence[Column]) -> None:
        """Write the result to stdout, in the chosen form."""
        flags = self.flags
        chosen = rows if flags.sort_by is None else sort_rows(rows, columns, flags.sort_by)
        if flags.output == "parquet":
            _write_parquet(chosen, columns)
        else:
            write_rows(chosen, columns, flags.output, headers=not flags.no_headers)

    def print_plan(self, plan: "ReadPlan") -> None:
        """Print one sentence about what was read."""
        topics = len({one.ref[0] for one in plan.ranges})
        terminal.say(
            f"{format_count(topics, 'topic')}, {format_count(len(plan.ranges), 'partition')}, "
            f"{format_size(plan.size)} read"
        )


def with_request(command: Callable[..., None], argument: Any = PlacesArgument) -> Callable[..., None]:
    """Replace the parameter `request` by the options that it is made of; `argument` declares the words behind them."""
    places = inspect.Parameter("places", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=argument)

    def convert(given: dict[str, Any]) -> dict[str, Any]:
        read, cluster = take_flags(ReadFlags, given), take_flags(SparkFlags, given)
        return {"request": _make_request(given.pop("places") or [], read, cluster), **given}

    shared = [*flag_parameters(ReadFlags), *flag_parameters(SparkFlags)]
    return with_parameters(command, [*shared, places], convert, replaced="request")


def _make_request(places: list[str], flags: ReadFlags, cluster: SparkFlags) -> InspectRequest:
    backup = _backup(flags)
    url, token, tls = _broker(flags, has_places=bool(places)) if backup is None else (None, None, None)
    if url is None and backup is None and not places:
        raise UsageInvalid(
            "there is nothing to read",
            hint="name a data directory, a broker with --url, its context with --context, or a backup with --backup",
        )
    if url is None and flags.tenant:
        raise UsageInvalid("--tenant is for a broker", hint="name it with --url; a directory has the full names")
    parse_sort(flags.sort_by)
    _points(flags)
    if flags.output == "parquet" and terminal.is_terminal():
        raise UsageInvalid(
            "Parquet cannot be shown on a terminal", hint="write it to a file: -o parquet > result.parquet"
        )
    if backup is not None:
        return InspectRequest(None, None, None, tuple(places), flags, cluster, backup=backup)
    if url is None:
        return InspectRequest(places[0], None, None, tuple(places[1:]), flags, cluster)
    return InspectRequest(None, url, token, tuple(places), flags, cluster, tls)


def _backup(flags: ReadFlags) -> "BackupPlace | None":
    """Return the backup to read. Its settings are those of the environment or the file, as of `goqueue backup`."""
    if flags.backup is None:
        for flag, text in (("--backup-id", flags.backup_id), ("--key-file", flags.key_file),
                           ("--config", flags.config)):  # fmt: skip
            if text is not None:
                raise UsageInvalid(f"{flag} belongs to a backup", hint="name the target with --backup TARGET")
        return None
    if flags.url is not None or flags.context is not None:
        raise UsageInvalid("--backup and a broker exclude each other", hint="leave out --url or --context")
    if not flags.backup:
        raise UsageInvalid("--backup is empty", hint="name the directory or object store with the backups")
    from goqueue.config import load  # noqa: PLC0415 - not before the command is understood
    from goqueue.spark.reading.backup_place import BackupPlace  # noqa: PLC0415

    settings = load(flags.config, os.environ, {"backup.key_file": flags.key_file}).backup
    return BackupPlace(flags.backup, flags.backup_id, settings)


def _broker(flags: ReadFlags, *, has_places: bool) -> "tuple[str | None, str | None, TlsOptions | None]":
    """Return the broker to read, its API key and the files of TLS; a directory needs none of them.

    A broker is named by --url or --context. The current context counts where nothing else is named.
    """
    if flags.url is None and flags.context is None and has_places:
        return None, None, None
    given = {
        "server": flags.url,
        "context": flags.context,
        "api_key": flags.api_key,
        "api_key_file": flags.api_key_file,
        "ca_file": flags.ca_file,
        "client_cert": flags.client_cert,
        "client_key": flags.client_key,
    }
    resolved = resolve_options(given, os.environ)
    if resolved.server.kind not in {OptionOrigin.FLAG, OptionOrigin.CONTEXT}:
        if flags.context is not None:
            raise UsageInvalid(f"context {flags.context} has no server", hint="name a broker with --url")
        return None, None, None
    return resolved.server.value, resolved.api_key.value.read(), resolved.tls


def _points(flags: ReadFlags) -> "tuple[ReadPoint, ReadPoint]":
    """Parse where reading begins and ends. Called twice, so that an error is found before anything is started."""
    from goqueue.console.positions import parse_end, parse_start  # noqa: PLC0415

    start, end = parse_start(flags.first or "earliest"), parse_end(flags.last or "now")
    return _point(start), "latest" if end == "now" else _point(end)


def _point(position: "Position") -> "ReadPoint":
    from goqueue.client.times import Nanoseconds  # noqa: PLC0415
    from goqueue.spark.reading.plan import TimePoint  # noqa: PLC0415

    return TimePoint(position) if isinstance(position, Nanoseconds) else cast("ReadPoint", position)


def _is_pattern(topic: str) -> bool:
    return any(character in topic for character in "*?[")


def _write_parquet(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    fields = list(dict.fromkeys([*(column.field for column in columns), *(field for row in rows for field in row)]))
    table = pa.table({field: [row.get(field) for row in rows] for field in fields})
    pq.write_table(table, sys.stdout.buffer)
