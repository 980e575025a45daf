"""`goqueue spark-inspect export`: topics as files."""

import time
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from goqueue.commands.inspect.inquiry import Inquiry, SkipFlag, inquiry_flags
from goqueue.commands.inspect.sql import InferFlag, SchemaFlag, json_fields
from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column
from goqueue.quantities import format_count, format_duration, format_size

if TYPE_CHECKING:
    from goqueue.spark.transfer.export import Export

TargetFlag = Annotated[str, typer.Option("--out", metavar="PATH|URL", help="The directory to write.")]
FormatFlag = Annotated[Literal["parquet", "json", "csv"], typer.Option("--format", help="json is a line a message.")]
PartitionFlag = Annotated[
    str | None,
    typer.Option("--partition-by", metavar="NAMES", help="Directories: day, hour, topic, partition, or none."),
]
ColumnsFlag = Annotated[str | None, typer.Option("--columns", metavar="NAMES", help="What to write of a message.")]
JsonFlag = Annotated[bool, typer.Option("--json", help="A column for each field of JSON values, in place of value.")]
OverwriteFlag = Annotated[bool, typer.Option("--overwrite", help="Replace an export that is there.")]
CompressionFlag = Annotated[
    str | None, typer.Option("--compression", metavar="NAME", help="zstd for Parquet, none for the others; gzip …")
]

_COLUMNS = (
    Column("TO", "to"),
    Column("FORMAT", "format"),
    Column("ROWS", "rows", format_count),
    Column("FILES", "files", format_count),
    Column("SIZE", "bytes", format_size),
    Column("TIME", "seconds", format_duration),
)


@inquiry_flags
def export(  # noqa: PLR0913 - they are as many as there are flags
    *,
    out: TargetFlag,
    form: FormatFlag = "parquet",
    partition_by: PartitionFlag = None,
    columns: ColumnsFlag = None,
    json: JsonFlag = False,
    json_schema: SchemaFlag = None,
    infer: InferFlag = 1000,
    compression: CompressionFlag = None,
    overwrite: OverwriteFlag = False,
    skip_damage: SkipFlag = False,
    inquiry: Inquiry,
) -> None:
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
    from goqueue.spark.transfer.export import EXPORTED, Export, check_export  # noqa: PLC0415 - it needs Arrow

    usual = "day,topic" if form == "parquet" else "none"
    wanted = Export(
        out,
        form,
        EXPORTED if columns is None else names_of("--columns", columns),
        () if (partition_by or usual) == "none" else names_of("--partition-by", partition_by or usual),
        compression,
        overwrite,
        json_fields(json_schema, infer, no_json=False) if json or json_schema else NO_FIELDS,
        skip_damage,
    )
    check_export(wanted)
    _export(inquiry, wanted)


def _export(inquiry: Inquiry, wanted: "Export") -> None:
    from goqueue.spark.transfer.export import export as write  # noqa: PLC0415

    logs = inquiry.logs()
    plan = inquiry.plan(logs)
    began = time.monotonic()
    with inquiry.spark() as spark, inquiry.progress(spark, plan, "writing"):
        written = write(spark, logs, plan, wanted)
    row = {
        "to": wanted.to,
        "format": wanted.format,
        "rows": written.rows,
        "files": written.files,
        "bytes": written.bytes,
        "seconds": round(time.monotonic() - began, 3),
    }
    inquiry.write([row], _COLUMNS)
    if inquiry.for_people and not written.rows:
        terminal.say("there was nothing to write")


def names_of(flag: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not names:
        raise UsageInvalid(f"{flag} names nothing", hint="write names with commas between them")
    return names
