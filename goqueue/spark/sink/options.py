"""The options of a write, and the columns it takes; all that is wrong is told at once, before anything is sent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from goqueue.broker.transactions.records import check_transactional_id
from goqueue.client import address
from goqueue.client.api_request import check_api_key
from goqueue.client.environment import environment_key
from goqueue.client.tls import TlsOptions
from goqueue.errors import RequestInvalid
from goqueue.limits import TRANSACTION_SECONDS_MAX, TRANSACTION_SECONDS_MIN
from goqueue.nearest import nearest
from goqueue.quantities import format_duration, quoted
from goqueue.spark.reading.options import TLS_OPTIONS, OptionReader, read_duration, tls_options

WRITE_OPTIONS = (
    "goqueue.url",
    "goqueue.token",
    "goqueue.tenant",
    *TLS_OPTIONS,
    "topic",
    "writeId",
    "transactional_id",
    "transaction_timeout",
    "deliveryTimeout",
    "queryName",
)
_OF_SPARK = ("checkpointLocation",)  # it hands its own on
WRITTEN_COLUMNS = ("value", "key", "headers", "topic", "partition", "priority")
IGNORED_COLUMNS = ("offset", "timestamp", "timestampType", "segment", "position", "crc_ok")
"""What reading gives besides, so that `SELECT *` of a topic can be written."""

_DELIVERY_SECONDS = 120.0  # a broker that starts anew takes less; it is what a producer waits, too
_BYTES = (BinaryType, StringType)
_NUMBERS = (ByteType, ShortType, IntegerType, LongType)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parsed options of a write."""

    url: str
    token: str | None = field(repr=False)
    topic: str | None
    """Where all rows go; None where each says it."""
    write_id: str | None
    delivery_seconds: float
    tls: TlsOptions | None = None
    tenant: str = ""
    """The tenant whose names are meant."""
    transactional_id: str | None = None
    """Whose transactions the rows are written in."""
    transaction_seconds: float = TRANSACTION_SECONDS_MAX


def write_options(given: Mapping[str, str], *, is_stream: bool) -> WriteOptions:
    options = OptionReader(given, WRITE_OPTIONS + _OF_SPARK)
    url, write_id = options.text("goqueue.url"), options.text("writeId")
    if url is None:
        options.problems.append("goqueue.url is needed: a broker is written to")
    else:
        options.take("goqueue.url", address.parse_all)
    options.take("goqueue.token", check_api_key)
    if options.text("topic") == "":
        options.problems.append("topic: is empty")
    if write_id is not None and is_stream:
        options.problems.append("writeId is for batch writes: a streaming query is known by its checkpoint")
    elif write_id == "":
        options.problems.append("writeId: is empty")
    if options.text("transaction_timeout") is not None and options.text("transactional_id") is None:
        options.problems.append("transaction_timeout: needs a transactional_id, without which there is no transaction")
    found = WriteOptions(
        url=url or "",
        token=options.text("goqueue.token") or environment_key(),
        topic=options.text("topic"),
        write_id=write_id,
        delivery_seconds=options.take("deliveryTimeout", _timeout) or _DELIVERY_SECONDS,
        tls=tls_options(options),
        tenant=options.text("goqueue.tenant") or "",
        transactional_id=options.take("transactional_id", _transactional_id),
        transaction_seconds=options.take("transaction_timeout", _open_for) or TRANSACTION_SECONDS_MAX,
    )
    options.check()
    return found


def _timeout(text: str) -> float:
    found = read_duration(text)
    if found <= 0:
        raise ValueError(f"{quoted(text)} is no time to wait")
    return found


def _transactional_id(text: str) -> str:
    check_transactional_id(text)
    return text


def _open_for(text: str) -> float:
    found = read_duration(text)
    if not TRANSACTION_SECONDS_MIN <= found <= TRANSACTION_SECONDS_MAX:
        least, most = format_duration(TRANSACTION_SECONDS_MIN), format_duration(TRANSACTION_SECONDS_MAX)
        raise ValueError(f"{quoted(text)} is not between {least} and {most}")
    return found


def check_append(*, overwrite: bool) -> None:
    if overwrite:
        raise RequestInvalid(
            "a topic cannot be overwritten: a log only grows",
            hint="write with mode('append'), stream with outputMode('append')",
        )


def check_columns(schema: StructType, *, names_topic: bool) -> None:
    """Refuse rows that cannot become messages."""
    problems = [problem for field in schema.fields for problem in _column(field.name, field.dataType)]
    names = schema.fieldNames()
    problems += [f"there are two columns {name}" for name in dict.fromkeys(names) if names.count(name) > 1]
    if "value" not in names:
        problems.append("there is no column value")
    if "topic" not in names and not names_topic:
        problems.append("nothing says the topic: give the option topic, or a column of that name")
    if problems:
        raise RequestInvalid(
            "these rows cannot be written: " + "; ".join(problems),
            hint="docs/spark.md lists the columns of a message",
            problems=problems,
        )


def _column(name: str, kind: DataType) -> Iterable[str]:
    if name in IGNORED_COLUMNS:
        return
    if name not in WRITTEN_COLUMNS:
        meant = nearest(name, list(WRITTEN_COLUMNS))
        yield f"{quoted(name)} is no column of a message" + (f", {meant} is" if meant else "")
    elif not _fits(name, kind):
        yield f"column {name} is {kind.simpleString()}, it takes {_TAKEN[name]}"


_TAKEN = {
    "value": "binary or string",
    "key": "binary or string",
    "headers": "array<struct<key:string,value:binary>>",
    "topic": "string",
    "partition": "int",
    "priority": "string or int",
}


def _fits(name: str, kind: DataType) -> bool:
    match name:
        case "value" | "key":
            return isinstance(kind, _BYTES)
        case "headers":
            return _is_headers(kind)
        case "topic":
            return isinstance(kind, StringType)
        case "partition":
            return isinstance(kind, _NUMBERS)
        case _:
            return isinstance(kind, (StringType, *_NUMBERS))


def _is_headers(kind: DataType) -> bool:
    if not (isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType)):
        return False
    parts = [(part.name, part.dataType) for part in kind.elementType.fields]
    return (
        [name for name, _ in parts] == ["key", "value"]
        and isinstance(parts[0][1], StringType)
        and isinstance(parts[1][1], _BYTES)
    )
