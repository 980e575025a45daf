"""Telling a torn write from damage by the bytes, where no mark says how far a segment was synced.

A write that was not synced when the power failed is on the device in part. Each sector of it holds
the bytes from its start up to some byte, and zeros behind them: file systems never show what was on the
device before. So a torn write has zeros up to the end of a sector, or ends with the file.

Damage to something that was synced leaves the other bytes as they were. The end of a sector is then
rarely zero by chance. Where it is, for instance in a value of zeros, one turned bit still tells: the
checksum of a frame says which single bit would make it sound again.
"""

import numpy as np
from crc32c import crc32c

from goqueue.limits import FRAME_BYTES_MAX, FRAME_HEADER_BYTES, SECTOR_BYTES
from goqueue.storage import checksum, frame
from goqueue.storage.scan import Bytes


def is_torn_write(content: Bytes, position: int, *, is_file_end: bool) -> bool:
    """Whether bytes that are not frames, and that begin at `position` of a file, are an unfinished write."""
    if _has_one_bad_bit(content):
        return False
    return is_file_end or _has_zeros_before_sector_end(content, position)


def _has_zeros_before_sector_end(content: Bytes, position: int) -> bool:
    last_bytes = content[(-position - 1) % SECTOR_BYTES :: SECTOR_BYTES]
    return bool((last_bytes == 0).any())


def _has_one_bad_bit(content: Bytes) -> bool:
    """Whether this is one frame in which a single bit is wrong."""
    if not FRAME_HEADER_BYTES <= len(content) <= FRAME_BYTES_MAX:
        return False
    excess = abs(len(content) - frame.length_at(content.data))
    if excess & (excess - 1):  # one bit of a length changes it by a power of two
        return False
    covered = np.concatenate((content[: frame.AT_CRC], np.zeros(4, np.uint8), content[frame.AT_OFFSET :]))
    return checksum.is_one_bit_off(crc32c(covered.data) ^ frame.checksum_at(content.data), len(content))
