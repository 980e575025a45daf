"""Rules for arrays and tuples: items before the rest, the rest, repeated and contained items."""

from collections.abc import Iterator
from typing import Any

from goqueue.schemas.json_schema.comparison import Comparison
from goqueue.schemas.json_schema.document import REFERENCES, Subschema
from goqueue.schemas.json_schema.evaluation import is_same_schema
from goqueue.schemas.json_schema.facts import Facts, keywords
from goqueue.schemas.schema_format import Incompatibility

Problems = Iterator[Incompatibility]
LENGTH_MAX = 10_000


def items(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    prefix, rest, rest_path = _layout(part)
    if "array" not in facts.types or (not prefix and rest is None):
        return
    longest = min((one for one in facts.stated("maxItems") if isinstance(one, (int, float))), default=None)
    layouts = [_layout(one)[:2] for one in facts.parts]
    mentioned = max([len(prefix), *(len(first) for first, _ in layouts)])
    for index in range(min(mentioned, LENGTH_MAX)):
        if longest is not None and index >= longest:
            return
        wanted = prefix[index] if index < len(prefix) else rest
        if wanted is None:
            continue
        place = _place(part, index) if index < len(prefix) else rest_path
        item = _item(facts, layouts, index)
        for problem in check.compare_inner(item, wanted, f"{path}/{place}"):
            yield _explained(problem, f"{path}/{place}", index)
        if item.is_impossible:
            return  # the array ends before this item
    if rest is not None and (longest is None or mentioned < longest):
        yield from check.compare_inner(_item(facts, layouts, mentioned), rest, f"{path}/{rest_path}")


def _explained(problem: Incompatibility, place: str, index: int) -> Incompatibility:
    if problem.path != place and not problem.path.startswith(place):
        return problem
    return Incompatibility(problem.path, f"{problem.reason} (item {index})")


def _place(part: Subschema, index: int) -> str:
    return f"{'prefixItems' if part.draft >= 2020 else 'items'}/{index}"


def _item(facts: Facts, layouts: list[tuple[list[Subschema], Subschema | None]], index: int) -> Facts:
    """Return the facts of the item at an index."""
    found = [prefix[index] if index < len(prefix) else rest for prefix, rest in layouts]
    return Facts([one for one in found if one is not None], facts.document)


def _layout(part: Subschema) -> tuple[list[Subschema], Subschema | None, str]:
    """Return the schemas of the first items, the one of the others, and where that one is."""
    stated = keywords(part)
    if not isinstance(part.value, dict):
        return [], None, ""
    listed, others = ("prefixItems", "items") if part.draft >= 2020 else ("items", "additionalItems")
    if isinstance(stated.get(listed), list):
        prefix = [part.child(listed, index) for index in range(len(stated[listed]))]
        if others in stated:
            return prefix, part.child(others), others
        return prefix, *_unevaluated(part, stated)
    if "items" in stated and not isinstance(stated["items"], list):
        return [], part.child("items"), "items"
    return [], *_unevaluated(part, stated)


def _unevaluated(part: Subschema, stated: dict[str, Any]) -> tuple[Subschema | None, str]:
    """Return `unevaluatedItems` where no other keyword could evaluate items."""
    if part.draft >= 2019 and "unevaluatedItems" in stated and not stated.keys() & EVALUATORS:
        return part.child("unevaluatedItems"), "unevaluatedItems"
    return None, ""


EVALUATORS = frozenset(
    ("allOf", "anyOf", "oneOf", "if", "then", "else", "not", "contains", "dependentSchemas", *REFERENCES)
)


def hidden_items(_: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    """Compare `unevaluatedItems` and `unevaluatedProperties` beside keywords that evaluate: they must be the same."""
    stated = keywords(part)
    for kind, keyword in (("array", "unevaluatedItems"), ("object", "unevaluatedProperties")):
        if kind not in facts.types or keyword not in stated or part.draft < 2019 or stated[keyword] in (True, {}):
            continue
        if stated.keys() & EVALUATORS and not any(is_same_schema(one, part) for one in facts.parts):
            yield Incompatibility(
                f"{path}/{keyword}", "what the reader evaluates beside it is not the same in the writer"
            )


def uniqueness(_: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    if keywords(part).get("uniqueItems") is not True or "array" not in facts.types:
        return
    is_short = any(isinstance(one, (int, float)) and one <= 1 for one in facts.stated("maxItems"))
    if not is_short and True not in [one for one in facts.stated("uniqueItems") if one is True]:
        yield Incompatibility(f"{path}/uniqueItems", "the reader refuses repeated items, the writer allows them")


def contained(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    stated = keywords(part)
    if "contains" not in stated or "array" not in facts.types or part.draft < 6:
        return
    wanted = part.child("contains")
    least, most = _counts(part)
    alike = [one for one in facts.holders("contains") if one.draft >= 6]
    holders = [one for one in alike if check.contains(Facts([one.child("contains")], facts.document), wanted)]
    if least > max((_counts(one)[0] for one in holders), default=0):
        yield Incompatibility(f"{path}/contains", "the reader needs such an item, the writer does not")
    if most is None:
        return
    equal = [_counts(one)[1] for one in alike if is_same_schema(one.child("contains"), wanted)]
    if not any(count is not None and count <= most for count in equal):
        yield Incompatibility(f"{path}/maxContains", f"the reader accepts at most {most} such items, the writer more")


def _counts(part: Subschema) -> tuple[float, float | None]:
    stated = keywords(part)
    if part.draft < 2019:
        return 1, None
    return stated.get("minContains", 1), stated.get("maxContains")


RULES = (items, hidden_items, uniqueness, contained)
