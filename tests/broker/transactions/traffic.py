"""Transactions on a partition as tests write them: by producer, with what should be seen of each message noted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from goqueue.broker.core.open_search import find_open
from goqueue.broker.core.open_transactions import TransactionEnd
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.work import run_work
from goqueue.storage import frame, scan
from goqueue.wire.sections import PRODUCER_HEADER
from tests.broker.brokers import Running, Told

T = TypeVar("T")
State = Literal["plain", "open", "committed", "aborted", "control"]


def transactional(
    values: Iterable[bytes], mark: ProducerMark, key: bytes | None = None, lane: int = frame.NORMAL
) -> bytes:
    """A batch of a transaction as a client sends it."""
    first, headers = frame.TRANSACTIONAL, frame.encode_headers([(PRODUCER_HEADER, mark.encode())])
    found = []
    for value in values:
        found.append(frame.encode(value, key, headers, priority=lane, flags=first))
        headers = frame.NO_HEADERS
    return b"".join(found)


@dataclass
class Traffic:
    """The messages written to one partition of a running broker, and their results."""

    running: Running
    name: str = "orders"
    states: list[State] = field(default_factory=list)
    """Of each offset."""
    keys: list[bytes | None] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    opened: dict[int, list[int]] = field(default_factory=dict)
    """By producer, the offsets of what is open."""

    @property
    def partition(self) -> Partition:
        return self.running.partition(self.name)

    def _note(self, state: State, count: int, key: bytes | None = None) -> list[int]:
        first = len(self.states)
        assert self.partition.log_end == first + count
        self.states += [state] * count
        self.keys += [key] * count
        return list(range(first, first + count))

    def plain(self, *values: bytes, key: bytes | None = None, lane: int = frame.NORMAL) -> None:
        content = b"".join(frame.encode(value, key, priority=lane) for value in values)
        self.running.publish(content, self.name)
        self._note("plain", len(values), key)

    def write(self, producer: int, *values: bytes, key: bytes | None = None, lane: int = frame.NORMAL) -> None:
        """In the transaction of this producer, which begins if none is open."""
        mark = ProducerMark(producer, self.epochs.get(producer, 0), self.sequences.get(producer, 0), len(values))
        self.sequences[producer] = mark.sequence + len(values)
        told: Told[object] = Told()
        frames = scan.check_batch(bytearray(transactional(values, mark, key, lane)))
        self.partition.take(frames, mark, told, is_transactional=True)
        self.running.flush()
        assert told.result
        self.opened.setdefault(producer, []).extend(self._note("open", len(values), key))

    def end(self, producer: int, *, commits: bool) -> None:
        refused: list[object] = []
        epoch = self.epochs.get(producer, 0)
        self.partition.end_transactions([TransactionEnd(producer, epoch, commits)], refused.append)
        self.running.flush()
        assert refused == [None]
        if (offsets := self.opened.pop(producer, None)) is not None:
            self._note("control", 1)
            for offset in offsets:
                self.states[offset] = "committed" if commits else "aborted"
        self.epochs[producer], self.sequences[producer] = epoch + 1, 0

    def commit(self, producer: int = 1) -> None:
        self.end(producer, commits=True)

    def abort(self, producer: int = 1) -> None:
        self.end(producer, commits=False)

    def aborted(self, *values: bytes, producer: int = 1, key: bytes | None = None, lane: int = frame.NORMAL) -> None:
        """A whole transaction."""
        self.write(producer, *values, key=key, lane=lane)
        self.abort(producer)

    def committed(self, *values: bytes, producer: int = 1, key: bytes | None = None, lane: int = frame.NORMAL) -> None:
        self.write(producer, *values, key=key, lane=lane)
        self.commit(producer)

    def roll(self) -> None:
        self.partition.log.roll()
        self.running.flush()

    def move(self, running: Running) -> None:
        """To the next broker, which finds open transactions again before the first read."""
        self.running = running
        partition = running.broker.topics[self.name].partition(0)
        since = min((offsets[0] for offsets in self.opened.values()), default=0)
        partition.open.hold(since, partition.log_end, {one: self.epochs.get(one, 0) for one in self.opened})
        run_work(find_open(partition))

    # --- what should be seen ---

    @property
    def stable(self) -> int:
        return min((offsets[0] for offsets in self.opened.values()), default=len(self.states))

    def visible(self, first: int, end: int | None = None) -> list[int]:
        """The offsets of committed messages from there on."""
        stop = min(self.stable, len(self.states) if end is None else end)
        return [offset for offset in range(first, stop) if self.states[offset] in ("plain", "committed")]

    def hidden(self, first: int, end: int) -> list[int]:
        """The offsets of aborted messages below the last stable offset."""
        return [offset for offset in range(first, min(end, self.stable)) if self.states[offset] == "aborted"]


def read_messages(
    partition: Partition, offset: int | None = None, max_bytes: int = 2_000
) -> Iterator[frame.StoredMessage]:
    """The messages from an offset on, without control records."""
    offset = partition.earliest if offset is None else offset
    while True:
        read = run_work(partition.read(offset, max_bytes))
        found = [frame.decode(buffer, place) for buffer in read.buffers for place in frame.walk(buffer)]
        wanted = [message for message in found if not message.flags & frame.CONTROL]
        if not wanted:
            assert not read.buffers
            assert read.next_offset >= partition.last_stable
            return
        yield from wanted
        offset = read.next_offset


def read_offsets(partition: Partition, offset: int | None = None, max_bytes: int = 2_000) -> list[int]:
    return [message.offset for message in read_messages(partition, offset, max_bytes)]


def stored_offsets(partition: Partition) -> list[int]:
    """All messages that are stored, visible or not."""
    found, offset = list[int](), partition.earliest
    while (read := run_work(partition.read_uncommitted(offset, 10_000))).buffers:
        found += [frame.offset_at(buffer, place) for buffer in read.buffers for place in frame.walk(buffer)]
        offset = read.next_offset
    return found
