"""JSON Schema as a format: parsing, compatibility, payloads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

import jsonschema_rs

from goqueue.schemas.json_schema.containment import Containment
from goqueue.schemas.json_schema.document import (
    ADDRESSES,
    DRAFTS,
    REFERENCES,
    JsonDocument,
    joined,
    root_subschema,
    subschemas,
)
from goqueue.schemas.json_schema.evaluation import compiled
from goqueue.schemas.json_schema.payloads import JsonValidator, pointer, shortened
from goqueue.schemas.json_schema.width import evaluation_width
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
class JsonSchema(ParsedSchema):
    """A document of JSON Schema with all that it refers to."""

    document: JsonDocument = field(kw_only=True, repr=False)
    registry: jsonschema_rs.Registry | None = field(kw_only=True, repr=False)
    width: int = field(kw_only=True, repr=False)
    """The number of schemas that one value is compared with at most."""

    @property
    def value(self) -> Any:
        return self.document.root.value

    @cached_property
    def normalized_text(self) -> str:
        return compact_json(self.value, sort_keys=True)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The title, which naming strategies take for the record's name."""
        title = self.value.get("title") if isinstance(self.value, dict) else None
        return (title,) if isinstance(title, str) and title else ()


class JsonFormat:
    """Rules of JSON Schema, drafts 4, 6, 7, 2019-09 and 2020-12."""

    kind = SchemaKind.JSON

    def parse(self, text: str, references: Sequence[SchemaReference] = ()) -> JsonSchema:
        value = read_json(text)
        document = JsonDocument(root_subschema(value))
        _check_meta(value, document.root.draft)
        document.add(document.root)
        resources = _add_references(document, references)
        _check_references(document)
        width = evaluation_width(document)
        registry = jsonschema_rs.Registry(resources, draft=_library_draft(document)) if resources else None
        schema = JsonSchema(
            SchemaKind.JSON,
            compact_json(value),
            tuple(references),
            document=document,
            registry=registry,
            width=width,
        )
        _compile(schema)
        return schema

    def incompatibilities(self, reader: ParsedSchema, writer: ParsedSchema) -> list[Incompatibility]:
        if reader.fingerprint == writer.fingerprint:
            return []
        return Containment(cast("JsonSchema", reader).document, cast("JsonSchema", writer).document).problems()

    def validator(self, schema: ParsedSchema) -> JsonValidator:
        document = cast("JsonSchema", schema)
        return JsonValidator(_compile(document), document.width)


def _check_meta(value: Any, draft: int) -> None:
    """Check that keywords have values that they can have."""
    if not isinstance(value, dict):
        return
    try:
        jsonschema_rs.meta.validate({**value, "$schema": ADDRESSES[draft]})
    except ValueError as error:
        path = getattr(error, "instance_path", ())
        raise schema_error(ROOT + pointer(path), shortened(getattr(error, "message", str(error)))) from None


def _add_references(document: JsonDocument, references: Sequence[SchemaReference]) -> list[tuple[str, Any]]:
    """Index the schemas that are referred to by name, and return the addresses that lead to them."""
    found: dict[str, Any] = {}
    addresses = {document.root.address}
    needed = all_references(references)
    for reference in needed:
        schema = reference.schema
        if not isinstance(schema, JsonSchema):
            raise schema_error(ROOT, f"the reference {reference.name!r} is a schema of {schema.kind}")
        addresses.add(root_subschema(schema.value, joined(document.root.address, reference.name)).address)
    for reference in needed:
        schema = cast("JsonSchema", reference.schema)
        for base in addresses:
            alias = joined(base, reference.name)
            root = root_subschema(schema.value, alias)
            document.add(root)
            document.resources.setdefault(alias, root)
            found.setdefault(alias, schema.value)
    found.pop(document.root.address, None)
    return list(found.items())


def _check_references(document: JsonDocument) -> None:
    for part in subschemas(document.root):
        if not isinstance(part.value, dict):
            continue
        for keyword in REFERENCES:
            reference = part.value.get(keyword)
            if not isinstance(reference, str) or reference.rstrip("#") in DRAFTS:
                continue
            if document.resolve(reference, part) is None:
                raise schema_error(
                    f"{part.pointer}/{keyword}",
                    f"{reference!r} leads to no schema; addresses are never fetched",
                    hint="add the schema to the references under this name",
                )


def _library_draft(document: JsonDocument) -> int:
    drafts = {
        4: jsonschema_rs.Draft4,
        6: jsonschema_rs.Draft6,
        7: jsonschema_rs.Draft7,
        2019: jsonschema_rs.Draft201909,
        2020: jsonschema_rs.Draft202012,
    }
    return drafts[document.root.draft]


def _compile(schema: JsonSchema) -> jsonschema_rs.Validator:
    try:
        return compiled(schema.value, schema.document.root.draft, schema.registry)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        path = getattr(error, "instance_path", ())
        raise schema_error(ROOT + pointer(path), shortened(getattr(error, "message", str(error)))) from None
