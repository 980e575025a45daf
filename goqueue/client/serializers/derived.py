"""JSON Schemas of classes, and values as instances of them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from goqueue.errors import RequestInvalid

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def is_pydantic(kind: Any) -> bool:
    return hasattr(kind, "model_json_schema")


@cache
def json_schema_of(kind: Any) -> dict[str, Any]:
    """Return the schema of a dataclass, a TypedDict, or a model of msgspec or pydantic.

    Its objects are closed, unless the class says otherwise: what a program sends has no other fields, and a field that
    is added later stays compatible.
    """
    try:
        if is_pydantic(kind):
            found = kind.model_json_schema(mode="serialization")
        else:
            found = _with_root(msgspec.json.schema(kind))
    except TypeError as error:
        raise RequestInvalid(
            f"no JSON Schema can be derived from {kind!r:.80}: {error}",
            hint="give a dataclass, a TypedDict, a model of msgspec or pydantic, or the text of a schema",
        ) from None
    _close(found)
    return {"$schema": _DRAFT, **found}


def _with_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose root is the class itself, where it only refers to it."""
    definitions = schema.get("$defs", {})
    reference = schema.get("$ref", "")
    name = reference.removeprefix("#/$defs/")
    if reference == name or any(_mentions(one, reference) for one in definitions.values()):
        title = definitions.get(name, {}).get("title")
        return {"title": title, **schema} if title else schema
    others = {other: one for other, one in definitions.items() if other != name}
    root: dict[str, Any] = definitions[name]
    return root | ({"$defs": others} if others else {})


def _mentions(schema: Any, reference: str) -> bool:
    if isinstance(schema, dict):
        return schema.get("$ref") == reference or any(_mentions(one, reference) for one in schema.values())
    return isinstance(schema, list) and any(_mentions(one, reference) for one in schema)


def _close(schema: Any) -> None:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
        for one in schema.values():
            _close(one)
    elif isinstance(schema, list):
        for one in schema:
            _close(one)


def decode_json_as(kind: Any) -> Callable[[bytes], Any]:
    """Return the function that decodes JSON as a type."""
    if is_pydantic(kind):
        validate: Callable[[bytes], Any] = kind.model_validate_json
        return validate
    return _as_value_errors(msgspec.json.Decoder(kind).decode)


def convert_to(kind: Any) -> Callable[[Any], Any]:
    """Return the function that makes an instance of a type out of dicts and plain values."""
    if is_pydantic(kind):
        validate: Callable[[Any], Any] = kind.model_validate
        return validate
    return _as_value_errors(lambda value: msgspec.convert(value, kind))


def _as_value_errors(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decoded(given: Any) -> Any:
        try:
            return decode(given)
        except msgspec.MsgspecError as error:
            raise ValueError(str(error)) from None

    return decoded
