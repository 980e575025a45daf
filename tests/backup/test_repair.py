"""`goqueue fsck --repair-from`: damage is replaced by the same bytes of a backup, and by nothing else."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.backup.create import BackupWriter, Throttle
from goqueue.backup.cut import take_cut
from goqueue.backup.opening import open_target
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from tests.backup.backups import name_of
from tests.cli.programs import Done, cli
from tests.storage.stores import append, finish, open_store, values

COMMAND = (sys.executable, "-m", "goqueue")


class Place:
    """A data directory and its backups."""

    def __init__(self, path: Path) -> None:
        self.data, self.backups = path / "data", path / "backups"
        self.clock = ManualClock()
        self.log = self.data / "logs" / "t" / "0"
        self.store = self.open()

    def open(self) -> Store:
        return open_store(SystemDisk(), self.clock, path=str(self.data), segment_bytes=1000)

    def back_up(self, number: int = 0) -> None:
        disk, target, cut_path = SystemDisk(), open_target(str(self.backups), disk=SystemDisk()), f"{self.data}/cut"
        work = take_cut(self.store, disk, cut_path, 1)
        next(work)()
        try:
            work.send(None)
        except StopIteration as end:
            cut = end.value
        lock = target.open("this test")
        BackupWriter(disk, cut_path, cut, target, Throttle(0)).run(name_of(number), "1")
        lock.release()

    def segments(self) -> list[Path]:
        return sorted(self.log.glob("*.log"))

    def fsck(self, *words: str) -> Done:
        return cli("", "fsck", str(self.data), *words, command=COMMAND)

    def repair(self) -> Done:
        return self.fsck("--repair", "--repair-from", str(self.backups), "--yes")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A log of several segments, a backup of it, and more messages behind the backup."""
    found = Place(tmp_path)
    log = found.store.create("t/0")
    for number in range(7):
        append(found.store, log, b"%d" % number * 300, key=b"k%d" % (number % 2))
    found.back_up()
    append(found.store, log, b"7" * 300)
    return found


def flip(path: Path, *positions: int) -> None:
    content = bytearray(path.read_bytes())
    for position in positions:
        content[position] ^= 1
    path.write_bytes(content)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def erase(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


DAMAGES: dict[str, Callable[[Place], None]] = {
    "a bit": lambda place: flip(place.segments()[1], 400),
    "both frames": lambda place: flip(place.segments()[1], 40, 400),
    "zeros": lambda place: erase(place.segments()[1]),
    "cut": lambda place: shorten(place.segments()[1]),
    "segment gone": lambda place: place.segments()[1].unlink(),
    "active segment": lambda place: flip(place.segments()[-1], 40),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_replaced_by_the_same_bytes(place: Place, damage: Callable[[Place], None]) -> None:
    before = {path.name: path.read_bytes() for path in place.segments()}
    place.store.close()
    damage(place)
    done = place.repair()
    assert (done.code, "no damage" in done.err) == (0, True), done.err
    assert {path.name: path.read_bytes() for path in place.segments()} == before
    assert values(place.open().log("t/0")) == [b"%d" % number * 300 for number in range(8)]


def test_log_that_is_gone_is_restored_and_goes_on_behind_the_offsets_that_were_given_out(place: Place) -> None:
    place.store.close()
    shutil.rmtree(place.log)
    done = place.repair()
    assert "the whole log from backup" in done.err
    store = place.open()
    assert values(store.log("t/0"), skip=True) == [b"%d" % number * 300 for number in range(7)]
    assert append(store, store.log("t/0"), b"next").start >= 8


def test_segment_that_was_compacted_since_is_not_replaced_by_another_one(place: Place) -> None:
    finish(plan_compaction(place.store.log("t/0"), SystemDisk(), now_ns=place.clock.now_ns()))
    place.store.close()
    flip(place.segments()[0], 40)
    content = place.segments()[0].read_bytes()
    done = place.repair()
    assert done.code == 1
    assert "nothing that replaces the damage" in done.err
    assert place.segments()[0].read_bytes() == content
    refused = place.fsck("--repair-from", str(place.backups))
    assert refused.code == 2
    assert "--repair" in refused.err
