"""Deserializers: payloads become values by the schema that each names."""

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from goqueue.client.serializers.known_schemas import BoundedCache
from goqueue.errors import RequestInvalid
from goqueue.schemas import framing
from goqueue.schemas.formats import schema_format
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind
from goqueue.schemas.values import PayloadDecoder, ValueMismatch

if TYPE_CHECKING:
    from goqueue.schemas.avro.avro_format import AvroSchema
    from goqueue.schemas.protobuf.protobuf_format import ProtobufSchema

Indexes = tuple[int, ...]
_COMPILED_MAX = 1_000


class FramedPayload(NamedTuple):
    """A payload with the id of its schema, and with Protobuf the message indexes if a header named them."""

    id: int
    payload: bytes
    indexes: Indexes | None = None


def read_framed(content: bytes, header: bytes | None) -> FramedPayload:
    """Take the id of a schema from a header, or from the prefix. Raises `framing.FramingInvalid`."""
    if header is not None:
        number, indexes = framing.decode_header(header)
        return FramedPayload(number, content, indexes or framing.FIRST_MESSAGE)
    return FramedPayload(framing.decode_prefix(content), content[framing.PREFIX_BYTES :])


class SchemaDeserializer:
    """Makes values of payloads of any format: dicts, lists and plain values.

    Give one to `client.consumer(deserializer=...)` or `client.reader(deserializer=...)`, and call `decode()` of their
    messages. Each schema is asked for once. With `as_json` messages of Protobuf become its mapping of JSON. Any number
    of consumers may share a deserializer.
    """

    kind: SchemaKind | None = None
    """The format that payloads must have."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._compiled: BoundedCache[tuple[int, Indexes | None], _Compiled] = BoundedCache(_COMPILED_MAX)

    def decode(self, framed: FramedPayload, schema: ParsedSchema) -> Any:
        """Return the value of a payload. Raises `ValueMismatch`."""
        payload, indexes = framed.payload, framed.indexes
        if schema.kind is SchemaKind.PROTOBUF:
            if indexes is None:
                try:
                    indexes, at = framing.decode_message_indexes(payload)
                except framing.FramingInvalid as error:
                    raise ValueMismatch(str(error)) from None
                payload = payload[at:]
        else:
            indexes = None
        key = id(schema), indexes
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = _Compiled(schema, self._decoder(schema, indexes))
            self._compiled.put(key, compiled)
        return compiled.decode(payload)

    def _decoder(self, schema: ParsedSchema, indexes: Indexes | None) -> PayloadDecoder:
        if self.kind is not None and schema.kind is not self.kind:
            raise ValueMismatch(f"its schema is of the format {schema.kind}, and must be {self.kind}")
        match schema.kind:
            case SchemaKind.AVRO:
                return self._avro(cast("AvroSchema", schema))
            case SchemaKind.JSON:
                return self._json(schema)
        return self._protobuf(cast("ProtobufSchema", schema), indexes or framing.FIRST_MESSAGE)

    def _avro(self, schema: "AvroSchema") -> PayloadDecoder:
        from goqueue.client.serializers import logical_types  # noqa: PLC0415 - Avro alone
        from goqueue.schemas.avro.decoding import AvroDecoder  # noqa: PLC0415

        return AvroDecoder(schema.root, logical=logical_types.READ)

    def _json(self, schema: ParsedSchema) -> PayloadDecoder:
        from goqueue.schemas.json_schema.json_format import JsonFormat  # noqa: PLC0415 - JSON alone
        from goqueue.schemas.json_schema.values import JsonDecoder  # noqa: PLC0415

        return JsonDecoder(JsonFormat().validator(schema))

    def _protobuf(self, schema: "ProtobufSchema", indexes: Indexes) -> PayloadDecoder:
        from goqueue.client.serializers import messages  # noqa: PLC0415 - Protobuf alone
        from goqueue.schemas.protobuf.values import MessageDecoder  # noqa: PLC0415

        kind = schema.message_class(message_name(schema, indexes))
        convert = messages.to_json() if self._as_json else messages.to_dict(kind)
        return MessageDecoder(kind, convert)


class _Compiled:
    """A decoder, which one thread at a time may use, with its schema, whose id must not be given to another object."""

    def __init__(self, schema: ParsedSchema, decoder: PayloadDecoder) -> None:
        self._schema = schema
        self._lock = threading.Lock()
        self._decode = decoder.decode

    def decode(self, payload: bytes) -> Any:
        with self._lock:
            return self._decode(payload)


def message_name(schema: "ProtobufSchema", indexes: Indexes) -> str:
    for name, place in schema.indexed_messages():
        if place == indexes:
            return name
    raise ValueMismatch(f"its schema has no message with the indexes {list(indexes)}")


class AvroDeserializer(SchemaDeserializer):
    """Makes values of payloads in Avro, each read by the schema it was written with.

    With `schema`, values are resolved to it by Avro's rules: fields get their defaults, numbers are promoted, other
    fields are left out. With a `target`, a dataclass, a TypedDict, or a model of msgspec or pydantic, values are
    instances of it.
    """

    kind = SchemaKind.AVRO

    def __init__(self, target: Any = None, *, schema: str | None = None, as_json: bool = False) -> None:
        super().__init__(as_json=as_json)
        self._target = target
        reader = None if schema is None else schema_format(SchemaKind.AVRO).parse(schema)
        self._reader = cast("AvroSchema | None", reader)

    def _avro(self, schema: "AvroSchema") -> PayloadDecoder:
        from goqueue.client.serializers import logical_types  # noqa: PLC0415 - Avro alone
        from goqueue.schemas.avro.decoding import AvroDecoder  # noqa: PLC0415

        reader = None if self._reader is None else self._reader.root
        decoder = AvroDecoder(schema.root, reader, logical_types.READ)
        return decoder if self._target is None else _Converting(decoder, self._target)


class _Converting:
    """A decoder whose values become instances of a type."""

    def __init__(self, decoder: PayloadDecoder, target: Any) -> None:
        from goqueue.client.serializers.derived import convert_to  # noqa: PLC0415 - for types alone

        self._decoder = decoder
        self._convert = convert_to(target)

    def decode(self, payload: bytes) -> Any:
        value = self._decoder.decode(payload)
        try:
            return self._convert(value)
        except (ValueError, RecursionError) as error:
            raise ValueMismatch(str(error)) from None


class JsonDeserializer(SchemaDeserializer):
    """Makes values of payloads of JSON, which are compared with their schema unless `validate` is False.

    With a `target`, a dataclass, a TypedDict, or a model of msgspec or pydantic, values are instances of it: fields
    that are missing have its defaults.
    """

    kind = SchemaKind.JSON

    def __init__(self, target: Any = None, *, validate: bool = True) -> None:
        super().__init__()
        self._target = target
        self._validates = validate

    def _json(self, schema: ParsedSchema) -> PayloadDecoder:
        from goqueue.client.serializers.derived import decode_json_as  # noqa: PLC0415 - JSON alone
        from goqueue.schemas.json_schema.json_format import JsonFormat  # noqa: PLC0415
        from goqueue.schemas.json_schema.values import JsonDecoder  # noqa: PLC0415

        validator = JsonFormat().validator(schema) if self._validates else None
        return JsonDecoder(validator, None if self._target is None else decode_json_as(self._target))


class ProtobufDeserializer(SchemaDeserializer):
    """Makes messages of a generated class of payloads in Protobuf, or without one dicts.

    Fields that the class does not have are kept as unknown fields, as Protobuf defines. In dicts, enums are names,
    timestamps and durations datetimes and timedeltas, and fields with presence that are not set are left out.
    """

    kind = SchemaKind.PROTOBUF

    def __init__(self, target: Any = None, *, as_json: bool = False) -> None:
        super().__init__(as_json=as_json)
        if target is not None and not hasattr(target, "DESCRIPTOR"):
            raise RequestInvalid(f"the target is {target!r:.80}", hint="give a generated message class, or none")
        self._target = target

    def _protobuf(self, schema: "ProtobufSchema", indexes: Indexes) -> PayloadDecoder:
        from goqueue.schemas.protobuf.values import MessageDecoder  # noqa: PLC0415 - Protobuf alone

        if self._target is None:
            return super()._protobuf(schema, indexes)
        name, wanted = message_name(schema, indexes), self._target.DESCRIPTOR.full_name
        if name != wanted:
            raise ValueMismatch(f"it is a message {name}, and must be {wanted}")
        return MessageDecoder(self._target)
