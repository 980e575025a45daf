"""A new version of a schema: read, compiled, and compared with the one before."""

from collections.abc import Iterator

from benchmarks.harness.suite import Bench, Figure, Measurement, Sample, at_most, measurement
from benchmarks.schemas.order import parsed
from benchmarks.storage.stock import Stopwatch
from goqueue.schemas.formats import schema_format
from goqueue.schemas.schema_format import SchemaKind


def _version(kind: SchemaKind) -> Measurement:
    @measurement(
        f"a version of {kind.value}",
        Figure("ms", "read", less_is_better=True),
        Figure("ms", "compile", less_is_better=True),
        Figure("ms", "compare", budget=at_most(10), less_is_better=True),
    )
    def measure(bench: Bench) -> Iterator[Sample]:
        rules, count = schema_format(kind), bench.size(100, 20)
        earlier = parsed(kind)
        while True:
            took = []
            for step in (lambda: parsed(kind), lambda: rules.validator(earlier)):
                watch = Stopwatch()
                for _ in range(count):
                    step()
                took.append(watch.seconds() / count * 1000)
            others = [parsed(kind) for _ in range(count)]
            watch = Stopwatch()
            for other in others:
                other.__dict__["fingerprint"] = b""  # equal schemas are not compared
                assert rules.incompatibilities(other, earlier) == []
            yield *took, watch.seconds() / count * 1000

    return measure


json_version = _version(SchemaKind.JSON)
avro_version = _version(SchemaKind.AVRO)
protobuf_version = _version(SchemaKind.PROTOBUF)
