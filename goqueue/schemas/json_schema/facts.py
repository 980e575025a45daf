"""Facts: what is known of each value that the writer's schema accepts.

A schema is a conjunction: its own keywords, the members of `allOf`, and what `$ref` leads to. `Facts` has all of them
as flat schemas, so a rule asks "does any of them state this?". Facts that a rule does not understand are left out,
which can only make the answer "incompatible".
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from goqueue.schemas.json_schema.document import JsonDocument, Subschema

TYPES = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""The types of values. A number is an integer or a fraction."""

EVERYTHING: dict[str, Any] = {}
NOTHING: dict[str, Any] = {"not": {}}
_OF_TYPE: dict[str, dict[str, Any]] = {name: {"type": name} for name in TYPES}
_MISSING = object()
IN_CONJUNCTION = ("allOf", "$ref", "$recursiveRef", "$dynamicRef")
"""The keywords whose schemas are parts of the same facts."""


def keywords(part: Subschema) -> dict[str, Any]:
    """Return the keywords that count: a reference hides its neighbors before 2019-09."""
    if isinstance(part.value, bool):
        return EVERYTHING if part.value else NOTHING
    if part.draft < 2019 and isinstance(part.value.get("$ref"), str):
        return {"$ref": part.value["$ref"]}
    value: dict[str, Any] = part.value
    return value


def conjuncts(part: Subschema, document: JsonDocument) -> list[Subschema]:
    """Return a schema, the members of its `allOf`, and what its references lead to, recursively, each once."""
    found: dict[int, Subschema] = {}
    stack = [part]
    while stack:
        one = stack.pop()
        if id(one.value) in found and isinstance(one.value, dict):
            continue
        found[id(one.value)] = one
        stated = keywords(one)
        stack.extend(one.child("allOf", index) for index in range(len(stated.get("allOf", ()))))
        stack.extend(references(one, document))
    return list(found.values())


def references(part: Subschema, document: JsonDocument) -> Iterator[Subschema]:
    """Yield what the references of a schema lead to. A dynamic one counts if it can lead to one place only."""
    stated = keywords(part)
    for keyword in IN_CONJUNCTION[1:]:
        if isinstance(stated.get(keyword), str) and is_static(part, keyword, document):
            target = document.resolve(stated[keyword], part)
            if target is not None:
                yield target


def is_static(part: Subschema, keyword: str, document: JsonDocument) -> bool:
    if keyword == "$ref":
        return True
    if part.draft < 2019 or (keyword == "$dynamicRef" and part.draft < 2020):
        return False
    return not document.has_dynamic_scope()


def _branch(rest: "Facts", part: Subschema, keyword: str, index: int) -> "Facts":
    return rest.with_parts(part.child(keyword, index))


class Facts:
    """The conjunction of some schemas of the writer's document."""

    def __init__(
        self, parts: Iterable[Subschema], document: JsonDocument, *, expanded: Iterable[Subschema] = ()
    ) -> None:
        """Take the conjunction of `parts`, and of those whose own conjuncts are among the expanded ones already."""
        self.document = document
        found = {id(one.value): one for one in expanded}
        found |= {id(one.value): one for part in parts for one in conjuncts(part, document)}
        self.parts = list(found.values())
        self.key = frozenset(found)
        self.types = self._types()
        self.is_impossible = not self.types or any(_is_false(part) for part in self.parts)

    def with_parts(self, *parts: Subschema) -> "Facts":
        return Facts(parts, self.document, expanded=self.parts)

    def with_type(self, name: str) -> "Facts":
        return self.with_parts(Subschema(_OF_TYPE[name], "", "", 0))

    def without(self, part: Subschema, *names: str) -> "Facts":
        """Return facts in which one part lacks some keywords: their alternatives are being looked at one by one."""
        names_dropped = frozenset(("allOf", *IN_CONJUNCTION, *names))
        others = [one for one in self.parts if one is not part]
        return Facts((), self.document, expanded=[*others, self.document.without(part, names_dropped)])

    def splits(self) -> Iterator[Iterable["Facts"]]:
        """Yield ways to divide the values into shares: by branches, by conditions, by types."""
        for keyword in ("anyOf", "oneOf"):
            for part in self.holders(keyword):
                rest = self.without(part, keyword)
                branches = range(len(keywords(part)[keyword]))
                yield map(partial(_branch, rest, part, keyword), branches)
        for part in self.holders("if"):
            if part.draft >= 7:
                rest, stated = self.without(part, "if", "then", "else"), keywords(part)
                met = [part.child(name) for name in ("if", "then") if name in stated]
                yield [rest.with_parts(*met), rest.with_parts(*([part.child("else")] if "else" in stated else []))]
        if 1 < len(self.types) < len(TYPES):
            yield [self.with_type(name) for name in sorted(self.types)]

    def stated(self, keyword: str) -> Iterator[Any]:
        """Yield the values of a keyword in all parts."""
        for part in self.parts:
            value = keywords(part).get(keyword, _MISSING)
            if value is not _MISSING:
                yield value

    def holders(self, keyword: str) -> Iterator[Subschema]:
        """Yield the parts that have a keyword."""
        return (part for part in self.parts if keyword in keywords(part))

    def required(self) -> set[str]:
        return {name for names in self.stated("required") if isinstance(names, list) for name in names}

    def values(self) -> list[Any] | None:
        """Return all values that can occur, or None if they are not listed."""
        lists = [*self.stated("enum"), *([value] for value in self.stated("const"))]
        if lists:
            return [value for value in min(lists, key=len) if type_of(value) in self.types]
        if self.types <= {"null", "boolean"}:
            listed: dict[str, list[Any]] = {"null": [None], "boolean": [False, True]}
            return [value for name in sorted(self.types) for value in listed[name]]
        return None

    def _types(self) -> frozenset[str]:
        types = TYPES
        for part in self.parts:
            types &= stated_types(part)
        return types


def stated_types(part: Subschema) -> frozenset[str]:
    """Return the types that one schema allows by its own keywords."""
    stated = keywords(part)
    types = TYPES
    if "type" in stated:
        named = stated["type"] if isinstance(stated["type"], list) else [stated["type"]]
        types &= {one for name in named for one in (("integer", "fraction") if name == "number" else (name,))}
    if isinstance(stated.get("enum"), list):
        types &= {type_of(value) for value in stated["enum"]}
    if "const" in stated and part.draft != 4:
        types &= {type_of(stated["const"])}
    return types


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    for kind, name in ((float, "fraction"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "object"


def _is_false(part: Subschema) -> bool:
    stated = keywords(part)
    return stated.get("not") is True or stated.get("not") == {}


def same_value(one: Any, other: Any) -> bool:
    """Compare as JSON does: 1 equals 1.0, but not true."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return bool(one == other)


def may_hold(facts: Facts, branch: Subschema) -> bool:
    """Return False for a branch that a property tells apart, which is quicker to see than by comparing all of it."""
    stated = keywords(branch).get("properties") if "object" in facts.types else None
    for name, schema in stated.items() if isinstance(stated, dict) else ():
        allowed = _listed(schema)
        for part in facts.parts if allowed is not None else ():
            known = keywords(part).get("properties")
            values = _listed(known.get(name)) if isinstance(known, dict) else None
            if values and allowed is not None and name in facts.required():
                return any(same_value(one, other) for one in values for other in allowed)
    return True


def _listed(schema: Any) -> list[Any] | None:
    if not isinstance(schema, dict):
        return None
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    return listed if isinstance(listed, list) and len(listed) <= 8 else None
