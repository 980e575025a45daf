"""Rules for types, listed values, numbers, strings and choices."""

from collections.abc import Iterator
from fractions import Fraction
from math import ceil, floor
from typing import Any, TypeGuard

from goqueue.schemas.json_schema.comparison import Comparison
from goqueue.schemas.json_schema.document import Subschema
from goqueue.schemas.json_schema.facts import Facts, keywords, stated_types
from goqueue.schemas.json_text import compact_json
from goqueue.schemas.schema_format import Incompatibility

Problems = Iterator[Incompatibility]
NUMBERS = frozenset({"integer", "fraction"})


def types(_: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    if isinstance(part.value, bool) and not part.value:
        yield Incompatibility(path, "the reader accepts no value here, the writer does")
        return
    stated = keywords(part)
    if "type" not in stated:
        return
    allowed = stated_types(Subschema({"type": stated["type"]}, "", "", part.draft))
    if refused := facts.types - allowed:
        yield Incompatibility(f"{path}/type", f"the reader does not accept the type {_named(refused)}, the writer does")


def _named(names: frozenset[str]) -> str:
    shown = sorted("number" if name == "fraction" else name for name in names)
    return " or ".join(shown)


def listed_values(_: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    stated = keywords(part)
    for keyword in ("enum", "const"):
        if keyword not in stated or (keyword == "const" and part.draft == 4):
            continue
        allowed = stated["enum"] if keyword == "enum" else [stated["const"]]
        values = facts.values()
        if values is None:
            yield Incompatibility(
                f"{path}/{keyword}", "the reader accepts listed values only, the writer others as well"
            )
            continue
        known = {_value_key(one) for one in allowed}
        if refused := [value for value in values if _value_key(value) not in known]:
            shown = ", ".join(repr(value) for value in refused[:3])
            yield Incompatibility(f"{path}/{keyword}", f"the reader does not accept {shown}, the writer does")


def _value_key(value: Any) -> str:
    """Return a text that equal values share: 1 and 1.0, but not true."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return compact_json(value, sort_keys=True)


def bounds(_: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    if not facts.types & NUMBERS:
        return
    is_integer = "fraction" not in facts.types
    for low, keyword in ((True, "minimum"), (False, "maximum")):
        wanted = _bound(part, is_integer, low=low)
        if wanted is None:
            continue
        known = [found for one in facts.parts if (found := _bound(one, is_integer, low=low)) is not None]
        best = max(known) if known and low else min(known) if known else None
        if best is None:
            yield Incompatibility(
                f"{path}/{keyword}", f"the reader has this limit ({_shown(wanted)}), the writer has none"
            )
        elif (best < wanted) if low else (best > wanted):
            yield Incompatibility(
                f"{path}/{keyword}", f"the reader's limit is {_shown(wanted)}, the writer's is {_shown(best)}"
            )


def _shown(bound: tuple[Fraction, int]) -> str:
    return f"{float(bound[0]):g}{' exclusive' if bound[1] else ''}"


def _bound(part: Subschema, is_integer: bool, *, low: bool) -> tuple[Fraction, int] | None:
    """Return a limit as value and offset (1: above the value, -1: below it), so that limits compare as tuples."""
    stated = keywords(part)
    name = "minimum" if low else "maximum"
    exclusive = stated.get("exclusiveM" + name[1:])
    offset = 1 if low else -1
    found: list[tuple[Fraction, int]] = []
    if is_number(limit := stated.get(name)):
        found.append((Fraction(limit), offset if exclusive is True and part.draft == 4 else 0))
    if is_number(exclusive) and part.draft != 4:
        found.append((Fraction(exclusive), offset))
    if is_integer:
        found = [(Fraction(_next_integer(value, away, low=low)), 0) for value, away in found]
    if not found:
        return None
    return max(found) if low else min(found)


def _next_integer(value: Fraction, offset: int, *, low: bool) -> int:
    if offset and value.denominator == 1:
        return int(value) + offset
    return ceil(value) if low else floor(value)


def is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def multiples(_: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    wanted = keywords(part).get("multipleOf")
    if not is_number(wanted) or not facts.types & NUMBERS:
        return
    known = [_decimal(one) for one in facts.stated("multipleOf") if is_number(one)]
    if "fraction" not in facts.types:
        known.append(Fraction(1))
    if not any((one / _decimal(wanted)).denominator == 1 for one in known):
        yield Incompatibility(
            f"{path}/multipleOf", f"the reader accepts multiples of {wanted} only, the writer others as well"
        )


def _decimal(value: float) -> Fraction:
    """Return a number as it is written: 0.1 is a tenth."""
    return Fraction(repr(value))


def lengths(_: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    for kind, low, high in (("string", "minLength", "maxLength"), ("array", "minItems", "maxItems")):
        if kind in facts.types:
            yield from count_limit(facts, part, path, low, is_low=True)
            yield from count_limit(facts, part, path, high, is_low=False)


def count_limit(
    facts: Facts, part: Subschema, path: str, keyword: str, *, is_low: bool, known: int | None = None
) -> Problems:
    """Compare a minimum or maximum count with the strictest of the writer and with one that is known otherwise."""
    wanted = keywords(part).get(keyword)
    if not is_number(wanted) or (is_low and wanted <= 0):
        return
    stated = [one for one in (*facts.stated(keyword), known) if is_number(one)]
    if not stated:
        yield Incompatibility(f"{path}/{keyword}", f"the reader has this limit ({wanted}), the writer has none")
        return
    best = max(stated) if is_low else min(stated)
    if best < wanted if is_low else best > wanted:
        yield Incompatibility(f"{path}/{keyword}", f"the reader's limit is {wanted}, the writer's is {best}")


def patterns(_: Comparison, facts: Facts, part: Subschema, path: str) -> Problems:
    pattern = keywords(part).get("pattern")
    if pattern is not None and "string" in facts.types and pattern not in facts.stated("pattern"):
        yield Incompatibility(f"{path}/pattern", f"the writer does not have the pattern {pattern!r} of the reader")


RULES = (types, listed_values, bounds, multiples, lengths, patterns)
