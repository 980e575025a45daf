"""Values as typed columns: the same orders in each format, beside the bytes alone and Spark's own way of JSON."""

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pyarrow as pa

from benchmarks.harness.suite import Bench, Figure, Sample, measurement
from benchmarks.spark import stage, stock
from benchmarks.spark.inspections import RATE, REPEATS
from benchmarks.spark.reads import seconds
from goqueue.limits import MIB
from goqueue.schemas.formats import schema_format
from goqueue.schemas.schema_format import SchemaKind
from goqueue.spark.sink.frames import MessageArrays, encode
from goqueue.storage import scan
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import LogSettings
from goqueue.storage.store import Store, StoreSettings
from goqueue.testing.clock import ManualClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MESSAGES, MESSAGES_QUICK = 1_000_000, 100_000
PARTITIONS = 2
_FIELDS = {"order": "long", "customer": "string", "total": "double", "note": "string"}
_JSON_TYPES = {"long": "integer", "string": "string", "double": "number"}
SCHEMAS = {
    "avsc": json.dumps(
        {"type": "record", "name": "Order", "fields": [{"name": name, "type": kind} for name, kind in _FIELDS.items()]}
    ),
    "json": json.dumps(
        {"type": "object", "properties": {name: {"type": _JSON_TYPES[kind]} for name, kind in _FIELDS.items()}}
    ),
    "proto": 'syntax = "proto3"; message Order { int64 order = 1; string customer = 2; double total = 3; string note = 4; }',  # noqa: E501
}
_DDL = "`order` BIGINT, customer STRING, total DOUBLE, note STRING"


def _encoder(suffix: str) -> Callable[[dict[str, Any]], bytes]:
    if suffix == "avsc":
        schema = fastavro.parse_schema(json.loads(SCHEMAS[suffix]))

        def encode_avro(order: dict[str, Any]) -> bytes:
            target = io.BytesIO()
            fastavro.schemaless_writer(target, schema, order)
            return target.getvalue()

        return encode_avro
    kind: Any = schema_format(SchemaKind.PROTOBUF).parse(SCHEMAS["proto"])
    made = kind.message_class("Order")
    return lambda order: bytes(made(**order).SerializeToString())


def _make_logs(path: Path, count: int) -> None:
    """A topic for each format, with the same orders."""
    settings = StoreSettings(tail_bytes=stock.MEMORY_LESS, log=LogSettings(segment_bytes=64 * MIB))
    store = Store.open(SystemDisk(), str(path), ManualClock(), owner="a benchmark", settings=settings)
    random = Random(1)
    for suffix, text in SCHEMAS.items():
        (path / f"order.{suffix}").write_text(text)
    encoders = {suffix: _encoder(suffix) for suffix in SCHEMAS if suffix != "json"}
    logs = {suffix: [store.create(f"{suffix}/{number}") for number in range(PARTITIONS)] for suffix in SCHEMAS}
    for number, first in enumerate(range(0, count, stock.BATCH)):
        keys, values = stock.columns(np.arange(first, first + stock.BATCH), random)
        orders = [json.loads(value) for value in values.to_pylist()] if encoders else []
        for suffix, partitions in logs.items():
            made = values if suffix == "json" else pa.array([encoders[suffix](order) for order in orders])
            frames = bytearray(encode(MessageArrays(made, keys)).content)
            partitions[number % PARTITIONS].append(scan.check_batch(frames))
        if number % stock.FLUSH_BATCHES == 0:
            store.flush()
    store.flush()
    store.close()


def _rows(spark: "SparkSession", path: Path, suffix: str, columns: str) -> "DataFrame":
    reader = spark.read.format("goqueue").option("path", str(path)).option("subscribe", suffix)
    if columns == "data":
        reader = reader.option("schemas", str(path / f"order.{suffix}")).option("mode", "FAILFAST")
    return reader.option("columns", columns).option("splitBytes", "64MiB").load()


@measurement(
    "read typed columns, GoQueue",
    Figure(RATE, "values alone, JSON"),
    Figure(RATE, "JSON"),
    Figure(RATE, "JSON, one of four fields"),
    Figure(RATE, "Avro"),
    Figure(RATE, "Protobuf"),
    Figure(RATE, "JSON, from_json of Spark"),
    repeats=REPEATS,
)
def typed(bench: Bench) -> Iterator[Sample]:
    """Every frame is verified, and a payload that cannot be decoded fails the measurement."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the usual name

    count = bench.size(MESSAGES, MESSAGES_QUICK)
    path = stage.shared(bench, "typed", lambda place: _make_logs(place, count))
    with stage.spark() as spark:
        values = _rows(spark, path, "json", "value")
        one = _rows(spark, path, "json", "data")
        schema = "data STRUCT<total: DOUBLE>"
        narrow = spark.read.format("goqueue").schema(schema).option("path", str(path)).option("subscribe", "json")
        narrow = narrow.option("schemas", str(path / "order.json")).option("splitBytes", "64MiB")
        frames = [
            values, one, narrow.load(), _rows(spark, path, "avsc", "data"), _rows(spark, path, "proto", "data"),
            values.select(F.from_json(F.col("value").cast("string"), _DDL).alias("data")),
        ]  # fmt: skip
        while True:
            yield tuple(count / seconds(rows) for rows in frames)
