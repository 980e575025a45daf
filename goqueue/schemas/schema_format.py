"""The interface of a format of schemas, and the values that all formats share."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Protocol

from goqueue.errors import SchemaInvalid
from goqueue.schemas import limits
from goqueue.schemas.framing import FIRST_MESSAGE

ROOT = "#"
"""The path of the whole schema; paths of parts continue it: `#/properties/id`, `#/Order/lines`, `#/Order.total`."""


class SchemaKind(StrEnum):
    """The formats by the names that registries use."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


class Incompatibility(NamedTuple):
    """A reason why data of one schema cannot be read with another."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class PayloadProblem(NamedTuple):
    """A reason why a payload does not match its schema. The path is that of the value: `/lines/0/sku`."""

    path: str
    reason: str


class SchemaReference(NamedTuple):
    """A name that a schema uses for another one: a `$ref`, a type of Avro, or the file of an import."""

    name: str
    schema: "ParsedSchema"


@dataclass(frozen=True, eq=False)
class ParsedSchema(ABC):
    """A schema that was read and found valid. Formats derive their own; create these with `SchemaFormat.parse`."""

    kind: SchemaKind
    text: str
    """The canonical text, which stays readable by every tool: whitespace does not count, everything else does."""
    references: tuple[SchemaReference, ...] = field(default=(), repr=False)

    @cached_property
    def fingerprint(self) -> bytes:
        """SHA-256 of the canonical text and of the references: equal schemas have equal fingerprints."""
        return self._digest(self.text)

    @property
    @abstractmethod
    def normalized_text(self) -> str:
        """The text without differences that have no meaning, such as the order of keys."""

    @cached_property
    def normalized_fingerprint(self) -> bytes:
        return self._digest(self.normalized_text)

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The full names that naming strategies use: records, messages, or the title. The first is the main one."""

    @cached_property
    def names_by_indexes(self) -> Mapping[tuple[int, ...], str]:
        """The full names of messages by their message indexes; formats without indexes have one message, the first."""
        return {FIRST_MESSAGE: self.names[0]} if self.names else {}

    def _digest(self, text: str) -> bytes:
        digest = hashlib.sha256(f"{self.kind}\0{text}".encode())
        for reference in sorted(self.references, key=lambda reference: reference.name):
            digest.update(b"\0" + reference.name.encode() + b"\0" + reference.schema.fingerprint)
        return digest.digest()


class PayloadValidator(Protocol):
    """A compiled schema. Callers cache one for each schema id; it may be used by one thread at a time."""

    def problems(self, payload: bytes) -> list[PayloadProblem]:
        """Return at most `limits.PAYLOAD_PROBLEMS_MAX` problems; none means that the payload is valid.

        The payload is what follows the schema id. With Protobuf it begins with the message indexes.
        """

    def is_valid(self, payload: bytes) -> bool:
        """Return whether there are no problems, in less time than it takes to name them."""


class SchemaFormat(Protocol):
    """A format of schemas. All methods are pure and bounded by `limits`."""

    @property
    def kind(self) -> SchemaKind: ...

    def parse(self, text: str, references: Sequence[SchemaReference] = ()) -> ParsedSchema:
        """Read a schema. Raises `SchemaInvalid`, whose details have `path` and `reason`. Nothing is ever fetched."""

    def incompatibilities(self, reader: ParsedSchema, writer: ParsedSchema) -> list[Incompatibility]:
        """Return why data of `writer` cannot be read with `reader`, at most `limits.SCHEMA_INCOMPATIBILITIES_MAX`."""

    def validator(self, schema: ParsedSchema) -> PayloadValidator:
        """Compile a schema. This takes about a millisecond, so the result should be cached."""


def schema_error(path: str, reason: str, *, hint: str | None = None) -> SchemaInvalid:
    return SchemaInvalid(f"invalid schema at {path}: {reason}", hint=hint, path=path, reason=reason)


def check_text(text: str) -> None:
    """Refuse a text that is too long or cannot be stored as UTF-8."""
    try:
        length = len(text.encode())
    except UnicodeEncodeError as error:
        raise schema_error(ROOT, f"character {error.start} is half of a surrogate pair") from None
    if length > limits.SCHEMA_BYTES_MAX:
        raise schema_error(
            ROOT,
            f"the text has {length:,} bytes, the limit is {limits.SCHEMA_BYTES_MAX:,}",
            hint="move parts into schemas of their own and refer to them",
        )


def all_references(references: Sequence[SchemaReference]) -> list[SchemaReference]:
    """Return the references with those of their schemas, each before what needs it, without repetitions.

    Raises `SchemaInvalid` if one name stands for two schemas, or if there are too many.
    """
    found: dict[str, SchemaReference] = {}
    for reference in _depth_first(references):
        known = found.setdefault(reference.name, reference)
        if known.schema.fingerprint != reference.schema.fingerprint:
            raise schema_error(ROOT, f"the reference {reference.name!r} stands for two different schemas")
        if len(found) > limits.SCHEMA_REFERENCES_MAX:
            raise schema_error(ROOT, f"more than {limits.SCHEMA_REFERENCES_MAX} schemas are needed by references")
    return list(found.values())


def _depth_first(references: Sequence[SchemaReference]) -> Iterator[SchemaReference]:
    seen: set[tuple[str, int]] = set()
    stack: list[tuple[SchemaReference, bool]] = [(reference, False) for reference in reversed(references)]
    while stack:
        reference, is_expanded = stack.pop()
        key = (reference.name, id(reference.schema))
        if is_expanded:
            yield reference
        elif key not in seen:
            seen.add(key)
            stack.append((reference, True))
            stack.extend((needed, False) for needed in reversed(reference.schema.references))
