"""`goqueue spark-inspect stream`: topics as they grow, into files or into another topic."""

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.commands.inspect.export import PartitionFlag, names_of
from goqueue.commands.inspect.inquiry import Inquiry, SkipFlag, inquiry_flags
from goqueue.commands.inspect.replay import KeepFlag, ServerFlag, ServerKeyFlag
from goqueue.commands.inspect.sql import InferFlag, SchemaFlag, checked_query, json_fields
from goqueue.console import terminal
from goqueue.console.choices import choose
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column, csv_line, json_text
from goqueue.quantities import format_count, format_duration, parse_duration, quoted

if TYPE_CHECKING:
    from goqueue.spark.transfer.follow import Batch, Files, Following
    from goqueue.spark.transfer.replay import Destination

OutFlag = Annotated[str | None, typer.Option("--out", metavar="PATH|URL", help="The directory that gets the files.")]
IntoFlag = Annotated[str | None, typer.Option("--into", metavar="TOPIC", help="The topic that gets the messages.")]
CheckpointFlag = Annotated[
    str, typer.Option("--checkpoint", metavar="DIR", help="Where it is remembered how far this stream is.")
]
NowFlag = Annotated[bool, typer.Option("--available-now", help="End with what is there now.")]
EveryFlag = Annotated[str, typer.Option("--every", metavar="DURATION", help="How often a batch begins.")]
MostFlag = Annotated[
    int | None, typer.Option("--max-per-batch", min=1, metavar="N", help="At most about so many messages in a batch.")
]
FormatFlag = Annotated[Literal["parquet", "json", "csv"], typer.Option("--format", help="Of the files.")]
QueryFlag = Annotated[
    str | None,
    typer.Option("--query", metavar="SQL|@FILE|-", help="What becomes of the messages: SELECT … FROM input."),
]

_ROWS_MAX = 1000  # of a stream that runs for weeks
_PATIENCE_SECONDS = 30.0  # for a batch that is under way when somebody wants to stop
_COLUMNS = (
    Column("BATCH", "batch"),
    Column("MESSAGES", "messages", format_count),
    Column("TIME", "seconds", format_duration),
    Column("MESSAGES/S", "messages_per_second", format_count),
    Column("LAG", "lag", format_count),
)


@inquiry_flags
def stream(  # noqa: PLR0913 - they are as many as there are flags
    *,
    checkpoint: CheckpointFlag,
    out: OutFlag = None,
    into: IntoFlag = None,
    server: ServerFlag = None,
    server_key: ServerKeyFlag = None,
    form: FormatFlag = "parquet",
    partition_by: PartitionFlag = None,
    keep_partitions: KeepFlag = False,
    query: QueryFlag = None,
    json_schema: SchemaFlag = None,
    infer: InferFlag = 1000,
    available_now: NowFlag = False,
    every: EveryFlag = "10s",
    max_per_batch: MostFlag = None,
    skip_damage: SkipFlag = False,
    inquiry: Inquiry,
) -> None:
    """Copy topics as they grow: into files, or into another topic.

    \b
      goqueue spark-inspect stream --url http://127.0.0.1:8080 orders \\
        --out ./lake --checkpoint ./lake-progress
      goqueue spark-inspect stream ./goqueue-data 'orders-*' --into all-orders \\
        --checkpoint ./progress --available-now
      goqueue spark-inspect stream --url http://127.0.0.1:8080 orders \\
        --into large --checkpoint ./progress \\
        --query "SELECT key, raw_value AS value FROM input WHERE total > 100"

    It begins at the earliest message unless --from says otherwise, and when it is started again where its
    checkpoint ended: each message is written once. A checkpoint belongs to one stream.

    ^C ends it after the batch that is under way, with code 130; a second one at once. With -o jsonl or csv each batch
    is a line when it has ended.
    """
    following = _following(
        inquiry,
        checkpoint,
        _into(
            inquiry, out, into, form, partition_by, query, choose_destination(server, server_key, into, keep_partitions)
        ),
        None if query is None else checked_query(query),
        json_fields(json_schema, infer, no_json=False),
        every,
        (available_now, max_per_batch, skip_damage),
    )
    from goqueue.spark.transfer.replay import Destination, check_destination  # noqa: PLC0415 - it needs Arrow

    logs = inquiry.logs()
    inquiry.selection(logs)
    if isinstance(following.into, Destination):
        check_destination(following.into, None)
    with inquiry.spark() as spark:
        from goqueue.spark.transfer.follow import batches, follow  # noqa: PLC0415

        with _interruptible() as wish:
            running = follow(spark, logs, following)
            _watch(inquiry, batches(running), running, wish)


def choose_destination(
    server: str | None, server_key: str | None, into: str | None, keep_partitions: bool
) -> "Destination | None":
    from goqueue.spark.transfer.replay import Destination  # noqa: PLC0415

    if into is None:
        return None
    chosen = choose({"server": server, "api_key": server_key}, os.environ)
    return Destination(chosen.server.value, into, chosen.api_key.value.read(), keeps_partitions=keep_partitions)


def _into(
    inquiry: Inquiry,
    out: str | None,
    into: str | None,
    form: str,
    partition_by: str | None,
    query: str | None,
    destination: "Destination | None",
) -> "Files | Destination":
    from goqueue.spark.transfer.export import PARTITIONS  # noqa: PLC0415
    from goqueue.spark.transfer.follow import Files  # noqa: PLC0415

    if not inquiry.topics:
        raise UsageInvalid("no topic to follow was named", hint="name topics behind the directory or the URL")
    if (out is None) == (into is None):
        raise UsageInvalid("one of --out and --into is needed", hint="--out for files, --into for a topic")
    if destination is not None:
        return destination
    assert out is not None
    usual = "day,topic" if form == "parquet" and query is None else "none"
    chosen = partition_by or usual
    directories = () if chosen == "none" else names_of("--partition-by", chosen)
    for name in directories:
        if query is None and name not in PARTITIONS:
            raise UsageInvalid(
                f"--partition-by: {quoted(name)} makes no directories", hint=f"there are {', '.join(PARTITIONS)}"
            )
    return Files(out, form, directories)


def _following(
    inquiry: Inquiry,
    checkpoint: str,
    into: Any,
    query: str | None,
    fields: Any,
    every: str,
    limits: tuple[bool, int | None, bool],
) -> "Following":
    from goqueue.spark.transfer.follow import Following  # noqa: PLC0415

    if inquiry.last is not None:
        raise UsageInvalid("a stream has no --to", hint="--available-now ends with what is there")
    if not checkpoint:
        raise UsageInvalid("--checkpoint is empty", hint="name a directory of this stream alone")
    try:
        seconds = parse_duration(every)
    except ValueError as error:
        raise UsageInvalid(f"--every: {error}") from None
    return Following(
        topics=inquiry.topics,
        checkpoint=checkpoint,
        into=into,
        start=inquiry.bounds()[0],
        query=query,
        fields=fields,
        every_seconds=seconds,
        ends_with_what_is_there=limits[0],
        messages_per_batch=limits[1],
        skips_damage=limits[2],
    )


@contextmanager
def _interruptible() -> Iterator[threading.Event]:
    """The first ^C is a wish, which is granted between two questions to the JVM; the second one ends everything."""
    wish = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def ask(number: int, frame: Any) -> None:
        if wish.is_set():
            signal.default_int_handler(number, frame)
        terminal.say("stopping after this batch; ^C again stops at once")
        wish.set()

    signal.signal(signal.SIGINT, ask)
    try:
        yield wish
    finally:
        signal.signal(signal.SIGINT, before)


def _watch(inquiry: Inquiry, ended: "Iterator[Batch | None]", running: Any, wish: threading.Event) -> None:
    rows: deque[dict[str, Any]] = deque(maxlen=_ROWS_MAX)
    deadline: float | None = None
    if inquiry.output == "csv" and inquiry.headers:
        terminal.write(csv_line([column.field for column in _COLUMNS]))
    for batch in ended:
        if batch is not None:
            rows.append(_row(batch))
            _tell(inquiry, batch)
        if wish.is_set():
            deadline = deadline or time.monotonic() + _PATIENCE_SECONDS
            if batch is not None or not running.status["isTriggerActive"] or time.monotonic() > deadline:
                running.stop()
                _end(inquiry, list(rows))
                raise KeyboardInterrupt
    _end(inquiry, list(rows))


def _end(inquiry: Inquiry, rows: list[dict[str, Any]]) -> None:
    """Whoever has not seen the batches as they ended sees the last of them now."""
    terminal.show_status("")
    if inquiry.output not in {"jsonl", "csv"}:
        inquiry.write(rows, _COLUMNS)


def _tell(inquiry: Inquiry, batch: "Batch") -> None:
    row = _row(batch)
    if inquiry.output == "jsonl":
        terminal.write(f"{json_text(row)}\n")
    elif inquiry.output == "csv":
        terminal.write(csv_line([row[column.field] for column in _COLUMNS]))
    else:
        terminal.show_status(
            f"batch {batch.number}  {format_count(batch.messages, 'message')}  "
            f"{format_count(row['messages_per_second'])} messages/s  lag {format_count(batch.lag)}"
        )


def _row(batch: "Batch") -> dict[str, Any]:
    return {
        "batch": batch.number,
        "messages": batch.messages,
        "seconds": batch.seconds,
        "messages_per_second": round(batch.messages / batch.seconds) if batch.seconds else 0,
        "lag": batch.lag,
    }
