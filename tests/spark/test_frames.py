"""Frames made of columns, against the plain codec."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import MessageTooLarge, RequestInvalid
from goqueue.limits import KEY_BYTES_MAX
from goqueue.spark.reading.columns import HEADERS
from goqueue.spark.sink.frames import MessageArrays, encode, encode_headers
from goqueue.spark.sink.rows import read_rows
from goqueue.storage import frame

NAMES = st.text(max_size=8).filter(lambda name: not name.startswith("__"))
PAIRS = st.lists(st.tuples(NAMES, st.binary(max_size=8)), max_size=3)
MESSAGES = st.lists(
    st.tuples(st.binary(max_size=40), st.binary(max_size=8), PAIRS, st.integers(0, 4)), min_size=1, max_size=30
)


@given(MESSAGES)
def test_messages_become_the_frames_that_the_plain_codec_makes(
    messages: list[tuple[bytes, bytes, list[tuple[str, bytes]], int]],
) -> None:
    values, keys, headers, priorities = zip(*messages, strict=True)
    lists = [[{"key": name, "value": value} for name, value in pairs] for pairs in headers]
    found = encode(
        MessageArrays(
            pa.array(values, pa.binary()),
            pa.array(keys, pa.binary()),
            encode_headers(pa.array(lists, HEADERS)),
            np.array(priorities, np.uint8),
        )
    )
    plain = [
        frame.encode(value, key, frame.encode_headers(pairs), priority=priority)
        for value, key, pairs, priority in messages
    ]
    content = found.content.tobytes()
    assert [content[start:end] for start, end in zip(found.edges, found.edges[1:], strict=False)] == plain


@given(MESSAGES, st.data())
def test_some_rows_of_frames_are_the_frames_of_these_rows(
    messages: list[tuple[bytes, bytes, list[tuple[str, bytes]], int]], data: st.DataObject
) -> None:
    values = pa.array([message[0] for message in messages], pa.binary())
    first = data.draw(st.integers(0, len(messages) - 1))
    end = data.draw(st.integers(first + 1, len(messages)))
    some, alone = (
        encode(MessageArrays(values)).rows(first, end),
        encode(MessageArrays(values.slice(first, end - first))),
    )
    content = some.content.tobytes()[some.edges[0] : some.edges[-1]]
    assert (content, some.size, len(some)) == (alone.content.tobytes(), alone.size, len(alone))


def test_lists_of_headers_that_are_null_or_empty_are_no_headers() -> None:
    column = pa.array([None, [], [{"key": "a", "value": None}], None], HEADERS)
    expected = [frame.NO_HEADERS, frame.NO_HEADERS, frame.encode_headers([("a", b"")]), frame.NO_HEADERS]
    assert encode_headers(column).to_pylist() == expected


def test_a_slice_of_headers_has_those_of_its_own_rows() -> None:
    column = pa.array([[{"key": str(number), "value": b""}] * number for number in range(5)], HEADERS)
    assert encode_headers(column.slice(2, 2)).to_pylist() == encode_headers(column).to_pylist()[2:4]


def test_null_as_value_with_a_key_is_a_tombstone() -> None:
    batch = pa.record_batch({"value": pa.array(["x", None]), "key": pa.array([None, "k"])})
    frames = encode(read_rows(batch).messages)
    found = [frame.decode(frames.content.data, int(edge)) for edge in frames.edges[:-1]]
    assert [(one.key, one.value, one.is_tombstone) for one in found] == [(None, b"x", False), (b"k", b"", True)]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"value": [None]}, "a row has neither value nor key"),
        ({"value": ["x", None], "key": ["k", ""]}, "a row has neither value nor key"),
        ({"value": ["x"], "priority": ["urgent"]}, "'urgent' is not a priority"),
        ({"value": ["x"], "priority": [5]}, "'5' is not a priority"),
        ({"value": ["x"], "priority": [-1]}, "'-1' is not a priority"),
        ({"value": ["x"], "headers": [[{"key": None, "value": b""}]]}, "a header has no name"),
        ({"value": ["x"], "headers": [[{"key": "__trace", "value": b""}]]}, "a header has a name that begins with __"),
    ],
)
def test_rows_that_are_no_messages_are_refused(columns: dict[str, list[object]], sentence: str) -> None:
    arrays = {
        name: pa.array(values, HEADERS if name == "headers" else pa.string() if name in ("value", "key") else None)
        for name, values in columns.items()
    }
    with pytest.raises(RequestInvalid) as caught:
        read_rows(pa.record_batch(arrays))
    assert caught.value.sentence == sentence


def test_what_does_not_fit_a_frame_is_refused_with_its_size() -> None:
    with pytest.raises(MessageTooLarge, match=f"the key of a message has {KEY_BYTES_MAX + 1} bytes"):
        encode(MessageArrays(pa.array([b"x"]), pa.array([b"k" * (KEY_BYTES_MAX + 1)])))
    long = pa.array([[{"key": "a", "value": b"x" * 40_000}] * 2], HEADERS)
    with pytest.raises(MessageTooLarge, match="the headers of a message have 80012 bytes"):
        encode_headers(long)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64()])
def test_priorities_are_words_or_numbers_and_null_is_normal(kind: pa.DataType) -> None:
    numbers = read_rows(pa.record_batch({"value": pa.array(["x"] * 3), "priority": pa.array([0, None, 4], kind)}))
    words = read_rows(pa.record_batch({"value": ["x"] * 3, "priority": ["critical", None, "background"]}))
    found = (numbers.messages.priorities, words.messages.priorities)
    assert [list(one) for one in found if one is not None] == [[0, frame.NORMAL, 4]] * 2
