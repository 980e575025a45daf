"""The OpenAPI document: valid as a whole, and telling of every row what it says."""

from typing import Annotated, Any, Literal

import msgspec
import pytest
from jsonschema import Draft202012Validator
from msgspec import Meta
from openapi_spec_validator import validate

from goqueue.api.endpoint import Endpoint, Method
from goqueue.api.fields import Duration, Time
from goqueue.api.openapi import openapi_document
from goqueue.api.permissions import Permission
from goqueue.errors import BrokerOverloaded, OffsetOutOfRange, TopicNotFound
from goqueue.wire.headers import FRAMES


class Wait(Duration, most=60):
    """The wait of a reader."""


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """One message."""

    value: Annotated[str, Meta(description="What is said.")]
    priority: Annotated[int, Meta(ge=0, le=4)] = 0
    after: Time | None = None


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    messages: Annotated[list[Message], Meta(min_length=1)]


class Hint(msgspec.Struct, forbid_unknown_fields=True):
    text: str = ""


class Stored(msgspec.Struct, forbid_unknown_fields=True):
    offset: int
    timestamp: Time


class Reading(msgspec.Struct, forbid_unknown_fields=True):
    offset: Annotated[int, Meta(ge=0, description="Where to begin.")]
    limit: Annotated[int, Meta(ge=1, le=1000)] | None = 100
    wait: Wait | None = None
    from_time: Time | None = None
    acks: Literal["none", "all"] | None = None


async def handler(_call: Any) -> None:
    """Never called: the document is made from the row alone."""


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/topics/{topic}/messages",
        handler=handler,
        summary="Publish messages",
        tag="messages",
        body=Batch,
        frames=True,
        answer=Stored,
        status=201,
        permission=Permission("write", "topic", "topic"),
        errors=(TopicNotFound, BrokerOverloaded),
        example=Batch([Message("hello", after=Time(10**9))]),
        answer_example={"offset": 17, "timestamp": "2026-03-01T12:00:00Z"},
    ),
    Endpoint(
        method="GET",
        path="/topics/{topic}/partitions/{partition}/messages",
        handler=handler,
        summary="Read messages",
        tag="messages",
        query=Reading,
        answer_type=FRAMES,
        errors=(TopicNotFound, OffsetOutOfRange),
    ),
    Endpoint(method="GET", path="/metrics", handler=handler, summary="Metrics", tag="health", answer_type="text/plain"),
    Endpoint(method="DELETE", path="/", handler=handler, summary="Nothing comes back", tag="health", status=204),
)


MADE = openapi_document(ENDPOINTS, "1.2.3")


def operation(method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = MADE["paths"][path][method]
    return found


READING = operation("get", "/topics/{topic}/partitions/{partition}/messages")
PUBLISHING = operation("post", "/topics/{topic}/messages")


def test_the_document_is_valid_and_can_be_written_as_json() -> None:
    validate(msgspec.json.decode(msgspec.json.encode(MADE)))


def test_an_empty_table_makes_a_document_as_well() -> None:
    validate(openapi_document((), "0"))


def test_it_tells_the_version_and_that_every_path_is_also_below_v1() -> None:
    assert (MADE["openapi"], MADE["info"]["version"]) == ("3.1.0", "1.2.3")
    assert [server["url"] for server in MADE["servers"]] == ["/", "/v1"]


def test_every_row_is_an_operation_with_a_name_of_its_own() -> None:
    ids = [found["operationId"] for path in MADE["paths"].values() for found in path.values()]
    assert len(set(ids)) == len(ENDPOINTS)
    assert PUBLISHING["operationId"] == "postTopicsTopicMessages"
    assert {tag["name"] for tag in MADE["tags"]} == {"messages", "health"}


def test_parameters_have_their_bounds_and_descriptions() -> None:
    found = {parameter["name"]: parameter for parameter in READING["parameters"]}
    assert found["partition"]["schema"] == {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
    assert (found["topic"]["in"], found["topic"]["required"]) == ("path", True)
    assert found["offset"] == {
        "name": "offset",
        "in": "query",
        "required": True,
        "description": "Where to begin.",
        "schema": {"type": "integer", "minimum": 0},
    }
    assert found["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
    assert found["acks"]["schema"] == {"enum": ["all", "none"]}
    assert found["from_time"]["schema"] == {"type": "string", "format": "date-time"}
    assert [option["type"] for option in found["wait"]["schema"]["anyOf"]] == ["string", "number"]
    assert "From 0s to 1m." in found["wait"]["schema"].get("description", found["wait"].get("description", ""))


def test_a_type_that_is_only_a_query_is_no_component() -> None:
    assert set(MADE["components"]["schemas"]) == {"Error", "Batch", "Message", "Stored"}


def test_a_body_may_be_json_or_frames() -> None:
    assert set(PUBLISHING["requestBody"]["content"]) == {"application/json", FRAMES}


@pytest.mark.parametrize(
    ("method", "kind", "is_required"), [("POST", Batch, True), ("POST", Hint, False), ("PUT", Hint, True)]
)
def test_a_body_is_required_unless_a_post_may_leave_all_its_fields_out(
    method: Method, kind: type, is_required: bool
) -> None:
    row = Endpoint(method, "/", handler, "Take a body", tag="health", body=kind)
    (made,) = openapi_document([row], "1.2.3")["paths"]["/"].values()
    assert made["requestBody"]["required"] == is_required


def test_an_answer_may_be_json_text_bytes_or_nothing() -> None:
    assert set(PUBLISHING["responses"]["201"]["content"]) == {"application/json"}
    assert READING["responses"]["200"]["content"] == {FRAMES: {"schema": {"contentMediaType": FRAMES}}}
    assert operation("get", "/metrics")["responses"]["200"]["content"] == {"text/plain": {"schema": {"type": "string"}}}
    assert "content" not in operation("delete", "/")["responses"]["204"]


def test_refusals_are_grouped_by_status_and_share_one_schema() -> None:
    assert list(READING["responses"]) == ["200", "400", "403", "404", "408", "413", "415", "503"]
    schema = READING["responses"]["404"]["content"]["application/json"]["schema"]
    assert schema["allOf"][0] == {"$ref": "#/components/schemas/Error"}
    assert schema["allOf"][1]["properties"]["code"]["enum"] == ["offset_out_of_range", "topic_not_found"]
    assert "Retry-After" in PUBLISHING["responses"]["503"]["headers"]
    assert "Retry-After" not in PUBLISHING["responses"]["404"]["headers"]


def test_errors_of_any_request_are_documented_at_every_operation() -> None:
    responses = operation("get", "/metrics")["responses"]
    told = {status: found["description"] for status, found in responses.items() if status != "200"}
    assert told == {
        "400": "Refused: request_invalid",
        "403": "Refused: host_not_allowed, origin_not_allowed",
        "408": "Refused: request_timed_out",
        "413": "Refused: request_too_large",
        "415": "Refused: media_type_unsupported",
        "503": "Refused: broker_overloaded",
    }


def test_unwell_answer_is_documented_beside_the_errors() -> None:
    row = Endpoint(
        method="GET", path="/", handler=handler, summary="", tag="", answer=Stored, unwell_status=503, errors=()
    )
    media = openapi_document((row,), "0")["paths"]["/"]["get"]["responses"]["503"]["content"]["application/json"]
    own, refusal = media["schema"]["anyOf"]
    assert own == {"$ref": "#/components/schemas/Stored"}
    assert refusal["allOf"][0] == {"$ref": "#/components/schemas/Error"}


def test_examples_fit_their_schemas() -> None:
    media = [PUBLISHING["requestBody"]["content"], PUBLISHING["responses"]["201"]["content"]]
    for found in (content["application/json"] for content in media):
        Draft202012Validator({**MADE, **found["schema"]}).validate(found["example"])


def test_the_schema_of_refusals_takes_what_is_sent() -> None:
    refusal = {"error": "no", "code": "topic_not_found", "hint": "ask", "details": {"a": 1}}
    Draft202012Validator(MADE["components"]["schemas"]["Error"]).validate(refusal)


def test_a_row_that_stands_there_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="GET /metrics stands in the table twice"):
        openapi_document((ENDPOINTS[2], ENDPOINTS[2]), "0")


def test_a_type_may_not_take_the_name_of_refusals() -> None:
    named_error = msgspec.defstruct("Error", [("a", int)])
    row = Endpoint(method="GET", path="/", handler=handler, summary="", tag="", answer=named_error)
    with pytest.raises(ValueError, match="named Error"):
        openapi_document((row,), "0")
