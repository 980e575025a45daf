"""The dialect in which clients of Confluent's schema registry write requests and read answers.

Errors have both descriptions: `error_code` and `message` for these clients, `code`, `error`, `hint` and `details` for
those of GoQueue.
"""

from typing import Any

import msgspec
from msgspec import Struct, inspect

from goqueue import errors
from goqueue.api.dialect import Dialect
from goqueue.api.http.error_responses import error_json, error_response, status_of
from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.errors import GoQueueError
from goqueue.wire.headers import JSON

REGISTRY_JSON = "application/vnd.schemaregistry.v1+json"
_VENDOR = "application/vnd.schemaregistry"

_CODES: dict[type[GoQueueError], int | dict[str, int]] = {
    errors.PermissionDenied: 40301,
    errors.SubjectNotFound: 40401,
    errors.SchemaVersionNotFound: 40402,
    errors.SchemaNotFound: 40403,
    errors.SchemaDeletionRefused: {
        "subject_deleted": 40404, "subject_not_deleted": 40405, "version_deleted": 40406, "version_not_deleted": 40407,
    },
    errors.SubjectSettingNotFound: {"compatibility": 40408, "mode": 40409},
    errors.SchemaIncompatible: 409,
    errors.SchemaInvalid: 42201,
    errors.RegistryValueInvalid: {"version": 42202, "compatibility": 42203, "mode": 42204, "subject": 42208},
    errors.SchemaChangeRefused: {"": 42205, "references": 42206},
    **dict.fromkeys(
        (errors.DiskFailed, errors.DiskFull, errors.FilesExhausted, errors.LogClosed, errors.LogFenced), 50001
    ),
    errors.RequestTimedOut: 50002,
}  # fmt: skip
"""The numbers of Confluent's registry; several of an error are told apart by its `reason` or `field`."""


def registry_code(error: GoQueueError) -> int:
    """Return the number of an error, by default its HTTP status."""
    code = _CODES.get(type(error)) or status_of(type(error))
    if isinstance(code, int):
        return code
    return code[error.details.get("reason") or error.details.get("field") or ""]


class RegistryErrorJson(Struct, omit_defaults=True):
    error_code: int
    message: str
    error: str
    code: str
    hint: str | None = None
    details: dict[str, Any] | None = None


class RegistryDialect(Dialect):
    """That of Confluent's schema registry: its media types and errors; unknown parameters are passed over."""

    media_types = (REGISTRY_JSON, "application/vnd.schemaregistry+json", JSON)
    error_component = "RegistryError"

    def answer_type(self, request: HttpRequest) -> str:
        accepted = request.headers.get("accept")
        return JSON if accepted is not None and JSON in accepted and _VENDOR not in accepted else REGISTRY_JSON

    def query_text(self, kind: type | None, query: str) -> str:
        if kind is None or not query:
            return ""
        known = _parameters(kind)
        pieces = []
        for piece in query.split("&"):
            name, _, text = piece.partition("=")
            if name in known:
                pieces.append(f"{name}={text.lower() if known[name] else text}")
        return "&".join(pieces)

    def refusal(self, error: GoQueueError, request: HttpRequest) -> HttpResponse:
        plain, said = error_response(error), error_json(error)
        body = RegistryErrorJson(registry_code(error), said.error, said.error, said.code, said.hint, said.details)
        content = msgspec.json.encode(body, enc_hook=str)
        return HttpResponse(plain.status, content, self.answer_type(request), plain.headers)


REGISTRY = RegistryDialect()
_KNOWN: dict[type, dict[str, bool]] = {}


def _parameters(kind: type) -> dict[str, bool]:
    """Return the names of a query's parameters, and whether each is true or false, in any case."""
    found = _KNOWN.get(kind)
    if found is None:
        description = inspect.type_info(kind)
        assert isinstance(description, inspect.StructType), "queries are structs"
        found = _KNOWN[kind] = {field.encode_name: _is_boolean(field.type) for field in description.fields}
    return found


def _is_boolean(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.Metadata):
        return _is_boolean(kind.type)
    return isinstance(kind, inspect.BoolType) or (
        isinstance(kind, inspect.UnionType) and any(map(_is_boolean, kind.types))
    )
