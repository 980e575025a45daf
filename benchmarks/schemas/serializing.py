"""Values of 1 KiB made into payloads and back by the SDK's serializers, in a second, one after the other."""

from collections.abc import Iterator
from typing import Any

from benchmarks.harness.suite import Bench, Figure, Measurement, Sample, measurement
from benchmarks.schemas.order import TEXTS, parsed, payload
from benchmarks.storage.stock import Stopwatch
from goqueue.client import AvroSerializer, JsonSerializer, ProtobufSerializer, SchemaDeserializer, SchemaSerializer
from goqueue.client.schema_requests import RegisteredSchema
from goqueue.client.serializers.deserializer import read_framed
from goqueue.client.serializers.known_schemas import KnownSchemas
from goqueue.client.serializers.serializer import TopicEncoder
from goqueue.schemas import framing
from goqueue.schemas.schema_format import SchemaKind

SERIALIZERS: dict[SchemaKind, type[Any]] = {
    SchemaKind.JSON: JsonSerializer,
    SchemaKind.AVRO: AvroSerializer,
    SchemaKind.PROTOBUF: ProtobufSerializer,
}


def _bound(serializer: SchemaSerializer) -> TopicEncoder:
    """Return the encoder of a topic, as after the answer of a registry."""
    binding = serializer.bind(KnownSchemas(), "orders", "value")
    next(binding)
    try:
        binding.send(RegisteredSchema(1, 1))
    except StopIteration as bound:
        encoder: TopicEncoder = bound.value
        return encoder
    raise AssertionError("the registry is asked once")


def _serializing(kind: SchemaKind) -> Measurement:
    @measurement(
        f"serialize 1 KiB of {kind.value}",
        Figure("values/s", "encode"),
        Figure("values/s", "decode"),
    )
    def measure(bench: Bench) -> Iterator[Sample]:
        encoder, deserializer, schema = _bound(SERIALIZERS[kind](TEXTS[kind])), SchemaDeserializer(), parsed(kind)
        content = framing.encode_prefix(1) + payload(kind)
        order, count = deserializer.decode(read_framed(content, None), schema), bench.size(50_000, 5_000)
        assert encoder.payload(order, "value") == content or kind is SchemaKind.JSON
        while True:
            watch = Stopwatch()
            for _ in range(count):
                encoder.payload(order, "value")
            encoded = count / watch.seconds()
            watch = Stopwatch()
            for _ in range(count):
                deserializer.decode(read_framed(content, None), schema)
            yield encoded, count / watch.seconds()

    return measure


json_values = _serializing(SchemaKind.JSON)
avro_values = _serializing(SchemaKind.AVRO)
protobuf_values = _serializing(SchemaKind.PROTOBUF)
