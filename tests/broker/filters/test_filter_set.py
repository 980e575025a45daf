"""Which messages fit: against a twin that decodes every frame and asks plain Python, and case by case."""

import json
import operator
from collections.abc import Iterable
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.filters.filter_batch import FilterBatch
from goqueue.broker.filters.filter_set import FilterSet
from goqueue.broker.filters.grammar import Filter, parse_filters
from goqueue.limits import FILTER_DECOMPRESSED_BYTES, FILTER_INDEX_MAX, VALUE_BYTES_MAX
from goqueue.storage import frame


def fitting(buffer: bytes, *filters: str) -> list[int]:
    """The numbers of the frames that fit."""
    return FilterSet(parse_filters(filters)).sift(FilterBatch([memoryview(buffer)]))


def fits(text: str, value: bytes = b"", key: bytes | None = None, **fields: Any) -> bool:
    headers = frame.encode_headers(fields.pop("headers", []))
    return fitting(frame.encode(value, key, headers, **fields), text) == [0]


def packed(value: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(value)


# --- the twin ---

ORDER: dict[str, Any] = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
NUMBER = json.JSONDecoder(parse_constant=lambda _: None)


def number(content: bytes) -> Any:
    try:
        found = NUMBER.decode(content.decode())
    except ValueError:
        return None
    return found if type(found) in (int, float) else None


def holds(wanted: Filter, content: Any) -> bool:
    """For bytes with bytes, and for what JSON has with what JSON has."""
    named = wanted.operator.removeprefix("!") if wanted.operator in ("!=", "!~") else wanted.operator
    operand: Any = wanted.operand
    if isinstance(content, bytes):
        content = number(content) if not isinstance(operand, str) else content
        operand = operand.encode() if isinstance(operand, str) else operand
    alike = type(content) is type(operand) or {type(content), type(operand)} == {int, float}
    if named == "=":
        return bool(alike and content == operand)
    if named in ORDER:
        return bool(alike and content is not None and ORDER[named](content, operand))
    if not isinstance(content, (str, bytes)):
        return False
    text = str(wanted.operand) if isinstance(content, str) else str(wanted.operand).encode()
    return content.startswith(text) if named == "^=" else text in content  # type: ignore[arg-type, operator]


MISSING = object()


def walk(document: Any, path: Iterable[Any]) -> Any:
    for step in path:
        if isinstance(step, int):
            document = document[step] if isinstance(document, list) and step < len(document) else MISSING
        else:
            document = document.get(step, MISSING) if isinstance(document, dict) else MISSING
    return document


def value_of(message: frame.StoredMessage) -> bytes | None:
    if message.flags & frame.TOMBSTONE:
        return None
    if not message.flags & frame.COMPRESSED:
        return message.value
    if not message.value:  # no frame of zstd is empty
        return None
    try:
        return zstandard.ZstdDecompressor().stream_reader(message.value).read(VALUE_BYTES_MAX)
    except zstandard.ZstdError:
        return None


def twin(wanted: Filter, message: frame.StoredMessage) -> bool:
    negates = wanted.operator in ("!=", "!~")
    if wanted.field == "priority":
        return holds(wanted, message.priority) is not negates
    if wanted.field == "key":
        return holds(wanted, message.key or b"") is not negates
    if wanted.field == "header":
        found = [value for name, value in message.headers if name == wanted.name]
        return bool(found) if not wanted.operator else any(holds(wanted, value) for value in found) is not negates
    value = value_of(message)
    if value is None:
        return False
    if wanted.field == "value":
        return holds(wanted, value) is not negates
    try:
        document = walk(json.loads(value), wanted.path)
    except ValueError:
        return False
    return document is not MISSING if not wanted.operator else holds(wanted, document) is not negates


WORDS = st.text('ab1"\\é{', max_size=3)
NAMES = st.sampled_from(["a", "b", "a b", 'a"', "é", ""])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(), st.floats(allow_nan=False, allow_infinity=False), WORDS
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)
JSON = st.builds(lambda document, plain: json.dumps(document, ensure_ascii=plain).encode(), DOCUMENTS, st.booleans())
VALUES = st.one_of(
    JSON,
    JSON,
    JSON.map(lambda content: content + b"}"),
    st.binary(max_size=5).map(lambda content: b"\xff" + content),
    WORDS.map(str.encode),
    st.just(b""),
)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    value, flags = draw(VALUES), draw(st.sampled_from([0, 0, 0, frame.COMPRESSED, frame.TOMBSTONE, frame.CONTROL]))
    if flags == frame.COMPRESSED and draw(st.booleans()):
        value = packed(value)
    headers = draw(st.lists(st.tuples(st.sampled_from(["a", "b", "__x"]), WORDS.map(str.encode)), max_size=3))
    key = draw(st.none() | WORDS.map(str.encode))
    encoded = frame.encode_headers(headers)
    return frame.encode(
        b"" if flags == frame.TOMBSTONE else value, key, encoded, priority=draw(st.integers(0, 4)), flags=flags
    )


@st.composite
def filters(draw: st.DrawFn) -> str:
    field = draw(st.sampled_from(["key", "value", "header", "json", "json", "priority"]))
    if field == "priority":
        return f"priority{draw(st.sampled_from(['=', '!=', *ORDER]))}{draw(st.integers(0, 4))}"
    if field == "header":
        field = f"header.{draw(st.sampled_from('ab'))}"
    if field == "json":
        steps = draw(st.lists(st.one_of(NAMES, st.integers(0, 2)), min_size=1, max_size=3))
        field += "".join(f"[{step}]" if isinstance(step, int) else f".{json.dumps(step)}" for step in steps)
    there = [""] if "." in field or "[" in field else []
    sign = draw(st.sampled_from([*there, "=", "!=", "~", "!~", "^=", *ORDER]))
    text = draw(st.one_of(WORDS, SCALARS.map(json.dumps)))
    if sign in ORDER and text in ("true", "false", "null"):
        text = "a"
    return f"{field}{sign}{text if sign in ('', '=', '!=') else text or 'a'}" if sign else field


@given(st.lists(frames(), max_size=8), st.lists(filters(), max_size=3))
def test_filter_set_matches_naive_model(messages: list[bytes], texts: list[str]) -> None:
    wanted = parse_filters(texts)
    decoded = [frame.decode(one) for one in messages]
    expected = [
        number
        for number, message in enumerate(decoded)
        if not message.flags & frame.CONTROL and all(twin(one, message) for one in wanted)
    ]
    assert FilterSet(wanted).sift(FilterBatch(map(memoryview, messages))) == expected


@given(st.lists(frames(), min_size=1, max_size=4), filters())
def test_large_batch_gives_the_same_result_as_single_frames(messages: list[bytes], text: str) -> None:
    many = messages * 120  # so that frames are walked, and columns made, at once
    found: list[int] = []
    start = 0
    while start < len(many):  # values that cannot be unpacked end a batch early
        batch = FilterBatch(map(memoryview, many[start:]))
        found += [start + place for place in FilterSet(parse_filters([text])).sift(batch)]
        assert batch.end > 0
        start += batch.end
    alone = [bool(fitting(one, text)) for one in messages]
    assert found == [number for number in range(len(many)) if alone[number % len(messages)]]


# --- what the operators mean ---


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        ("key=a", b"a", True),
        ("key=a", b"ab", False),
        ("key=a", None, False),
        ("key=", None, True),
        ("key!=", None, False),
        ("key!=a", None, True),
        ("key~b", b"abc", True),
        ("key!~b", b"abc", False),
        ("key^=ab", b"abc", True),
        ("key^=b", b"abc", False),
        ("key>9", b"10", True),
        ("key>9", b"ten", False),
        ("key>b", b"ba", True),
        ("key<b", None, True),
        ("key=é", "é".encode(), True),
    ],
)
def test_key_filters(text: str, key: bytes | None, expected: bool) -> None:
    assert fits(text, key=key) is expected


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("json.a=1", b'{"a":1}', True),
        ("json.a=1", b'{"a":1.0}', True),
        ("json.a=1", b'{"a":true}', False),
        ("json.a=1", b'{"a":"1"}', False),
        ('json.a="1"', b'{"a":"1"}', True),
        ("json.a=x", rb'{"a":"\u0078"}', True),
        ("json.a=true", b'{"a":true}', True),
        ("json.a=true", b'{"a":1}', False),
        ("json.a=null", b'{"a":null}', True),
        ("json.a=null", b"{}", False),
        ("json.a!=null", b"{}", True),
        ("json.a!=1", b"{}", True),
        ("json.a!=1", b"no json", False),
        ("json.a!=1", b'[1, 2, "', False),
        ("json.a!=1", b"[1, 2]", True),
        ("json.a!~x", b'{"a":1}', True),
        ("json.a", b'{"a":null}', True),
        ("json.a", b'{"a":{"b":[]}}', True),
        ("json.a={}", b'{"a":{}}', False),
        ("json.a.b", b'{"a":[{"b":1}]}', False),
        ("json.a[0].b", b'{"a":[{"b":1}]}', True),
        ("json[1]>1", b"[1, 2]", True),
        ("json[2]", b"[1, 2]", False),
        ("json.a>1", b'{"a":"2"}', False),
        ("json.a>b", b'{"a":"c"}', True),
        ("json.at>=2026-03-01", b'{"at":"2026-03-01T12:00:00Z"}', True),
        ("json.a=9007199254740993", b'{"a":9007199254740992}', False),
        ("json.a=2", b'{"a":1,"a":2}', True),
        ("json.a=1", b'\xef\xbb\xbf{"a":1}', False),
        ("json.a=1", b'{"a":1} {"a":1}', False),
        ("json.a=1", b'{"a":NaN}', False),
    ],
)
def test_json_filters(text: str, value: bytes, expected: bool) -> None:
    assert fits(text, value) is expected


def test_header_filters_with_repeated_names() -> None:
    headers = [("a", b"x"), ("a", b"y"), ("b", b"z")]
    assert fits("header.a=y", headers=headers)
    assert not fits("header.a=z", headers=headers)
    assert not fits("header.a!=y", headers=headers)
    assert fits("header.a!=z", headers=headers)
    assert fits("header.c!=x", headers=headers)
    assert fits("header.c!=x")
    assert fits("header.b", headers=headers)
    assert not fits("header.c", headers=headers)


def test_value_filters_never_match_tombstones() -> None:
    for text in ("value=", "value!=x", "value!~x", "json.a!=1", "json.a"):
        assert not fits(text, key=b"k", flags=frame.TOMBSTONE), text
    assert fits("key=k", key=b"k", flags=frame.TOMBSTONE)


def test_filters_never_match_control_records() -> None:
    for text in ("key!=x", "value!~x", "priority=2"):
        assert not fits(text, flags=frame.CONTROL), text
    assert fitting(frame.encode(b"", flags=frame.CONTROL)) == []


def test_filters_decompress_values() -> None:
    value = json.dumps({"text": "needle" * 100}).encode()
    assert fits("value~needleneedle", packed(value), flags=frame.COMPRESSED)
    assert fits("json.text^=needle", packed(value), flags=frame.COMPRESSED)
    assert not fits("value~hay", packed(value), flags=frame.COMPRESSED)
    mixed = frame.encode(b"needle") + frame.encode(b"hay") + frame.encode(packed(value), flags=frame.COMPRESSED)
    assert fitting(mixed, "value~needle") == [0, 2]


def test_value_filters_never_match_undecodable_values() -> None:
    for broken in (b"", b"no zstd", packed(b"x" * 100)[:-1], packed(bytes(VALUE_BYTES_MAX + 1))):
        for text in ("value!~x", "value~x", "json.a!=1"):
            assert not fits(text, broken, flags=frame.COMPRESSED)


# --- hostile values ---


@pytest.mark.parametrize(
    "value",
    [
        b"[" * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"a":' * 200_000,
        b'{"b":' + b"[" * 200_000 + b"]" * 200_000 + b',"a":1}',
        b'{"a":"\xff"}',
        b'{"\xff":1, "a":',
        rb'{"a":"\ud800"}',
        b'{"a":' + b"1" * 100_000 + b"}",
        b'{"a":1e999}',
        b'{"a":01}',
        b"\x00" * 1000,
    ],
    ids=range(11),
)
def test_hostile_json_matches_nothing_and_raises_nothing(value: bytes) -> None:
    assert not fits("json.a=1", value)
    assert not fits(f"json.a[{FILTER_INDEX_MAX}].a~x", value)
    assert not fits("json.a<5", value)


def test_decompression_limit_ends_the_batch() -> None:
    bomb = frame.encode(packed(bytes(VALUE_BYTES_MAX)), flags=frame.COMPRESSED)
    batch = FilterBatch([memoryview(bomb * 3)])
    assert FilterSet(parse_filters(["value!~x", "value!~y"])).sift(batch) == [0]
    assert (batch.end, batch.unpacked_bytes) == (1, FILTER_DECOMPRESSED_BYTES)
    assert fitting(bomb * 3, "value!~x", "key=k") == []


def test_decompression_limit_counts_invalid_values() -> None:
    endless = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(VALUE_BYTES_MAX + 1))
    batch = FilterBatch([memoryview(frame.encode(endless, flags=frame.COMPRESSED) * 20)])
    assert FilterSet(parse_filters(["value!~x"])).sift(batch) == []
    assert 0 < batch.end < 20
