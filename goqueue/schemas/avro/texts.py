"""Texts of Avro schemas: canonical, normalized, and the parsing canonical form of the specification."""

from abc import ABC, abstractmethod
from typing import Any

from goqueue.schemas.avro.types import NAMED, NO_DEFAULT, AvroField, AvroType

Json = Any


class _Writer(ABC):
    """Writes types as JSON. A named type is defined at its first use, unless a reference defines it."""

    def __init__(self, known: frozenset[str]) -> None:
        self.written = set(known)

    @abstractmethod
    def type(self, one: AvroType, namespace: str) -> Json:
        """Write a type that stands here in full."""

    def of(self, one: AvroType, namespace: str = "") -> Json:
        if one.kind == "union":
            return [self.of(branch, namespace) for branch in one.inner]
        if one.kind in NAMED and one.name in self.written:
            return self.reference(one, namespace)
        if one.kind in NAMED:
            self.written.add(one.name)
        return self.type(one, namespace)

    def reference(self, one: AvroType, _: str) -> str:
        return one.name


class _CanonicalWriter(_Writer):
    """Keys in the order in which Avro's libraries write them, whatever their order in the source; all are kept."""

    def type(self, one: AvroType, namespace: str) -> Json:
        if one.kind in NAMED:
            return self._definition(one, namespace)
        if not one.inner:
            return {"type": one.kind, **one.properties} if one.properties else one.kind
        word = "items" if one.kind == "array" else "values"
        return {"type": one.kind, word: self.of(one.inner[0], namespace), **one.properties}

    def reference(self, one: AvroType, namespace: str) -> str:
        return one.simple_name if one.name.rpartition(".")[0] == namespace else one.name

    def _definition(self, one: AvroType, namespace: str) -> Json:
        own, _, name = one.name.rpartition(".")
        found: dict[str, Json] = {"type": one.kind, "name": name}
        if own != namespace:
            found["namespace"] = own
        if one.doc is not None:
            found["doc"] = one.doc
        if one.kind == "enum":
            found["symbols"] = list(one.symbols)
            if one.default is not NO_DEFAULT:
                found["default"] = one.default
        elif one.kind == "fixed":
            found["size"] = one.size
        else:
            found["fields"] = [self._field(each, own) for each in one.fields]
        found |= one.properties
        if one.aliases:
            found["aliases"] = [alias.removeprefix(f"{own}.") if own else alias for alias in one.aliases]
        return found

    def _field(self, one: AvroField, namespace: str) -> Json:
        return {"name": one.name, "type": self.of(one.type, namespace), **field_attributes(one), **one.properties}


class _NormalizedWriter(_Writer):
    """Full names everywhere, and keys without a meaning of their own in the order of the alphabet."""

    def type(self, one: AvroType, namespace: str) -> Json:
        properties = dict(sorted(one.properties.items()))
        if one.inner:
            word = "items" if one.kind == "array" else "values"
            return {"type": one.kind, word: self.of(one.inner[0], namespace), **properties}
        if one.kind not in NAMED:
            return {"type": one.kind, **properties} if properties else one.kind
        found = {"name": one.name, **_parts(self, one)}
        if one.default is not NO_DEFAULT:
            found["default"] = one.default
        if one.doc is not None:
            found["doc"] = one.doc
        if one.aliases:
            found["aliases"] = sorted(one.aliases)
        return found | properties

    def field(self, one: AvroField) -> Json:
        properties = dict(sorted(one.properties.items()))
        return {"name": one.name, "type": self.of(one.type), **field_attributes(one), **properties}


class _ParsingWriter(_Writer):
    """The parsing canonical form: only what decides how data is read."""

    def type(self, one: AvroType, namespace: str) -> Json:
        if one.inner:
            return {"type": one.kind, "items" if one.kind == "array" else "values": self.of(one.inner[0], namespace)}
        return {"name": one.name, **_parts(self, one)} if one.kind in NAMED else one.kind

    def field(self, one: AvroField) -> Json:
        return {"name": one.name, "type": self.of(one.type)}


def _parts(writer: "_NormalizedWriter | _ParsingWriter", one: AvroType) -> dict[str, Json]:
    """Return the kind of a named type and what it consists of."""
    if one.kind == "enum":
        return {"type": one.kind, "symbols": list(one.symbols)}
    if one.kind == "fixed":
        return {"type": one.kind, "size": one.size}
    return {"type": one.kind, "fields": [writer.field(each) for each in one.fields]}


def field_attributes(one: AvroField) -> dict[str, Json]:
    found: dict[str, Json] = {}
    if one.doc is not None:
        found["doc"] = one.doc
    if one.default is not NO_DEFAULT:
        found["default"] = one.default
    if one.order != "ascending":
        found["order"] = one.order
    if one.aliases:
        found["aliases"] = list(one.aliases)
    return found


def canonical_form(root: AvroType, known: frozenset[str]) -> Json:
    return _CanonicalWriter(known).of(root)


def normalized_form(root: AvroType, known: frozenset[str]) -> Json:
    return _NormalizedWriter(known).of(root)


def parsing_form(root: AvroType) -> Json:
    """Return the parsing canonical form, with referenced types spelled out at their first use."""
    return _ParsingWriter(frozenset()).of(root)


def rabin_fingerprint(text: str) -> int:
    """Return the 64-bit fingerprint of the specification (CRC-64-AVRO)."""
    found = _EMPTY
    for byte in text.encode():
        found = (found >> 8) ^ _TABLE[(found ^ byte) & 0xFF]
    return found


_EMPTY = 0xC15D213AA4D7A795


def _entry(number: int) -> int:
    for _ in range(8):
        number = (number >> 1) ^ (_EMPTY if number & 1 else 0)
    return number


_TABLE = [_entry(number) for number in range(256)]
