"""Bodies and queries: what is taken, what is refused, and with which words and places."""

import json
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta

from goqueue.api.endpoint import Endpoint
from goqueue.api.fields import Duration, Time, decode_scalar, encode_scalar
from goqueue.api.members import JoinRequest
from goqueue.api.outgoing_message import PublishRequest
from goqueue.api.problems import PROBLEMS_MAX
from goqueue.api.table import ENDPOINTS
from goqueue.api.validation import _plan_of, decode_body, decode_query, has_repeats
from goqueue.errors import RequestInvalid
from goqueue.quantities import parse_time


class Wait(Duration, most=60):
    """The wait of a reader."""


Order = Literal["oldest", "newest"]
Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Message(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    value: str
    key: Annotated[str, Meta(max_length=5, pattern="^[a-z0-9]*$")] | None = None
    headers: Annotated[dict[str, str], Meta(max_length=2)] | None = None
    priority: Annotated[int, Meta(ge=0, le=4)] = 0
    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    encoding: Literal["base64"] | None = None
    order: Order | None = None
    count: Whole = 0
    note: Whole | str | None = None
    after: Time | None = None
    wait: Wait | None = None
    durable: bool = False


class Batch(msgspec.Struct, forbid_unknown_fields=True):
    messages: Annotated[list[Message], Meta(min_length=1)]


class Page(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    share: Annotated[float, Meta(le=1)] = 1.0
    wait: Wait | None = None
    from_time: Time | None = None
    acks: Literal["none", "leader", "all"] = "leader"
    order: Order = "oldest"
    internal: bool = False


def refusal(body: bytes) -> RequestInvalid:
    with pytest.raises(RequestInvalid) as refused:
        decode_body(Batch, body)
    return refused.value


def problems(fields: str) -> list[tuple[str, str]]:
    """Return the problems of one message with these fields, by place."""
    body = b'{"messages":[{"value":"a",' + fields.encode("utf-8") + b"}]}"
    return [(found["place"], found["problem"]) for found in refusal(body).details["problems"]]


def refused_query(query: str) -> RequestInvalid:
    with pytest.raises(RequestInvalid) as refused:
        decode_query(Page, query)
    return refused.value


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_good_body_becomes_a_value(kind: type) -> None:
    text = '{"messages":[{"value":"ä\\ud83d\\ude00","wait":"500ms","after":"1970-01-01T00:00:01Z","order":"newest"}]}'
    (message,) = decode_body(Batch, kind(text.encode())).messages
    assert message == Message("ä😀", wait=Wait(0.5), after=Time(10**9), order="newest")


@pytest.mark.parametrize(
    ("fields", "name", "problem"),
    [
        ('"priority":7', "priority", "is 7, at most 4 is allowed"),
        ('"priority":-1', "priority", "is -1, at least 0 is needed"),
        ('"ratio":0', "ratio", "is 0, more than 0 is needed"),
        ('"ratio":1.5', "ratio", "is 1.5, less than 1 is needed"),
        ('"key":5', "key", "is a number where text belongs"),
        ('"key":"abcdef"', "key", "has 6 characters, at most 5 are allowed"),
        ('"key":"A"', "key", "is 'A', which does not fit ^[a-z0-9]*$"),
        ('"priority":"1"', "priority", "is text where a whole number belongs"),
        ('"priority":1.0', "priority", "is 1.0 where a whole number belongs"),
        ('"priority":true', "priority", "is true where a whole number belongs"),
        ('"durable":1', "durable", "is a number where true or false belongs"),
        ('"durable":null', "durable", "is null where true or false belongs"),
        ('"headers":[]', "headers", "is a list where an object belongs"),
        ('"headers":{"a":{}}', "headers.a", "is an object where text belongs"),
        ('"headers":{"a b":1}', "headers['a b']", "is a number where text belongs"),
        ('"headers":{"a":"","b":"","c":""}', "headers", "has 3 entries, at most 2 are allowed"),
        ('"encoding":"base32"', "encoding", "is 'base32', not one of base64"),
        ('"order":"first"', "order", "is 'first', not one of newest, oldest"),
        ('"note":[]', "note", "is a list where a whole number or text belongs"),
        ('"wait":"5x"', "wait", "cannot be read: '5x' has the unknown unit 'x': known are d, h, m, s, ms, us, ns"),
        ('"wait":61', "wait", "is 1m1s, at most 1m is allowed"),
        ('"wait":-1', "wait", "is -1 seconds, at least 0s is needed"),
        ('"wait":1e300', "wait", "is 1e+300 seconds, at most 1m is allowed"),
        ('"wait":[]', "wait", "is not a duration: write text such as 500ms, or a number of seconds"),
        ('"after":5', "after", "is not a time: write text such as 2026-03-01T12:00:00Z"),
        ('"key":"a","key":"b"', "key", "is given twice"),
        ('"key":"a","\\u006bey":"b"', "key", "is given twice"),
        ('"headers":{"a":"1","a":"2"}', "headers.a", "is given twice"),
        ('"count":9223372036854775808', "count", "is 9223372036854775808, beyond 64 bits"),
        ('"count":-9223372036854775809', "count", "is -9223372036854775809, beyond 64 bits"),
        ('"ratio":NaN', "ratio", "is NaN, which JSON does not have"),
        ('"ratio":-Infinity', "ratio", "is -Infinity, which JSON does not have"),
        ('"ratio":1e999', "ratio", "is 1e999, beyond what a number holds"),
        ('"key":"\\ud800"', "key", "holds half a character: \\ud800 to \\udfff come in pairs"),
        ('"headers":{"a":"\\udc00"}', "headers.a", "holds half a character: \\ud800 to \\udfff come in pairs"),
    ],
)
def test_problem_has_its_place_and_the_found_value(fields: str, name: str, problem: str) -> None:
    assert problems(fields) == [(f"messages[0].{name}", problem)]


def test_all_problems_are_named_and_the_first_is_the_sentence() -> None:
    refused = refusal(b'{"messages":[{"value":"a"},{"kez":"b","priority":9}]}')
    assert str(refused) == "messages[1].kez is not a known field (2 more problems)"
    assert refused.hint == "did you mean key?"
    assert refused.details["problems"] == [
        {"place": "messages[1].kez", "problem": "is not a known field", "hint": "did you mean key?"},
        {"place": "messages[1].priority", "problem": "is 9, at most 4 is allowed"},
        {"place": "messages[1].value", "problem": "is missing"},
    ]


def test_unknown_field_is_answered_with_the_known_fields() -> None:
    assert refusal(b'{"messages":[{"value":"a"}],"zzzz":1}').hint == "known are messages"


def test_number_of_reported_problems_is_limited() -> None:
    refused = refusal(b'{"messages":[' + b",".join([b"{}"] * 1000) + b"]}")
    assert len(refused.details["problems"]) == PROBLEMS_MAX
    assert str(refused) == "messages[0].value is missing (at least 99 more problems)"


def test_a_name_that_is_no_text_is_shown_harmlessly() -> None:
    ((place, problem), *_) = problems('"headers":{"\\ud800\\u001b[31m":"a"}')
    assert (place, problem.isprintable()) == ("messages[0].headers", True)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "the body is empty, an object belongs here"),
        (b" \n", "the body is empty, an object belongs here"),
        (b"[]", "the body is a list where an object belongs"),
        (b"null", "the body is null where an object belongs"),
        (b"{}", "messages is missing"),
        (b'{"messages":[]}', "messages has 0 items, at least 1 is needed"),
        (b"{", "the body is not JSON at byte 1: it ends too early"),
        (b"\xff", "the body is not UTF-8: byte 0 is 0xff"),
        (b'{"\xed\xa0\x80":1}', "the body is not UTF-8: byte 2 is 0xed"),
        ('{"ä":ä}'.encode(), "the body is not JSON at byte 6: expecting value, where 'ä' stands"),
        (b'{"messages":[{"value":"a"}]} x', "the body is not JSON at byte 29: extra data, where 'x' stands"),
        (
            b'{"messages":[{"value":"a\n"}]}',
            "the body is not JSON at byte 24: invalid control character, where '\\n' stands",
        ),
    ],
)
def test_invalid_body_is_described_in_one_sentence(body: bytes, sentence: str) -> None:
    assert str(refusal(body)) == sentence


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b"\xef\xbb\xbf{}", "leave the byte order mark away"),
        (b"{'messages':[]}", "JSON has double quotes only"),
        (b'{"messages":[1,]}', "a comma stands before the end"),
        (b"\xff", "encode the body as UTF-8"),
    ],
)
def test_frequent_mistakes_of_syntax_have_a_hint(body: bytes, hint: str) -> None:
    assert refusal(body).hint == hint


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"messages":[', b'{"messages":[{"value":"a","extra":['])
def test_deeply_nested_body_is_refused(opening: bytes) -> None:
    for depth in (65, 100_000):
        for body in (opening * depth, b'{"messages":[{"value":"a","extra":' + b"[" * depth + b"]" * depth + b"}]}"):
            refusal(body)


def test_text_full_of_brackets_is_not_deep() -> None:
    value = json.dumps('[[[{"' * 100 + "\\")
    assert decode_body(Batch, f'{{"messages":[{{"value":{value}}}]}}'.encode()).messages[0].value == json.loads(value)


def test_numbers_of_a_million_digits_are_refused_without_being_read() -> None:
    digits = "9" * 1_000_000
    for name in ("priority", "count", "ratio", "extra", "wait", "key", "nothing"):
        ((place, problem), *_) = problems(f'"{name}":{digits}')
        assert place == f"messages[0].{name}"
        assert len(problem) < 100


def test_long_digits_inside_of_text_are_text() -> None:
    assert decode_body(Batch, b'{"messages":[{"value":"99999999999999999999"}]}').messages[0].value == "9" * 20


def test_a_type_that_would_let_unknown_fields_through_is_refused_by_name() -> None:
    class Open(msgspec.Struct):
        name: str

    class Outer(msgspec.Struct, forbid_unknown_fields=True):
        inner: list[Open]

    with pytest.raises(TypeError, match="Open must be declared"):
        decode_body(Outer, b"{}")


@pytest.mark.parametrize(("kind", "problem"), [(Any, "a field of any type"), (int, "a whole number without bounds")])
def test_a_type_that_would_take_more_than_is_allowed_is_refused_by_name(kind: Any, problem: str) -> None:
    outer = msgspec.defstruct("Outer", [("inner", list[kind])], forbid_unknown_fields=True)
    with pytest.raises(TypeError, match=f"Outer has {problem}"):
        decode_body(outer, b"{}")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6) | st.just("base64"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
MESSAGES = st.fixed_dictionaries({}, optional=dict.fromkeys((*Message.__struct_fields__, "values"), JSON_VALUES))


@given(st.lists(st.fixed_dictionaries({"value": st.text(max_size=3)}) | MESSAGES, min_size=1, max_size=3))
def test_any_body_is_decoded_or_refused_with_places(messages: list[Any]) -> None:
    body = json.dumps({"messages": messages}).encode()
    taken, found = outcome(Batch, body)
    if taken is not None:
        assert msgspec.convert({"messages": messages}, Batch, dec_hook=decode_scalar) == taken
    assert all("belongs here:" not in problem["problem"] for problem in found)
    assert all(problem["place"].startswith("messages[") for problem in found)


def outcome(kind: type[msgspec.Struct], body: bytes) -> tuple[Any, list[dict[str, str]]]:
    """The value, or the problems."""
    try:
        return decode_body(kind, body), []
    except RequestInvalid as refused:
        return None, refused.details["problems"]


@given(st.binary(max_size=40) | st.text('{}[]":,\\u0d8ae1.-+ \t\x00é', max_size=40).map(str.encode))
def test_any_bytes_are_refused_with_a_sentence(body: bytes) -> None:
    assert str(refusal(body)).isprintable()


FIELDS = st.sampled_from(
    [
        ('"value"', '"x"'), ('"key"', "null"), ('"key"', '"k"'), ('"headers"', '{"a":"1"}'),
        ('"headers"', '{"a":"1","a":"2"}'),
        ('"partition"', "1"), ('"partition"', "null"), ('"delay"', '"5s"'), ('"delay"', "5"), ('"priority"', '"high"'),
        ('"\\u006bey"', '"k"'), ('"encoding"', '"base64"'), ('"headers"', '{"a":["1","2"]}'),
    ]
)  # fmt: skip


@given(st.lists(st.lists(FIELDS, max_size=4), min_size=1, max_size=3), st.sampled_from([":", " : "]))
def test_a_name_given_twice_is_found_however_the_body_is_written(messages: list[Any], colon: str) -> None:
    written = [",".join(name + colon + text for name, text in [('"value"', '"v"'), *fields]) for fields in messages]
    body = f'{{"messages":[{",".join("{" + one + "}" for one in written)}]}}'.encode()
    if has_repeats(body):
        with pytest.raises(RequestInvalid, match="twice"):
            decode_body(PublishRequest, body)
    else:
        assert len(decode_body(PublishRequest, body).messages) == len(messages)


def test_a_query_becomes_a_value() -> None:
    query = "topic=a%2Fb+c&limit=5&share=0.25&wait=500ms&from_time=2026-03-01T14:00:00%2B02:00&acks=all&internal=true"
    assert decode_query(Page, query + "&order=newest") == Page(
        "a/b c", 5, 0.25, Wait(0.5), Time(parse_time("2026-03-01T12:00:00Z")), "all", "newest", True
    )


def test_parameters_that_are_left_out_have_their_defaults() -> None:
    assert decode_query(Page, "topic=%C3%A4&") == Page("ä")


@pytest.mark.parametrize("text", [" 1", "+1", "%2B1", "1e3", "1_000", "%D9%A3", "1.0", "0x1", "01", "", "9" * 30, "-"])
def test_whole_number_has_only_digits(text: str) -> None:
    assert "where a whole number belongs" in str(refused_query(f"topic=a&limit={text}"))


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("limit=1", "topic is missing"),
        ("topic=a&limit=0", "limit is 0, at least 1 is needed"),
        ("topic=a&limit=1001", "limit is 1001, at most 1000 is allowed"),
        ("topic=a&limit=1&limit=1", "limit is given twice"),
        ("topic=a&share=1.5", "share is 1.5, at most 1 is allowed"),
        ("topic=a&share=inf", "share is 'inf' where a number belongs"),
        ("topic=a&internal=True", "internal is 'True' where true or false belongs"),
        ("topic=a&internal", "internal is '' where true or false belongs"),
        ("topic=a&acks=some", "acks is 'some', not one of all, leader, none"),
        ("topic=a&order=", "order is '', not one of newest, oldest"),
        ("topic=a&wait=2m", "wait is 2m, at most 1m is allowed"),
        ("topic=a&%7F=1", "['\\x7f'] is not a known parameter"),
        ("topic=%zz", "topic has '%zz', which is not an escape sequence"),
        ("topic=%ff", "topic is '%ff', which is not UTF-8"),
        ("topic=\ud800", "topic is '\\ud800', which is not UTF-8"),
        ("%ff=1", "the query is '%ff', which is not UTF-8 (1 more problem)"),
    ],
)
def test_invalid_parameter_is_named(query: str, sentence: str) -> None:
    assert str(refused_query(query)) == sentence


def test_all_invalid_parameters_are_named() -> None:
    found = refused_query("limt=1&limit=0&internal=1").details["problems"]
    assert [(problem["place"], problem.get("hint")) for problem in found] == [
        ("limt", "did you mean limit?"),
        ("internal", None),
        ("topic", None),
        ("limit", None),
    ]


def test_a_plus_sign_that_became_a_space_is_explained() -> None:
    refused = refused_query("topic=a&from_time=2026-03-01T12:00:00+02:00")
    assert refused.hint == "write %2B for a plus sign: + alone is a space"


def test_a_query_with_many_mistakes_is_refused_with_a_bounded_list() -> None:
    refused = refused_query("&".join(f"x{number}=1" for number in range(10_000)))
    assert len(refused.details["problems"]) == PROBLEMS_MAX


@given(st.text(max_size=40) | st.text("topiclm=&%+2F0 ", max_size=40))
def test_any_query_is_a_value_or_a_refusal(query: str) -> None:
    said = ""
    try:
        decode_query(Page, query)
    except RequestInvalid as refused:
        said = str(refused)
    assert said.isprintable()


def test_durations_and_times_go_out_as_they_came_in() -> None:
    class Row(msgspec.Struct, forbid_unknown_fields=True):
        after: Time
        wait: Wait

    row = Row(Time(parse_time("2026-03-01T12:00:00.000000001Z")), Wait(1.5))
    encoded = msgspec.json.encode(row, enc_hook=encode_scalar)
    assert encoded == b'{"after":"2026-03-01T12:00:00.000000001Z","wait":"1.5s"}'
    assert decode_body(Row, encoded) == row


@pytest.mark.parametrize("times", range(2, 9))
def test_repeated_name_is_refused_whatever_defaults_are_left_out(times: int) -> None:
    body = b'{"topics":["t"],' + b",".join([b'"client_id":"m"'] * times) + b"}"
    with pytest.raises(RequestInvalid, match="client_id is given twice"):
        decode_body(JoinRequest, body)


@pytest.mark.parametrize("count", range(1, 9))
def test_repeated_name_is_refused_beside_escaped_quotes(count: int) -> None:
    body = '{"messages":[{"key":"k","key":"k","value":"' + "\\u0022" * count + '"}]}'
    with pytest.raises(RequestInvalid, match="key is given twice"):
        decode_body(PublishRequest, body.encode())


@pytest.mark.parametrize("row", [row for row in ENDPOINTS if row.body], ids=lambda row: row.path)
def test_request_omits_defaults_so_that_repeated_names_are_found_by_their_quotes(row: Endpoint) -> None:
    assert row.body is not None
    assert _plan_of(row.body).omits_defaults
