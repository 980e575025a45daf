"""The columns of typed payloads: `data`, `data_error` and `schema_id`, and the same of keys.

A batch is decoded once for all three. Payloads are grouped by their schema, each group is decoded at once, and the rows
are put back into their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from goqueue.broker.schemas.parsing import SchemaSource, parse_source
from goqueue.errors import FrameInvalid, SchemaInvalid, SchemaNotFound, SchemaViolation
from goqueue.schemas.framing import (
    FIRST_MESSAGE,
    KEY_HEADER,
    PREFIX_BYTES,
    VALUE_HEADER,
    FramingInvalid,
    decode_header,
    encode_message_indexes,
)
from goqueue.schemas.schema_format import SchemaKind
from goqueue.schemas.values import ValueMismatch
from goqueue.spark.reading.columns import KEY_COLUMNS, VALUE_COLUMNS, FrameBatch, MessageColumn, keys, values
from goqueue.spark.typed.decoders import BatchDecoder, ReaderSchema
from goqueue.spark.typed.mapping import ArrayWithReasons
from goqueue.spark.typed.schema_sources import SchemaSupply, parsed_by_id
from goqueue.storage import frame

_NULL, _NO_ID, _HEADERS = -1, 0, -2
"""Groups of payloads besides the ids of their prefixes; those that headers name count down from the last."""
_Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class TypedPart:
    """The values or keys of messages as a typed column. It travels to the executors."""

    is_key: bool
    supply: SchemaSupply
    source: SchemaSource
    """The schema of the column."""
    kind: pa.DataType
    """The type of the column, or a part of it."""
    is_strict: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return KEY_COLUMNS if self.is_key else VALUE_COLUMNS

    def columns(self) -> dict[str, MessageColumn]:
        """Return the columns, which share the result of each batch."""
        decoder = _PartDecoder(self)
        data, error, number = self.names
        return {
            data: MessageColumn(self.kind, lambda batch: decoder.decode(batch).data),
            error: MessageColumn(pa.string(), lambda batch: decoder.decode(batch).errors),
            number: MessageColumn(pa.int32(), lambda batch: decoder.decode(batch).ids),
        }


@lru_cache(maxsize=64)
def reader_schema(source: SchemaSource) -> ReaderSchema:
    """Parse the schema of a column, once for all tasks of a process."""
    return ReaderSchema(parse_source(source))


class DecodedBatch(NamedTuple):
    """The columns of one batch."""

    data: pa.Array
    errors: pa.Array
    ids: pa.Array


class _HeaderName(NamedTuple):
    """The schema that a header names, or why it names none."""

    id: int
    indexes: tuple[int, ...]
    reason: str


class _PartDecoder:
    """Decodes the values or keys of batches, for one task."""

    def __init__(self, part: TypedPart) -> None:
        self._part = part
        self._reader = reader_schema(part.source)
        self._own = self._reader.decoder(None, part.kind)
        """Of payloads that name no schema."""
        self._decoders: dict[int, BatchDecoder | str] = {}
        """By id; a text says why there is none."""
        self._last: tuple[FrameBatch | None, DecodedBatch | None] = (None, None)

    def decode(self, batch: FrameBatch) -> DecodedBatch:
        known, found = self._last
        if known is not batch or found is None:
            found = self._decode(batch)
            self._last = (batch, found)
        return found

    def _decode(self, batch: FrameBatch) -> DecodedBatch:
        payloads = keys(batch) if self._part.is_key else values(batch)
        named = _names_in_headers(batch, KEY_HEADER if self._part.is_key else VALUE_HEADER)
        groups = payload_groups(payloads)
        if named is not None:
            groups = np.where((named.rows >= 0) & (groups != _NULL), _HEADERS - named.rows, groups)
        groups[~batch.run.real] = _NULL  # what is no row is not decoded
        data, reasons = self._decode_groups(payloads, groups, () if named is None else named.names)
        if reasons and self._part.is_strict:
            self._refuse(batch, reasons)
        errors: list[str | None] = [None] * len(batch)
        for row, reason in reasons.items():
            errors[row] = reason
        return DecodedBatch(data, pa.array(errors, pa.string()), _ids(groups, named))

    def _decode_groups(self, payloads: pa.Array, groups: _Numbers, named: Sequence[_HeaderName]) -> ArrayWithReasons:
        chosen = np.unique(groups)
        if len(chosen) == 1:
            return self._decode_group(payloads, int(chosen[0]), named)
        parts, order, reasons = [], [], dict[int, str]()
        for group in chosen.tolist():
            rows = np.flatnonzero(groups == group)
            part = self._decode_group(payloads.take(pa.array(rows)), group, named)
            parts.append(part.values)
            order.append(rows)
            reasons |= {int(rows[row]): reason for row, reason in part.reasons.items()}
        places = np.argsort(np.concatenate(order), kind="stable")
        return ArrayWithReasons(pa.concat_arrays(parts).take(pa.array(places)), reasons)

    def _decode_group(self, payloads: pa.Array, group: int, named: Sequence[_HeaderName]) -> ArrayWithReasons:
        if group == _NULL:
            return self._nothing(payloads)
        if group == _NO_ID:
            return self._own.decode(payloads)
        header = named[_HEADERS - group] if group <= _HEADERS else None
        if header is not None and header.reason:
            return self._nothing(payloads, header.reason)
        if not self._part.supply.has_ids:
            return self._decode_with_one_schema(payloads, has_prefix=header is None)
        decoder = self._decoder(group if header is None else header.id)
        if isinstance(decoder, str):
            return self._nothing(payloads, decoder)
        if header is None:
            return decoder.decode(_behind_prefix(payloads))
        return decoder.decode(self._with_indexes(payloads, header.indexes))

    def _with_indexes(self, payloads: pa.Array, indexes: tuple[int, ...]) -> pa.Array:
        """Return payloads as they are behind a prefix: with Protobuf, message indexes stand before them."""
        if self._reader.parsed.kind is not SchemaKind.PROTOBUF:
            return payloads
        return pc.binary_join_element_wise(pa.scalar(encode_message_indexes(indexes)), payloads, b"")

    def _decode_with_one_schema(self, payloads: pa.Array, *, has_prefix: bool) -> ArrayWithReasons:
        """Decode payloads of the only schema: what begins like a prefix is one if the rest can be decoded."""
        if not has_prefix:
            return self._own.decode(payloads)
        behind = self._reader.decoder(self._reader.parsed, self._part.kind)
        found, reasons = behind.decode(_behind_prefix(payloads))
        rows = sorted(reasons)
        if not rows:
            return ArrayWithReasons(found, {})
        again = self._own.decode(payloads.take(pa.array(rows)))
        places = np.arange(len(payloads))
        places[rows] = len(payloads) + np.arange(len(rows))
        left = {rows[row]: reasons[rows[row]] for row in again.reasons}
        return ArrayWithReasons(pa.concat_arrays([found, again.values]).take(pa.array(places)), left)

    def _nothing(self, payloads: pa.Array, reason: str = "") -> ArrayWithReasons:
        reasons = dict.fromkeys(range(len(payloads)), reason) if reason else {}
        return ArrayWithReasons(pa.nulls(len(payloads), self._part.kind), reasons)

    def _decoder(self, number: int) -> BatchDecoder | str:
        if number not in self._decoders:
            try:
                writer = parsed_by_id(self._part.supply, number)
                self._decoders[number] = self._reader.decoder(writer, self._part.kind)
            except SchemaNotFound:
                self._decoders[number] = f"there is no schema {number}"
            except SchemaInvalid as error:
                self._decoders[number] = f"schema {number}: {error.sentence}"
            except ValueMismatch as error:
                self._decoders[number] = f"schema {number}: {error}"
        return self._decoders[number]

    def _refuse(self, batch: FrameBatch, reasons: dict[int, str]) -> None:
        row = min(reasons)
        place = f"{batch.topic}/{batch.partition}@{int(batch.frames.offsets[row])}"
        raise SchemaViolation(
            f"the {'key' if self._part.is_key else 'value'} of {place} cannot be decoded: {reasons[row]}",
            hint="without mode FAILFAST the column data_error has the reasons",
        )


def payload_groups(payloads: pa.Array) -> _Numbers:
    """Return the id in the prefix of each payload, 0 where there is no prefix, and -1 for null."""
    found = np.zeros(len(payloads), np.int64)
    _, edges, content = payloads.buffers()
    if content is not None and content.size and len(payloads):
        ends = np.frombuffer(edges, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
        letters = np.frombuffer(content, np.uint8)
        rows = np.flatnonzero(np.diff(ends) >= PREFIX_BYTES)
        rows = rows[letters[ends[rows]] == 0]
        for index in range(1, PREFIX_BYTES):
            found[rows] = found[rows] << 8 | letters[ends[rows] + index]
    if payloads.null_count:
        found[pc.is_null(payloads).to_numpy(zero_copy_only=False)] = _NULL
    return found


def _behind_prefix(payloads: pa.Array) -> pa.Array:
    """Return the payloads without their prefixes.

    Every payload is taken as two, of which every second one is copied; `binary_slice` of Arrow 26 fails for some.
    """
    _, edges, content = payloads.buffers()
    ends = np.frombuffer(edges, np.int32)[payloads.offset : payloads.offset + len(payloads) + 1]
    halves = np.empty(2 * len(payloads) + 1, np.int32)
    halves[0::2] = ends
    halves[1::2] = ends[:-1] + PREFIX_BYTES
    parts = pa.Array.from_buffers(pa.binary(), len(halves) - 1, [None, pa.py_buffer(halves), content])
    return parts.take(pa.array(np.arange(1, len(halves), 2, dtype=np.int32)))


class _HeaderNames(NamedTuple):
    """The schemas that the headers of a batch name."""

    names: list[_HeaderName]
    rows: _Numbers
    """The index of its name for each row, or -1."""


def _names_in_headers(batch: FrameBatch, wanted: str) -> _HeaderNames | None:
    """Return the schemas that headers name, if any does. Many messages have the same headers."""
    absent = (batch.frames.flags & frame.HAS_HEADERS) == 0
    if absent.all():
        return None
    encoded = batch.part(3, absent).dictionary_encode()
    names: dict[bytes, int] = {}
    codes = [_code(one, wanted, names) for one in encoded.dictionary.to_pylist()]
    if not names:
        return None
    rows = np.array([*codes, -1])[pc.fill_null(encoded.indices, len(codes)).to_numpy(zero_copy_only=False)]
    return _HeaderNames([_header_name(value) for value in names], rows)


def _code(encoded: bytes, wanted: str, names: dict[bytes, int]) -> int:
    """Return the number of the value that a header has; -1 without it."""
    if wanted.encode() not in encoded:
        return -1
    try:
        found = [value for name, value in frame.decode_headers(encoded) if name == wanted]
    except FrameInvalid:
        return -1
    return names.setdefault(found[-1], len(names)) if found else -1


def _header_name(value: bytes) -> _HeaderName:
    try:
        found = decode_header(value)
    except FramingInvalid as error:
        return _HeaderName(0, (), str(error))
    return _HeaderName(found.id, found.indexes or FIRST_MESSAGE, "")


def _ids(groups: _Numbers, named: _HeaderNames | None) -> pa.Array:
    """Return the ids that prefixes and headers name; null where there are none, or none that can be."""
    found = groups
    if named is not None:
        of_names = np.array([one.id for one in named.names])
        is_header = groups <= _HEADERS
        found = groups.copy()
        found[is_header] = of_names[_HEADERS - groups[is_header]]
    is_id = (found > 0) & (found <= np.iinfo(np.int32).max)
    return pa.array(np.where(is_id, found, 0).astype(np.int32), mask=~is_id)
