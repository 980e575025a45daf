"""`goqueue spark-inspect sql`: questions in SQL, every topic a table."""

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.commands.inspect.inquiry import Inquiry, SkipFlag, inquiry_flags_with
from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.order import ordering
from goqueue.console.rows import Column, Row, csv_line, json_text, write_rows, yaml_text
from goqueue.errors import PathInvalid
from goqueue.quantities import format_count, quoted

if TYPE_CHECKING:
    from goqueue.spark.queries.results import Result
    from goqueue.spark.queries.schemas import JsonFields
    from goqueue.spark.queries.views import Views

QueryArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[DIR] QUERY",
        help="The data directory, or a copy of one; with --url none. Then the query, @FILE, or - for stdin.",
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
ExplainFlag = Annotated[bool, typer.Option("--explain", help="Show what would be read, and how; run nothing.")]


@inquiry_flags_with(QueryArgument)
def sql(
    *,
    limit: LimitFlag = 1000,
    json_schema: SchemaFlag = None,
    infer: InferFlag = 1000,
    no_json: NoJsonFlag = False,
    explain: ExplainFlag = False,
    skip_damage: SkipFlag = False,
    inquiry: Inquiry,
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
    whose name is taken gets json_ before it. DESCRIBE orders shows them.

    A name with - or . is written in backquotes, or with _ instead. Only the columns that a query uses are decoded.
    Conditions on partition, offset and timestamp that all rows must meet keep the rest from being read, as --from
    and --to do. Times are UTC.
    """
    query = query_text(inquiry)
    fields = json_fields(json_schema, infer, no_json)
    logs = inquiry.logs()
    with inquiry.spark() as spark:
        from goqueue.spark.queries import results  # noqa: PLC0415 - it needs a session's libraries
        from goqueue.spark.queries.views import Views  # noqa: PLC0415

        start, end = inquiry.bounds()
        views = Views(spark, logs, fields, start, end, skip_damage)
        frame = views.frame(query, split_bytes=None if inquiry.for_people else results.SPLIT_BYTES)
        if explain:
            _explain(views, frame)
            return
        frame = _in_order(inquiry, results.distinct_names(frame))
        if inquiry.for_people:
            with inquiry.progress(spark, views.plan):
                rows = results.with_plain_times(frame).limit(limit + 1).collect()
            _write_table(inquiry, frame.columns, [row.asDict(recursive=True) for row in rows], limit)
            return
        with nullcontext() if terminal.is_terminal() else inquiry.progress(spark, views.plan):
            _write(inquiry, frame)


def query_text(inquiry: Inquiry) -> str:
    """What stands behind the directory, or where that points to."""
    if len(inquiry.topics) != 1:
        if inquiry.topics:
            raise UsageInvalid(
                f"{quoted(inquiry.topics[1])} is too much: one query is answered", hint="quote the query"
            )
        raise UsageInvalid("there is no query", hint='write it in quotes: "SELECT count(*) FROM orders"')
    return checked_query(inquiry.topics[0])


def checked_query(text: str) -> str:
    """A query, given as it is, as @FILE or as -; what cannot be one is told before Spark starts."""
    from goqueue.spark.queries.query import check_query  # noqa: PLC0415 - not before the command is understood

    if text == "-":
        return check_query(sys.stdin.read())
    return check_query(from_file(text))


def from_file(text: str) -> str:
    """What an argument says, itself or in the file that follows its @."""
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


def _explain(views: "Views", frame: "Result") -> None:
    from contextlib import redirect_stdout  # noqa: PLC0415
    from io import StringIO  # noqa: PLC0415

    text = StringIO()
    with redirect_stdout(text):
        frame.explain("formatted")
    for topic, plan in views.plans.items():
        columns = ", ".join(views.columns[topic])
        terminal.write_lines([f"reads {columns} of {format_count(plan.messages, 'message')} of {topic}"])
    terminal.write_lines(text.getvalue().rstrip().split("\n"))


def _in_order(inquiry: Inquiry, frame: "Result") -> "Result":
    from goqueue.spark.queries import results  # noqa: PLC0415

    if inquiry.sort_by is None:
        return frame
    name, backward = ordering(inquiry.sort_by)
    return results.ordered(frame, name, backward=backward)


def _write(inquiry: Inquiry, frame: "Result") -> None:
    from goqueue.spark.queries import results  # noqa: PLC0415

    if inquiry.output == "parquet":
        _write_parquet(results.record_batches(frame))
        return
    if inquiry.output == "csv" and inquiry.headers:
        terminal.write(csv_line(frame.columns))
    with closing(results.lines(frame, "csv" if inquiry.output == "csv" else "jsonl")) as pieces:
        if inquiry.output in {"csv", "jsonl"}:
            _write_pieces(pieces)
        else:
            _write_array(pieces, inquiry.output)


def _write_table(inquiry: Inquiry, names: Sequence[str], rows: list[Row], limit: int) -> None:
    columns = [Column(name.upper(), name, shown_value) for name in names]
    write_rows(rows[:limit], columns, inquiry.output, headers=inquiry.headers)
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
    """Bytes as a person reads them."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"


def _simple(value: Any) -> Any:
    """What JSON has a form for."""
    if isinstance(value, dict):
        return {shown_value(name): _simple(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_simple(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else shown_value(value)


def _write_pieces(pieces: Iterable[bytes]) -> None:
    """As they come. A terminal gets no character that it would obey."""
    for piece in pieces:
        if terminal.is_terminal():
            terminal.write_lines(piece.decode().splitlines())
        else:
            terminal.write_bytes(piece)


def _write_array(pieces: Iterable[bytes], output: str) -> None:
    """JSON as one array, or YAML as one list; an empty one where there are no rows."""
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
