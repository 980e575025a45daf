"""Payloads as typed columns: from a broker, a directory and a file, with evolution, and with reasons for what fails."""

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql.types import DoubleType, LongType, StringType, StructType

from goqueue.errors import GoQueueError, RequestInvalid, SchemaViolation, SubjectNotFound
from goqueue.schemas.formats import schema_format
from goqueue.schemas.schema_format import SchemaKind
from goqueue.spark.source import GoQueueReader, GoQueueSource
from goqueue.spark.typed.decoders import ReaderSchema, read_objects
from goqueue.testing.broker import LocalBroker
from tests.spark.programs import Inspect
from tests.spark.typed_messages import NEW, OLD, PAYMENT, TypedIds, avro, publish_typed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalBroker, TypedIds]]:
    with LocalBroker(str(tmp_path_factory.mktemp("typed") / "data")) as running:
        yield running, publish_typed(running.url)


def place(broker: LocalBroker) -> str:
    return str(broker.daemon.config.data_dir)


def read(options: dict[str, str], schema: StructType | None = None) -> list[dict[str, Any]]:
    """Read as Spark does: a source on the driver, and its reader where the task is."""
    source = GoQueueSource(dict(options))
    reader = source.reader(source.schema() if schema is None else schema)
    assert isinstance(reader, GoQueueReader)
    try:
        return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    finally:
        reader._logs.close()


def data(options: dict[str, str]) -> list[tuple[Any, str | None]]:
    return [(row["data"], row["data_error"]) for row in read({"columns": "data,data_error", **options})]


def test_payloads_of_all_versions_have_the_type_of_the_latest(broker: tuple[LocalBroker, TypedIds]) -> None:
    running, ids = broker
    for where in ({"goqueue.url": running.url}, {"path": place(running)}):
        named = {**where, "subscribe": "orders", "schemas": "own"}
        rows = read({**named, "columns": "data,data_error,schema_id,key_data,value"})
        assert [row["data"] for row in rows] == [
            {"id": 1, "total": 1.5}, {"id": 2, "total": 2.5}, {"id": 1, "total": 1.5}, {"id": 3, "total": 3.5},
            *[None] * 5,
        ]  # fmt: skip
        assert [row["data_error"] for row in rows] == [
            *[None] * 5, "there is no schema 99",
            f"schema {ids.payment}: its schema is JSON, that of the column is AVRO",
            "/total: a value of 8 bytes, of which the payload has 0", "'x' is no schema id: it is a number such as 7",
        ]  # fmt: skip
        assert [row["schema_id"] for row in rows] == [
            ids.old, ids.new, ids.old, None, None, 99, ids.payment, None, None,
        ]  # fmt: skip
        assert (rows[0]["key_data"], rows[1]["key_data"]) == ("k1", None)
        older = data({**named, "schemaVersion": "1"})
        assert older[0] == ({"id": 1, "customer": "a"}, None)
        assert older[1] == (None, "/id: the writer's long cannot be read as int")
        with pytest.raises(SchemaViolation, match="orders/0@5 cannot be decoded: there is no schema 99"):
            read({**named, "mode": "failfast"})
        json_rows = data({**named, "subscribe": "payments"})
        assert json_rows[:2] == [({"cents": 5, "note": None}, None), ({"cents": 6, "note": "n"}, None)]
        assert json_rows[2][0] is None
        assert "got `str`" in str(json_rows[2][1])
        event, same, other = data({**named, "subscribe": "events"})
        assert event == same
        assert event[0] == {
            "id": 5, "tags": ["a"], "counts": [("b", 1)], "place": {"x": 2.5}, "parent": '{"id":"4"}',
            "at": datetime(2026, 1, 1, 0, 0, 0, 500_000, UTC), "large": Decimal(2**64 - 1), "kind": "SEEN",
            "seen": None,
        }  # fmt: skip
        assert other == (None, "it is a message shop.Event.Place, that of the column is shop.Event")


def test_columns_that_are_not_chosen_need_no_schema(broker: tuple[LocalBroker, TypedIds], tmp_path: Path) -> None:
    running, _ = broker
    named = {"path": place(running), "subscribe": "orders", "schemas": "http://127.0.0.1:1"}
    assert len(read({**named, "columns": "offset"})) == 9
    wide = GoQueueSource({**named, "schemas": "own", "includeKeyData": "true"}).schema()
    names = "key key_data key_data_error data data_error topic partition offset timestamp timestampType priority"
    assert wide.fieldNames() == names.split()
    part = StructType().add("offset", LongType()).add("data", StructType().add("total", DoubleType()))
    assert read({**named, "schemas": "own"}, part)[1] == {"offset": 1, "data": {"total": 2.5}}
    file = tmp_path / "order.avsc"
    file.write_text(NEW)
    rows = data({**named, "schemas": str(file), "startingOffsets": '{"orders":{"0":1}}'})
    assert [row for row, _ in rows[:3]] == [{"id": 2, "total": 2.5}, None, {"id": 3, "total": 3.5}]


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"schemas": "own", "schemaSubject": "refunds-value"}, SubjectNotFound, "refunds-value"),
        ({"schemas": "own", "subscribePattern": "o.*"}, RequestInvalid, "schemaSubject is needed: the read is of all"),
        ({"schemas": "own", "mode": "DROP", "schemaVersion": "0"}, RequestInvalid, "neither PERMISSIVE nor FAILFAST"),
        ({"schemaVersion": "1"}, RequestInvalid, "schemaVersion needs the option schemas"),
        ({"columns": "data"}, RequestInvalid, "'data' is no column"),
        ({"schemas": "/no/such.avsc", "subscribe": "orders"}, GoQueueError, "/no/such.avsc cannot be read"),
    ],
)
def test_wrong_option_is_refused_when_the_read_is_planned(
    broker: tuple[LocalBroker, TypedIds], options: dict[str, str], kind: type[GoQueueError], told: str
) -> None:
    with pytest.raises(kind, match=told):
        GoQueueSource({"path": place(broker[0]), **options}).schema()
    given = StructType().add("data", StructType().add("id", StringType()))
    with pytest.raises(RequestInvalid, match="column data is struct"):
        GoQueueSource({"path": place(broker[0]), "subscribe": "orders", "schemas": "own"}).reader(given)


def test_spark_reads_typed_columns_in_batches_and_streams(
    spark: "SparkSession", inspect_spark: Inspect, broker: tuple[LocalBroker, TypedIds], tmp_path: Path
) -> None:
    running, _ = broker
    options = {"goqueue.url": running.url, "subscribe": "events", "schemas": "own"}
    events = spark.read.format("goqueue").options(**options).load()
    rows = events.select("data.*", "data_error").orderBy("data_error").toArrow().to_pylist()
    assert [(row["id"], row["place"], row["counts"]) for row in rows[:2]] == [(5, {"x": 2.5}, [("b", 1)])] * 2
    assert rows[2]["data_error"].startswith("it is a message shop.Event.Place")
    stream = spark.readStream.format("goqueue").option("path", place(running)).option("subscribe", "orders")
    stream = stream.option("schemas", "own").option("startingOffsets", "earliest").option("columns", "offset,data")
    query = stream.load().where("data IS NOT NULL").select("offset", "data.total").writeStream
    query = query.format("memory").queryName("typed_orders").option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).start().awaitTermination()
    totals = [tuple(row) for row in spark.table("typed_orders").orderBy("offset").collect()]
    assert totals == [(0, 1.5), (1, 2.5), (2, 1.5), (3, 3.5)]
    spark.catalog.dropTempView("typed_orders")
    words = "SELECT offset, total, data_error FROM orders WHERE offset IN (1, 5) ORDER BY offset"
    asked = inspect_spark("sql", place(running), words, "--schemas", "own", "-o", "csv")
    assert asked.stdout.splitlines() == ["offset,total,data_error", "1,2.5,", "5,,there is no schema 99"], asked.stderr


# --- types ---


def reader(kind: SchemaKind, schema: object) -> ReaderSchema:
    return ReaderSchema(schema_format(kind).parse(schema if isinstance(schema, str) else json.dumps(schema)))


def test_types_of_avro_become_types_of_columns() -> None:
    fields = {
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-millis"},
        "local": {"type": "long", "logicalType": "local-timestamp-micros"},
        "price": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2},
        "uuid": {"type": "string", "logicalType": "uuid"},
        "names": {"type": "map", "values": {"type": "array", "items": "int"}},
        "maybe": ["null", "string"],
        "wide": ["int", "long"],
        "either": ["null", "string", "int"],
        "kind": {"type": "enum", "name": "K", "symbols": ["A", "B"]},
        "next": ["null", "Node"],
    }
    schema = {"type": "record", "name": "Node", "fields": [{"name": n, "type": t} for n, t in fields.items()]}
    found = reader(SchemaKind.AVRO, schema)
    kinds = {one.name: str(one.type) for one in found.mapping.type}
    assert kinds == {
        "day": "date32[day]", "at": "timestamp[us, tz=UTC]", "local": "timestamp[us]", "price": "decimal128(10, 2)",
        "uuid": "string", "names": "map<string, list<item: int32>>", "maybe": "string", "wide": "int64",
        "either": "string", "kind": "string", "next": "string",
    }  # fmt: skip
    value = {
        "day": date(2026, 1, 1), "at": datetime(2026, 1, 1, tzinfo=UTC), "local": datetime(2026, 1, 1), "price": Decimal("1.25"),  # noqa: DTZ001, E501
        "uuid": UUID(int=1), "names": {"a": [1, 2]}, "maybe": None, "wide": 7, "either": 5, "kind": "B",
    }  # fmt: skip
    payload = avro(json.dumps(schema), {**value, "next": {**value, "next": None}})
    decoded = found.decoder(None, found.mapping.type).decode(pa.array([payload])).values[0].as_py()
    assert decoded["next"].startswith('{"day":')
    del decoded["next"]
    assert decoded == {**value, "names": [("a", [1, 2])], "uuid": str(UUID(int=1)), "either": "5"}


def test_types_of_json_schema_become_types_of_columns() -> None:
    schema = {
        "properties": {
            "id": {"$ref": "#/$defs/id"}, "tree": {"$ref": "#/$defs/tree"}, "any": {}, "kind": {"enum": ["a", "b"]},
            "list": {"type": "array", "items": {"type": "number"}}, "map": {"additionalProperties": {"type": "boolean"},
            "type": "object"}, "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "either": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        },
        "$defs": {
            "id": {"type": "string"},
            "tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}, "leaf": {"type": "integer"}}},
        },
    }  # fmt: skip
    found = reader(SchemaKind.JSON, schema)
    assert {one.name: str(one.type) for one in found.mapping.type} == {
        "id": "string", "tree": "struct<left: string, leaf: int64>", "any": "string", "kind": "string",
        "list": "list<item: double>", "map": "map<string, bool>", "maybe": "int64", "either": "string",
    }  # fmt: skip
    sent = {"id": "x", "tree": {"left": {"leaf": 1}}, "any": [1, None], "list": [1, 2.5], "map": {"y": True}}
    decoded, reasons = found.decoder(None, found.mapping.type).decode(
        pa.array([json.dumps(sent).encode(), b'{"list":[1,"x"]}'])
    )
    assert decoded[0].as_py() == {
        "id": "x", "tree": {"left": '{"leaf": 1}', "leaf": None}, "any": "[1, null]", "kind": None, "list": [1.0, 2.5],
        "map": [("y", True)], "maybe": None, "either": None,
    }  # fmt: skip
    assert list(reasons) == [1]
    assert "`$.list[1]`" in reasons[1]


NASTY = [
    b"nope", b'{"cents": 5', b"{}{}", b"", b' {"cents":3.0} ', b'{"cents":true}', b"\xff\xfe", b'{"note":"\xff"}',
    b'{"cents":99999999999999999999}', b'{"note":5}', b"[1]", b'{\n"cents":1}', b'{"cents":1.5}', b"null", b"{}",
    b'{"cents":1,"cents":2}', b'{"note":"\\u00e9\\n"}', b'{"note":{}}', b'{"a":}', b'{"a":{"b":1}}', b'{"note":"}',
]  # fmt: skip


def test_json_that_is_read_at_once_is_what_it_is_one_by_one() -> None:
    found = reader(SchemaKind.JSON, PAYMENT)
    decoder = found.decoder(None, found.mapping.type)
    plain = [b'{"cents":%d,"note":"n%d","more":{"x":[1,"}"]}}' % (number, number) for number in range(700)]
    at_once = read_objects(pa.array(plain), found.mapping.type)
    assert at_once is not None
    assert at_once.to_pylist() == [{"cents": number, "note": f"n{number}"} for number in range(700)]
    payloads = [
        one
        for number, one in enumerate(plain)
        for one in ((one, NASTY[number // 30 % 21]) if number % 30 == 0 else (one,))
    ]
    values, reasons = decoder.decode(pa.array(payloads))
    alone = [decoder.decode(pa.array([one])) for one in payloads]
    assert values.to_pylist() == [one.values[0].as_py() for one in alone]
    assert reasons == {row: one.reasons[0] for row, one in enumerate(alone) if one.reasons}
    assert {payloads[row] for row in reasons} == {*NASTY} - {NASTY[index] for index in (4, 11, 13, 14, 15, 16, 19)}
    for one in NASTY:  # beside others, none of them may move a row
        together = read_objects(pa.array([plain[0], one, plain[1]]), found.mapping.type)
        assert together is None or (together[0].as_py(), together[2].as_py()) == (
            {"cents": 0, "note": "n0"},
            {"cents": 1, "note": "n1"},
        )


def test_payloads_of_another_version_have_the_fields_of_the_column() -> None:
    found, writer = reader(SchemaKind.AVRO, NEW), schema_format(SchemaKind.AVRO).parse(OLD)
    decoder = found.decoder(writer, pa.struct([("id", pa.int64())]))
    values, reasons = decoder.decode(pa.array([avro(OLD, {"id": 7, "customer": "x"}), b"\x02"]))
    assert (values.to_pylist(), list(reasons)) == ([{"id": 7}, None], [1])
