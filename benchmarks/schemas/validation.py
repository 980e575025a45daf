"""Valid payloads in a second, one after the other."""

from collections.abc import Iterator

from benchmarks.harness.suite import Bench, Figure, Measurement, Sample, at_least, measurement
from benchmarks.schemas.order import parsed, payload
from benchmarks.storage.stock import Stopwatch
from goqueue.schemas.formats import schema_format
from goqueue.schemas.schema_format import SchemaKind

BUDGETS = {SchemaKind.JSON: 100_000, SchemaKind.AVRO: 150_000, SchemaKind.PROTOBUF: 150_000}


def _validation(kind: SchemaKind) -> Measurement:
    @measurement(f"validate 1 KiB of {kind.value}", Figure("messages/s", budget=at_least(BUDGETS[kind])))
    def measure(bench: Bench) -> Iterator[Sample]:
        problems = schema_format(kind).validator(parsed(kind)).problems
        order, count = payload(kind), bench.size(200_000, 20_000)
        assert 900 < len(order) < 1100
        assert problems(order) == []
        while True:
            watch = Stopwatch()
            for _ in range(count):
                problems(order)
            yield count / watch.seconds()

    return measure


json_payloads = _validation(SchemaKind.JSON)
avro_payloads = _validation(SchemaKind.AVRO)
protobuf_payloads = _validation(SchemaKind.PROTOBUF)
