"""Torn writes are told from damage to synced bytes."""

import numpy as np
import pytest
from crc32c import crc32c

from goqueue.limits import SECTOR_BYTES
from goqueue.storage import checksum, frame
from goqueue.storage.segment_scan import is_torn_write
from tests.storage.samples import flipped

TEXT = frame.encode(bytes(range(1, 251)) * 5, b"key", offset=7, timestamp_ns=2**60)
ZEROS = frame.encode(bytes(2000), b"key", offset=7, timestamp_ns=2**60)
START = 200  # within a sector, as most frames


def is_torn(content: bytes, *, is_file_end: bool = False) -> bool:
    return is_torn_write(np.frombuffer(bytearray(content), np.uint8), START, is_file_end=is_file_end)


def sector_ends(content: bytes) -> range:
    return range(SECTOR_BYTES - START, len(content), SECTOR_BYTES)


@pytest.mark.parametrize("whole", [TEXT, ZEROS], ids=["text", "zeros"])
@pytest.mark.parametrize("is_file_end", [False, True])
def test_flipped_bit_is_not_a_torn_write(whole: bytes, is_file_end: bool) -> None:
    for position in range(0, len(whole), 3):
        assert not is_torn(flipped(whole, position, position % 8), is_file_end=is_file_end), position


def test_overwritten_bytes_are_not_a_torn_write() -> None:
    assert not is_torn(TEXT[:100] + b"overwritten" * 20 + TEXT[320:])


@pytest.mark.parametrize("is_file_end", [False, True])
def test_zeros_to_the_sector_end_are_a_torn_write(is_file_end: bool) -> None:
    for end in sector_ends(TEXT):
        for start in range(max(0, end - SECTOR_BYTES), end - 1):
            torn = TEXT[:start] + bytes(end - start) + TEXT[end:]
            assert is_torn(torn, is_file_end=is_file_end), (start, end)


def test_unwritten_sectors_are_a_torn_write() -> None:
    first, second = sector_ends(TEXT)[:2]
    assert is_torn(TEXT[:first] + bytes(second - first) + TEXT[second:])
    assert is_torn(bytes(len(TEXT)))
    assert is_torn(bytes(100_000))


def test_frame_cut_by_the_file_end_is_a_torn_write() -> None:
    for size in range(1, len(TEXT)):
        assert is_torn(TEXT[:size], is_file_end=True), size


@pytest.mark.parametrize("length", [1, 4, 33, 700])
def test_one_bit_change_is_recognized_by_checksum(length: int) -> None:
    content = bytes(range(256)) * 3
    content, sound = content[:length], crc32c(content[:length])
    for position in range(length):
        once = flipped(content, position, position % 8)
        twice = flipped(once, length - 1 - position, (position + 1) % 8)
        assert checksum.is_one_bit_off(sound ^ crc32c(once), length)
        assert not checksum.is_one_bit_off(sound ^ crc32c(twice), length)
    assert all(checksum.is_one_bit_off(1 << bit, length) for bit in range(32))
    assert not checksum.is_one_bit_off(0, length)
