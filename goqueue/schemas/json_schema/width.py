"""The width of a schema: with how many schemas one value is compared at most.

References make it possible that a few lines multiply: `anyOf` of two references to a schema that does the same again.
"""

from goqueue.schemas import limits
from goqueue.schemas.json_schema.document import REFERENCES, JsonDocument, Subschema, subschemas
from goqueue.schemas.json_schema.facts import keywords
from goqueue.schemas.schema_format import schema_error


def evaluation_width(document: JsonDocument) -> int:
    """Return the width. Raises `SchemaInvalid` if it is too large, or if a reference leads back for the same value."""
    widths: dict[int, int] = {}
    entered: set[int] = set()
    stack = [(part, False) for part in subschemas(document.root) if isinstance(part.value, dict)]
    while stack:
        part, is_left = stack.pop()
        key = id(part.value)
        if is_left:
            patterns = len(keywords(part).get("patternProperties", ()))
            widths[key] = 1 + patterns + sum(widths[id(one.value)] for one in _for_same_value(part, document))
            if widths[key] > limits.SCHEMA_WIDTH_MAX:
                raise schema_error(part.pointer, f"more than {limits.SCHEMA_WIDTH_MAX:,} schemas apply to one value")
        elif key not in entered:
            entered.add(key)
            stack.append((part, True))
            for needed in _for_same_value(part, document):
                if id(needed.value) in entered and id(needed.value) not in widths:
                    raise schema_error(part.pointer, "the reference leads back to itself for the same value")
                stack.append((needed, False))
    return max(widths.values(), default=1)


def _for_same_value(part: Subschema, document: JsonDocument) -> list[Subschema]:
    """Return the schemas that are evaluated for the same value."""
    stated = keywords(part)
    found = [part.child(name) for name in ("not", "if", "then", "else") if name in stated]
    for name in ("allOf", "anyOf", "oneOf"):
        found += [part.child(name, index) for index in range(len(stated.get(name, ())))]
    for name in ("dependencies", "dependentSchemas"):
        found += [part.child(name, key) for key in stated.get(name, ())]
    for name in REFERENCES:
        if isinstance(stated.get(name), str) and (target := document.resolve(stated[name], part)) is not None:
            found.append(target)
    return [one for one in found if isinstance(one.value, dict)]
