"""Evaluation with the library `jsonschema-rs`: compiling, and small questions about parts of schemas."""

from functools import lru_cache
from typing import Any

import jsonschema_rs

from goqueue.schemas import limits
from goqueue.schemas.json_schema.document import REFERENCES, Subschema, subschemas
from goqueue.schemas.json_schema.facts import keywords, same_value

VALIDATORS = {
    4: jsonschema_rs.Draft4Validator,
    6: jsonschema_rs.Draft6Validator,
    7: jsonschema_rs.Draft7Validator,
    2019: jsonschema_rs.Draft201909Validator,
    2020: jsonschema_rs.Draft202012Validator,
}
PATTERNS = jsonschema_rs.FancyRegexOptions(
    backtrack_limit=limits.PATTERN_STEPS_MAX,
    size_limit=limits.PATTERN_BYTES_MAX,
    dfa_size_limit=limits.PATTERN_BYTES_MAX,
)


def compiled(schema: Any, draft: int, registry: jsonschema_rs.Registry | None = None) -> jsonschema_rs.Validator:
    """Compile a schema. `format` is an annotation in every draft, and nothing is ever fetched."""
    return VALIDATORS[draft](schema, validate_formats=False, registry=registry, offline=True, pattern_options=PATTERNS)


def accepts(part: Subschema, value: Any) -> bool:
    """Return whether a schema accepts a value; False if it has references, which are not looked at here."""
    if isinstance(part.value, bool):
        return part.value
    if has_references(part):
        return False
    kept = {name: stated for name, stated in part.value.items() if name not in {"$id", "id", "$schema"}}
    return compiled(kept, part.draft).is_valid(value)


def has_references(part: Subschema) -> bool:
    return any(keyword in keywords(one) for one in subschemas(part) for keyword in REFERENCES)


def is_same_schema(one: Subschema, other: Subschema) -> bool:
    """Return whether two schemas state the same. Those with references do not count: they may lead elsewhere."""
    return one.draft == other.draft and same_value(one.value, other.value) and not has_references(one)


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> jsonschema_rs.Validator:
    return compiled({"pattern": pattern}, 2020)


def matches(pattern: str, name: str) -> bool:
    return _pattern(pattern).is_valid(name)
