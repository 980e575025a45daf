"""One file of the faulty disk: what the device holds, what the cache shows, and what lies between.

`goqueue.testing.disk` tells the whole fault model.
"""

from collections.abc import Iterator
from random import Random

_Unsynced = tuple[int, bytes | None]
"""Bytes written at a position, or without bytes a size that the file was given."""


class Content:
    """The bytes of one file, which live as long as a name or a handle leads to them."""

    __slots__ = ("_device", "_stale", "_unsynced", "cache", "handles", "named")

    def __init__(self, content: bytes = b"") -> None:
        self.cache = bytearray(content)
        self.handles = 0
        self.named = True
        self._device = bytearray(content)
        self._unsynced: list[_Unsynced] = []
        self._stale = False  # a failed sync left clean pages that differ from the device

    def read(self, position: int, into: memoryview) -> int:
        count = max(0, min(len(into), len(self.cache) - position))
        into[:count] = memoryview(self.cache)[position : position + count]
        return count

    def write(self, position: int, data: bytes) -> None:
        if not data:
            return
        end = position + len(data)
        self.resize(max(end, len(self.cache)))
        self.cache[position:end] = data
        self._unsynced.append((position, data))

    def resize(self, size: int) -> None:
        if size != len(self.cache):
            _resize(self.cache, size)
            self._unsynced.append((size, None))

    def sync(self) -> None:
        for position, data in self._unsynced:
            if data is None:
                _resize(self._device, position)
            else:
                self._device[position : position + len(data)] = data
        self._unsynced.clear()

    def fail_sync(self) -> None:
        """The pages are clean now although they were not written; the size is still to be synced."""
        sizes = [entry for entry in self._unsynced if entry[1] is None]
        self._stale = self._stale or len(sizes) < len(self._unsynced)
        self._unsynced = sizes

    def forget_cache(self) -> None:
        if self._stale:
            self.cache = bytearray(self._device)
            for position, data in self._unsynced:
                if data is None:
                    _resize(self.cache, position)
                else:
                    self.cache[position : position + len(data)] = data
            self._stale = False

    def damage(self, position: int, content: bytes) -> None:
        """Change bytes where they are: on the device, in the cache, and in what is still to be synced."""
        end = position + len(content)
        if position < 0 or end > len(self.cache):
            raise ValueError(f"bytes {position} to {end} are not within the file's {len(self.cache)}")
        self.cache[position:end] = content
        held = content[: max(0, len(self._device) - position)]
        self._device[position : position + len(held)] = held
        if self._unsynced:
            self._unsynced.append((position, content))

    def lose_unsynced(self) -> None:
        """The power goes and takes the cache with it."""
        self.cache = bytearray(self._device)
        self._unsynced.clear()
        self._stale = False

    def lose_some(self, random: Random, block_bytes: int, *, torn: bool) -> None:
        """The power goes after some of the unsynced blocks and sizes reached the device."""
        sizes = random.choice((0, 1, random.random())) * sum(data is None for _, data in self._unsynced)
        writes = _reached(self._unsynced, random, block_bytes)
        size = len(self._device)
        for position, data in self._unsynced:
            if data is None:
                if sizes >= 1:
                    sizes -= 1
                    size = position
                    del self._device[size:]
                continue
            for start, piece in _pieces(position, data, block_bytes):
                block = start // block_bytes
                if writes[block] > 0:
                    _put(self._device, start, piece)
                elif writes[block] == 0 and torn:
                    _put(self._device, start, piece[: random.randrange(len(piece))])
                writes[block] -= 1
        _resize(self._device, size)
        self.lose_unsynced()

    def copy(self) -> "Content":
        twin = Content()
        twin.cache = bytearray(self.cache)
        twin.named = self.named
        twin._device = bytearray(self._device)
        twin._unsynced = self._unsynced.copy()
        twin._stale = self._stale
        return twin


def _resize(buffer: bytearray, size: int) -> None:
    if size < len(buffer):
        del buffer[size:]
    elif size > len(buffer):
        buffer.extend(bytes(size - len(buffer)))


def _put(buffer: bytearray, position: int, piece: bytes) -> None:
    if position > len(buffer):
        _resize(buffer, position)
    buffer[position : position + len(piece)] = piece


def _pieces(position: int, data: bytes, block_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Cut a write where the device's blocks begin."""
    start, end = position, position + len(data)
    while start < end:
        stop = min(end, start - start % block_bytes + block_bytes)
        yield start, data[start - position : stop - position]
        start = stop


def _reached(unsynced: list[_Unsynced], random: Random, block_bytes: int) -> dict[int, int]:
    """For every block: how many of its writes reached the device, the oldest first."""
    counts: dict[int, int] = {}
    for position, data in unsynced:
        for start, _ in _pieces(position, data or b"", block_bytes):
            counts[start // block_bytes] = counts.get(start // block_bytes, 0) + 1
    chance = random.random()
    return {block: count if random.random() < chance else random.randrange(count) for block, count in counts.items()}
