"""A partition that was cut back derives from its log what one derives that never had the messages behind."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.admission import encode_marked
from goqueue.broker.core.open_search import find_open, transactional_epochs
from goqueue.broker.core.open_transactions import TransactionEnd
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producer_checkpoint import load_producers, note_tear, save_producers
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.truncation import truncate_partition
from goqueue.broker.core.work import Work, run_work
from goqueue.storage import frame, scan
from goqueue.storage.lanes import LANES
from goqueue.storage.reads import ReadResult
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.broker.cuts import frames_of, segments_below, with_segments
from tests.storage.stores import open_store

NAME = "orders/0"
IDEMPOTENT, TRANSACTIONAL = 7, (8, 9)

Kind = Literal["publish", "mark", "transact", "commit", "abort", "store", "look", "roll"]
KINDS: tuple[Kind, ...] = ("publish", "mark", "transact", "commit", "abort", "store", "look", "roll")
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.sampled_from(TRANSACTIONAL), st.integers(1, 4)), min_size=1, max_size=30
)


class Lived:
    """A partition with plain, idempotent and transactional batches, and caches beside its log."""

    def __init__(self, disk: FaultyDisk | None = None) -> None:
        self.disk = disk or FaultyDisk()
        self.store = open_store(self.disk, ManualClock())
        self.partition = Partition("orders", 0, self.store.logs.get(NAME) or self.store.create(NAME))
        self.sequences: dict[tuple[int, int], int] = {}
        self.epochs = dict.fromkeys(TRANSACTIONAL, 0)

    def recover(self) -> None:
        """Find torn batches and open transactions, as a start does."""
        run_work(note_tear(self.partition, self.disk))
        self.partition.open.hold(0, self.partition.log_end, run_work(transactional_epochs(self.partition, 0)))
        run_work(find_open(self.partition))

    def do(self, kind: Kind, producer: int, count: int) -> None:
        match kind:
            case "publish":
                self.partition.offer(frames(count), lambda _: None)
                self.partition.commit()
            case "mark":
                self.send(IDEMPOTENT, 0, count)
            case "transact":
                self.send(producer, self.epochs[producer], count)
            case "commit" | "abort":
                end = TransactionEnd(producer, self.epochs[producer], kind == "commit")
                self.partition.end_transactions([end], lambda _: None)
                self.epochs[producer] += 1
            case "roll":
                self.partition.log.roll()
            case "store":
                self.store.flush()
                self.load()
                for work in (
                    save_producers(self.partition, self.disk),
                    self.partition.lanes.store(self.disk),
                    self.partition.aborted.store(self.disk),
                ):
                    run_work(work)
            case "look":
                self.derived()
        self.store.flush()

    def send(self, producer: int, epoch: int, count: int) -> None:
        self.load()
        mark = ProducerMark(producer, epoch, self.sequences.get((producer, epoch), 0), count)
        self.sequences[producer, epoch] = mark.sequence + count
        is_transactional = producer in TRANSACTIONAL
        first, *others = frames(count, frame.TRANSACTIONAL if is_transactional else 0)
        batch = scan.check_batch(bytearray(b"".join((encode_marked(frame.decode(first), mark), *others))))
        self.partition.take(batch, mark, lambda _: None, is_transactional=is_transactional)

    def load(self) -> None:
        if self.partition.producers is None:
            run_work(load_producers(self.partition, self.disk))

    def derived(self) -> dict[str, Any]:
        """Return everything that follows from the log."""
        self.load()
        partition, end = self.partition, self.partition.high_watermark
        assert partition.producers is not None
        messages = messages_of(partition.read_uncommitted)
        places = np.array([(one, one + 1) for one in map(frame.offset_at, messages)], np.int64).reshape(-1, 2)
        return {
            "uncommitted": frames_of(partition.read_uncommitted),
            "committed": messages_of(partition.read),
            "producers": partition.producers.facts(end),
            "open": [(producer, one.epoch, one.ranges) for producer, one in partition.open],
            "last stable": partition.last_stable,
            "aborted": run_work(partition.aborted.within(0, partition.last_stable)),
            "lanes": [run_work(partition.lanes.count_in(lane, places)) for lane in LANES],
            "next": [self.next_message(lane, end // 2, set(places[:, 0].tolist())) for lane in LANES],
        }

    def next_message(self, lane: int, first: int, messages: set[int]) -> int | None:
        """Return the offset of the first message of a lane from `first` on."""
        found = run_work(self.partition.lanes.next(lane, first, self.partition.high_watermark))
        return found if found is None or found in messages else self.next_message(lane, found + 1, messages)


def messages_of(read: Callable[[int, int], Work[ReadResult]]) -> list[bytes]:
    """Return the frames that are messages. Where reads and segments begin decides what becomes of control records:
    whether a read of committed messages shows them, and in which lane they are.
    """
    return [one for one in frames_of(read) if not frame.decode(one).flags & frame.CONTROL]


def frames(count: int, flags: int = 0) -> list[bytes]:
    return [frame.encode(b"value %d" % number, priority=number, flags=flags) for number in range(count)]


def shorter(lived: Lived, offset: int) -> Lived:
    """Return a partition that has the same segments up to an offset, and no caches."""
    segments = segments_below(lived.partition, offset)
    disk = FaultyDisk()
    log = open_store(disk, ManualClock()).create(NAME)
    twin = Lived(with_segments(disk, log.directory, segments))
    twin.recover()
    return twin


def grown(steps: list[tuple[Kind, int, int]]) -> Lived:
    lived = Lived()
    for step in steps:
        lived.do(*step)
    return lived


@given(STEPS, st.data())
def test_truncated_partition_derives_what_a_shorter_one_does(
    steps: list[tuple[Kind, int, int]], data: st.DataObject
) -> None:
    lived = grown(steps)
    offset = data.draw(st.integers(0, lived.partition.log_end), "cut")
    twin = shorter(lived, offset)
    run_work(truncate_partition(lived.partition, lived.disk, offset))
    assert lived.derived() == twin.derived()

    for one in (lived, twin):  # life goes on from there, and the next start takes no cache of what is gone
        for _ in range(10):
            one.do("publish", 0, 4)
    again = Lived(lived.disk.after_crash("synced"))
    again.recover()
    assert again.derived() == twin.derived()
