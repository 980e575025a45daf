"""Types of Avro, and reading them from the JSON of a schema, with names, aliases, defaults and logical types."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from goqueue.schemas import limits
from goqueue.schemas.schema_format import ROOT, schema_error

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
ORDERS = ("ascending", "descending", "ignore")
NO_DEFAULT = object()
SIZE_MAX = 2**31 - 1
LOGICAL_TYPES = {
    "decimal": ("bytes", "fixed"),
    "big-decimal": ("bytes",),
    "uuid": ("string", "fixed"),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    **{
        f"{kind}-{unit}": ("long",)
        for kind in ("timestamp", "local-timestamp")
        for unit in ("millis", "micros", "nanos")
    },
    "duration": ("fixed",),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED = {
    "record": {"fields"}, "error": {"fields"}, "enum": {"symbols", "default"}, "fixed": {"size"},
    "array": {"items"}, "map": {"values"},
}  # fmt: skip
_OF_NAMED = {"name", "namespace", "aliases", "doc"}


@dataclass(slots=True)
class AvroField:
    """A field of a record."""

    name: str
    type: "AvroType"
    default: Any = NO_DEFAULT
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    order: str = "ascending"
    properties: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AvroType:
    """A type. Named types are one object wherever they are used, so recursive ones lead to themselves."""

    kind: str
    name: str = ""
    """The full name of a record, enum or fixed."""
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    fields: tuple[AvroField, ...] = ()
    symbols: tuple[str, ...] = ()
    default: Any = NO_DEFAULT
    size: int = 0
    inner: tuple["AvroType", ...] = ()
    """The items of an array, the values of a map, or the branches of a union."""
    properties: dict[str, Any] = field(default_factory=dict)
    depth: int = 1
    """Levels of types inside each other, which names may add to without nesting in the text."""

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def title(self) -> str:
        """The name as messages show it."""
        return self.name or self.kind

    @property
    def logical(self) -> str | None:
        """The logical type if it is a known one that fits; others have no effect."""
        named = self.properties.get("logicalType")
        if self.kind not in LOGICAL_TYPES.get(named, ()) if isinstance(named, str) else True:
            return None
        return None if named == "decimal" and self.decimal is None else named

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale, or None if they are not valid."""
        precision, scale = self.properties.get("precision"), self.properties.get("scale", 0)
        if not (isinstance(precision, int) and isinstance(scale, int)) or not 0 <= scale <= precision or precision < 1:
            return None
        return precision, scale


class TypeReader:
    """Reads one schema. Names of referenced schemas are known beforehand."""

    def __init__(self, known: Iterable[AvroType] = ()) -> None:
        self.names = {one.name: one for one in known}
        self.defined: list[AvroType] = []

    def read(self, value: Any, namespace: str = "", path: str = ROOT) -> AvroType:
        if isinstance(value, str):
            return self._named(value, namespace, path)
        if isinstance(value, list):
            return self._union(value, namespace, path)
        if not isinstance(value, dict):
            raise schema_error(path, f"a type is a name, a list or an object, not {value!r}")
        kind = value.get("type")
        if isinstance(kind, (dict, list)):  # a type may be wrapped, as registries of other vendors accept
            return self.read(kind, namespace, path)
        if kind in PRIMITIVES:
            return AvroType(kind, properties=_properties(value, {"type"}))
        if kind in NAMED:
            return self._definition(value, kind, namespace, path)
        if kind in {"array", "map"}:
            word = "items" if kind == "array" else "values"
            inner = self.read(_stated(value, word, path), namespace, f"{path}/{word}")
            found = AvroType(kind, inner=(inner,), properties=_properties(value, {"type", word}))
            return _with_depth(found, (inner,), path)
        if isinstance(kind, str):
            return self._named(kind, namespace, path)
        raise schema_error(path, "the key 'type' is missing" if kind is None else f"{kind!r} is not a type")

    def _named(self, name: str, namespace: str, path: str) -> AvroType:
        if name in PRIMITIVES:
            return AvroType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.names.get(full) or self.names.get(name)
        if found is None:
            hint = "define it before its first use, or add a reference to the schema that defines it"
            raise schema_error(path, f"the type {full!r} is not defined", hint=hint)
        return found

    def _union(self, value: list[Any], namespace: str, path: str) -> AvroType:
        branches: dict[str, AvroType] = {}
        for index, one in enumerate(value):
            branch = self.read(one, namespace, f"{path}/{index}")
            if branch.kind == "union":
                raise schema_error(f"{path}/{index}", "a union may not contain a union directly")
            if branch.title in branches:
                raise schema_error(f"{path}/{index}", f"the union has {branch.title!r} twice")
            branches[branch.title] = branch
        return _with_depth(AvroType("union", inner=tuple(branches.values())), branches.values(), path)

    def _definition(self, value: dict[str, Any], kind: str, namespace: str, path: str) -> AvroType:
        name = _full_name(value, namespace, path)
        if name in self.names or name in PRIMITIVES:
            raise schema_error(path, f"the name {name!r} is defined twice")
        inner = name.rpartition(".")[0]
        aliases = _aliases(value, path)
        found = AvroType(
            kind,
            name,
            aliases=tuple(alias if "." in alias or not inner else f"{inner}.{alias}" for alias in aliases),
            doc=value["doc"] if isinstance(value.get("doc"), str) else None,
            properties=_properties(value, {"type"} | _OF_NAMED | _RESERVED[kind]),
        )
        self.names[name] = found
        self.defined.append(found)
        if kind == "enum":
            _read_symbols(found, value, path)
        elif kind == "fixed":
            found.size = _size(value, path)
        else:
            self._read_fields(found, value, inner, path)
        return _with_depth(found, [each.type for each in found.fields], path)

    def _read_fields(self, record: AvroType, value: dict[str, Any], namespace: str, path: str) -> None:
        listed = _stated(value, "fields", path)
        if not isinstance(listed, list):
            raise schema_error(f"{path}/fields", "the fields are a list")
        fields: dict[str, AvroField] = {}
        for index, one in enumerate(listed):
            place = f"{path}/fields/{index}"
            if not isinstance(one, dict):
                raise schema_error(place, "a field is an object")
            name = _simple_name(one.get("name"), place)
            if name in fields:
                raise schema_error(place, f"the record has the field {name!r} twice")
            fields[name] = self._field(one, name, namespace, place)
        record.fields = tuple(fields.values())

    def _field(self, value: dict[str, Any], name: str, namespace: str, path: str) -> AvroField:
        found = AvroField(
            name,
            self.read(_stated(value, "type", path), namespace, f"{path}/type"),
            value.get("default", NO_DEFAULT),
            tuple(_aliases(value, path)),
            value["doc"] if isinstance(value.get("doc"), str) else None,
            value.get("order", "ascending"),
            _properties(value, {"name", "type", "default", "aliases", "doc", "order"}),
        )
        if found.order not in ORDERS:
            raise schema_error(f"{path}/order", f"{found.order!r} is not one of {', '.join(ORDERS)}")
        if found.default is not NO_DEFAULT and not is_default(found.type, found.default):
            raise schema_error(f"{path}/default", f"{found.default!r} is not a value of the type {found.type.title}")
        return found


def _with_depth(found: AvroType, inner: Iterable[AvroType], path: str) -> AvroType:
    found.depth = 1 + max((one.depth for one in inner), default=0)
    if found.depth > limits.SCHEMA_DEPTH_MAX:
        raise schema_error(path, f"more than {limits.SCHEMA_DEPTH_MAX} types inside each other")
    return found


def is_default(kind: AvroType, value: Any) -> bool:
    """Return whether JSON is a default of a type. A union's may be of any branch."""
    if kind.kind == "union":
        return any(is_default(branch, value) for branch in kind.inner)
    if kind.kind == "array":
        return isinstance(value, list) and all(is_default(kind.inner[0], one) for one in value)
    if kind.kind == "map":
        return isinstance(value, dict) and all(is_default(kind.inner[0], one) for one in value.values())
    if kind.kind in {"record", "error"}:
        return isinstance(value, dict) and all(
            is_default(one.type, value[one.name]) if one.name in value else one.default is not NO_DEFAULT
            for one in kind.fields
        )
    return _is_simple_default(kind, value)


def _is_simple_default(kind: AvroType, value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    match kind.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = 31 if kind.kind == "int" else 63
            return is_number and isinstance(value, int) and -(2**bits) <= value < 2**bits
        case "float" | "double":
            return is_number
        case "bytes" | "fixed":
            fits = isinstance(value, str) and all(ord(letter) < 256 for letter in value)
            return fits and (kind.kind == "bytes" or len(value) == kind.size)
    return isinstance(value, str) and (kind.kind == "string" or value in kind.symbols)


def _read_symbols(found: AvroType, value: dict[str, Any], path: str) -> None:
    symbols = _stated(value, "symbols", path)
    if not isinstance(symbols, list):
        raise schema_error(f"{path}/symbols", "the symbols are a list")
    for index, symbol in enumerate(symbols):
        _simple_name(symbol, f"{path}/symbols/{index}")
    if len(set(symbols)) < len(symbols):
        raise schema_error(f"{path}/symbols", "a symbol is repeated")
    found.symbols = tuple(symbols)
    found.default = value.get("default", NO_DEFAULT)
    if found.default is not NO_DEFAULT and found.default not in symbols:
        raise schema_error(f"{path}/default", f"{found.default!r} is not a symbol of the enum")


def _size(value: dict[str, Any], path: str) -> int:
    size = _stated(value, "size", path)
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= SIZE_MAX:
        raise schema_error(f"{path}/size", f"{size!r} is not a number of bytes")
    return size


def _stated(value: dict[str, Any], name: str, path: str) -> Any:
    if name not in value:
        raise schema_error(path, f"the key {name!r} is missing")
    return value[name]


def _full_name(value: dict[str, Any], namespace: str, path: str) -> str:
    name = _stated(value, "name", path)
    stated = value.get("namespace")
    if isinstance(stated, str):
        namespace = stated
    if not isinstance(name, str) or not name:
        raise schema_error(f"{path}/name", f"{name!r} is not a name")
    full = name if "." in name or not namespace else f"{namespace}.{name}"
    for part in full.split("."):
        _simple_name(part, f"{path}/name")
    return full


def _simple_name(name: Any, path: str) -> str:
    if not isinstance(name, str) or not _NAME.match(name):
        raise schema_error(path, f"{name!r} is not a name: use letters, digits and _, with no digit first")
    return name


def _aliases(value: dict[str, Any], path: str) -> list[str]:
    aliases = value.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
        raise schema_error(f"{path}/aliases", "the aliases are a list of names")
    for alias in aliases:
        for part in alias.split("."):
            _simple_name(part, f"{path}/aliases")
    return aliases


def _properties(value: dict[str, Any], reserved: set[str]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if name not in reserved}
