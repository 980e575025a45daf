"""Leader epochs: whatever happens to a log and to the note beside it, they are those of a list of all messages."""

import errno
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.core.epochs import begin_epoch, load_epochs, save_epochs
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.layout import write_checkpoint
from goqueue.storage.leader_epochs import EpochNote, LeaderEpochs
from goqueue.storage.log import Log
from goqueue.storage.retention import plan_retention
from goqueue.storage.store import Store
from goqueue.storage.truncation import truncate
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Crashed, FaultyDisk, Keep
from tests.storage.stores import append, finish, open_store

NAME = "t/0"
KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")


def load(log: Log, disk: FaultyDisk) -> LeaderEpochs:
    return run_work(load_epochs(log, disk))


def begin(store: Store, log: Log, disk: FaultyDisk, epoch: int) -> int:
    """Append the first frame of a leader; return its offset."""
    load(log, disk)
    appended = begin_epoch(Partition("t", 0, log), epoch, "node", 5, lambda _: None)
    store.flush()
    return appended.first_offset


@dataclass
class NaiveEpochs:
    """The naive twin: the epoch of every offset that was ever given out, and which of them are epoch frames."""

    of_offset: list[int] = field(default_factory=list)

    def append(self, epoch: int | None = None) -> None:
        last = self.of_offset[-1] if self.of_offset else 0
        self.of_offset.append(last if epoch is None else epoch)

    def end_of(self, epoch: int, first: int, end: int) -> tuple[int, int] | None:
        """Walk over the messages of the log."""
        held = self.of_offset[first:end]
        known = {one for one in held if one <= epoch}
        if not held:
            held = self.of_offset[:first][-1:] or [0]
            known = {one for one in held if one <= epoch}
            return (max(known), end) if known else None
        if not known:
            return None
        greatest = max(known)
        return greatest, next((first + at for at, one in enumerate(held) if one > greatest), end)


def assert_equal(log: Log, epochs: LeaderEpochs, naive: NaiveEpochs) -> None:
    first, end = log.first_offset, log.next_offset
    assert [epochs.epoch_of(offset) for offset in range(first, end)] == naive.of_offset[first:end]
    assert epochs.last == (naive.of_offset[end - 1] if end else 0)
    for epoch in range(max(naive.of_offset, default=0) + 3):
        assert epochs.end_of(epoch, first, end) == naive.end_of(epoch, first, end), epoch


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("begin"), st.integers(1, 3)),
        st.tuples(st.just("truncate"), st.integers(0, 12)),
        st.tuples(st.just("retain"), st.integers(0, 4000)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.just("roll"), st.just(0)),
        st.tuples(st.just("save"), st.just(0)),
        st.tuples(st.just("restart"), st.booleans()),
        st.tuples(st.just("note lost"), st.integers(0, 2)),
    ),
    max_size=25,
)


class Scene:
    """A log and its naive twin."""

    def __init__(self) -> None:
        self.disk, self.clock, self.naive = FaultyDisk(), ManualClock(), NaiveEpochs()
        self.store = open_store(self.disk, self.clock, segment_bytes=1000, tail_bytes=1)
        self.log = self.store.create(NAME)
        self.has_begun = False

    def run(self, step: str, number: int) -> None:
        log, disk, naive = self.log, self.disk, self.naive
        if step == "append":
            for one in range(number):
                append(self.store, log, b"x" * 90, key=b"%d" % (one % 2))
                naive.append()
        elif step == "begin":
            epoch = load(log, disk).last + number
            naive.append(epoch)
            begin(self.store, log, disk, epoch)
        elif step == "truncate":
            offset = max(log.first_offset, log.next_offset - number)
            del naive.of_offset[offset:]
            truncate(log, disk, offset)
        elif step == "retain":
            finish(plan_retention(log, disk, bytes_kept=number))
        elif step == "compact":
            finish(plan_compaction(log, disk, now_ns=self.clock.now_ns()))
        elif step == "roll":
            log.roll()
            self.store.flush()
        elif step == "save":
            run_work(save_epochs(log, disk))
        elif step == "restart":
            self.open_again(self.disk.after_crash("everything" if number else "synced"))
        else:
            self.damage_note(number)

    def damage_note(self, how: int) -> None:
        """Lose what is in the note, if the log still says all of it."""
        path = f"{self.log.directory}/epochs"
        if self.disk.kind(path) == "file" and not self.log.first_offset:
            if how:
                self.disk.flip(path, 5)
            else:
                self.disk.remove(path)
            self.open_again(self.disk.after_crash("everything"))
            load(self.log, self.disk)

    def open_again(self, disk: FaultyDisk) -> None:
        self.disk = disk
        self.store = open_store(disk, self.clock, segment_bytes=1000, tail_bytes=1)
        self.log = self.store.log(NAME)
        # A log may end earlier where compaction has removed what stood before a truncation.
        del self.naive.of_offset[self.log.next_offset :]


@given(STEPS)
def test_epochs_equal_those_of_a_list_of_messages(steps: list[tuple[str, int]]) -> None:
    scene = Scene()
    for step, number in steps:
        scene.run(step, number)
        if scene.log.epochs.is_complete:
            assert_equal(scene.log, scene.log.epochs, scene.naive)
    assert_equal(scene.log, load(scene.log, scene.disk), scene.naive)


@settings(max_examples=10)
@given(STEPS, st.tuples(st.sampled_from(["truncate", "retain", "compact", "save", "begin"]), st.integers(1, 12)))
def test_epochs_survive_a_crash_at_every_disk_operation(steps: list[tuple[str, int]], last: tuple[str, int]) -> None:
    """The log may have come as far as it likes; its epochs are then those of the messages that it has."""
    operation, is_over = 0, False
    while not is_over:
        scene = Scene()
        for step, number in [("append", 5), ("begin", 1), ("append", 9), ("begin", 2), ("append", 12), *steps]:
            scene.run(step, number)
        operation += 1
        before = list(scene.naive.of_offset)
        scene.disk.crash_at(scene.disk.operations + operation)
        try:
            scene.run(*last)
            is_over = True
        except Crashed:
            pass
        longer = max(before, scene.naive.of_offset, key=len)
        died = scene.disk
        for keep in KEEPS:
            scene.naive.of_offset = list(longer)
            scene.open_again(died.crash(keep))
            assert_equal(scene.log, load(scene.log, scene.disk), scene.naive)
            scene.run("append", 3)
            scene.run("begin", 1)
            assert_equal(scene.log, scene.log.epochs, scene.naive)


def test_damaged_note_with_retention_keeps_the_epoch_that_the_next_frame_names() -> None:
    scene = Scene()
    for step, number in [("append", 5), ("begin", 3), ("append", 30), ("begin", 4), ("append", 12), ("save", 0)]:
        scene.run(step, number)
    scene.run("retain", 3000)
    assert 6 < scene.log.first_offset < 30
    scene.disk.flip(f"{scene.log.directory}/epochs", 7)
    scene.open_again(scene.disk.after_crash("everything"))
    assert_equal(scene.log, load(scene.log, scene.disk), scene.naive)


def test_epoch_whose_frame_is_damaged_begins_behind_the_one_before() -> None:
    scene = Scene()
    for step, number in [("begin", 3), ("append", 3), ("begin", 1), ("append", 3), ("begin", 1), ("append", 30)]:
        scene.run(step, number)
    place = scene.disk.read_file(scene.log.segments[0].path).index(b"epoch", 300)
    scene.disk.flip(scene.log.segments[0].path, place)
    scene.disk.remove(f"{scene.log.directory}/epochs")
    scene.open_again(scene.disk.after_crash("everything"))
    epochs = load(scene.log, scene.disk)
    ends = [epochs.end_of(epoch, 0, scene.log.next_offset) for epoch in (2, 3, 4, 5, 6)]
    assert ends == [None, (3, 1), (4, 8), (5, 39), (5, 39)]


def test_refused_epoch_frame_leaves_no_epoch() -> None:
    scene = Scene()
    for step, number in [("append", 2), ("begin", 2)]:
        scene.run(step, number)
    scene.disk.fail("write", path="*.log", error=errno.ENOSPC)
    begin(scene.store, scene.log, scene.disk, 7)
    assert scene.log.next_offset == 3
    assert_equal(scene.log, scene.log.epochs, scene.naive)


def test_log_without_epochs_writes_and_reads_no_note() -> None:
    scene = Scene()
    for step, number in [("append", 40), ("save", 0), ("retain", 2000), ("compact", 0), ("truncate", 3)]:
        scene.run(step, number)
    assert scene.log.first_offset
    assert not any(path.endswith("epochs") for path in scene.disk.paths())


def test_epoch_before_the_first_message_is_known_when_a_truncation_removes_all() -> None:
    scene = Scene()
    for step, number in [("append", 7), ("begin", 1), ("begin", 1), ("retain", 0), ("save", 0), ("truncate", 1)]:
        scene.run(step, number)
    assert scene.log.first_offset == scene.log.next_offset == 8
    scene.open_again(scene.disk.after_crash("synced"))
    assert load(scene.log, scene.disk).last == 1


def test_newest_epoch_stays_known_when_retention_removes_everything() -> None:
    scene = Scene()
    for step, number in [("append", 5), ("begin", 3), ("append", 30), ("roll", 0), ("retain", 0), ("restart", 0)]:
        scene.run(step, number)
    assert scene.log.first_offset == scene.log.next_offset == 36
    epochs = load(scene.log, scene.disk)
    assert (epochs.last, epochs.end_of(5, 36, 36), epochs.end_of(2, 36, 36)) == (3, (3, 36), None)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"offset": -1, "epochs": []},
        {"offset": 9, "epochs": [[2, 1], [1, 5]]},
        {"offset": 9, "epochs": [[1, 5], [2, 5]]},
        {"offset": 9, "epochs": [[0, 5]]},
        {"offset": 9, "epochs": [[1, True]]},
        {"offset": 9, "epochs": [[1]]},
        {"offset": 9, "epochs": 7},
        {"offset": "9", "epochs": []},
    ],
)
def test_impossible_note_says_nothing(disk: FaultyDisk, facts: dict[str, object]) -> None:
    disk.make_directory("/log")
    write_checkpoint(disk, "/log/epochs", **facts)
    assert EpochNote.load(disk, "/log") == EpochNote("/log")


def test_retention_without_new_epochs_writes_nothing_to_a_full_disk() -> None:
    scene = Scene()
    for step, number in [("append", 5), ("begin", 3), ("append", 30), ("save", 0), ("append", 30), ("roll", 0)]:
        scene.run(step, number)
    scene.disk.fail("create", errno.ENOSPC, times="forever")
    scene.run("retain", 100)
    assert scene.log.first_offset > 60
    assert_equal(scene.log, scene.log.epochs, scene.naive)
