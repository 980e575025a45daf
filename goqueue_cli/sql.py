"""`goqueue-cli sql`: small questions in SQL, every topic a table."""

import shlex
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.extras import require_extra
from goqueue.console.options import OptionOrigin
from goqueue.console.rows import Column, csv_line, json_text, write_rows, yaml_text
from goqueue.console.session import Session, stream_flags
from goqueue.errors import PathInvalid, QueryTooLarge
from goqueue.limits import SQL_MESSAGES_MAX
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from goqueue.console.positions import Position
    from goqueue.sql.engine import Answer, LogSource, TopicQueries

_STATUS_AFTER = 0.5  # seconds: a shorter query needs no status


@dataclass(frozen=True, slots=True)
class ReadFlags:
    """Flags for what a query reads."""

    data: Annotated[
        str | None, typer.Option("--data", metavar="DIR", help="Read this data directory instead of a broker.")
    ] = None
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="PLACE", help="Begin at earliest, an offset, a time, a day, or -1h."),
    ] = None
    last: Annotated[
        str | None, typer.Option("--to", metavar="PLACE", help="End before now, an offset, a time, a day, or -1h.")
    ] = None
    max_messages: Annotated[
        int, typer.Option("--max-messages", metavar="N", min=1, help="Maximum number of messages to read.")
    ] = SQL_MESSAGES_MAX
    skip_damage: Annotated[bool, typer.Option("--skip-damage", help="Skip damaged messages.")] = False


@stream_flags
def sql(
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help="The query, @FILE, or - for stdin. Default: list tables.")
    ] = None,
    *,
    limit: Annotated[int, typer.Option(metavar="ROWS", min=1, help="Maximum number of rows in a table.")] = 1000,
    reading: ReadFlags,
    session: Session,
) -> None:
    """Answer a question about topics in SQL; each topic is a table.

    \b
      goqueue-cli sql
      goqueue-cli sql "SELECT customer, sum(total) FROM orders GROUP BY customer"
      goqueue-cli sql "SELECT key, total FROM orders WHERE total > 40"
      goqueue-cli sql 'SELECT * FROM "orders-eu" WHERE offset < 10' -o jsonl
      goqueue-cli sql @late.sql --from -24h -o csv > late.csv

    Columns: partition, offset, timestamp, key, value, priority, headers, topic. Key and value are text, raw_key and
    raw_value the bytes of both. Where the values of a topic are JSON objects, each of their fields is a column; one
    whose name is taken gets json_ before it. DESCRIBE orders shows them. Times are UTC.

    A name with - or . is written in double quotes, or with _ instead. Only the topics and columns that a query uses are
    read. Conditions on partition, offset and timestamp keep the rest from being read, as --from and --to do.

    A query that reads more than --max-messages is refused, with the command that asks Spark. A table shows at most
    --limit rows; the other forms have all. -o name prints the first column.
    """
    require_extra("sql")
    text = None if query is None else query_text(query)
    points = _points(reading)
    with _logs(session, reading) as logs:
        with _WithoutPandas():
            from goqueue.sql.engine import TopicQueries, read_bound  # noqa: PLC0415

        start, end = map(read_bound, points)
        with closing(TopicQueries(logs, start, end, reading.max_messages, reading.skip_damage)) as queries:
            if text is None or text.upper().rstrip("; ").split() == ["SHOW", "TABLES"]:
                _list_tables(queries, session)
                return
            try:
                _answer(queries, text, limit, session)
            except QueryTooLarge as error:
                error.hint = f"ask Spark, or read less: {spark_command(text, reading, session)}"
                raise


class _WithoutPandas(MetaPathFinder):
    """Keeps pandas from being found: Arrow loads it where it is installed, which takes longer than a query."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)


def query_text(text: str) -> str:
    """Return a query that is given as it is, as @FILE, or as - for stdin."""
    if text == "-":
        return sys.stdin.read()
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except OSError as error:
        raise PathInvalid(f"{text[1:]} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PathInvalid(f"{text[1:]} is not text in UTF-8") from None


@contextmanager
def _logs(session: Session, reading: ReadFlags) -> "Iterator[LogSource]":
    if reading.data is not None:
        with _WithoutPandas():
            from goqueue.sql.engine import directory_logs  # noqa: PLC0415 - with DuckDB, Arrow and numpy, as below

        yield directory_logs(reading.data)
        return
    with session.client():  # it tells at once where no broker answers
        with _WithoutPandas():
            from goqueue.sql.engine import broker_logs  # noqa: PLC0415

        assert session.server is not None
        with closing(broker_logs(session.server, session.api_key, session.tls, session.tenant)) as logs:
            yield logs


def _points(reading: ReadFlags) -> "tuple[Position, Position]":
    from goqueue.console.positions import parse_end, parse_start  # noqa: PLC0415 - with the SDK

    start, end = parse_start(reading.first or "earliest"), parse_end(reading.last or "now")
    return start, "latest" if end == "now" else end


def spark_command(query: str, reading: ReadFlags, session: Session) -> str:
    """Return the command that answers the same query with Spark."""
    from goqueue.sql.query import for_spark  # noqa: PLC0415

    words = ["goqueue", "spark-inspect", "sql"]
    server = session.choices.server if session.choices is not None else None
    if reading.data is not None:
        words.append(reading.data)
    elif server is not None and server.kind is OptionOrigin.CONTEXT:
        words += ["--context", session.context or ""]
    else:
        words += ["--url", session.server or ""]
    words.append(for_spark(query))
    for flag, value in (("--from", reading.first), ("--to", reading.last)):
        words += [flag, value] if value is not None else []
    words += ["--skip-damage"] if reading.skip_damage else []
    return " ".join(map(shlex.quote, words))


# --- tables ---

_TABLES = (
    Column("TABLE", "table"),
    Column("MESSAGES", "messages", format_count),
    Column("FIELDS", "fields", ", ".join),
)


def _list_tables(queries: "TopicQueries", session: Session) -> None:
    found = [
        {"name": name, "table": name, "topic": topic, "messages": messages, "fields": fields}
        for topic, name, messages, fields in queries.tables()
    ]
    if not found:
        session.note("there are no topics; `goqueue-cli topic create` makes one")
    session.write(found, _TABLES)
    session.note(f"each table also has {', '.join(queries.common_columns)}")


# --- results ---


def _answer(queries: "TopicQueries", query: str, limit: int, session: Session) -> None:
    if session.for_people:
        with _status(queries):
            found = queries.answer(query, limit + 1, encode=_shown_bytes)
            rows = [row for batch in found.batches for row in batch]
        columns = [Column(name.upper(), name, _shown) for name in found.columns]
        session.write(rows[:limit], columns)
        session.note(_ending(len(rows), limit))
        return
    with nullcontext() if terminal.is_terminal() else _status(queries):
        _FORMS[session.output](queries.answer(query, encode=_as_base64), session)


def _ending(found: int, limit: int) -> str:
    if found > limit:
        return f"the first {format_count(limit, 'row')}; --limit shows more, -o jsonl and -o csv all of them"
    return format_count(found, "row")


@contextmanager
def _status(queries: "TopicQueries") -> Iterator[None]:
    """Show how much is read, where a query takes longer."""
    began = time.monotonic()

    def show(read: int, planned: int) -> None:
        if time.monotonic() - began > _STATUS_AFTER:
            terminal.show_status(f"read {format_count(read)} of {format_count(planned, 'message')}")

    queries.reading.watch = show
    try:
        yield
    finally:
        if time.monotonic() - began > _STATUS_AFTER:
            terminal.show_status("")


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json_text(value) if isinstance(value, (dict, list)) else str(value)


def _shown_bytes(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"0x{content.hex()}"


def _as_base64(content: bytes) -> str:
    return b64encode(content).decode()


def _write_csv(found: "Answer", session: Session) -> None:
    if session.headers:
        terminal.write(csv_line(found.columns))
    for batch in found.batches:
        terminal.write("".join(csv_line(list(row.values())) for row in batch))


def _write_json_lines(found: "Answer", session: Session) -> None:
    for batch in found.batches:
        write_rows(batch, (), session.output)


def _write_json(found: "Answer", _: Session) -> None:
    """Write one array, row by row: a result may be large."""
    before = "[\n  "
    for batch in found.batches:
        for row in batch:
            terminal.write(f"{before}{json_text(row)}")
            before = ",\n  "
    terminal.write("[]\n" if before.startswith("[") else "\n]\n")


def _write_yaml(found: "Answer", _: Session) -> None:
    is_empty = True
    for batch in found.batches:
        if batch:
            terminal.write(yaml_text(batch))
            is_empty = False
    if is_empty:
        terminal.write("[]\n")


def _write_names(found: "Answer", _: Session) -> None:
    for batch in found.batches:
        terminal.write_lines(_shown(row[found.columns[0]]) for row in batch)


_FORMS: "dict[str, Callable[[Answer, Session], None]]" = {
    "csv": _write_csv,
    "json": _write_json,
    "jsonl": _write_json_lines,
    "name": _write_names,
    "yaml": _write_yaml,
}
