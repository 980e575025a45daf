"""Checksums by linearity, against the plain checksum of the same bytes."""

import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from goqueue.storage import checksum

pieces = st.lists(st.binary(max_size=300) | st.integers(0, 70_000).map(bytes), max_size=9)


def lengths(numbers: list[int]) -> checksum.Lengths:
    return np.array(numbers, np.int64)


def registers(contents: list[bytes]) -> checksum.U32:
    return np.array([crc32c(content) for content in contents], np.uint32)


@given(pieces)
@example([])
@example([b""])
@example([b"", b"a", b""])
@example([b"a" * 65_537, b"b" * 65_535, b"c" * 65_536])
@example([b"a" * 16_777_217, b"b"])
def test_combined_checksums_are_the_checksum_of_the_whole(contents: list[bytes]) -> None:
    combined = checksum.combine(registers(contents), lengths(list(map(len, contents))))
    assert combined == crc32c(b"".join(contents))


@pytest.mark.parametrize("count", [1, 2, 3, 129, 1023, 1024, 1025, 4097])
@pytest.mark.parametrize("size", [0, 1, 36, 255, 256, 257])
def test_any_number_of_equal_pieces_can_be_combined(count: int, size: int) -> None:
    contents = [bytes([number % 256]) * size for number in range(count)]
    combined = checksum.combine(registers(contents), lengths([size] * count))
    assert combined == crc32c(b"".join(contents))


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 200_000)), max_size=9))
def test_shift_equals_appending_zeros(given_pairs: list[tuple[int, int]]) -> None:
    before = np.array([register for register, _ in given_pairs], np.uint32)
    shifted = checksum.shift(before, lengths([count for _, count in given_pairs]))
    # A register without the inversions: crc(zeros from c) ^ crc(zeros from 0) leaves the linear part.
    plain = [crc32c(bytes(count), register) ^ crc32c(bytes(count), 0) for register, count in given_pairs]
    assert shifted.tolist() == plain


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**40), st.integers(0, 2**40))
def test_two_shifts_equal_one_by_their_sum(register: int, one: int, other: int) -> None:
    start = np.array([register], np.uint32)
    twice = checksum.shift(checksum.shift(start, lengths([one])), lengths([other]))
    assert twice.tolist() == checksum.shift(start, lengths([one + other])).tolist()


u64 = st.integers(0, 2**64 - 1) | st.integers(0, 300) | st.just(0)
records = st.tuples(st.binary(max_size=20), u64, u64, u64, u64, st.binary(max_size=400) | st.just(bytes(66_000)))


def with_fields(start: bytes, first: int, second: int, rest: bytes) -> int:
    return int(crc32c(start + first.to_bytes(8, "big") + second.to_bytes(8, "big") + rest))


@given(st.lists(records, max_size=6), st.booleans())
def test_checksum_change_is_computed_from_two_fields(
    given_records: list[tuple[bytes, int, int, int, int, bytes]], same_time: bool
) -> None:
    if same_time:
        given_records = [(*one[:3], 5, 9, one[5]) for one in given_records]
    effect = checksum.change(
        np.array([one[1] ^ one[2] for one in given_records], np.uint64),
        np.array([one[3] ^ one[4] for one in given_records], np.uint64),
        lengths([len(one[5]) for one in given_records]),
    )
    before = [with_fields(start, first, second, rest) for start, first, _, second, _, rest in given_records]
    after = [with_fields(start, first, second, rest) for start, _, first, _, second, rest in given_records]
    assert [old ^ change for old, change in zip(before, effect.tolist(), strict=True)] == after
