"""`goqueue spark-inspect sql`: questions in SQL, every topic a table."""

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.commands.inspect.request import InspectRequest, SkipFlag, with_request
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.rows import Column, Row, csv_line, json_text, parse_sort, write_rows, yaml_text
from goqueue.errors import PathInvalid
from goqueue.quantities import format_count, quoted

if TYPE_CHECKING:
    from goqueue.spark.queries.results import Result
    from goqueue.spark.queries.schemas import JsonFields
    from goqueue.spark.queries.views import TopicViews

QueryArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DIR] QUERY",
        help="The data directory or a copy; none with --url or --backup. Then the query, @FILE, or - for stdin.",
    ),
]
LimitFlag = Annotated[int, typer.Option("--limit", min=1, metavar="ROWS", help="Show a person at most so many rows.")]
SchemaFlag = Annotated[
    str | None,
    typer.Option("--json-schema", metavar="DDL|@FILE", help="The fields of JSON values: 'customer STRING, total INT'."),
]
InferFlag = Annotated[
    int, typer.Option("--infer", min=1, max=100_000, metavar="N", help="Find out the fields from so many messages.")
]
NoJsonFlag = Annotated[bool, typer.Option("--no-json", help="No columns for the fields of JSON values.")]
SchemasFlag = Annotated[
    str | None,
    typer.Option(
        "--schemas",
        metavar="own|URL|DIR|FILE",
        help="Make columns of values by their schemas: those of this broker or directory, of another, or of a file.",
    ),
]
ExplainFlag = Annotated[bool, typer.Option("--explain", help="Show what would be read, and how; run nothing.")]


@partial(with_request, argument=QueryArgument)
def sql(  # noqa: PLR0913 - the flags of a command
    *,
    limit: LimitFlag = 1000,
    json_schema: SchemaFlag = None,
    infer: InferFlag = 1000,
    no_json: NoJsonFlag = False,
    schemas: SchemasFlag = None,
    explain: ExplainFlag = False,
    skip_damage: SkipFlag = False,
    request: InspectRequest,
) -> None:
    """Ask topics in SQL: each is a table of its name.

    \b
      goqueue spark-inspect sql ./goqueue-data "SELECT count(*) FROM orders"
      goqueue spark-inspect sql ./goqueue-data \\
        "SELECT customer, sum(total) FROM orders GROUP BY customer" -o csv
      goqueue spark-inspect sql --url http://127.0.0.1:8080 @late.sql \\
        --from -24h -o jsonl > late.jsonl
      goqueue spark-inspect sql ./goqueue-data \\
        'SELECT * FROM `orders.eu` WHERE offset < 10'

    Columns: partition, offset, timestamp, key, value, priority, headers, topic. Key and value are text, raw_key and
    raw_value the bytes of both. Where the values of a topic are JSON objects, each of their fields is a column; one
    whose name is taken gets json_ before it. DESCRIBE orders shows them. With --schemas the fields are those of the
    latest schema of orders-value, and data_error says why a value could not be decoded.

    A name with - or . is written in backquotes, or with _ instead. Only the columns that a query uses are decoded.
    Conditions on partition, offset and timestamp that all rows must meet keep the rest from being read, as --from
    and --to do. Times are UTC.
    """
    query = query_text(request)
    fields = json_fields(json_schema, infer, no_json)
    logs = request.logs()
    with closing(logs), request.spark() as spark:
        from goqueue.spark.queries import results  # noqa: PLC0415 - it needs a session's libraries
        from goqueue.spark.queries.views import TopicViews  # noqa: PLC0415

        start, end = request.bounds()
        views = TopicViews(spark, logs, fields, start, end, skip_damage, schemas)
        with terminal.status("planning the query"):
            frame = views.frame(query, split_bytes=None if request.for_people else results.SPLIT_BYTES)
        if explain:
            _explain(views, frame)
            return
        frame = _in_order(request, results.distinct_names(frame))
        if request.for_people:
            with request.progress(spark, views.plan):
                rows = results.with_plain_times(frame).limit(limit + 1).collect()
            _write_table(request, frame.columns, [row.asDict(recursive=True) for row in rows], limit)
            return
        with nullcontext() if terminal.is_terminal() else request.progress(spark, views.plan):
            _write(request, frame)


def query_text(request: InspectRequest) -> str:
    """Return the query that follows the directory."""
    if len(request.topics) != 1:
        if request.topics:
            raise UsageInvalid(
                f"{quoted(request.topics[1])} is too much: one query is answered", hint="quote the query"
            )
        raise UsageInvalid("there is no query", hint='write it in quotes: "SELECT count(*) FROM orders"')
    return checked_query(request.topics[0])


def checked_query(text: str) -> str:
    """Return a query, given as it is, as @FILE or as -. A text that is no query is refused before Spark starts."""
    from goqueue.spark.queries.query import check_query  # noqa: PLC0415 - not before the command is understood

    if text == "-":
        return check_query(sys.stdin.read())
    return check_query(from_file(text))


def from_file(text: str) -> str:
    """Return an argument, or the content of the file that follows its @."""
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise PathInvalid(f"{text[1:]} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PathInvalid(f"{text[1:]} is not text in UTF-8") from None


def json_fields(json_schema: str | None, infer: int, no_json: bool) -> "JsonFields":
    from goqueue.spark.queries.schemas import NO_FIELDS, JsonFields  # noqa: PLC0415

    if no_json and json_schema is not None:
        raise UsageInvalid("--json-schema and --no-json exclude each other", hint="leave out one of them")
    return NO_FIELDS if no_json else JsonFields(json_schema and from_file(json_schema).strip(), infer)


def _explain(views: "TopicViews", frame: "Result") -> None:
    from contextlib import redirect_stdout  # noqa: PLC0415
    from io import StringIO  # noqa: PLC0415

    text = StringIO()
    with redirect_stdout(text):
        frame.explain("formatted")
    for topic, plan in views.plans.items():
        columns = ", ".join(views.columns[topic])
        terminal.write_lines([f"reads {columns} of {format_count(plan.messages, 'message')} of {topic}"])
    terminal.write_lines(text.getvalue().rstrip().split("\n"))


def _in_order(request: InspectRequest, frame: "Result") -> "Result":
    from goqueue.spark.queries import results  # noqa: PLC0415

    if request.flags.sort_by is None:
        return frame
    name, backward = parse_sort(request.flags.sort_by)
    return results.ordered(frame, name, backward=backward)


def _write(request: InspectRequest, frame: "Result") -> None:
    from goqueue.spark.queries import results  # noqa: PLC0415

    if request.flags.output == "parquet":
        _write_parquet(results.record_batches(frame))
        return
    if request.flags.output == "csv" and not request.flags.no_headers:
        terminal.write(csv_line(frame.columns))
    with closing(results.lines(frame, "csv" if request.flags.output == "csv" else "jsonl")) as pieces:
        if request.flags.output in {"csv", "jsonl"}:
            _write_pieces(pieces)
        else:
            _write_array(pieces, request.flags.output)


def _write_table(request: InspectRequest, names: Sequence[str], rows: list[Row], limit: int) -> None:
    columns = [Column(name.upper(), name, shown_value) for name in names]
    write_rows(rows[:limit], columns, request.flags.output, headers=not request.flags.no_headers)
    terminal.say(_ending(len(rows), limit))


def _ending(found: int, limit: int) -> str:
    if found > limit:
        return f"the first {format_count(limit, 'row')}; --limit shows more, -o jsonl and -o csv all of them"
    return format_count(found, "row")


def shown_value(value: Any) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415

    if isinstance(value, datetime):  # Spark hands them out in the time zone of this process
        return value.astimezone(UTC).isoformat(sep=" ")
    if isinstance(value, (bytes, bytearray)):
        return _text(bytes(value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        return json_text(_simple(value))
    return str(value)


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"


def _simple(value: Any) -> Any:
    """Convert a value to types that JSON has."""
    if isinstance(value, dict):
        return {shown_value(name): _simple(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_simple(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else shown_value(value)


def _write_pieces(pieces: Iterable[bytes]) -> None:
    """Write pieces as they arrive, without control characters on a terminal."""
    for piece in pieces:
        if terminal.is_terminal():
            terminal.write_lines(piece.decode().splitlines())
        else:
            terminal.write_bytes(piece)


def _write_array(pieces: Iterable[bytes], output: str) -> None:
    """Write one JSON array or YAML list, which may be empty."""
    if output == "yaml":
        _write_pieces(_yaml(pieces))
        return
    before = b"[\n  "
    for piece in pieces:
        _write_pieces([before + piece.rstrip(b"\n").replace(b"\n", b",\n  ")])
        before = b",\n  "
    _write_pieces([b"[]\n" if before.startswith(b"[") else b"\n]\n"])


def _yaml(pieces: Iterable[bytes]) -> Iterator[bytes]:
    import json  # noqa: PLC0415

    is_empty = True
    for piece in pieces:
        yield yaml_text([json.loads(line) for line in piece.splitlines()]).encode()
        is_empty = False
    if is_empty:
        yield b"[]\n"


def _write_parquet(batches: Generator[Any, None, None]) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415

    first = next(batches)
    with closing(batches), pq.ParquetWriter(sys.stdout.buffer, first.schema, compression="zstd") as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
