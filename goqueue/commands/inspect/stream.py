"""`goqueue spark-inspect stream`: topics as they grow, into files or into another topic."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from goqueue.commands.inspect.export import PartitionFlag, names_of
from goqueue.commands.inspect.replay import KeepFlag, ServerFlag, ServerKeyFlag, destination
from goqueue.commands.inspect.request import InspectRequest, SkipFlag, with_request
from goqueue.commands.inspect.sql import InferFlag, SchemaFlag, checked_query, json_fields
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.flags import parse_duration_flag
from goqueue.console.interruption import after_this_step
from goqueue.console.options import resolve_options
from goqueue.console.rows import Column, csv_line, json_text
from goqueue.quantities import format_count, format_duration, quoted

if TYPE_CHECKING:
    from goqueue.spark.transfer.follow import CompletedBatch, FileOutput, FollowRequest
    from goqueue.spark.transfer.replay import TopicDestination


@dataclass(frozen=True, slots=True)
class StreamFlags:
    """Flags of `stream` alone."""

    checkpoint: Annotated[
        str, typer.Option("--checkpoint", metavar="DIR", help="Where it is remembered how far this stream is.")
    ]
    out: Annotated[str | None, typer.Option("--out", metavar="PATH|URL", help="The directory that gets the files.")] = (
        None
    )
    into: Annotated[str | None, typer.Option("--into", metavar="TOPIC", help="The topic that gets the messages.")] = (
        None
    )
    server: ServerFlag = None
    server_key: ServerKeyFlag = None
    form: Annotated[Literal["parquet", "json", "csv"], typer.Option("--format", help="Format of files.")] = "parquet"
    partition_by: PartitionFlag = None
    keep_partitions: KeepFlag = False
    query: Annotated[
        str | None,
        typer.Option("--query", metavar="SQL|@FILE|-", help="What becomes of the messages: SELECT … FROM input."),
    ] = None
    json_schema: SchemaFlag = None
    infer: InferFlag = 1000
    available_now: Annotated[bool, typer.Option("--available-now", help="End with what is there now.")] = False
    every: Annotated[str, typer.Option("--every", metavar="DURATION", help="How often a batch begins.")] = "10s"
    max_per_batch: Annotated[
        int | None,
        typer.Option("--max-per-batch", min=1, metavar="N", help="At most about so many messages in a batch."),
    ] = None
    skip_damage: SkipFlag = False


_ROWS_MAX = 1000  # of a stream that runs for weeks
_PATIENCE_SECONDS = 30.0  # for the running batch, after an interruption
_COLUMNS = (
    Column("BATCH", "batch"),
    Column("MESSAGES", "messages", format_count),
    Column("TIME", "seconds", format_duration),
    Column("MESSAGES/S", "messages_per_second", format_count),
    Column("LAG", "lag", format_count),
)


@with_request
def stream(*, flags: StreamFlags, request: InspectRequest) -> None:
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
    following = _following(request, flags)
    from goqueue.spark.transfer.replay import TopicDestination, check_destination  # noqa: PLC0415 - it needs Arrow

    logs = request.logs()
    request.selection(logs)
    if isinstance(following.into, TopicDestination):
        check_destination(following.into, None)
    with closing(logs), request.spark() as spark:
        from goqueue.spark.transfer.follow import batches, follow  # noqa: PLC0415

        with after_this_step("this batch") as is_stopping:
            running = follow(spark, logs, following)
            _watch(request, batches(running), running, is_stopping)


def _following(request: InspectRequest, flags: StreamFlags) -> "FollowRequest":
    from goqueue.spark.transfer.follow import FollowRequest  # noqa: PLC0415

    into = _into(request, flags)
    query = None if flags.query is None else checked_query(flags.query)
    fields = json_fields(flags.json_schema, flags.infer, no_json=False)
    if request.flags.last is not None:
        raise UsageInvalid("a stream has no --to", hint="--available-now ends with what is there")
    if not flags.checkpoint:
        raise UsageInvalid("--checkpoint is empty", hint="name a directory of this stream alone")
    return FollowRequest(
        topics=request.topics,
        checkpoint=flags.checkpoint,
        into=into,
        start=request.bounds()[0],
        query=query,
        fields=fields,
        every_seconds=parse_duration_flag("--every", flags.every),
        ends_with_what_is_there=flags.available_now,
        messages_per_batch=flags.max_per_batch,
        skips_damage=flags.skip_damage,
    )


def _into(request: InspectRequest, flags: StreamFlags) -> "FileOutput | TopicDestination":
    from goqueue.spark.transfer.export import PARTITIONS  # noqa: PLC0415
    from goqueue.spark.transfer.follow import FileOutput  # noqa: PLC0415

    if not request.topics:
        raise UsageInvalid("no topic to follow was named", hint="name topics behind the directory or the URL")
    if flags.out is not None and flags.into is None:
        chosen = flags.partition_by or ("day,topic" if flags.form == "parquet" and flags.query is None else "none")
        directories = () if chosen == "none" else names_of("--partition-by", chosen)
        for name in directories:
            if flags.query is None and name not in PARTITIONS:
                raise UsageInvalid(
                    f"--partition-by: {quoted(name)} makes no directories", hint=f"there are {', '.join(PARTITIONS)}"
                )
        return FileOutput(flags.out, flags.form, directories)
    if flags.into is None or flags.out is not None:
        raise UsageInvalid("one of --out and --into is needed", hint="--out for files, --into for a topic")
    broker = resolve_options({"server": flags.server, "api_key": flags.server_key, **request.tls_flags}, os.environ)
    return destination(broker, flags.into, flags.keep_partitions)


def _watch(
    request: InspectRequest, ended: "Iterator[CompletedBatch | None]", running: Any, is_stopping: Callable[[], bool]
) -> None:
    rows: deque[dict[str, Any]] = deque(maxlen=_ROWS_MAX)
    deadline: float | None = None
    if request.flags.output == "csv" and not request.flags.no_headers:
        terminal.write(csv_line([column.field for column in _COLUMNS]))
    for batch in ended:
        if batch is not None:
            rows.append(_row(batch))
            _tell(request, batch)
        if is_stopping():
            deadline = deadline or time.monotonic() + _PATIENCE_SECONDS
            if batch is not None or not running.status["isTriggerActive"] or time.monotonic() > deadline:
                running.stop()
                _end(request, list(rows))
                raise KeyboardInterrupt
    _end(request, list(rows))


def _end(request: InspectRequest, rows: list[dict[str, Any]]) -> None:
    """Print the last batches in the forms that do not print each batch as it ends."""
    terminal.show_status("")
    if request.flags.output not in {"jsonl", "csv"}:
        request.write(rows, _COLUMNS)


def _tell(request: InspectRequest, batch: "CompletedBatch") -> None:
    row = _row(batch)
    if request.flags.output == "jsonl":
        terminal.write(f"{json_text(row)}\n")
    elif request.flags.output == "csv":
        terminal.write(csv_line([row[column.field] for column in _COLUMNS]))
    else:
        terminal.show_status(
            f"batch {batch.number}  {format_count(batch.messages, 'message')}  "
            f"{format_count(row['messages_per_second'])} messages/s  lag {format_count(batch.lag)}"
        )


def _row(batch: "CompletedBatch") -> dict[str, Any]:
    return {
        "batch": batch.number,
        "messages": batch.messages,
        "seconds": batch.seconds,
        "messages_per_second": round(batch.messages / batch.seconds) if batch.seconds else 0,
        "lag": batch.lag,
    }
