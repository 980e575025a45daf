"""Methods that are one endpoint each: the option `endpoint` in the `.proto` file says which one.

A field whose name is a parameter of the path goes there; the others are the query of a GET or DELETE, and the JSON of
the body otherwise. The answer fills the fields of the response that it has.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message_factory import GetMessageClass

from goqueue.api.table import ENDPOINTS
from goqueue.rpc.session import CallSession, Unary, path_of
from goqueue.rpc.status import invalid_request
from goqueue.rpc.transcoding import INTEGERS, fill, to_json
from goqueue.rpc.v1 import options_pb2

_PARAMETER = re.compile(r"\{(\w+)\}")
_RENAMED = {"producer": "producer_id"}
"""Fields of other names than the parameters of the path."""


def endpoints_of(method: MethodDescriptor) -> list[str]:
    """Return method and path of the endpoints that answer a method."""
    extension: Any = options_pb2.endpoint
    return list(method.GetOptions().Extensions[extension])


def endpoint_method(method: MethodDescriptor) -> Unary:
    """Return the function of a method that one endpoint answers."""
    (named,) = endpoints_of(method)
    verb, _, template = named.partition(" ")
    parameters = _PARAMETER.findall(template)
    required = _required_numbers(method, verb, template)
    has_query = verb in {"GET", "DELETE"}
    response_type = GetMessageClass(method.output_type)

    async def call(session: CallSession, request: Any) -> Any:
        values: dict[str, Any] = {name: getattr(request, _RENAMED.get(name, name)) for name in parameters}
        for name, value in values.items():
            if value == "":
                raise invalid_request(name, "is missing")
        given = required | {name: value for name, value in to_json(request).items() if name not in values}
        path = path_of(template, **values)
        if has_query:
            answer = await session.ask(verb, path, list(_query(given)))
        else:
            answer = await session.ask(verb, path, body=given)
        response = response_type()
        found = answer.json
        fill(response, found if isinstance(found, dict) else {_only_field(method): found})
        return response

    return call


def _required_numbers(method: MethodDescriptor, verb: str, template: str) -> dict[str, int]:
    """Return 0 for the numbers that the body must have: Protobuf leaves out fields that are 0."""
    (row,) = (row for row in ENDPOINTS if (row.method, row.path) == (verb, template))
    if row.body is None:
        return {}
    needed = {field.encode_name for field in msgspec.structs.fields(row.body) if field.required}
    return {
        field.name: 0
        for field in method.input_type.fields
        if field.name in needed and field.cpp_type in INTEGERS and not field.has_presence
    }


def _only_field(method: MethodDescriptor) -> str:
    """Return the field for an answer that is no object, such as a list or a number."""
    return str(method.output_type.fields[0].name)


def _query(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in given.items():
        for one in value if isinstance(value, list) else (value,):
            yield name, str(one).lower() if isinstance(one, bool) else str(one)
