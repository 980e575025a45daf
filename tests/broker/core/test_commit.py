"""The commit of a partition: when messages are committed, who is called, and who is told why they will not be."""

import errno

import pytest

from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.work import run_work
from goqueue.broker.transactions.partitions import all_synced
from goqueue.errors import GoQueueError
from goqueue.storage import frame, scan
from goqueue.storage.flusher import FlushMode
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import marked
from tests.broker.cuts import frames_of
from tests.storage.stores import open_store

STORED, COMMITTED, SYNCED = CommitLevel


class Scene:
    def __init__(self, flush: FlushMode = "always") -> None:
        self.disk = FaultyDisk()
        self.store = open_store(self.disk, flush=flush)
        self.partition = Partition("orders", 0, self.store.create("orders/0"))
        self.calls: list[str] = []

    def append(self, count: int = 1) -> None:
        content = bytearray(b"".join(frame.encode(b"x") for _ in range(count)))
        end = self.partition.append(scan.check_batch(content), lambda error: self.note("append", error)).next_offset
        self.wait(end, COMMITTED)
        self.wait(end, SYNCED)

    def wait(self, end: int, level: CommitLevel) -> None:
        self.partition.when(end, level, lambda error: self.note(f"{level.value} {end}", error))

    def note(self, name: str, error: Exception | None) -> None:
        self.calls.append(name if error is None else f"{name}: {type(error).__name__}")

    def write(self) -> None:
        """One round of the flusher that syncs only what is due or asked for."""
        self.store.resources.flusher.flush(sync=False)


def test_each_caller_is_called_once_when_its_offset_is_committed() -> None:
    scene = Scene()
    scene.append(2)
    scene.append()
    scene.wait(1, COMMITTED)
    assert scene.calls == []
    assert scene.partition.high_watermark == 0
    scene.store.flush()
    assert sorted(scene.calls) == sorted(
        ["append", "append", "committed 1", "committed 2", "committed 3", "synced 2", "synced 3"]
    )
    assert scene.partition.high_watermark == 3
    scene.wait(3, SYNCED)
    assert scene.calls[-1] == "synced 3"


def test_readers_are_woken_after_they_can_read_and_before_the_publisher_is_answered() -> None:
    scene = Scene()
    scene.partition.watch(lambda: scene.calls.append(f"readable up to {scene.partition.high_watermark}"))
    scene.partition.append(scan.check_batch(bytearray(frame.encode(b"x"))), lambda _: scene.calls.append("answered"))
    scene.store.flush()
    assert scene.calls == ["readable up to 1", "answered"]


def test_written_messages_are_committed_before_they_are_synced_with_flush_interval() -> None:
    scene = Scene("interval")
    content = bytearray(frame.encode(b"x"))
    scene.partition.append(scan.check_batch(content), lambda error: scene.note("append", error))
    scene.write()
    assert (scene.partition.high_watermark, scene.partition.durable_end) == (1, 0)
    scene.wait(1, SYNCED)
    assert scene.calls == ["append"]
    scene.write()  # the wait has asked for a sync before the interval is over
    assert scene.calls == ["append", "synced 1"]
    assert scene.partition.durable_end == 1


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_callers_are_told_when_the_log_is_fenced(operation: str) -> None:
    scene = Scene("interval")
    scene.append()
    scene.disk.fail(operation, errno.EIO)
    scene.store.flush()
    assert sorted(set(scene.calls) - {"append", "committed 1"}) == (
        ["append: LogFenced", "committed 1: LogFenced", "synced 1: LogFenced"]
        if operation == "write"
        else ["synced 1: LogFenced"]
    )
    scene.calls.clear()
    scene.wait(2, COMMITTED)
    assert scene.calls == ["committed 2: LogFenced"]


def test_caller_that_fails_keeps_no_other_from_its_answer() -> None:
    scene = Scene("interval")
    scene.partition.append(scan.check_batch(bytearray(frame.encode(b"x"))), lambda _: None)
    scene.write()

    def fail(_: Exception | None) -> None:
        raise ValueError("a defect")

    scene.partition.when(1, SYNCED, fail)
    scene.wait(1, SYNCED)
    with pytest.raises(ExceptionGroup):
        scene.write()
    assert scene.calls == ["synced 1"]


def test_callers_are_told_when_the_log_is_deleted() -> None:
    scene = Scene("interval")
    scene.append()
    scene.store.delete("orders")
    assert sorted(scene.calls) == ["append: LogClosed", "committed 1: LogClosed", "synced 1: LogClosed"]


def test_deleted_partitions_do_not_keep_others_waiting() -> None:
    scene = Scene("interval")
    scene.append()
    other = Partition("others", 0, scene.store.create("others/0"))
    other.append(scan.check_batch(bytearray(frame.encode(b"x"))), lambda _: None)
    scene.write()
    waiting = all_synced([scene.partition, other])
    next(waiting)
    scene.store.delete("orders")
    run_work(waiting, scene.store.flush)
    assert other.durable_end == 1


def test_stored_messages_are_committed_and_visible_only_when_replicas_have_them() -> None:
    scene = Scene()
    commit = scene.partition.commits
    commit.replicated_end = 0

    def publish(level: CommitLevel) -> None:
        def placed(result: Placement | GoQueueError) -> None:
            scene.calls.append(f"{level.value} {result.next_offset}" if isinstance(result, Placement) else "refused")

        scene.partition.offer([frame.encode(b"x")], placed, level)

    publish(STORED)
    publish(COMMITTED)
    scene.partition.commit()
    scene.wait(2, STORED)
    scene.store.flush()
    assert sorted(scene.calls) == ["stored 1", "stored 2"]
    assert (scene.partition.durable_end, scene.partition.high_watermark) == (2, 0)
    assert not frames_of(scene.partition.read)
    scene.calls.clear()
    scene.wait(2, SYNCED)

    commit.replicated_end = 1  # not all of the append, which readers see as a whole
    commit.advance()
    assert (scene.calls, scene.partition.high_watermark) == ([], 0)
    commit.replicated_end = 2
    commit.advance()
    assert sorted(scene.calls) == ["committed 2", "synced 2"]
    assert len(frames_of(scene.partition.read)) == 2


@pytest.mark.parametrize("level", [STORED, COMMITTED])
def test_repeated_batch_is_answered_at_the_level_that_is_asked_for(level: CommitLevel) -> None:
    scene = Scene()
    scene.partition.commits.replicated_end = 0
    answers: list[Placement | GoQueueError] = []
    for number in range(3):  # the last one when the first is stored
        batch = scan.check_batch(bytearray(marked(0, b"x")))
        scene.partition.take(batch, ProducerMark(7, 0, 0, 1), answers.append, level)
        if number:
            scene.store.flush()
    assert len(answers) == (3 if level is STORED else 0)
    scene.partition.commits.replicated_end = 1
    scene.partition.commits.advance()
    assert [one.duplicate for one in answers if isinstance(one, Placement)] == [False, True, True]
    assert {one.first_offset for one in answers if isinstance(one, Placement)} == {0}
