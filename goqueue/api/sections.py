"""The body of a publication in frames: a section for each partition, back to back.

    u32 partition, u32 length, then that many bytes of frames

The highest bit of the partition says that they are delayed: each of them says when it is due.

A checksum over the whole body stands in a header of the request, and of answers in frames.
"""

import struct
from collections.abc import Iterator

from crc32c import crc32c

from goqueue.api.http.message import Request
from goqueue.errors import ChecksumMismatch, FrameInvalid
from goqueue.limits import SECTIONS_MAX

CHECKSUM_HEADER = "x-goqueue-checksum"
DELAYED = 1 << 31
"""In the number of a section's partition."""
_PREFIX = struct.Struct(">II")


def check_sum(request: Request) -> None:
    """Compare the body with what the request says of it, if it says anything."""
    said = request.headers.get(CHECKSUM_HEADER)
    if said is None:
        return
    found = f"{crc32c(request.body):08x}"
    if said.lower() != found:
        raise ChecksumMismatch(
            f"the body has the checksum {found}, the request says {said[:40]!r}",
            hint=f"{CHECKSUM_HEADER} is the CRC-32C of the whole body as 8 hex digits; send again",
        )


def sections(body: bytearray) -> Iterator[tuple[int, bool, memoryview]]:
    """Each partition, whether its frames are delayed, and the frames.

    Nothing is copied: the frames are stamped where they are.
    """
    view, position, seen = memoryview(body), 0, set()
    while position < len(body):
        if position + _PREFIX.size > len(body):
            raise FrameInvalid(f"a section begins with {_PREFIX.size} bytes, {len(body) - position} are left")
        number, length = _PREFIX.unpack_from(body, position)
        partition, is_delayed = number & ~DELAYED, bool(number & DELAYED)
        position += _PREFIX.size
        if not 0 < length <= len(body) - position:
            raise FrameInvalid(
                f"the section of partition {partition} says {length} bytes, {len(body) - position} are left",
                hint="a section is the partition and the length as u32, then its frames",
            )
        if number in seen:
            raise FrameInvalid(f"partition {partition} has two sections", hint="send its frames in one section")
        seen.add(number)
        if len(seen) > SECTIONS_MAX:
            raise FrameInvalid(f"the body has more than {SECTIONS_MAX:,} sections", hint="send one for each partition")
        yield partition, is_delayed, view[position : position + length]
        position += length


def checksum_of(parts: "tuple[memoryview, ...]") -> str:
    checksum = 0
    for part in parts:
        checksum = crc32c(part, checksum)
    return f"{checksum:08x}"
