"""Rules for objects: properties in open, closed and partially open content models, required ones, dependencies."""

from collections.abc import Iterator
from typing import Any

from goqueue.schemas.json_schema.array_rules import EVALUATORS
from goqueue.schemas.json_schema.comparison import Comparison
from goqueue.schemas.json_schema.document import Subschema
from goqueue.schemas.json_schema.evaluation import matches
from goqueue.schemas.json_schema.facts import Facts, conjuncts, keywords
from goqueue.schemas.json_schema.value_rules import count_limit
from goqueue.schemas.json_text import escaped
from goqueue.schemas.schema_format import Incompatibility

Problems = Iterator[Incompatibility]
STRING = Subschema({"type": "string"}, "", "", 2020)


def properties(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    """Compare each property that either side names: what the writer allows there must fit the reader."""
    if "object" not in facts.types or not _has_content_model(part):
        return
    own = _table(part, "properties")
    names = {**own, **{name: None for one in facts.parts for name in _table(one, "properties")}}
    patterns = len(_patterns(facts)) + len(_table(part, "patternProperties"))
    check.spend(len(names) * (patterns + len(facts.parts)))
    for name in names:
        wanted = _schemas_for(part, name)
        known = property_facts(facts, name)
        for schema, place in wanted:
            found = check.compare_inner(known, schema, f"{path}/{place}")
            if found and not any(name in _table(one, "properties") for one in facts.parts) and name in own:
                yield _added(facts, f"{path}/{place}")
            elif found and name not in own:
                yield from (_removed(problem, f"{path}/{place}", name) for problem in found)
            else:
                yield from found


def _added(facts: Facts, path: str) -> Incompatibility:
    is_covered = any(
        "patternProperties" in keywords(one) or isinstance(keywords(one).get("additionalProperties"), dict)
        for one in facts.parts
    )
    model = "a partially open content model, which does not cover" if is_covered else "an open content model without"
    return Incompatibility(
        path, f"the writer has {model} this property, so it may have values that the reader does not accept"
    )


def _removed(problem: Incompatibility, place: str, name: str) -> Incompatibility:
    if problem.path == place:
        return Incompatibility(place, f"the writer has the property {name!r}, which the reader's content model refuses")
    return Incompatibility(problem.path, f"{problem.reason} (property {name!r})")


def other_properties(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    """Compare properties that neither side names: by the writer's patterns, and all others."""
    if "object" not in facts.types or not _has_content_model(part):
        return
    rest, rest_name = _rest(part)
    own = _table(part, "patternProperties")
    others = _other_facts(facts)
    for pattern in own:
        schema, place = part.child("patternProperties", pattern), f"{path}/patternProperties/{escaped(pattern)}"
        if pattern in _patterns(facts):
            known = [_pattern_facts(facts, pattern)]
        else:  # its names may match any pattern of the writer, or none
            known = [others, *(_pattern_facts(facts, one) for one in _patterns(facts))]
        for one in known:
            if found := check.compare_inner(one, schema, place):
                yield from found
                break
    if rest is None:
        return
    for pattern in _patterns(facts):
        if pattern not in own:
            yield from check.compare_inner(_pattern_facts(facts, pattern), rest, f"{path}/{rest_name}")
    found = check.compare_inner(others, rest, f"{path}/{rest_name}")
    is_closed = any(problem.path == f"{path}/{rest_name}" for problem in found)
    if is_closed:
        found = [Incompatibility(f"{path}/{rest_name}", "the reader refuses other properties, the writer allows them")]
    yield from found


def required(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    names = keywords(part).get("required")
    if not isinstance(names, list) or "object" not in facts.types:
        return
    known = facts.required()
    defaults = _table(part, "properties")
    for name in names:
        default = defaults.get(name)
        if name not in known and not (isinstance(default, dict) and _has_default(check, part, name)):
            yield Incompatibility(
                f"{path}/required/{escaped(name)}",
                f"the reader requires the property {name!r} without a default, the writer does not require it",
            )


def _has_default(check: Comparison, part: Subschema, name: str) -> bool:
    return any("default" in keywords(one) for one in conjuncts(part.child("properties", name), check.reader))


def counts(_: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    if "object" in facts.types:
        yield from count_limit(facts, part, path, "minProperties", is_low=True, known=len(facts.required()))
        yield from count_limit(facts, part, path, "maxProperties", is_low=False, known=_most_properties(facts))


def _most_properties(facts: Facts) -> int | None:
    """Return the number of properties of a closed content model."""
    closed = [
        len(_table(one, "properties"))
        for one in facts.parts
        if keywords(one).get("additionalProperties") is False and not _table(one, "patternProperties")
    ]
    return min(closed, default=None)


def property_names(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    if "propertyNames" not in keywords(part) or "object" not in facts.types or part.draft < 6:
        return
    stated = [one.child("propertyNames") for one in facts.holders("propertyNames") if one.draft >= 6]
    known = Facts([STRING, *stated], facts.document)
    yield from check.compare_inner(known, part.child("propertyNames"), f"{path}/propertyNames")


def dependencies(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    if "object" not in facts.types:
        return
    for keyword, name, wanted in _dependencies(part):
        place = f"{path}/{keyword}/{escaped(name)}"
        if property_facts(facts, name).is_impossible:
            continue
        alike = [one for other in facts.parts for _, key, one in _dependencies(other) if key == name]
        if isinstance(wanted, list):
            known = facts.required() | {one for names in alike if isinstance(names, list) for one in names}
            if missing := [one for one in wanted if one not in known]:
                yield Incompatibility(place, f"with {name!r} the reader requires {missing[0]!r}, the writer does not")
        else:
            present = [one for one in alike if isinstance(one, Subschema)]
            yield from check.compare(facts.with_parts(*present), wanted, place)


def _dependencies(part: Subschema) -> Iterator[tuple[str, str, list[str] | Subschema]]:
    used = ("dependencies",) if part.draft < 2019 else ("dependentRequired", "dependentSchemas", "dependencies")
    for keyword in used:
        for name, value in _table(part, keyword).items():
            yield keyword, name, value if isinstance(value, list) else part.child(keyword, name)


def property_facts(facts: Facts, name: str) -> Facts:
    """Return what the writer states of a property."""
    found: list[Subschema] = []
    for one in facts.parts:
        found += [schema for schema, _ in _schemas_for(one, name)]
    return Facts(found, facts.document)


def _schemas_for(part: Subschema, name: str) -> list[tuple[Subschema, str]]:
    """Return the schemas that one part applies to a property, with their places."""
    found = []
    if name in _table(part, "properties"):
        found.append((part.child("properties", name), f"properties/{escaped(name)}"))
    found += [
        (part.child("patternProperties", pattern), f"patternProperties/{escaped(pattern)}")
        for pattern in _table(part, "patternProperties")
        if matches(pattern, name)
    ]
    rest, place = _rest(part)
    if not found and rest is not None:
        found.append((rest, place))
    return found


def _rest(part: Subschema) -> tuple[Subschema | None, str]:
    """Return the schema of properties that are not named, and its keyword."""
    stated = keywords(part)
    if isinstance(part.value, bool):
        return None, ""
    if "additionalProperties" in stated:
        return part.child("additionalProperties"), "additionalProperties"
    if part.draft >= 2019 and "unevaluatedProperties" in stated and not stated.keys() & EVALUATORS:
        return part.child("unevaluatedProperties"), "unevaluatedProperties"
    return None, ""


def _other_facts(facts: Facts) -> Facts:
    return Facts([rest for one in facts.parts if (rest := _rest(one)[0]) is not None], facts.document)


def _patterns(facts: Facts) -> dict[str, None]:
    return {pattern: None for one in facts.parts for pattern in _table(one, "patternProperties")}


def _pattern_facts(facts: Facts, pattern: str) -> Facts:
    """Return what is known of properties that match a pattern: of parts that state it."""
    found = [
        one.child("patternProperties", pattern) for one in facts.parts if pattern in _table(one, "patternProperties")
    ]
    return Facts(found, facts.document)


def _has_content_model(part: Subschema) -> bool:
    return _rest(part)[0] is not None or bool(_table(part, "properties") or _table(part, "patternProperties"))


def _table(part: Subschema, keyword: str) -> dict[str, Any]:
    value = keywords(part).get(keyword)
    return value if isinstance(value, dict) else {}


RULES = (properties, other_properties, required, counts, property_names, dependencies)
