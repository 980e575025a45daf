"""`goqueue spark-inspect export`: topics as files."""

import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goqueue.commands.inspect.request import InspectRequest, SkipFlag, with_request
from goqueue.commands.inspect.sql import InferFlag, SchemaFlag, json_fields
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.rows import Column
from goqueue.quantities import format_count, format_duration, format_size

if TYPE_CHECKING:
    from goqueue.spark.transfer.export import ExportRequest

PartitionFlag = Annotated[
    str | None,
    typer.Option("--partition-by", metavar="NAMES", help="Directories: day, hour, topic, partition, or none."),
]


@dataclass(frozen=True, slots=True)
class ExportFlags:
    """Flags of `export` alone."""

    out: Annotated[str, typer.Option("--out", metavar="PATH|URL", help="The directory to write.")]
    form: Annotated[
        Literal["parquet", "json", "csv"],
        typer.Option("--format", help="Format of the files."),
    ] = "parquet"
    partition_by: PartitionFlag = None
    columns: Annotated[str | None, typer.Option("--columns", metavar="NAMES", help="What to write of a message.")] = (
        None
    )
    json: Annotated[bool, typer.Option("--json", help="A column for each field of JSON values, in place of value.")] = (
        False
    )
    json_schema: SchemaFlag = None
    infer: InferFlag = 1000
    compression: Annotated[
        str | None, typer.Option("--compression", metavar="NAME", help="zstd for Parquet, none for the others; gzip …")
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an export that is there.")] = False
    skip_damage: SkipFlag = False


_COLUMNS = (
    Column("TO", "to"),
    Column("FORMAT", "format"),
    Column("ROWS", "rows", format_count),
    Column("FILES", "files", format_count),
    Column("SIZE", "bytes", format_size),
    Column("TIME", "seconds", format_duration),
)


@with_request
def export(*, flags: ExportFlags, request: InspectRequest) -> None:
    """Write topics as Parquet, lines of JSON or CSV.

    \b
      goqueue spark-inspect export ./goqueue-data orders --out ./lake
      goqueue spark-inspect export ./goqueue-data 'orders-*' \\
        --out s3a://lake/orders --from -24h
      goqueue spark-inspect export --url http://127.0.0.1:8080 orders \\
        --out ./orders --format csv --json

    Key and value are bytes in Parquet, and text in the other two. A directory that is not empty is refused, or with
    --overwrite replaced if it is an export. URLs of any file system that Spark knows are written as well. JSON and
    CSV are in no directories unless --partition-by names them.
    """
    from goqueue.spark.queries.schemas import NO_FIELDS  # noqa: PLC0415
    from goqueue.spark.transfer.export import EXPORTED, ExportRequest, check_export  # noqa: PLC0415 - it needs Arrow

    directories = flags.partition_by or ("day,topic" if flags.form == "parquet" else "none")
    has_fields = flags.json or flags.json_schema
    wanted = ExportRequest(
        flags.out,
        flags.form,
        EXPORTED if flags.columns is None else names_of("--columns", flags.columns),
        () if directories == "none" else names_of("--partition-by", directories),
        flags.compression,
        flags.overwrite,
        json_fields(flags.json_schema, flags.infer, no_json=False) if has_fields else NO_FIELDS,
        flags.skip_damage,
    )
    check_export(wanted)
    _export(request, wanted)


def _export(request: InspectRequest, wanted: "ExportRequest") -> None:
    from goqueue.spark.transfer.export import export as write  # noqa: PLC0415

    logs = request.logs()
    plan = request.plan(logs)
    began = time.monotonic()
    with closing(logs), request.spark() as spark, request.progress(spark, plan, "writing"):
        written = write(spark, logs, plan, wanted)
    row = {
        "to": wanted.to,
        "format": wanted.format,
        "rows": written.rows,
        "files": written.files,
        "bytes": written.bytes,
        "seconds": round(time.monotonic() - began, 3),
    }
    request.write([row], _COLUMNS)
    if request.for_people and not written.rows:
        terminal.say("there was nothing to write")


def names_of(flag: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise UsageInvalid(f"{flag} names nothing", hint="write names with commas between them")
    return names
