"""A replica knows the transactions of its leader from the copies alone, however they are cut into pieces."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.transaction_tracker import TransactionTracker
from goqueue.broker.core.work import run_work
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.broker.core.test_truncation import NAME, STEPS, Kind, Lived, grown
from tests.broker.cuts import derived, frames_of
from tests.storage.stores import open_store


class Copied:
    """A replica of what another partition has."""

    def __init__(self) -> None:
        self.disk = FaultyDisk()
        self.store = open_store(self.disk, ManualClock())
        self.partition = Partition("orders", 0, self.store.create(NAME))
        self.partition.producers = None  # read again, as before it leads
        self.tracker = TransactionTracker(self.partition)
        run_work(self.tracker.look_anew())
        self.partition.commits.on_committed.subscribe(self.tracker.committed)

    def take(self, content: bytes) -> None:
        frames = scan.walk(bytearray(content))
        self.partition.log.append_stamped(frames)
        self.tracker.look(frames)
        self.store.flush()

    def commit(self, end: int) -> None:
        self.partition.commits.replicated_end = end
        self.partition.commits.advance()


def leader_of(steps: list[tuple[Kind, int, int]]) -> tuple[Lived, list[bytes]]:
    lived = grown([step for step in steps if step[0] not in ("roll", "store", "look")])
    return lived, frames_of(lived.partition.read_uncommitted)


@given(STEPS, st.data())
def test_replica_knows_what_its_leader_does(steps: list[tuple[Kind, int, int]], data: st.DataObject) -> None:
    lived, frames = leader_of(steps)
    replica, left = Copied(), list(frames)
    replica.commit(0)
    while left:
        count = data.draw(st.integers(1, len(left)), "copied at once")
        replica.take(b"".join(left[:count]))
        del left[:count]
        replica.commit(data.draw(st.integers(replica.partition.high_watermark, replica.partition.log_end), "committed"))
        if data.draw(st.booleans(), "doubted"):
            replica.tracker.doubt()
            before = replica.partition.last_stable
            run_work(replica.tracker.look_anew())
            assert replica.partition.last_stable >= before
        assert replica.partition.last_stable <= _first_open(lived, replica)
    replica.commit(OFFSET_MAX)
    assert derived(replica.partition, replica.disk) == lived.derived()


def _first_open(lived: Lived, replica: Copied) -> int:
    """Return the greatest end that readers of committed messages may see of what the replica has committed."""
    opened: dict[int, int] = {}
    end = replica.partition.high_watermark
    for one in frames_of(lived.partition.read_uncommitted):
        message = frame.decode(one)
        if message.offset >= end:
            break
        if message.flags & frame.TRANSACTIONAL and message.flags & frame.CONTROL:
            opened.pop(int.from_bytes(message.value[:8], "big"), None)
        elif message.flags & frame.TRANSACTIONAL and message.headers:
            opened.setdefault(int.from_bytes(message.headers[0][1][:8], "big"), message.offset)
    return min(opened.values(), default=end)


def test_replica_reads_as_its_leader_while_it_is_told_late_what_is_committed() -> None:
    """The next transaction of a producer may come before the replica knows that the marker of the one before counts."""
    lived, frames = leader_of([("transact", 8, 2), ("commit", 8, 1), ("transact", 8, 1), ("commit", 8, 1)])
    replica = Copied()
    replica.commit(0)
    for number, one in enumerate(frames):
        replica.take(one)
        replica.commit(max(0, number - 1))
        assert frames_of(replica.partition.read) == [], "its marker is not committed here"
        if number == 3:
            break
    for one in frames[4:]:
        replica.take(one)
    replica.commit(OFFSET_MAX)
    assert derived(replica.partition, replica.disk) == lived.derived()
