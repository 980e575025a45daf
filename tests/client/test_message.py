"""Messages out of answers, and frames in bulk: what comes out is what the plain codec says."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from goqueue.client.message import Message, check, decode
from goqueue.compression import compress, decompress
from goqueue.errors import ChecksumMismatch, FrameInvalid, GoQueueError, MessageTooLarge, ValueUnreadable
from goqueue.limits import OFFSET_MAX, VALUE_BYTES_MAX
from goqueue.storage import frame

END = OFFSET_MAX + 1
HEADERS = st.lists(st.tuples(st.text(min_size=1, max_size=9), st.binary(max_size=20)), max_size=4)
MESSAGES = st.tuples(
    st.binary(max_size=200),
    st.binary(max_size=20),
    HEADERS,
    st.integers(0, 4),
    st.integers(0, OFFSET_MAX),
    st.integers(0, 2**63 - 1),
)


def encoded(value: bytes, key: bytes, headers: frame.Headers, priority: int, offset: int, time: int) -> bytes:
    return frame.encode(value, key, frame.encode_headers(headers), priority=priority, offset=offset, timestamp_ns=time)


@given(st.lists(MESSAGES, max_size=20))
def test_messages_are_what_the_codec_says(
    messages: list[tuple[bytes, bytes, frame.Headers, int, int, int]],
) -> None:
    frames = [encoded(*message) for message in messages]
    found = decode("t", 3, b"".join(frames), 0, END)
    for message, single in zip(found, map(frame.decode, frames), strict=True):
        assert (message.topic, message.partition) == ("t", 3)
        assert (message.offset, message.timestamp_ns) == (single.offset, single.timestamp_ns)
        assert (message.value, message.key, message.priority) == (single.value, single.key, single.priority)
        assert message.headers == [pair for pair in single.headers if not pair[0].startswith("__")]


def test_only_the_wanted_offsets_and_no_control_frames_are_given() -> None:
    content = b"".join(frame.encode(b"x", offset=n, flags=frame.CONTROL if n == 5 else 0) for n in range(10))
    assert [message.offset for message in decode("t", 0, content, 3, 8)] == [3, 4, 6, 7]


def test_a_tombstone_has_no_value_and_the_broker_keeps_its_headers() -> None:
    headers = frame.encode_headers([("__producer", b"x"), ("a", b"b")])
    (message,) = decode("t", 0, frame.encode(b"", b"k", headers, flags=frame.TOMBSTONE), 0, END)
    assert (message.value, message.is_tombstone, message.key) == (None, True, b"k")
    assert message.headers == [("a", b"b")]


# --- values as programs use them ---


@dataclass
class Order:
    total: int


def message_of(value: bytes, flags: int = 0) -> Message:
    (message,) = decode("orders", 3, frame.encode(value, b"key", offset=7, flags=flags), 0, END)
    return message


def test_a_value_is_read_as_text_and_json() -> None:
    assert message_of("süß".encode()).text == "süß"
    assert message_of(b'{"total": 4}').json() == {"total": 4}
    assert message_of(b'{"total": 4}').json(Order) == Order(4)
    assert message_of(b"null").json() is None


@pytest.mark.parametrize(
    ("value", "read", "problem"),
    [
        (b"a\xff", lambda one: one.text, "is not UTF-8: byte 1 is 0xff"),
        (b"{", lambda one: one.json(), "is not JSON: "),
        (b'"\xff"', lambda one: one.json(), "is not JSON: "),
        (b'{"total": "4"}', lambda one: one.json(Order), "is JSON that does not fit Order: "),
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_place(
    value: bytes, read: Callable[[Message], object], problem: str
) -> None:
    with pytest.raises(ValueUnreadable) as refusal:
        read(message_of(value))
    assert refusal.value.sentence.startswith(f"the value of orders/3@7 {problem}")
    assert refusal.value.details == {"topic": "orders", "partition": 3, "offset": 7}


@pytest.mark.parametrize("read", [lambda one: one.text, Message.json])
def test_a_tombstone_is_neither_text_nor_json(read: Callable[[Message], object]) -> None:
    with pytest.raises(ValueUnreadable, match="tombstone"):
        read(message_of(b"", frame.TOMBSTONE))


@given(st.binary(max_size=400))
def test_bytes_that_are_no_frames_are_refused_with_their_place(content: bytes) -> None:
    if not content:
        assert decode("t", 0, content, 0, END) == []
        return
    with pytest.raises(FrameInvalid) as refusal:
        decode("t", 0, content, 0, END)
    assert 0 <= refusal.value.details["position"] <= len(content)


@given(st.integers(0, 170), st.integers(0, 7))
def test_a_flipped_bit_never_reads_beyond_the_answer(place: int, bit: int) -> None:
    content = bytearray(frame.encode(bytes(100), b"key") + frame.encode(b"next"))
    content[place] ^= 1 << bit
    try:
        for message in decode("t", 0, bytes(content), 0, END):
            assert len(message.value or b"") <= len(content)
            assert len(message.headers) < 20
    except GoQueueError:
        return


def test_an_answer_is_what_its_checksum_says() -> None:
    check(b"123456789", "e3069283")
    check(b"123456789", "E3069283")
    for wrong in ("e3069284", ""):
        with pytest.raises(ChecksumMismatch):
            check(b"123456789", wrong)


# --- compression ---


@given(st.binary(max_size=2000))
def test_a_compressed_value_comes_back(value: bytes) -> None:
    shorter = compress(value)
    if shorter is not None:
        assert len(shorter) < len(value)
        assert decompress(shorter) == value
    assert decompress(zstandard.compress(value)) == value


def test_a_message_is_decompressed_when_it_is_read() -> None:
    shorter = compress(b"x" * 1000)
    assert shorter is not None
    (message,) = decode("t", 0, frame.encode(shorter, flags=frame.COMPRESSED), 0, END)
    assert message.value == b"x" * 1000


def test_a_small_frame_does_not_become_all_memory() -> None:
    declared = zstandard.compress(bytes(VALUE_BYTES_MAX + 1))
    context = zstandard.ZstdCompressor(write_content_size=False).compressobj()
    hidden = context.compress(bytes(VALUE_BYTES_MAX + 1)) + context.flush()
    for bomb in (declared, hidden):
        assert len(bomb) < 10_000
        with pytest.raises(FrameInvalid):
            decompress(bomb)


@pytest.mark.parametrize("value", [b"", b"plain", zstandard.compress(bytes(1000))[:-3]])
def test_a_value_that_cannot_be_decompressed_is_refused(value: bytes) -> None:
    with pytest.raises(FrameInvalid):
        decompress(value)


# --- many frames at once ---


@given(st.lists(st.tuples(st.binary(max_size=60), st.binary(max_size=9))), HEADERS, st.integers(0, 4))
def test_encoding_many_is_encoding_each(
    messages: list[tuple[bytes, bytes]], pairs: frame.Headers, priority: int
) -> None:
    values, keys = [value for value, _ in messages], [key for _, key in messages]
    headers = frame.encode_headers(pairs)
    keyed = [frame.encode(value, key, headers, priority=priority) for value, key in messages]
    bare = [frame.encode(value, None, headers, priority=priority) for value in values]
    assert frame.encode_many(values, keys, headers, priority=priority) == keyed
    assert frame.encode_many(values, None, headers, priority=priority) == bare


def test_encoding_many_refuses_what_encoding_refuses() -> None:
    with pytest.raises(MessageTooLarge):
        frame.encode_many([b"x"], [bytes(0x10000)])
    with pytest.raises(FrameInvalid):
        frame.encode_many([b"x"], priority=9)
