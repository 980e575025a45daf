"""Avro as a format: parsing, compatibility, payloads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

from goqueue.schemas.avro.payloads import AvroValidator
from goqueue.schemas.avro.resolution import Resolution
from goqueue.schemas.avro.texts import canonical_form, normalized_form, parsing_form, rabin_fingerprint
from goqueue.schemas.avro.types import NAMED, AvroType, TypeReader
from goqueue.schemas.json_text import compact_json, read_json
from goqueue.schemas.schema_format import (
    ROOT,
    Incompatibility,
    ParsedSchema,
    SchemaKind,
    SchemaReference,
    all_references,
    schema_error,
)


@dataclass(frozen=True, eq=False)
class AvroSchema(ParsedSchema):
    """A type with the named types that it defines."""

    root: AvroType = field(kw_only=True, repr=False)
    defined: tuple[AvroType, ...] = field(kw_only=True, repr=False)

    @cached_property
    def normalized_text(self) -> str:
        return compact_json(normalized_form(self.root, known_names(self.references)))

    @cached_property
    def names(self) -> tuple[str, ...]:
        found = [self.root.name] if self.root.kind in NAMED else []
        return tuple(dict.fromkeys([*found, *(one.name for one in self.defined)]))

    @cached_property
    def parsing_canonical_form(self) -> str:
        """The form of the specification, which is equal for schemas that read the same data."""
        return compact_json(parsing_form(self.root))

    @cached_property
    def parsing_fingerprint(self) -> int:
        """CRC-64-AVRO of the parsing canonical form: the id in Avro's single-object encoding."""
        return rabin_fingerprint(self.parsing_canonical_form)


class AvroFormat:
    """Rules of Avro 1.12."""

    kind = SchemaKind.AVRO

    def parse(self, text: str, references: Sequence[SchemaReference] = ()) -> AvroSchema:
        known: dict[str, AvroType] = {}
        for reference in all_references(references):
            if not isinstance(reference.schema, AvroSchema):
                raise schema_error(ROOT, f"the reference {reference.name!r} is a schema of {reference.schema.kind}")
            for one in reference.schema.defined:
                if known.setdefault(one.name, one) is not one:
                    raise schema_error(ROOT, f"two references define {one.name!r}")
        reader = TypeReader(known.values())
        root = reader.read(read_json(text))
        canonical = compact_json(canonical_form(root, frozenset(known)))
        return AvroSchema(SchemaKind.AVRO, canonical, tuple(references), root=root, defined=tuple(reader.defined))

    def incompatibilities(self, reader: ParsedSchema, writer: ParsedSchema) -> list[Incompatibility]:
        return Resolution().problems(cast("AvroSchema", reader).root, cast("AvroSchema", writer).root)

    def validator(self, schema: ParsedSchema) -> AvroValidator:
        return AvroValidator(cast("AvroSchema", schema).root)


def known_names(references: Sequence[SchemaReference]) -> frozenset[str]:
    return frozenset(
        one.name for reference in all_references(references) for one in cast("AvroSchema", reference.schema).defined
    )
