"""What every command of `goqueue spark-inspect` takes: which logs, which part, where Spark runs, how to print."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.order import ordered, ordering
from goqueue.console.rows import Column, Row, write_rows
from goqueue.quantities import format_count, format_size, quoted

if TYPE_CHECKING:
    from goqueue.console.places import Place
    from goqueue.spark.logs.port import Isolation, Logs
    from goqueue.spark.plan import Plan, Selection
    from goqueue.spark.points import Bound, Point
    from goqueue.spark.session import SparkSession

_MEMORY_KIB_MIN = 512 * 1024

Output = Literal["table", "wide", "json", "jsonl", "yaml", "csv", "parquet"]

PlacesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DIR] [TOPIC]...",
        help="The data directory, or a copy of one; with --url none. Then names or patterns of topics.",
    ),
]
UrlFlag = Annotated[str | None, typer.Option("--url", "-u", metavar="URL", help="Read a broker at work instead.")]
KeyFlag = Annotated[
    str | None, typer.Option("--api-key", metavar="KEY", help="What the broker knows you by (GOQUEUE_API_KEY).")
]
FromFlag = Annotated[
    str | None,
    typer.Option("--from", metavar="PLACE", help="Begin at earliest, an offset, a time, a day, or -24h."),
]
ToFlag = Annotated[
    str | None, typer.Option("--to", metavar="PLACE", help="End before now, an offset, a time, a day, or -24h.")
]
IsolationFlag = Annotated[
    Literal["read_committed", "read_uncommitted"],
    typer.Option("--isolation", help="Whether messages of open and of aborted transactions are seen."),
]
SkipFlag = Annotated[
    bool, typer.Option("--skip-damage", help="Read on behind damage and what was removed, which end it otherwise.")
]
MasterFlag = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Where Spark runs: local[4], spark://…, k8s://…, yarn.")
]
RemoteFlag = Annotated[str | None, typer.Option("--remote", metavar="URL", help="A Spark Connect server: sc://host.")]
ConfFlag = Annotated[
    list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated.")
]
MemoryFlag = Annotated[str, typer.Option("--memory", metavar="SIZE", help="Of the driver's JVM, as in 2g.")]
OutputFlag = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]
SortFlag = Annotated[
    str | None, typer.Option("--sort-by", metavar="FIELD[:desc]", help="Sort by a field or a title of a column.")
]
NoHeadersFlag = Annotated[bool, typer.Option("--no-headers", help="Leave out the line of titles.")]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """The choices of one call."""

    path: str | None
    url: str | None
    token: str | None
    topics: tuple[str, ...]
    """Names or patterns; none is all of them."""
    first: str | None
    last: str | None
    master: str | None
    remote: str | None
    conf: dict[str, str]
    memory: str
    isolation: "Isolation"
    output: str
    headers: bool
    sort_by: str | None

    @property
    def for_people(self) -> bool:
        return self.output in {"table", "wide"}

    def logs(self, *, are_whole: bool = False) -> "Logs":
        """What is asked; `are_whole` where each frame matters, and not whose message it is."""
        isolation: Isolation = "read_uncommitted" if are_whole else self.isolation
        if self.url is not None:
            from goqueue.spark.logs.broker import BrokerLogs  # noqa: PLC0415 - not before the command is understood

            return BrokerLogs(self.url, self.token, isolation=isolation)
        from goqueue.spark.logs.directory import DirectoryLogs  # noqa: PLC0415

        assert self.path is not None
        return DirectoryLogs.at(self.path, isolation=isolation)

    def plan(self, logs: "Logs") -> "Plan":
        """What is read, decided at this moment."""
        from goqueue.spark.plan import make_plan  # noqa: PLC0415

        return make_plan(logs, self.selection(logs), *self.bounds())

    def bounds(self) -> "tuple[Bound, Bound]":
        """Where reading begins and ends."""
        from goqueue.spark.points import Bound  # noqa: PLC0415

        start, end = _points(self.first, self.last)
        return Bound(start), Bound(end)

    def selection(self, logs: "Logs") -> "Selection":
        from fnmatch import fnmatchcase  # noqa: PLC0415

        from goqueue.spark.plan import Selection  # noqa: PLC0415

        known = logs.topics() if any(_is_pattern(topic) for topic in self.topics) else {}
        shown = [name for name in known if not name.startswith("__")]
        chosen: list[str] = []
        for topic in self.topics:
            fitting = [name for name in shown if fnmatchcase(name, topic)]
            if _is_pattern(topic) and not fitting:
                listed = f"there are: {', '.join(shown[:5])}" if shown else "there are none at all"
                raise UsageInvalid(f"no topic matches {quoted(topic)}", hint=listed)
            chosen += fitting if _is_pattern(topic) else [topic]
        return Selection(tuple(dict.fromkeys(chosen)))

    @contextmanager
    def spark(self, *, is_brief: bool = False) -> "Iterator[SparkSession]":
        """A session of Spark for this command."""
        from goqueue.spark.session import Cluster, session  # noqa: PLC0415

        cluster = Cluster(self.master, self.remote, self.conf)
        with session(cluster, name="goqueue spark-inspect", is_brief=is_brief, memory=self.memory) as spark:
            yield spark

    @contextmanager
    def progress(self, spark: "SparkSession", plan: "Plan", what: str = "reading") -> Iterator[None]:
        from goqueue.spark.progress import progress  # noqa: PLC0415

        with progress(spark, what=what, total_messages=plan.messages, total_bytes=plan.size):
            yield

    def write(self, rows: Sequence[Row], columns: Sequence[Column]) -> None:
        """The result on stdout, in the form that was asked for."""
        chosen = rows if self.sort_by is None else ordered(rows, columns, self.sort_by)
        if self.output == "parquet":
            _write_parquet(chosen, columns)
        else:
            write_rows(chosen, columns, self.output, headers=self.headers)

    def say_what_was_read(self, plan: "Plan") -> None:
        """One sentence for people, under a table."""
        if self.for_people:
            topics = len({one.place[0] for one in plan.ranges})
            terminal.say(
                f"{format_count(topics, 'topic')}, {format_count(len(plan.ranges), 'partition')}, "
                f"{format_size(plan.size)} read"
            )


def inquiry_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the parameter `inquiry` by what it is made of, as Typer reads a signature."""
    return _with_flags(command, PlacesArgument)


def inquiry_flags_with(places: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The same where something else than topics follows the directory: `places` is how Typer is told of it."""
    return lambda command: _with_flags(command, places)


def _with_flags(command: Callable[..., None], argument: Any) -> Callable[..., None]:
    signature = inspect.signature(command)
    shared = dict(inspect.signature(_pattern).parameters)
    places = shared.pop("places").replace(annotation=argument)
    own = [parameter for name, parameter in signature.parameters.items() if name != "inquiry"]

    @wraps(command)
    def with_inquiry(**given: Any) -> None:
        taken = {name: given.pop(name) for name in ("places", *shared)}
        command(**given, inquiry=_inquiry(**taken))

    with_inquiry.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[places, *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own), *shared.values()]
    )
    return with_inquiry


def _pattern(  # noqa: PLR0913 - they are as many as there are flags
    places: PlacesArgument = None,
    *,
    url: UrlFlag = None,
    api_key: KeyFlag = None,
    first: FromFlag = None,
    last: ToFlag = None,
    isolation: IsolationFlag = "read_committed",
    output: OutputFlag = "table",
    sort_by: SortFlag = None,
    no_headers: NoHeadersFlag = False,
    master: MasterFlag = None,
    remote: RemoteFlag = None,
    conf: ConfFlag = None,
    memory: MemoryFlag = "1g",
) -> None:
    """Its parameters are those that every command gets."""


def _inquiry(*, places: list[str] | None, conf: list[str] | None, **flags: Any) -> Inquiry:
    import os  # noqa: PLC0415

    found = places or []
    if flags["url"] is None and not found:
        raise UsageInvalid(
            "nothing to read was named", hint="name a data directory, or a broker with --url http://127.0.0.1:8080"
        )
    ordering(flags["sort_by"])
    _points(flags["first"], flags["last"])
    if flags["output"] == "parquet" and terminal.is_terminal():
        raise UsageInvalid("Parquet is not for a terminal", hint="send it into a file: -o parquet > result.parquet")
    return Inquiry(
        path=found[0] if flags["url"] is None else None,
        url=flags["url"],
        token=flags["api_key"] or os.environ.get("GOQUEUE_API_KEY") or None,
        topics=tuple(found[1:] if flags["url"] is None else found),
        first=flags["first"],
        last=flags["last"],
        master=spark_master(flags["master"]),
        remote=flags["remote"],
        conf=dict(spark_setting(text) for text in conf or []),
        memory=spark_memory(flags["memory"]),
        isolation=flags["isolation"],
        output=flags["output"],
        headers=not flags["no_headers"],
        sort_by=flags["sort_by"],
    )


def _points(first: str | None, last: str | None) -> "tuple[Point, Point]":
    """Where reading begins and ends. Called twice: what is wrong is told before anything is started."""
    from goqueue.console.places import parse_end, parse_start  # noqa: PLC0415

    start, end = parse_start(first or "earliest"), parse_end(last or "now")
    return _point(start), "latest" if end == "now" else _point(end)


def _point(place: "Place") -> "Point":
    from goqueue.client.times import Nanoseconds  # noqa: PLC0415
    from goqueue.spark.points import Moment  # noqa: PLC0415

    return Moment(place) if isinstance(place, Nanoseconds) else cast("Point", place)


def spark_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name.startswith("spark.") and equals):
        raise UsageInvalid(f"--conf: {quoted(text)} is not a setting of Spark", hint="write spark.NAME=VALUE")
    return name, value


def spark_master(text: str | None) -> str | None:
    if text is None or re.fullmatch(r"local(\[[\d*]+(,\d+)?\]|-cluster\[.*\])?|(spark|k8s)://.+|yarn", text):
        return text
    raise UsageInvalid(
        f"--master: {quoted(text)} is no place where Spark runs",
        hint="write local[4], spark://HOST:7077 or yarn",
    )


def spark_memory(text: str) -> str:
    """As Java writes it; Spark does not start with less."""
    found = re.fullmatch(r"(\d+)([kmgt])", text.lower())
    if found is None:
        raise UsageInvalid(f"--memory: {quoted(text)} is no size of a JVM", hint="write it as in 512m or 4g")
    if int(found[1]) * 1024 ** "kmgt".index(found[2]) < _MEMORY_KIB_MIN:
        raise UsageInvalid(f"--memory {text} is too little for Spark", hint="the least is 512m")
    return text


def _is_pattern(topic: str) -> bool:
    return any(character in topic for character in "*?[")


def _write_parquet(rows: Sequence[Row], columns: Sequence[Column]) -> None:
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    fields = list(dict.fromkeys([*(column.field for column in columns), *(field for row in rows for field in row)]))
    table = pa.table({field: [row.get(field) for row in rows] for field in fields})
    pq.write_table(table, sys.stdout.buffer)
