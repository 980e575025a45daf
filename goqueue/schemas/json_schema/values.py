"""Values as JSON that its schema accepts."""

from collections.abc import Callable
from typing import Any

import msgspec

from goqueue.schemas.json_schema.payloads import JsonValidator
from goqueue.schemas.schema_format import PayloadProblem
from goqueue.schemas.values import ValueMismatch, shown


class JsonEncoder:
    """Encodes what JSON can hold: dicts and lists, dataclasses, models of msgspec and pydantic, times, UUIDs."""

    def __init__(self, validator: JsonValidator | None) -> None:
        self._validator = validator
        self._encode = msgspec.json.Encoder().encode

    def encode(self, value: Any) -> bytes:
        try:
            plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_model)
            encoded = self._encode(plain)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ValueMismatch(f"{shown(value)} cannot be JSON: {error}") from None
        if self._validator is not None:
            _raise_first(self._validator.value_problems(plain))
        return encoded


def _model(value: Any) -> Any:
    """Return a model of pydantic as msgspec takes it."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"{type(value).__name__} is not a type of JSON")


class JsonDecoder:
    """Decodes JSON: as dicts and lists, or as a type of the program if `decode` makes one."""

    def __init__(self, validator: JsonValidator | None, decode: Callable[[bytes], Any] | None = None) -> None:
        self._validator = validator
        self._decode = decode
        self._decode_plain = msgspec.json.Decoder().decode

    def decode(self, payload: bytes) -> Any:
        try:
            if self._validator is not None and self._decode is None:
                value = self._decode_plain(payload)
                _raise_first(self._validator.value_problems(value))
                return value
            if self._validator is not None:
                _raise_first(self._validator.problems(payload))
            return (self._decode or self._decode_plain)(payload)
        except msgspec.DecodeError as error:
            raise ValueMismatch(f"not JSON: {error}") from None
        except (ValueError, RecursionError) as error:  # those of types are ValueErrors
            raise ValueMismatch(str(error)) from None


def _raise_first(problems: list[PayloadProblem]) -> None:
    for path, reason in problems:
        more = f" ({len(problems) - 1} more)" if len(problems) > 1 else ""
        names = [name.replace("~1", "/").replace("~0", "~") for name in path.split("/")[1:]]
        raise ValueMismatch(f"{reason}{more}", *reversed(names))
