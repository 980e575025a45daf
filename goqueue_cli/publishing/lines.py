"""Lines of a file or a pipe as they come, many at once: what is there is never held back for more."""

import os
from collections.abc import Iterator
from contextlib import suppress

from goqueue.errors import MessageTooLarge
from goqueue.limits import MIB, VALUE_BYTES_MAX

_STEP_BYTES = MIB
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ of Linux


def read_lines(file: int) -> Iterator[list[bytes]]:
    """Lists of lines without their ends; the last one may lack its end."""
    _widen(file)
    number, parts, held = 0, [], 0
    while content := os.read(file, _STEP_BYTES):
        parts.append(content)
        held += len(content)
        if b"\n" in content:
            *lines, rest = b"".join(parts).split(b"\n")
            number += len(lines)
            parts, held = [rest], len(rest)
            yield lines
        if held > VALUE_BYTES_MAX:
            raise MessageTooLarge(f"line {number + 1} is longer than {VALUE_BYTES_MAX} bytes, the most of any message")
    if rest := b"".join(parts):
        yield [rest]


def read_whole(file: int) -> bytes:
    """All of it, up to what no message may exceed."""
    parts, held = [], 0
    while content := os.read(file, _STEP_BYTES):
        parts.append(content)
        held += len(content)
        if held > VALUE_BYTES_MAX:
            raise MessageTooLarge(f"it is longer than {VALUE_BYTES_MAX} bytes, the most of any message")
    return b"".join(parts)


def _widen(file: int) -> None:
    """A pipe of 64 KiB wakes its reader for every few hundred lines."""
    import fcntl  # noqa: PLC0415

    with suppress(OSError):
        fcntl.fcntl(file, _SET_PIPE_SIZE, _STEP_BYTES)
