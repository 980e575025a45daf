"""Data directories for tests, made without a broker: all shapes of messages, small segments, gaps and removals."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Self

from goqueue.compression import compress
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split, read_split
from goqueue.spark.reading.columns import COLUMNS
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.spark.reading.tasks import Extract
from goqueue.storage import frame, scan
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.disk import SystemDisk
from goqueue.storage.log import Log
from goqueue.storage.retention import plan_retention
from goqueue.storage.transaction_index import AbortedRanges
from goqueue.storage.transaction_marker import TransactionMarker
from goqueue.testing.clock import ManualClock
from tests.storage.stores import open_store

DISK = SystemDisk()


@dataclass(frozen=True)
class Sent:
    """A message as its producer means it; a value of None is a tombstone."""

    value: bytes | None = b""
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    priority: int = frame.NORMAL
    is_compressed: bool = False
    is_control: bool = False
    is_transactional: bool = False

    def encode(self) -> bytes:
        flags = (frame.TOMBSTONE if self.value is None else 0) | (frame.CONTROL if self.is_control else 0)
        flags |= frame.TRANSACTIONAL if self.is_transactional else 0
        value = self.value or b""
        if self.is_compressed and (shorter := compress(value)) is not None:
            value, flags = shorter, flags | frame.COMPRESSED
        return frame.encode(value, self.key, frame.encode_headers(self.headers), priority=self.priority, flags=flags)


FORGED = frame.encode(b"forged", b"k", offset=2**40, timestamp_ns=2**62)
SHAPES = (
    Sent(b"plain"),
    Sent(b""),
    Sent(b"with a key", b"k1"),
    Sent(None, b"k1"),
    Sent(b'{"order": 7}' + b" " * 900, b"k2", (("trace", b"\x00\xff"), ("trace", b""), ("\u00e9", b"2"))),
    Sent(b"many alike " * 60, b"k3", is_compressed=True),
    Sent(b"", b"transaction", is_control=True),
    Sent(b"urgent", priority=0),
    Sent(b"hidden", b"k2", (("__origin", b"dlq"), ("shown", b"1"))),
    Sent(b"all hidden", b"k4", (("__origin", b"dlq"),), 4),
    Sent(b"x" + FORGED + b"GQ\x01", b"k5"),
    Sent(b"\xff\xfe\x00 not text"),
)
"""One of each kind."""


class Stock:
    """A data directory at work: what is appended is synced at once, unless it `holds_back`."""

    def __init__(self, path: Path, *, segment_bytes: int = 4096) -> None:
        self.path = path
        self.clock = ManualClock()
        self.store = open_store(DISK, self.clock, path=str(path), segment_bytes=segment_bytes, tail_bytes=1)

    def create(self, topic: str, partitions: int = 1) -> Self:
        for number in range(partitions):
            self.store.create(f"{topic}/{number}")
        return self

    def log(self, topic: str, partition: int = 0) -> Log:
        return self.store.log(f"{topic}/{partition}")

    def append(self, topic: str, *messages: Sent, partition: int = 0, holds_back: bool = False) -> range:
        """As one batch, a second and a bit after whatever came before; the offsets."""
        return self._append(topic, [one.encode() for one in messages], partition=partition, holds_back=holds_back)

    def end(self, topic: str, *pieces: range, partition: int = 0, is_commit: bool = True, producer: int = 1) -> range:
        """End a transaction that has these messages; where its markers are."""
        marker = TransactionMarker(producer, 0, is_commit, tuple((one.start, one.stop) for one in pieces))
        return self._append(topic, marker.encode(), partition=partition)

    def _append(self, topic: str, frames: list[bytes], *, partition: int, holds_back: bool = False) -> range:
        self.clock.advance(1.000001001)
        appended = self.log(topic, partition).append(scan.check_batch(bytearray(b"".join(frames))))
        if not holds_back:
            self.store.flush()
        return range(appended.first_offset, appended.next_offset)

    def fill(self, topic: str, count: int, *, partition: int = 0, batch: int = 7) -> Self:
        """So many messages of all kinds in turn."""
        messages = cycle(SHAPES)
        for done in range(0, count, batch):
            self.append(topic, *islice(messages, min(batch, count - done)), partition=partition)
        return self

    def roll(self, topic: str, partition: int = 0) -> None:
        self.log(topic, partition).roll()
        self.store.flush()

    def expire(self, topic: str, partition: int = 0, *, bytes_kept: int = 0) -> None:
        """Remove the oldest segments, down to a size."""
        job = plan_retention(self.log(topic, partition), DISK, bytes_kept=bytes_kept)
        job.run()
        job.apply()

    def compact(
        self, topic: str, partition: int = 0, *, below: int | None = None, aborted: Iterable[tuple[int, int]] = ()
    ) -> None:
        log, now_ns, gone = self.log(topic, partition), self.clock.now_ns(), AbortedRanges.of(aborted)
        job = plan_compaction(log, DISK, now_ns=now_ns, tombstone_grace_seconds=0, below=below, aborted=gone)
        while not job.is_done:
            job.run()
            for replacement in job.replacements:
                for segment in replacement.old:
                    assert segment.pinned is not None
                    segment.pinned.file.close()
            job.apply()

    def directory(self, topic: str, partition: int = 0) -> Path:
        return self.path / "logs" / topic / str(partition)

    def segments(self, topic: str, partition: int = 0) -> list[Path]:
        """The files of frames, oldest first."""
        return sorted(self.directory(topic, partition).glob("*.log"))

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def stocked(path: Path, *, count: int = 120, partitions: int = 2, segment_bytes: int = 4096) -> Iterator[Stock]:
    """Topic `orders` with messages of all kinds in each partition, and a writer that is still at work."""
    with Stock(path, segment_bytes=segment_bytes) as stock:
        stock.create("orders", partitions)
        for number in range(partitions):
            stock.fill("orders", count, partition=number)
        yield stock


def made(path: Path, *, count: int = 120, partitions: int = 2, segment_bytes: int = 4096) -> Stock:
    """The same, once the writer has stopped cleanly."""
    with stocked(path, count=count, partitions=partitions, segment_bytes=segment_bytes) as stock:
        return stock


# --- how a test damages it ---


def flip(file: Path, position: int, bits: int = 1) -> None:
    content = bytearray(file.read_bytes())
    content[position] ^= bits
    file.write_bytes(content)


def damage(path: Path, row: dict[str, Any]) -> Path:
    """Change the value of a message, given by its row; return the file."""
    file = path / f"logs/{row['topic']}/{row['partition']}/{row['segment']:020d}.log"
    flip(file, row["position"] + 36)
    return file


# --- how a test reads it ---


def logs_of(stock: Stock) -> DirectoryLogs:
    return DirectoryLogs.at(str(stock.path))


def splits(logs: LogSource, *, split_bytes: int | None = None, least: int | None = None) -> list[Split]:
    """All topics of users, from end to end."""
    return make_plan(logs, TopicSelection()).splits(logs, split_bytes=split_bytes, least=least)


def rows(logs: LogSource, planned: list[Split], *, fails: bool = True) -> list[dict[str, Any]]:
    """All columns; without `crc_ok`, which asks for damaged messages, where what is lost is to be passed over."""
    extract = Extract(logs, tuple(name for name in COLUMNS if fails or name != "crc_ok"), fails)
    return [row for split in planned for batch in extract.batches(split) for row in batch.to_pylist()]


def offsets(logs: LogSource, planned: list[Split]) -> list[int]:
    pieces = (piece for split in planned for piece in read_split(logs, split))
    return [offset for piece in pieces if isinstance(piece, FrameRun) for offset in piece.frames.offsets.tolist()]
