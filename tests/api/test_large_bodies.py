"""Large bodies: they come to what a plain decoder makes of them, and no shape of one costs much."""

import asyncio
import base64
import json
import tracemalloc
from asyncio import iscoroutine
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goqueue.api import json_scan, message_json, publish_body
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import status_of
from goqueue.api.message_json import to_bytes
from goqueue.api.openapi import openapi_document
from goqueue.api.outgoing_message import PublishRequest
from goqueue.api.table import ENDPOINTS
from goqueue.api.validation import BodyDecoder, decode_body, too_large
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.limits import (
    BATCH_MESSAGES_MAX,
    DECODED_AT_ONCE_BYTES,
    JSON_DEPTH_MAX,
    MESSAGE_HEADERS_MAX,
    MIB,
    PUBLISH_MESSAGES_MAX,
    REQUEST_BYTES,
    SECTIONS_MAX,
)
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import frames, section, send
from tests.brokers import ask, create, read

# --- the worst bodies that the OpenAPI document allows to write ---

DOCUMENT = openapi_document(ENDPOINTS, "1")
COMPONENTS = DOCUMENT["components"]["schemas"]
SMALLEST_BYTES = DECODED_AT_ONCE_BYTES + 10_000
"""Of a large body; more of the same is refused sooner, since the limits of numbers do not grow."""
FLOOR_BYTES = 16 * MIB
"""What as many values as one request may have need, however few bytes they are."""


class Hole(NamedTuple):
    """A body with a place for as many units as fit."""

    name: str
    head: str
    unit: Callable[[int], str]
    separator: str
    tail: str

    def filled(self, size: int) -> bytearray:
        count = size // len(self.unit(0xFFFF) + self.separator)
        if self.unit(0) == self.unit(1):
            units = (self.unit(0) + self.separator) * (count - 1) + self.unit(0)
        else:
            units = self.separator.join(map(self.unit, range(count)))
        return bytearray((self.head + units + self.tail).encode())


def plain(schema: dict[str, Any]) -> dict[str, Any]:
    while True:
        if "$ref" in schema:
            schema = COMPONENTS[schema["$ref"].rpartition("/")[2]]
        elif "anyOf" in schema:
            schema = next(one for one in schema["anyOf"] if one != {"type": "null"})
        else:
            return schema


def smallest(schema: dict[str, Any]) -> str:
    schema = plain(schema)
    if "enum" in schema:
        return json.dumps(schema["enum"][0])
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        return "{" + ",".join(f'"{name}":{smallest(fields[name])}' for name in schema.get("required", ())) + "}"
    text = json.dumps("x" * schema.get("minLength", 0))
    return {"string": text, "integer": "0", "number": "0", "boolean": "true", "array": "[]"}.get(str(kind), "null")


def holes(schema: dict[str, Any], name: str, head: str, tail: str) -> Iterator[Hole]:
    for option in map(plain, schema.get("anyOf", [schema])):
        kind = option.get("type")
        if kind == "array":
            item = option.get("items") or {"type": "integer"}
            yield Hole(f"{name}[]", head + "[", repeated(smallest(item)), ",", "]" + tail)
            yield Hole(f"{name}[[]]", head + "[", repeated("[]"), ",", "]" + tail)
            yield from holes(item, f"{name}[]", head + "[", "]" + tail)
        elif kind == "object":
            yield Hole(f"{name}{{}}", head + "{", named("0"), ",", "}" + tail)
            if isinstance(value := option.get("additionalProperties"), dict):
                yield Hole(f"{name}{{*}}", head + "{", named(smallest(value)), ",", "}" + tail)
                yield from holes(value, f"{name}.*", head + '{"0":', "}" + tail)
            for field, inner in option.get("properties", {}).items():
                others = [one for one in option.get("required", ()) if one != field]
                before = "".join(f'"{one}":{smallest(option["properties"][one])},' for one in others)
                yield from holes(inner, f"{name}.{field}", head + "{" + before + f'"{field}":', "}" + tail)
        elif kind == "string":
            yield Hole(f"{name} text", head + '"', repeated("\\n"), "", '"' + tail)
        elif kind in ("integer", "number"):
            yield Hole(f"{name} digits", head, repeated("9"), "", tail)


def repeated(text: str) -> Callable[[int], str]:
    return lambda _: text


def named(text: str) -> Callable[[int], str]:
    return lambda number: f'"{number:x}":{text}'


def worst_bodies(row: Endpoint) -> Iterator[Hole]:
    content = DOCUMENT["paths"][row.path][row.method.lower()]["requestBody"]["content"]["application/json"]
    return holes(content["schema"], "", "", "")


async def decoded(row: Endpoint, body: bytearray) -> Any:
    value = BodyDecoder().decode(row, body)
    return await value if iscoroutine(value) else value


def refusal_of(row: Endpoint, body: bytearray) -> GoQueueError | None:
    try:
        if row.body_bytes is not None and len(body) > row.body_bytes:
            raise too_large(row, body)
        asyncio.run(decoded(row, body))
    except GoQueueError as error:
        return error
    return None


WITH_BODY = {f"{row.method} {row.path}": row for row in ENDPOINTS if row.body is not None}


DIFFERENT = {(row.body, row.body_bytes, row.decode_large): row for row in WITH_BODY.values()}
"""Several endpoints take bodies of one type, and decode them alike."""


@pytest.mark.parametrize("row", DIFFERENT.values(), ids=lambda row: f"{row.method} {row.path}")
def test_the_worst_body_for_each_field_is_taken_or_refused_in_few_words(row: Endpoint) -> None:
    different = {(hole.name.rpartition(".")[2], hole.unit(0)): hole for hole in worst_bodies(row)}
    for hole in different.values():
        refused = refusal_of(row, hole.filled(SMALLEST_BYTES))
        assert refused is None or status_of(type(refused)) in (400, 413), hole.name
        assert len(str(refused)) < 1_000, hole.name


SHAPES = {
    "lists": ("POST /groups/{group}/settle", ".acks[].ranges[[]]"),
    "ranges": ("POST /groups/{group}/settle", ".acks[].ranges[][]"),
    "texts": ("POST /messages/ack", ".receipt_handles[]"),
    "names": ("POST /groups/{group}/offsets", ".offsets{*}"),
    "numbers": ("POST /groups/{group}/offsets", ".offsets.*{*}"),
    "header values": ("POST /topics/{topic}/messages", ".messages[].headers.*[]"),
    "header names": ("POST /topics/{topic}/messages", ".messages[].headers{*}"),
    "messages": ("POST /topics/{topic}/messages", ".messages[]"),
    "value": ("POST /topics/{topic}/messages", ".messages[].value text"),
}


@pytest.mark.parametrize("size", [SMALLEST_BYTES, REQUEST_BYTES])
@pytest.mark.parametrize(("row", "name"), SHAPES.values(), ids=SHAPES)
def test_decoding_costs_at_most_four_times_the_bytes_beside_a_floor(row: str, name: str, size: int) -> None:
    body = next(hole for hole in worst_bodies(WITH_BODY[row]) if hole.name == name).filled(size)
    tracemalloc.start()
    refusal_of(WITH_BODY[row], body)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * len(body) + FLOOR_BYTES


def reference(body: bytes) -> Any:
    found = decode_body(PublishRequest, body).messages
    return [((one.value or "").encode(), one.key, one.headers, one.priority) for one in found]


LETTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from('\\"/\n{}[],:\N{GRINNING FACE}')
texts, values_of_messages = st.text(LETTERS, max_size=3), st.text(LETTERS, max_size=60)
messages = st.lists(
    st.fixed_dictionaries(
        {"value": values_of_messages},
        optional={"key": texts, "headers": st.dictionaries(texts, texts | st.lists(texts, min_size=1, max_size=3))},
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_scan, "_PIECE_BYTES", 13)
    monkeypatch.setattr(json_scan, "LONG_STRING_BYTES", 40)
    monkeypatch.setattr(publish_body, "DECODED_AT_ONCE_BYTES", 150)
    monkeypatch.setattr(publish_body, "_KEPT_AS_TEXT", 5)
    monkeypatch.setattr(publish_body, "_PIECE_BYTES", 24)
    monkeypatch.setattr(message_json, "_BASE64_BYTES", 72)


@pytest.mark.usefixtures("small_pieces")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=messages, is_ascii=st.booleans(), indent=st.none() | st.integers(0, 2))
def test_messages_decoded_in_pieces_are_those_decoded_at_once(
    wanted: list[dict[str, Any]], is_ascii: bool, indent: int | None
) -> None:
    body = json.dumps({"messages": wanted}, ensure_ascii=is_ascii, indent=indent).encode()
    found = publish_body.decode_publish(PublishRequest, bytearray(body)).messages
    assert [(to_bytes(one.value or "", None), one.key, one.headers, one.priority) for one in found] == reference(body)


@pytest.mark.usefixtures("small_pieces")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\\"\n\U0001f600'), max_size=200),
    is_ascii=st.booleans(),
)
def test_long_text_in_pieces_is_the_text_as_a_whole(text: str, is_ascii: bool) -> None:
    body = json.dumps(text, ensure_ascii=is_ascii).encode()
    assert publish_body.decode_text(body, 1, len(body) - 1).decode() == text


@pytest.mark.usefixtures("small_pieces")
@given(content=st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_long_base64_in_pieces_is_the_content_as_a_whole(content: bytes) -> None:
    assert publish_body.decode_base64(base64.b64encode(content)) == content
    assert message_json.encode_base64(content) == base64.b64encode(content).decode()


def test_base64_that_ends_in_the_middle_is_refused() -> None:
    piece = base64.b64encode(b"x" * (publish_body._PIECE_BYTES // 4 * 3 - 1))
    with pytest.raises(ValueError, match="padding"):
        publish_body.decode_base64(piece + piece)


@pytest.mark.usefixtures("small_pieces")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text('{}[],:"\\ax', max_size=60))
def test_the_structure_is_what_reading_byte_by_byte_finds(text: str) -> None:
    marks, depths, depth, is_inside, is_escaped = [], [], 0, False, False
    for mark in text:
        if mark == '"' and not is_escaped:
            is_inside = not is_inside
        elif mark in "{}[],:" and not is_inside:
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(mark, 0)
            marks.append(mark)
            depths.append(depth)
        is_escaped = mark == "\\" and not is_escaped
    found = json_scan.scan(text.encode() or b" ", 1000)
    assert (bytes(found.marks).decode(), found.depths.tolist()) == ("".join(marks), depths)


LARGE = "x" * DECODED_AT_ONCE_BYTES
MALFORMED = {
    "value is a number": (f'{{"messages":[{{"value":"{LARGE}"}},{{"value":1}}]}}', "messages[1].value is a number"),
    "value is missing": (f'{{"messages":[{{"value":"{LARGE}"}},{{}}]}}', "messages[1].value is missing"),
    "large value twice": (f'{{"messages":[{{"value":"{LARGE}","value":""}}]}}', "messages[0].value is given twice"),
    "name twice": (
        f'{{"messages":[{{"value":"{LARGE}"}},{{"value":"","key":"a","k\\u0065y":""}}]}}',
        "messages[1].key is given twice",
    ),
    "list twice": (f'{{"messages":[{{"value":"{LARGE}"}}],"messages":[]}}', "messages is given twice"),
    "unknown field": (f'{{"messages":[{{"value":"{LARGE}"}}],"x":1}}', "x is not a known field"),
    "another list": (f'{{"x":["{LARGE}"],"messages":[]}}', "x is not a known field"),
    "comma too many": (f'{{"messages":[{{"value":"{LARGE}"}},]}}', "messages[1] is empty"),
    "cut": (f'{{"messages":[{{"value":"{LARGE}"}}', "the body is not one JSON object with a list of messages"),
    "rest": (f'{{"messages":[{{"value":"{LARGE}"}}]}}{{}}', "the body is not one JSON object with a list of messages"),
    "deep": (f'{{"messages":[{{"value":"{LARGE}","key":{"[" * JSON_DEPTH_MAX}', "the body is nested deeper than"),
    "lone surrogate": (f'{{"messages":[{{"value":"{LARGE}\\ud800"}}]}}', "messages[0].value is not text"),
    "control character": (f'{{"messages":[{{"value":"{LARGE}\n"}}]}}', "messages[0].value is not text"),
    "no base64": (f'{{"messages":[{{"value":"{LARGE}!","encoding":"base64"}}]}}', "messages[0].value is not base64"),
    "large key": (f'{{"messages":[{{"key":"{LARGE}","value":""}}]}}', "messages[0] has a text of"),
    "too many": ('{"messages":[' + "{}," * 100_000 + "{}]}", "messages has 100,001 items, at most 10,000"),
}


@pytest.mark.parametrize(("body", "problem"), MALFORMED.values(), ids=MALFORMED)
def test_large_body_is_refused_with_the_place_of_the_problem(body: str, problem: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        publish_body.decode_publish(PublishRequest, bytearray(body.encode()))
    assert str(refused.value).partition(": ")[2].startswith(problem) or problem in str(refused.value)


def test_large_body_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(RequestInvalid, match="not UTF-8"):
        publish_body.decode_publish(PublishRequest, bytearray(b'{"messages":[{"value":"%b\xff"}]}' % LARGE.encode()))


# --- over HTTP ---


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with LocalBroker(str(tmp_path_factory.mktemp("data"))) as broker:
        create(broker.url, "t", max_message_bytes=16 * MIB)
        yield broker.url


def test_body_larger_than_the_endpoint_needs_is_refused_with_both_sizes(url: str) -> None:
    answer = ask(url, "POST", "/messages/ack", b" " * (REQUEST_BYTES + 1))
    assert (answer.status, answer.code) == (413, "request_too_large")
    assert answer.json["error"] == "the body has 4,194,305 bytes, POST /messages/ack takes at most 4,194,304"


@pytest.mark.parametrize("encoding", ["utf-8", "base64"])
def test_large_value_is_stored_unchanged(url: str, encoding: str) -> None:
    create(url, f"large-{encoding}", max_message_bytes=16 * MIB)
    content = "\N{GRINNING FACE}\n" * 100_000
    value = content if encoding == "utf-8" else base64.b64encode(content.encode()).decode()
    sent = {"messages": [{"value": value, "encoding": encoding, "key": "k"}, {"value": "next"}]}
    assert ask(url, "POST", f"/topics/large-{encoding}/messages", sent).status == 200
    assert [one["value"] for one in read(url, f"large-{encoding}", query="max_bytes=16000000")] == [content, "next"]


def test_most_messages_of_a_request_are_all_stored(url: str) -> None:
    create(url, "many")
    sent = {"messages": [{"value": str(number)} for number in range(PUBLISH_MESSAGES_MAX)]}
    results = ask(url, "POST", "/topics/many/messages", sent).json["results"]
    assert [one["offset"] for one in results] == list(range(PUBLISH_MESSAGES_MAX))


def test_message_with_too_many_headers_is_refused_as_json(url: str) -> None:
    sent = {"messages": [{"value": "", "headers": {"a": [""] * (MESSAGE_HEADERS_MAX + 1)}}]}
    answer = ask(url, "POST", "/topics/t/messages", sent)
    assert (answer.status, answer.code) == (400, "request_invalid")
    assert answer.json["error"].startswith("messages[0].headers has 257 headers, at most 256")


TOO_MANY: dict[str, Callable[[], bytes]] = {
    "headers": lambda: section(0, frames([b"first"]) + frame.encode(b"", headers=headers_of(MESSAGE_HEADERS_MAX + 1))),
    "sections": lambda: b"".join(section(number, b"x") for number in range(SECTIONS_MAX + 1)),
    "messages": lambda: section(0, frames([b""]) * (BATCH_MESSAGES_MAX + 1)),
}


def headers_of(count: int) -> bytes:
    return frame.encode_headers([("a", b"")] * count)


@pytest.mark.parametrize("body", TOO_MANY.values(), ids=TOO_MANY)
def test_frames_with_too_many_parts_are_refused(url: str, body: Callable[[], bytes]) -> None:
    answer = send(url, body())
    assert (answer.status, answer.code) == (400, "frame_invalid")


def test_message_with_the_most_headers_is_stored(url: str) -> None:
    assert send(url, section(0, frame.encode(b"", headers=headers_of(MESSAGE_HEADERS_MAX)))).status == 200
