"""The plain codec: what goes in comes out, and nothing that was changed on the way is taken for a frame."""

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import FrameInvalid, MessageTooLarge
from goqueue.limits import FRAME_HEADER_BYTES, HEADERS_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX
from goqueue.storage import frame
from tests.storage.samples import KINDS, Fields, fields, flipped, headers, starts, u63

every_kind = pytest.mark.parametrize("whole", KINDS.values(), ids=KINDS.keys())


def with_length(whole: bytes, at: int, count: int, number: int) -> bytes:
    return whole[:at] + number.to_bytes(count, "big") + whole[at + count :]


# --- there and back ---


@given(fields)
def test_a_frame_decodes_to_what_was_encoded(sent: Fields) -> None:
    whole = sent.encode()
    assert frame.verify(whole) == len(whole)
    got = frame.decode(whole)
    assert (got.offset, got.timestamp_ns, got.priority) == (sent.offset, sent.timestamp_ns, sent.priority)
    assert (got.key, got.value, got.headers) == (sent.key or None, sent.value, sent.headers)
    assert got.flags == sent.flags | (frame.HAS_HEADERS if sent.headers else 0)


@given(st.lists(fields, max_size=6), st.binary(max_size=5))
def test_frames_are_decoded_at_any_position(sent: list[Fields], before: bytes) -> None:
    frames = [one.encode() for one in sent]
    content = before + b"".join(frames)
    places = [len(before) + start for start in starts(frames)]
    assert list(frame.walk(content[len(before) :])) == starts(frames)
    assert [frame.decode(content, place) for place in places] == [frame.decode(one) for one in frames]
    assert [frame.offset_at(content, place) for place in places] == [one.offset for one in sent]
    assert [frame.timestamp_at(content, place) for place in places] == [one.timestamp_ns for one in sent]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_frames_accept_any_kind_of_buffer(kind: type) -> None:
    whole = frame.encode(kind(b"value"), kind(b"key"))
    assert frame.decode(kind(whole)) == frame.decode(whole)
    assert frame.verify(kind(whole)) == len(whole)


def test_empty_key_is_stored_as_no_key() -> None:
    assert frame.encode(b"value", b"") == frame.encode(b"value")
    assert frame.decode(frame.encode(b"value", b"")).key is None


def test_empty_headers_are_stored_as_no_headers() -> None:
    assert frame.encode(b"value", None, frame.encode_headers({})) == frame.encode(b"value")
    assert frame.encode(b"value", None, b"\0\0") == frame.encode(b"value")


@given(headers)
def test_headers_keep_their_order_and_may_repeat(pairs: list[tuple[str, bytes]]) -> None:
    assert frame.decode_headers(frame.encode_headers(pairs)) == pairs
    assert frame.encode_headers(dict(pairs)) == frame.encode_headers(list(dict(pairs).items()))


@given(fields, u63, u63)
def test_stamp_equals_encoding_with_offset_and_time(sent: Fields, offset: int, time: int) -> None:
    content = bytearray(b"before" + sent.encode() + b"behind")
    frame.stamp(content, 6, len(content) - 12, offset, time)
    assert content == b"before" + replace(sent, offset=offset, timestamp_ns=time).encode() + b"behind"


def test_is_tombstone_is_true_only_for_tombstones() -> None:
    tombstones = [name for name, whole in KINDS.items() if frame.decode(whole).is_tombstone]
    assert tombstones == ["tombstone"]


# --- what was changed on the way ---


@every_kind
def test_incomplete_frame_is_refused(whole: bytes) -> None:
    for size in range(len(whole)):
        with pytest.raises(FrameInvalid):
            frame.measure(whole[:size])
        with pytest.raises(FrameInvalid):
            frame.decode(whole[:size])


@every_kind
def test_verify_detects_every_flipped_bit(whole: bytes) -> None:
    for position in range(len(whole)):
        for bit in range(8):
            with pytest.raises(FrameInvalid):
                frame.verify(flipped(whole, position, bit))


@every_kind
def test_walk_stops_at_an_invalid_frame(whole: bytes) -> None:
    with pytest.raises(FrameInvalid) as refused:
        list(frame.walk(whole + whole + flipped(whole, len(whole) - 1) + whole))
    assert refused.value.details["position"] == 2 * len(whole)


def test_zeros_are_refused() -> None:
    with pytest.raises(FrameInvalid, match="00 00 instead of 47 51"):
        frame.measure(bytes(4096))


def test_position_behind_the_end_is_refused() -> None:
    for position in (len(KINDS["value"]), len(KINDS["value"]) + 1, 10**6):
        with pytest.raises(FrameInvalid):
            frame.measure(KINDS["value"], position)


@pytest.mark.parametrize(
    ("at", "byte", "sentence"),
    [
        (0, 0x48, "no frame starts here: 48 51"),
        (2, 2, "frame version 2 is not known, 1 is"),
        (3, 0x40, "flags 0x40"),
        (24, 5, "priority 5"),
        (25, 1, "reserved 1"),
        (33, 1, "headers of 1 bytes"),
    ],
)
def test_invalid_header_field_is_named(at: int, byte: int, sentence: str) -> None:
    whole = bytearray(KINDS["value"])
    whole[at] = byte
    with pytest.raises(FrameInvalid, match=sentence):
        frame.measure(whole)


def test_wrong_checksum_is_reported_with_the_right_one() -> None:
    whole = KINDS["empty"]
    right = whole[frame.AT_CRC : frame.AT_OFFSET].hex()
    with pytest.raises(FrameInvalid, match=f"the checksum is {right}, the frame says"):
        frame.verify(flipped(whole, frame.AT_CRC))


# --- lengths that lie ---


@pytest.mark.parametrize("length", [VALUE_BYTES_MAX, VALUE_BYTES_MAX + 1, 2**31, 2**32 - 1])
def test_wrong_value_length_allocates_no_memory(length: int) -> None:
    lying = with_length(KINDS["value"], frame.AT_VALUE_LENGTH, 4, length)
    tracemalloc.start()
    for use in (frame.measure, frame.verify, frame.decode):
        with pytest.raises(FrameInvalid):
            use(lying)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 100_000


@pytest.mark.parametrize("at", [frame.AT_KEY_LENGTH, frame.AT_HEADERS_LENGTH])
def test_length_beyond_the_buffer_is_refused(at: int) -> None:
    with pytest.raises(FrameInvalid, match="the frame says"):
        frame.measure(with_length(KINDS["headers"], at, 2, 0xFFFF))


@every_kind
def test_frame_is_measured_by_its_header(whole: bytes) -> None:
    header = whole[:FRAME_HEADER_BYTES]
    assert frame.measure(header, 0, len(whole)) == len(whole)
    assert frame.measure(b"xx" + header, 2, len(whole) + 1) == len(whole)
    with pytest.raises(FrameInvalid):
        frame.measure(header, 0, len(whole) - 1)
    with pytest.raises(FrameInvalid):
        frame.measure(header[:-1], 0, len(whole))


# --- what does not fit ---


def test_largest_key_value_and_headers_fit_one_frame() -> None:
    most = frame.encode_headers([("h", bytes(HEADERS_BYTES_MAX - 7))])
    assert len(most) == HEADERS_BYTES_MAX
    whole = frame.encode(bytes(VALUE_BYTES_MAX), bytes(KEY_BYTES_MAX), most)
    assert frame.verify(whole) == len(whole)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("key", (b"", bytes(KEY_BYTES_MAX + 1))),
        ("value", (bytes(VALUE_BYTES_MAX + 1),)),
        ("headers", (b"", None, bytes(HEADERS_BYTES_MAX + 1))),
    ],
)
def test_too_large_part_is_refused_with_its_size(name: str, parts: tuple[bytes, ...]) -> None:
    with pytest.raises(MessageTooLarge, match=f"the {name} has {len(parts[-1])} bytes, {len(parts[-1]) - 1} is the"):
        frame.encode(*parts)


@pytest.mark.parametrize("pairs", [[("h", bytes(65_536))], [("h" * 65_536, b"")], [("h", bytes(40_000))] * 2])
def test_headers_that_are_too_large_are_refused(pairs: list[tuple[str, bytes]]) -> None:
    with pytest.raises(MessageTooLarge, match="h"):
        frame.encode_headers(pairs)


def test_headers_that_are_too_many_are_refused() -> None:
    with pytest.raises(MessageTooLarge):
        frame.encode_headers([("", b"")] * 70_000)


def test_a_header_name_must_be_text_that_can_be_written() -> None:
    with pytest.raises(FrameInvalid, match="cannot be encoded"):
        frame.encode_headers({"\ud800": b""})


@pytest.mark.parametrize(
    "wrong",
    [
        {"priority": 5},
        {"priority": -1},
        {"priority": 256},
        {"flags": 0x40},
        {"flags": -1},
        {"offset": -1},
        {"offset": 2**64},
        {"timestamp_ns": 2**64},
    ],
)
def test_number_out_of_range_is_named(wrong: dict[str, Any]) -> None:
    ((name, number),) = wrong.items()
    shown = f"{number:#x}" if name == "flags" else str(number)
    with pytest.raises(FrameInvalid, match=shown):
        frame.encode(b"", **wrong)


# --- headers from elsewhere ---


@given(headers, st.data())
def test_truncated_or_extended_headers_are_refused(pairs: list[tuple[str, bytes]], data: st.DataObject) -> None:
    encoded = frame.encode_headers(pairs)
    for wrong in (encoded[: data.draw(st.integers(0, len(encoded) - 1))], encoded + b"\0"):
        with pytest.raises(FrameInvalid, match="headers"):
            frame.decode_headers(wrong)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_headers_or_refused(content: bytes) -> None:
    try:
        pairs = frame.decode_headers(content)
    except FrameInvalid:
        return
    assert frame.encode_headers(pairs) == content


def test_a_header_name_must_be_utf_8() -> None:
    with pytest.raises(FrameInvalid, match="headers are malformed"):
        frame.decode_headers(b"\0\1\0\1\xff\0\0")
