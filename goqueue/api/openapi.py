"""The OpenAPI document, made from the table of endpoints."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from goqueue.api.endpoint import Endpoint
from goqueue.api.fields import encode_scalar, scalar_schema
from goqueue.api.http.error_responses import status_of
from goqueue.errors import (
    BrokerOverloaded,
    GoQueueError,
    GroupNameInvalid,
    GroupNotFound,
    HostNotAllowed,
    MediaTypeUnsupported,
    OriginNotAllowed,
    PermissionDenied,
    ProducerNotFound,
    RequestInvalid,
    RequestTimedOut,
    RequestTooLarge,
    SubjectNotFound,
    TopicNameInvalid,
    TopicNotFound,
    Unauthenticated,
)
from goqueue.wire.headers import FRAMES, JSON

OPENAPI_VERSION = "3.1.0"

_REF = "#/components/schemas/{name}"
_ERROR = {
    "title": "Error",
    "description": "Why a request was refused.",
    "type": "object",
    "properties": {
        "error": {"type": "string", "description": "A sentence for people that names the offending value."},
        "code": {"type": "string", "description": "A stable code for programs."},
        "hint": {"type": "string", "description": "The next step, where there is one."},
        "details": {"type": "object", "description": "Facts for programs; which ones depends on the code."},
    },
    "required": ["error", "code"],
    "additionalProperties": False,
}
_REGISTRY_ERROR = {
    **_ERROR,
    "title": "RegistryError",
    "properties": {
        "error_code": {"type": "integer", "description": "The number that Confluent's registry has for the error."},
        "message": {"type": "string", "description": "The same sentence as `error`."},
        **cast("dict[str, Any]", _ERROR["properties"]),
    },
    "required": ["error_code", "message", "error", "code"],
}
_REFUSALS = {"Error": _ERROR, "RegistryError": _REGISTRY_ERROR}
_REQUEST_ID = {"description": "Names this request in the broker's log.", "schema": {"type": "string"}}
_RETRY_AFTER = {"description": "Seconds to wait before trying again.", "schema": {"type": "integer", "minimum": 0}}
_BYTES = {"description": "Frames back to back, as format.md describes them.", "contentMediaType": FRAMES}

# Parameters of paths are text, except where their name says more.
_IN_PATHS: dict[str, dict[str, Any]] = {
    "partition": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
    "offset": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "segment": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "topic": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[A-Za-z0-9._-]+$"},
}

_OF_ANY_REQUEST = (
    RequestInvalid,
    HostNotAllowed,
    OriginNotAllowed,
    RequestTimedOut,
    RequestTooLarge,
    MediaTypeUnsupported,
    BrokerOverloaded,
)
"""Errors that any request may get."""
_OF_KEYS = (Unauthenticated, PermissionDenied)
_OF_HIDDEN = (SubjectNotFound, TopicNotFound, TopicNameInvalid, GroupNotFound, GroupNameInvalid, ProducerNotFound)
"""Errors that requests may get while the broker needs API keys: those, and where they name resources, these."""


def openapi_document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """Return the document."""
    schemas = _Schemas(endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for row in endpoints:
        methods = paths.setdefault(row.path, {})
        if row.method.lower() in methods:
            raise ValueError(f"{row.method} {row.path} stands in the table twice")
        methods[row.method.lower()] = _operation(row, schemas)
    return {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": "GoQueue",
            "version": version,
            "description": "A durable message broker: a replayable log, acknowledgements, delays and dead letters.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}, {"url": "/v1"}],
        "tags": [{"name": tag} for tag in sorted({row.tag for row in endpoints})],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "headers": {"RequestId": _REQUEST_ID, "RetryAfter": _RETRY_AFTER},
        },
    }


class _Schemas:
    """The schemas of all types in the table."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        kinds = {kind: None for row in endpoints for kind in (row.body, row.answer, row.query) if kind is not None}
        refs, components = msgspec.json.schema_components(kinds, schema_hook=scalar_schema, ref_template=_REF)
        self._refs = dict(zip(kinds, refs, strict=True))
        queries = {row.query for row in endpoints} - {row.body for row in endpoints} - {row.answer for row in endpoints}
        self._queries = {kind: components[_name(self._refs[kind])] for kind in kinds if kind in queries}
        apart = {_name(self._refs[kind]) for kind in self._queries}
        used = {row.dialect.error_component for row in endpoints}
        refusals = {name: made for name, made in _REFUSALS.items() if name in used}
        if components.keys() & refusals.keys():
            raise ValueError("a type is named Error, as the schema of refusals is")
        self.components = {**refusals, **{name: made for name, made in components.items() if name not in apart}}

    def reference(self, kind: type) -> dict[str, Any]:
        return dict(self._refs[kind])

    def parameters(self, kind: type) -> list[dict[str, Any]]:
        """Return the fields of a struct as query parameters."""
        schema = self._queries.get(kind) or self.components[_name(self._refs[kind])]
        return [
            _parameter(name, "query", field, required=name in schema.get("required", ()))
            for name, field in schema["properties"].items()
        ]


def _name(reference: dict[str, Any]) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _operation(row: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    parameters = [
        _parameter(name, "path", _IN_PATHS.get(name, {"type": "string", "minLength": 1}), required=True)
        for name in re.findall(r"\{(\w+)\}", row.path)
    ]
    if row.query is not None:
        parameters += schemas.parameters(row.query)
    operation: dict[str, Any] = {
        "operationId": _operation_id(row),
        "summary": row.summary,
        "tags": [row.tag],
        "x-goqueue-permission": str(row.permission),
        "responses": _responses(row, schemas),
    }
    if parameters:
        operation["parameters"] = parameters
    if row.body is not None or row.frames:
        operation["requestBody"] = {"required": not row.is_body_optional, "content": _body(row, schemas)}
    return operation


def _operation_id(row: Endpoint) -> str:
    """Return an id such as `getTopicsTopicMessages` for `GET /topics/{topic}/messages`."""
    words = re.findall(r"[A-Za-z0-9]+", row.path) or ["root"]
    return row.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


def _parameter(name: str, place: str, schema: dict[str, Any], *, required: bool) -> dict[str, Any]:
    schema = _without_null(schema)
    described = schema.pop("description", None)
    parameter: dict[str, Any] = {"name": name, "in": place, "required": required, "schema": schema}
    if described is not None:
        parameter["description"] = described
    return parameter


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove null from the schema of a parameter, which cannot be null."""
    kept = {key: value for key, value in schema.items() if not (key == "default" and value is None)}
    if "enum" in kept:
        kept["enum"] = [option for option in kept["enum"] if option is not None]
    if "anyOf" in kept:
        options = [option for option in kept.pop("anyOf") if option != {"type": "null"}]
        kept = {**options[0], **kept} if len(options) == 1 else {**kept, "anyOf": options}
    return kept


def _body(row: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if row.body is not None:
        for kind in row.dialect.media_types:
            content[kind] = _with_example({"schema": schemas.reference(row.body)}, row.example)
    if row.frames:
        content[FRAMES] = {"schema": _BYTES}
    return content


def _responses(row: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    refusals = _refusals(row)
    if row.unwell_status is not None and row.answer is not None:
        refusal = refusals.setdefault(str(row.unwell_status), _refusal(row, row.unwell_status, []))
        media = refusal["content"][JSON]
        media["schema"] = {"anyOf": [schemas.reference(row.answer), media["schema"]]}
    return {str(row.status): _answer(row, schemas), **refusals}


def _answer(row: Endpoint, schemas: _Schemas) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": row.summary, "headers": _headers()}
    if row.answer is not None:
        media = _with_example({"schema": schemas.reference(row.answer)}, row.answer_example)
        answer["content"] = dict.fromkeys(dict.fromkeys((row.answer_type, JSON)), media)
    elif row.answer_type != JSON:
        shape = {"type": "string"} if row.answer_type.startswith("text/") else {"contentMediaType": row.answer_type}
        answer["content"] = {row.answer_type: _with_example({"schema": shape}, row.answer_example)}
    return answer


def _with_example(media: dict[str, Any], example: Any) -> dict[str, Any]:
    if example is not None:
        media["example"] = msgspec.to_builtins(example, enc_hook=encode_scalar)
    return media


def _refusals(row: Endpoint) -> dict[str, Any]:
    """Return the error responses by status; one may have several codes."""
    kinds: set[type[GoQueueError]] = {*row.errors, *_OF_ANY_REQUEST}
    if not row.permission.is_open:
        kinds |= {*_OF_KEYS, *(() if row.permission.kind == "cluster" and row.method == "GET" else _OF_HIDDEN)}
    by_status: dict[int, list[str]] = {}
    for kind in sorted(kinds, key=lambda kind: kind.code):
        by_status.setdefault(status_of(kind), []).append(kind.code)
    return {str(status): _refusal(row, status, codes) for status, codes in sorted(by_status.items())}


def _refusal(row: Endpoint, status: int, codes: list[str]) -> dict[str, Any]:
    code = {"properties": {"code": {"enum": codes}}}
    schema = {"allOf": [{"$ref": _REF.format(name=row.dialect.error_component)}, code]}
    return {
        "description": "Refused: " + ", ".join(codes),
        "headers": _headers(retry=status in {429, 503}),
        "content": {kind: {"schema": schema} for kind in dict.fromkeys((row.dialect.media_types[0], JSON))},
    }


def _headers(*, retry: bool = False) -> dict[str, Any]:
    headers = {"x-request-id": {"$ref": "#/components/headers/RequestId"}}
    if retry:
        headers["Retry-After"] = {"$ref": "#/components/headers/RetryAfter"}
    return headers
