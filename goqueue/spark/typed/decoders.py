"""Decoders of payloads in batches: payloads that one schema wrote become a column of the type of another.

JSON is read by Arrow where it can: a batch at once, without a Python object for each message. What Arrow refuses is cut
in halves, so that one bad payload does not make all others slow, and is decoded one by one in the end.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from goqueue.errors import RequestInvalid
from goqueue.schemas.avro.avro_format import AvroSchema
from goqueue.schemas.avro.decoding import AvroDecoder
from goqueue.schemas.framing import FIRST_MESSAGE, FIRST_MESSAGE_BYTES, FramingInvalid, decode_message_indexes
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind
from goqueue.schemas.values import ValueMismatch
from goqueue.spark.typed.mapping import ArrayWithReasons, Convert, TypeMapping, to_array

_AT_ONCE_MIN = 256  # payloads of JSON that Arrow reads together; fewer are as fast one by one


class BatchDecoder(Protocol):
    """Decodes payloads of one writer's schema."""

    def decode(self, payloads: pa.Array) -> ArrayWithReasons: ...


class ReaderSchema:
    """The schema of a column, which payloads of other versions are resolved to."""

    def __init__(self, parsed: ParsedSchema) -> None:
        self.parsed = parsed
        self.mapping = _mapping(parsed)

    def decoder(self, writer: ParsedSchema | None, kind: pa.DataType) -> BatchDecoder:
        """Return the decoder for payloads of a writer's schema; None: payloads that name none, as of this one.

        `kind` is the type of the column, or a part of it. Raises ValueMismatch.
        """
        if writer is not None and writer.kind is not self.parsed.kind:
            raise ValueMismatch(f"its schema is {writer.kind}, that of the column is {self.parsed.kind}")
        match self.parsed.kind:
            case SchemaKind.AVRO:
                reader = cast("AvroSchema", self.parsed).root
                return _EachDecoder(_avro(writer or self.parsed, reader), self.mapping.convert, kind)
            case SchemaKind.JSON:
                return _JsonDecoder(self.mapping, kind)
        return _EachDecoder(_protobuf(writer, self.parsed), self.mapping.convert, kind)


def _mapping(parsed: ParsedSchema) -> TypeMapping:
    """Return the mapping of a schema. Those of formats are imported with their libraries."""
    if parsed.kind is SchemaKind.AVRO:
        from goqueue.spark.typed.avro_types import avro_mapping  # noqa: PLC0415

        return avro_mapping(cast("AvroSchema", parsed).root)
    if parsed.kind is SchemaKind.JSON:
        from goqueue.spark.typed.json_types import json_mapping  # noqa: PLC0415

        document = cast("Any", parsed).document
        return json_mapping(document, document.root)
    from goqueue.spark.typed.protobuf_types import message_mapping  # noqa: PLC0415

    if not parsed.names:
        raise RequestInvalid("the schema of the column has no message", hint="name another version or subject")
    return message_mapping(cast("Any", parsed).message_class(parsed.names[0]).DESCRIPTOR)


Decode = Callable[[bytes], Any]


def _avro(writer: ParsedSchema, reader: Any) -> Decode:
    from goqueue.spark.typed.avro_types import LOGICAL  # noqa: PLC0415

    return AvroDecoder(cast("AvroSchema", writer).root, reader, LOGICAL).decode


def _protobuf(writer: ParsedSchema | None, reader: ParsedSchema) -> Decode:
    """Return a function that reads the message of the column, whose fields are found by their numbers."""
    from goqueue.schemas.protobuf.values import MessageDecoder  # noqa: PLC0415

    wanted = reader.names[0]
    decode_message = MessageDecoder(cast("Any", reader).message_class(wanted)).decode
    names = None if writer is None else writer.names_by_indexes

    def decode(payload: bytes) -> Any:
        at = 0
        if names is not None:
            indexes, at = _message_indexes(payload)
            name = names.get(indexes, "")
            if name != wanted:
                raise ValueMismatch(f"it is a message {name or indexes}, that of the column is {wanted}")
        return decode_message(payload[at:])

    return decode


def _message_indexes(payload: bytes) -> tuple[tuple[int, ...], int]:
    if payload[:1] == FIRST_MESSAGE_BYTES:
        return FIRST_MESSAGE, 1
    try:
        return decode_message_indexes(payload)
    except FramingInvalid as error:
        raise ValueMismatch(str(error)) from None


class _EachDecoder:
    """Decodes one payload after the other."""

    def __init__(self, decode: Decode, convert: Convert | None, kind: pa.DataType) -> None:
        self._decode = decode
        self._convert = convert
        self._kind = kind

    def decode(self, payloads: pa.Array) -> ArrayWithReasons:
        decode, convert = self._decode, self._convert
        values: list[Any] = []
        refused: dict[int, str] = {}
        for row, payload in enumerate(payloads.to_pylist()):
            try:
                value = decode(payload)
                values.append(value if convert is None or value is None else convert(value))
            except (ValueMismatch, ValueError, RecursionError) as error:
                values.append(None)
                refused[row] = str(error)
        found, reasons = to_array(values, self._kind)
        return ArrayWithReasons(found, reasons | refused)


class _JsonDecoder:
    """Decodes JSON, whatever schema it was written with: fields are found by their names."""

    def __init__(self, mapping: TypeMapping, kind: pa.DataType) -> None:
        decoder = msgspec.json.Decoder(mapping.python | None)
        self._each = _EachDecoder(decoder.decode, mapping.convert, kind)
        self._kind = kind
        self._is_read_by_arrow = mapping.is_read_by_arrow and pa.types.is_struct(kind)

    def decode(self, payloads: pa.Array) -> ArrayWithReasons:
        if not self._is_read_by_arrow:
            return self._each.decode(payloads)
        parts = list(self._parts(payloads, 0))
        reasons = {row: reason for _, found in parts for row, reason in found.items()}
        return ArrayWithReasons(pa.concat_arrays([values for values, _ in parts]), reasons)

    def _parts(self, payloads: pa.Array, first: int) -> Iterator[ArrayWithReasons]:
        at_once = read_objects(payloads, self._kind) if len(payloads) >= _AT_ONCE_MIN else None
        if at_once is not None:
            yield ArrayWithReasons(at_once, {})
        elif len(payloads) < 2 * _AT_ONCE_MIN:
            values, reasons = self._each.decode(payloads)
            yield ArrayWithReasons(values, {first + row: reason for row, reason in reasons.items()})
        else:
            half = len(payloads) // 2
            yield from self._parts(payloads[:half], first)
            yield from self._parts(payloads[half:], first + half)


def read_objects(payloads: pa.Array, kind: pa.StructType) -> pa.Array | None:
    """Read JSON objects at once; None if Arrow refuses one.

    Payloads become lines. Each begins and ends with a brace, so that no two of them can be one object; and two objects
    in one payload would make too many rows. So each row is of its own payload.
    """
    _, edges, content = payloads.buffers()
    ends = np.frombuffer(edges, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
    if content is None or (np.diff(ends) < len("{}")).any():
        return None
    letters = np.frombuffer(content, np.uint8)
    if (letters[ends[:-1]] != ord("{")).any() or (letters[ends[1:] - 1] != ord("}")).any():
        return None
    try:
        text = payloads.cast(pa.string())  # which looks whether it is UTF-8
        lines = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text)
        joined = pc.binary_join(lines, "\n")[0].as_buffer()
        table = arrow_json.read_json(
            pa.BufferReader(joined),
            arrow_json.ReadOptions(use_threads=False, block_size=joined.size + 1),
            arrow_json.ParseOptions(explicit_schema=pa.schema(list(kind)), unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowException, OverflowError):
        return None
    return table.to_struct_array().combine_chunks() if table.num_rows == len(payloads) else None
