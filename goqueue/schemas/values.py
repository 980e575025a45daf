"""Values of programs as encoders and decoders see them: mismatches with a path, records in their several forms."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from goqueue.schemas.json_text import escaped
from goqueue.schemas.schema_format import PayloadProblem

SHOWN_CHARACTERS_MAX = 60


class ValueMismatch(Exception):
    """A value or payload that does not match its schema. Records and lists around it add to the path."""

    def __init__(self, reason: str, *path: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.path = list(path)
        """From the innermost name outward."""

    @property
    def problem(self) -> PayloadProblem:
        return PayloadProblem("".join(f"/{escaped(name)}" for name in reversed(self.path)), self.reason)

    def __str__(self) -> str:
        path, reason = self.problem
        return f"{path}: {reason}" if path else reason


class PayloadEncoder(Protocol):
    """A compiled schema that makes payloads of values. Any number of threads may use it."""

    def encode(self, value: Any) -> bytes:
        """Return the payload. Raises `ValueMismatch`."""


class PayloadDecoder(Protocol):
    """A compiled schema that makes values of payloads. One thread at a time may use it."""

    def decode(self, payload: bytes) -> Any:
        """Return the value. Raises `ValueMismatch`."""


def wrong_type(value: object, wanted: str) -> ValueMismatch:
    return ValueMismatch(f"{shown(value)} is {_kind(value)}, and must be {wanted}")


def shown(value: object) -> str:
    """Return a value for a message, shortened."""
    try:
        text = repr(value)
    except Exception:  # an object of the program that cannot be shown
        text = f"a {type(value).__name__}"
    return text if len(text) <= SHOWN_CHARACTERS_MAX else f"{text[:SHOWN_CHARACTERS_MAX]}…"


def _kind(value: object) -> str:
    return "None" if value is None else type(value).__name__


def fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a record: a mapping, a dataclass, or a model of msgspec or pydantic; None for others."""
    if isinstance(value, Mapping):
        return value
    names = _field_names(type(value))
    return None if names is None else {name: getattr(value, name) for name in names}


def _field_names(kind: Any) -> Iterable[str] | None:
    """Return the names of the fields that a class of records has."""
    for attribute in ("__struct_fields__", "__dataclass_fields__", "model_fields"):
        found = getattr(kind, attribute, None)
        if isinstance(found, (tuple, dict)):
            return found
    return None


Convert = Callable[[Any], Any]
