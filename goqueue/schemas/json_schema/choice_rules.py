"""Rules for `not`, `anyOf`, `oneOf` and `if`."""

from collections.abc import Iterator

from goqueue.schemas.json_schema.comparison import Comparison
from goqueue.schemas.json_schema.document import Subschema
from goqueue.schemas.json_schema.evaluation import is_same_schema
from goqueue.schemas.json_schema.facts import Facts, keywords, stated_types
from goqueue.schemas.schema_format import Incompatibility

CONDITION = frozenset({"if", "then", "else"})
Problems = Iterator[Incompatibility]


def negations(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    if "not" not in keywords(part):
        return
    if isinstance(part.value, bool):
        return
    refused = part.child("not")
    if not facts.types & stated_types(refused):
        return
    for holder in facts.holders("not"):
        if isinstance(holder.value, dict) and check.excludes(refused, holder.child("not")):
            return
    yield Incompatibility(f"{path}/not", "the writer's values are not known to be outside of what the reader refuses")


def choices(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    stated = keywords(part)
    for keyword in ("anyOf", "oneOf"):
        if keyword not in stated:
            continue
        branches = [part.child(keyword, index) for index in range(len(stated[keyword]))]
        if any(check.contains(facts, branch) for branch in branches):
            continue
        if len(branches) == 1:
            yield from check.compare(facts, branches[0], f"{path}/{keyword}/0")
        elif not check.each_alternative_fits(facts, check.reader.only(part, frozenset({keyword}))):
            yield Incompatibility(
                f"{path}/{keyword}",
                f"no branch accepts all that the writer allows{_lost(check, facts, keyword, branches)}",
            )


def _lost(check: Comparison, facts: Facts, keyword: str, branches: list[Subschema]) -> str:
    """Name the first branch of the writer that has no counterpart."""
    for holder in facts.holders(keyword):
        for index in range(len(keywords(holder)[keyword])):
            one = Facts([holder.child(keyword, index)], facts.document)
            if not any(check.contains(one, branch) for branch in branches):
                return f": branch {index} of the writer has no counterpart"
    return ""


def conditions(check: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    stated = keywords(part)
    if "if" not in stated or part.draft < 7:
        return
    condition = check.reader.only(part, CONDITION)
    if any(is_same_schema(facts.document.only(one, CONDITION), condition) for one in facts.holders("if")):
        return
    met = check.contains(facts, part.child("if"))
    for name in ("then",) if met else ("then", "else"):
        if name in stated:
            yield from check.compare(facts, part.child(name), f"{path}/{name}")


RULES = (negations, choices, conditions)
