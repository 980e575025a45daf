"""Sources of messages: arguments, lines of files or of a pipe, or whole files."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.message_fields import Header
from goqueue.errors import AccessDenied, MessageTooLarge, PathInvalid, RequestInvalid
from goqueue.limits import MIB, VALUE_BYTES_MAX

if TYPE_CHECKING:
    from goqueue.client import Deliveries, Nanoseconds, Producer, Transaction

_STEP_BYTES = MIB
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ of Linux


class Shared(NamedTuple):
    """The properties that all messages of a chunk share."""

    headers: Sequence[Header] = ()
    partition: int | None = None
    priority: int | str = "normal"
    delay: float | str | None = None
    deliver_at: "Nanoseconds | str | None" = None


class MessageChunk(NamedTuple):
    """Values, optional keys and shared properties: bytes, or values of a schema. A value of None is a tombstone."""

    values: Sequence[Any]
    keys: Sequence[Any] | None
    shared: Shared

    def cut(self, first: int, end: int) -> "MessageChunk":
        keys = None if self.keys is None else self.keys[first:end]
        return MessageChunk(self.values[first:end], keys, self.shared)

    def send(self, producer: "Producer | Transaction", topic: str) -> "Deliveries":
        from goqueue.client.message_encoding import as_priority  # noqa: PLC0415 - with the SDK

        headers, partition, priority, delay, deliver_at = self.shared
        urgency = as_priority(priority)
        return producer.send_many(
            topic, self.values, self.keys, headers, partition, urgency, delay=delay, deliver_at=deliver_at
        )


Lines = Iterator[list[bytes]]


class InputFiles:
    """The input files, where - is stdin, and how much of them was read."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._file: int | None = None
        self._before = 0
        self._size = sum(map(_size, names)) if all(map(os.path.isfile, names)) else None

    def lines(self) -> Lines:
        return self._each(read_lines)

    def wholes(self) -> Lines:
        return self._each(lambda file: iter([[read_whole(file)]]))

    def share(self) -> float | None:
        """Return the share of all bytes that was read, if the sizes are known."""
        if not self._size:
            return None
        here = 0 if self._file is None else os.lseek(self._file, 0, os.SEEK_CUR)
        return min(1.0, (self._before + here) / self._size)

    def _each(self, read: Callable[[int], Lines]) -> Lines:
        for name in self._names:
            with _open(name) as file:
                self._file = file
                yield from read(file)
                self._file = None
            self._before += _size(name)


def _size(name: str) -> int:
    try:
        return os.path.getsize(name)
    except OSError:
        return 0  # opening it reports the problem


def of_arguments(values: Sequence[str]) -> Lines:
    yield [os.fsencode(value) for value in values]


def keyed(given: Lines, key: str | None, separator: str | None, shared: Shared) -> Iterator[MessageChunk]:
    """Yield lines with the keys that the flags give them."""
    if separator is not None:
        yield from _split(given, os.fsencode(separator), shared)
        return
    encoded = None if key is None else os.fsencode(key)
    for values in given:
        yield MessageChunk(values, None if encoded is None else [encoded] * len(values), shared)


def _split(given: Lines, separator: bytes, shared: Shared) -> Iterator[MessageChunk]:
    """Split each line at the first separator; lines before a wrong one are published."""
    count = 0
    for lines in given:
        parts = [line.partition(separator) for line in lines]
        wrong = next((place for place, (_, found, _) in enumerate(parts) if not found), len(parts))
        if wrong:
            yield MessageChunk([value for _, _, value in parts[:wrong]], [key for key, _, _ in parts[:wrong]], shared)
        if wrong < len(parts):
            raise RequestInvalid(
                f"message {count + wrong + 1} has no {separator.decode(errors='replace')!r} "
                "between its key and its value",
                hint="without --key-separator whole lines are published",
            )
        count += len(parts)


def limited(chunks: Iterable[MessageChunk], count: int | None) -> Iterator[MessageChunk]:
    """Yield up to `count` messages, without waiting for the next one."""
    if count is None:
        yield from chunks
        return
    if not count:
        return
    for chunk in chunks:
        yield chunk if len(chunk.values) <= count else chunk.cut(0, count)
        count -= len(chunk.values)
        if count <= 0:
            return


@contextmanager
def _open(name: str) -> Iterator[int]:
    if name == "-":
        if sys.stdin is None:
            raise UsageInvalid("stdin is closed", hint="give messages as arguments, or use --file")
        if sys.stdin.isatty():
            terminal.say("one message per line; ^D ends the input")
        yield sys.stdin.fileno()
        return
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise AccessDenied(f"{name} may not be read", hint="check owner and mode") from None
    except OSError as error:
        raise _unreadable(name, error) from None
    try:
        yield file
    except OSError as error:  # the first read of a directory fails
        raise _unreadable(name, error) from None
    finally:
        os.close(file)


def _unreadable(name: str, error: OSError) -> PathInvalid:
    return PathInvalid(f"{name} cannot be read: {error.strerror or error}", hint="--file takes a file, or - for stdin")


# --- reading ---


def read_lines(file: int) -> Iterator[list[bytes]]:
    """Yield lists of lines without their newlines, as soon as they arrive; the last one may have none."""
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
            raise MessageTooLarge(
                f"line {number + 1} is longer than {VALUE_BYTES_MAX} bytes, the maximum of any message"
            )
    if rest := b"".join(parts):
        yield [rest]


def read_whole(file: int) -> bytes:
    """Read a whole file, up to the maximum size of a message."""
    parts, held = [], 0
    while content := os.read(file, _STEP_BYTES):
        parts.append(content)
        held += len(content)
        if held > VALUE_BYTES_MAX:
            raise MessageTooLarge(f"it is longer than {VALUE_BYTES_MAX} bytes, the maximum of any message")
    return b"".join(parts)


def _widen(file: int) -> None:
    """Enlarge a pipe: 64 KiB would wake the reader for every few hundred lines."""
    import fcntl  # noqa: PLC0415

    with suppress(OSError):
        fcntl.fcntl(file, _SET_PIPE_SIZE, _STEP_BYTES)
