"""Keys, values and headers as answers in JSON have them: text, and base64 where the bytes are none."""

from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

from goqueue_admin.dashboard.views import message

Told = Mapping[str, Any]
"""A message, as a read tells it."""

_PREVIEW = 400


def text(content: str, encoding: str | None) -> str:
    return content if encoding is None else b64decode(content).decode(errors="backslashreplace")


def key(told: Told) -> str | None:
    found = told.get("key")
    return None if found is None else text(found, told.get("key_encoding"))


def preview(told: Told) -> str:
    """The beginning of a value, on one line."""
    found = told.get("value")
    if found is None:
        return "∅"
    if told.get("encoding") == "zstd":
        return "(compressed)"
    return " ".join(text(found[:_PREVIEW], None if told.get("encoding") is None else "base64").split())


def content_of(told: Told) -> bytes | None:
    """The value; what the broker could not unpack stays as it was sent."""
    found = told.get("value")
    if found is None:
        return None
    return b64decode(found) if told.get("encoding") == "base64" else str(found).encode()


def value(told: Told) -> message.Value:
    return message.value(content_of(told))


def headers(told: Told) -> Iterator[tuple[str, str]]:
    """Name and text of each; a name that comes twice is there twice."""
    for name, held in (told.get("headers") or {}).items():
        for one in held if isinstance(held, list) else [held]:
            yield name, one if isinstance(one, str) else text(one["value"], "base64")
