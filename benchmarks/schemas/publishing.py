"""Messages of 1 KiB that the broker checks when they are published, in frames: messages a second of its processor."""

from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import GoQueue
from benchmarks.harness.suite import Bench, Figure, Measurement, Sample, at_least, measurement
from benchmarks.schemas.order import TEXTS, payload
from goqueue.schemas.framing import encode_prefix
from goqueue.schemas.schema_format import SchemaKind

BATCH = 1_000
BUDGETS = {SchemaKind.JSON: 50_000, SchemaKind.AVRO: 50_000, SchemaKind.PROTOBUF: 50_000}


def _checked(kind: SchemaKind, validation: str) -> Measurement:
    budget = at_least(BUDGETS[kind])

    @measurement(f"publish {kind.value}, validation: {validation}", Figure("messages/s of processor", budget=budget))
    def measure(bench: Bench) -> Iterator[Sample]:
        broker, times = GoQueue(), bench.size(100, 20)
        with running(broker, bench.room()):
            number = broker.client.register_schema("orders-value", TEXTS[kind], kind.value)
            values = [encode_prefix(number.id) + payload(kind)] * BATCH
            broker.create("orders", 1, value_validation=validation, retention_bytes=0)
            broker.publish_bulk("orders", values, 2)
            while True:
                before = broker.server.processor_seconds()
                broker.publish_bulk("orders", values, times)
                yield BATCH * times / (broker.server.processor_seconds() - before)

    return measure


unchecked = _checked(SchemaKind.JSON, "none")
json_ids = _checked(SchemaKind.JSON, "id")
json_payloads = _checked(SchemaKind.JSON, "payload")
avro_payloads = _checked(SchemaKind.AVRO, "payload")
protobuf_payloads = _checked(SchemaKind.PROTOBUF, "payload")
