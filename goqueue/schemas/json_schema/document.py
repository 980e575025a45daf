"""Documents of JSON Schema: reading, limits, identifiers, references inside the document and to other documents."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from goqueue.schemas.json_text import escaped
from goqueue.schemas.schema_format import ROOT, schema_error

BASE = "json-schema:///"
"""The address of a document that has no `$id`, as in the validator's library."""

DRAFTS = {
    "http://json-schema.org/draft-04/schema": 4,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-07/schema": 7,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "https://json-schema.org/draft/2020-12/schema": 2020,
}
ADDRESSES = {draft: address + ("#" if draft < 2019 else "") for address, draft in DRAFTS.items()}
DRAFT_DEFAULT = 7
"""For documents without `$schema`, as registries of other vendors do."""

IN_OBJECTS = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies")
IN_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
IN_PLACE = (
    "additionalProperties", "additionalItems", "items", "contains", "propertyNames", "not", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties", "contentSchema",
)  # fmt: skip
REFERENCES = ("$ref", "$recursiveRef", "$dynamicRef")


@dataclass(frozen=True, slots=True)
class Subschema:
    """A schema inside a document: its value, and where it is."""

    value: Any
    address: str
    """The URI of the resource that it is in, which its references are relative to."""
    pointer: str
    """Its path within the document."""
    draft: int

    def child(self, *names: str | int) -> "Subschema":
        """Return a part of this schema, which changes the address if it has an identifier."""
        value, pointer = self.value, self.pointer
        for name in names:
            value = value[name]
            pointer += "/" + escaped(name)
        return entered(value, self.address, pointer, self.draft)


def joined(address: str, reference: str) -> str:
    """Resolve a reference. The standard library does so for schemes that it knows only."""
    if not reference or reference.startswith("#"):
        return address.partition("#")[0] + reference
    scheme, separator, rest = address.partition("://")
    if not separator or urlsplit(reference).scheme:
        return reference
    _, _, found = urljoin(f"http://{rest or '/'}", reference).partition("://")
    return f"{scheme}://{found}"


def entered(value: Any, address: str, pointer: str, draft: int) -> Subschema:
    if isinstance(value, dict) and isinstance(value.get("$schema"), str):
        draft = DRAFTS.get(value["$schema"].rstrip("#"), draft)
    return Subschema(value, _address(value, address, draft), pointer, draft)


def _address(value: Any, address: str, draft: int) -> str:
    identifier = value.get("id" if draft == 4 else "$id") if isinstance(value, dict) else None
    if not isinstance(identifier, str) or (draft < 2019 and "$ref" in value):  # older drafts ignore what is beside $ref
        return address
    return joined(address, identifier).partition("#")[0]


@dataclass
class JsonDocument:
    """A document with what its references lead to."""

    root: Subschema
    resources: dict[str, Subschema] = field(default_factory=dict)
    anchors: dict[str, Subschema] = field(default_factory=dict)
    dynamic_anchors: set[str] = field(default_factory=set)
    _reduced: dict[tuple[int, frozenset[str]], Subschema] = field(default_factory=dict)

    def add(self, root: Subschema) -> None:
        """Index the identifiers and anchors of a document."""
        self.resources.setdefault(root.address, root)
        for part in subschemas(root):
            if isinstance(part.value, dict):
                self._index(part)

    def _index(self, part: Subschema) -> None:
        identifier = part.value.get("id" if part.draft == 4 else "$id")
        if isinstance(identifier, str):
            self.resources.setdefault(part.address, part)
            fragment = identifier.partition("#")[2]
            if fragment and part.draft < 2019:
                self.anchors[f"{part.address}#{fragment}"] = part
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := part.value.get(keyword), str):
                self.anchors[f"{part.address}#{name}"] = part
                if keyword == "$dynamicAnchor":
                    self.dynamic_anchors.add(f"{part.address}#{name}")
        if part.value.get("$recursiveAnchor") is True:
            self.dynamic_anchors.add(f"{part.address}#")

    def resolve(self, reference: str, part: Subschema) -> Subschema | None:
        """Return what a reference leads to, or None. Nothing is fetched."""
        address, _, fragment = joined(part.address, reference).partition("#")
        resource = self.resources.get(address)
        if not fragment or resource is None:
            return resource
        if f"{address}#{fragment}" in self.anchors:
            return self.anchors[f"{address}#{fragment}"]
        return _at_pointer(resource, unquote(fragment)) if fragment.startswith("/") else None

    def without(self, part: Subschema, names: frozenset[str]) -> Subschema:
        """Return a schema without some keywords: the same object each time, since comparisons go by identity."""
        if not isinstance(part.value, dict) or not names & part.value.keys():
            return part
        key = (id(part.value), names)
        if key not in self._reduced:
            kept = {name: value for name, value in part.value.items() if name not in names}
            self._reduced[key] = Subschema(kept, part.address, part.pointer, part.draft)
        return self._reduced[key]

    def only(self, part: Subschema, names: frozenset[str]) -> Subschema:
        """Return a schema with some of its keywords."""
        return self.without(part, frozenset(part.value) - names) if isinstance(part.value, dict) else part

    def has_dynamic_scope(self) -> bool:
        """Return whether a dynamic reference could lead to more than one place."""
        return len(self.dynamic_anchors) > 1


def _at_pointer(part: Subschema, pointer: str) -> Subschema | None:
    for escaped_name in pointer.split("/")[1:]:
        name = escaped_name.replace("~1", "/").replace("~0", "~")
        if isinstance(part.value, dict) and name in part.value:
            part = part.child(name)
        elif isinstance(part.value, list) and name.isdecimal() and int(name) < len(part.value):
            part = part.child(int(name))
        else:
            return None
    return part if isinstance(part.value, (dict, bool)) else None


def subschemas(root: Subschema) -> Iterator[Subschema]:
    """Yield a schema and all schemas inside it."""
    stack = [root]
    while stack:
        part = stack.pop()
        if not isinstance(part.value, (dict, bool)):
            continue
        yield part
        if isinstance(part.value, dict):
            stack.extend(_children(part))


def _children(part: Subschema) -> Iterator[Subschema]:
    for keyword, value in part.value.items():
        if keyword in IN_OBJECTS and isinstance(value, dict):
            yield from (part.child(keyword, name) for name in value)
        elif keyword in IN_LISTS and isinstance(value, list):
            yield from (part.child(keyword, index) for index in range(len(value)))
        elif keyword in IN_PLACE:
            yield part.child(keyword)


def root_subschema(value: Any, address: str = BASE) -> Subschema:
    """Return the root of a document. Raises `SchemaInvalid` if it is no schema, or of a draft that is not supported."""
    if not isinstance(value, (dict, bool)):
        raise schema_error(ROOT, f"a schema is an object, true or false, not {type(value).__name__}")
    draft = DRAFT_DEFAULT
    if isinstance(value, dict) and "$schema" in value:
        stated = value["$schema"]
        known = DRAFTS.get(stated.rstrip("#")) if isinstance(stated, str) else None
        if known is None:
            raise schema_error(
                f"{ROOT}/$schema",
                f"{stated!r} is not a draft from 4 to 2020-12",
                hint=f"use one of {', '.join(DRAFTS)}",
            )
        draft = known
    return entered(value, address, ROOT, draft)
