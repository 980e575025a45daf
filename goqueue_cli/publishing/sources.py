"""Messages as they are given: as arguments, as lines of files or of a pipe, or a whole file each."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.errors import AccessDenied, PathInvalid, RequestInvalid
from goqueue.quantities import quoted
from goqueue_cli.publishing.lines import read_lines, read_whole

if TYPE_CHECKING:
    from goqueue.client import Deliveries, Nanoseconds, Producer, Transaction

Header = tuple[str, bytes]


class Shared(NamedTuple):
    """What messages that are handed over together have in common."""

    headers: Sequence[Header] = ()
    partition: int | None = None
    priority: int | str = "normal"
    delay: float | str | None = None
    deliver_at: "Nanoseconds | str | None" = None


class Chunk(NamedTuple):
    """Values, a key for each where there are keys, and what they share. A value of None deletes its key."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes] | None
    shared: Shared

    def cut(self, first: int, end: int) -> "Chunk":
        keys = None if self.keys is None else self.keys[first:end]
        return Chunk(self.values[first:end], keys, self.shared)

    def send(self, producer: "Producer | Transaction", topic: str) -> "Deliveries":
        headers, partition, priority, delay, deliver_at = self.shared
        return producer.send_many(
            topic, self.values, self.keys, headers, partition, priority, delay=delay, deliver_at=deliver_at
        )


Lines = Iterator[list[bytes]]


class Files:
    """Files by their names, - being stdin, and how much of them has been read."""

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
        """How much of all that there is has been read, where that is known."""
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
        return 0  # whoever opens it says what is wrong


def of_arguments(values: Sequence[str]) -> Lines:
    yield [os.fsencode(value) for value in values]


def keyed(given: Lines, key: str | None, separator: str | None, shared: Shared) -> Iterator[Chunk]:
    """Lines with the keys that the flags give them."""
    if separator is not None:
        yield from _split(given, os.fsencode(separator), shared)
        return
    encoded = None if key is None else os.fsencode(key)
    for values in given:
        yield Chunk(values, None if encoded is None else [encoded] * len(values), shared)


def _split(given: Lines, separator: bytes, shared: Shared) -> Iterator[Chunk]:
    """At the first separator of each line. What stands before a wrong line is handed over."""
    count = 0
    for lines in given:
        parts = [line.partition(separator) for line in lines]
        wrong = next((place for place, (_, found, _) in enumerate(parts) if not found), len(parts))
        if wrong:
            yield Chunk([value for _, _, value in parts[:wrong]], [key for key, _, _ in parts[:wrong]], shared)
        if wrong < len(parts):
            raise RequestInvalid(
                f"message {count + wrong + 1} has no {separator.decode(errors='replace')!r} "
                "between its key and its value",
                hint="without --key-separator whole lines are published",
            )
        count += len(parts)


def limited(chunks: Iterable[Chunk], count: int | None) -> Iterator[Chunk]:
    """Up to `count` messages; the one after them is not waited for."""
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


def parse_header(text: str) -> Header:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageInvalid(f"--header {quoted(text)} is no header", hint="write it as in --header source=shop")
    name.encode()  # an argument may have bytes that are no text
    return name, os.fsencode(value)


@contextmanager
def _open(name: str) -> Iterator[int]:
    if name == "-":
        if sys.stdin is None:
            raise UsageInvalid("stdin is closed", hint="give messages as arguments, or a --file")
        if sys.stdin.isatty():
            terminal.say("a message each line; ^D ends")
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
    except OSError as error:  # of a directory already the first read
        raise _unreadable(name, error) from None
    finally:
        os.close(file)


def _unreadable(name: str, error: OSError) -> PathInvalid:
    return PathInvalid(f"{name} cannot be read: {error.strerror or error}", hint="--file takes a file, or - for stdin")
