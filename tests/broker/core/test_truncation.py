"""A partition that was cut back derives from its log what one derives that never had the messages behind."""

from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.admission import encode_marked
from goqueue.broker.core.open_transactions import TransactionEnd
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.producer_checkpoint import load_producers, save_producers
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.truncation import truncate_partition
from goqueue.broker.core.work import run_work
from goqueue.storage import frame, scan
from goqueue.storage.retention import plan_retention
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.broker.cuts import derived, find_unfinished, segments_below, with_segments
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
        find_unfinished(self.partition, self.disk)

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
        return derived(self.partition, self.disk)


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


def test_end_of_a_torn_batch_is_known_after_a_cut_behind_it() -> None:
    whole = Lived()
    whole.do("publish", 0, 2)
    whole.do("mark", 0, 4)
    torn = shorter(whole, 4)  # a crash has kept two of the four
    torn.do("publish", 0, 3)
    torn.do("store", 0, 1)
    torn.do("publish", 0, 3)
    torn.do("store", 0, 1)
    run_work(truncate_partition(torn.partition, torn.disk, 6))
    for restarted in (False, True):
        lived = Lived(torn.disk.crash("everything")) if restarted else torn
        lived.load()
        assert lived.partition.producers is not None
        known = lived.partition.producers.look_up(ProducerMark(IDEMPOTENT, 0, 0, 4))
        assert ([batch.piece for batch in known.batches], known.missing) == ([(2, 4)], 2)


def test_producers_whose_batches_were_removed_are_known_after_a_cut() -> None:
    lived = Lived()
    lived.do("mark", 0, 2)
    lived.do("roll", 0, 1)
    lived.do("publish", 0, 3)
    lived.do("store", 0, 1)
    job = plan_retention(lived.partition.log, lived.disk, bytes_kept=0)
    job.run()
    job.apply()
    run_work(truncate_partition(lived.partition, lived.disk, 4))
    lived.load()
    assert lived.partition.earliest == 2
    assert lived.partition.producers is not None
    assert lived.partition.producers.next_sequence(IDEMPOTENT, 0) == 2
