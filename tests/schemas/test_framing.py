"""The prefix and the header that name a schema, compared with Protobuf's own encoder and a naive twin."""

import pytest
from google.protobuf.internal.encoder import _VarintBytes  # type: ignore[attr-defined]
from google.protobuf.internal.wire_format import ZigZagEncode
from hypothesis import given
from hypothesis import strategies as st

from goqueue.schemas.framing import (
    INDEXES_MAX,
    PREFIX_BYTES,
    FramingInvalid,
    HeaderId,
    decode_header,
    decode_message_indexes,
    decode_prefix,
    encode_header,
    encode_message_indexes,
    encode_prefix,
    has_prefix,
)
from goqueue.schemas.limits import SCHEMA_ID_MAX

ids = st.integers(1, SCHEMA_ID_MAX)
paths = st.lists(st.integers(0, 2**20), min_size=1, max_size=12).map(tuple) | st.just((0,))


def naive_prefix(number: int, path: tuple[int, ...] | None) -> bytes:
    found = bytes([0, number >> 24, number >> 16 & 255, number >> 8 & 255, number & 255])
    if path is None:
        return found
    numbers = [0] if path == (0,) else [len(path), *path]
    return found + b"".join(_VarintBytes(ZigZagEncode(one)) for one in numbers)


@given(ids, st.none() | paths, st.binary(max_size=20))
def test_prefix_has_the_bytes_of_the_naive_twin_and_is_read_back(
    number: int, path: tuple[int, ...] | None, payload: bytes
) -> None:
    prefix = encode_prefix(number, path)
    assert prefix == naive_prefix(number, path)
    assert has_prefix(prefix)
    assert decode_prefix(prefix + payload) == number
    if path is not None:
        assert decode_message_indexes(prefix + payload, PREFIX_BYTES) == (path, len(prefix))


@given(st.binary(max_size=30))
def test_any_bytes_are_read_like_the_naive_twin_writes_them_or_refused(content: bytes) -> None:
    try:
        path, end = decode_message_indexes(content)
    except FramingInvalid:
        pass
    else:
        assert 1 <= len(path) <= INDEXES_MAX
        assert decode_message_indexes(encode_message_indexes(path)) == (path, len(encode_message_indexes(path)))
        assert end <= len(content)
    if has_prefix(content):
        assert decode_prefix(content) == int.from_bytes(content[1:5], "big")
    else:
        with pytest.raises(FramingInvalid):
            decode_prefix(content)


@given(ids, paths)
def test_header_is_read_back_with_its_message(number: int, path: tuple[int, ...]) -> None:
    text = encode_header(number, path)
    assert decode_header(text.encode()) == HeaderId(number, None if path == (0,) else path)


@pytest.mark.parametrize(
    "value",
    ["", "0", "-1", "7.0", " 7", "7:", "7:-1", "7:1,,2", "2147483648", "9" * 40, "7:" + "1," * 200, "٧", "7:9x"],
)
def test_header_without_an_id_is_refused(value: str) -> None:
    with pytest.raises(FramingInvalid):
        decode_header(value.encode())
