"""The file of the history: kept across ends of any kind, and never an obstacle."""

import logging

import pytest

from goqueue.broker.core.work import run_work
from goqueue.observe.history_rings import FILE_BYTES, HistoryRings
from goqueue.observe.history_row import SERIES
from goqueue.runtime.history_file import HistoryFile
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk

PATH = "/data/history"


class Keeper:
    """A broker's history on a disk, without the broker."""

    def __init__(self, disk: FaultyDisk, clock: ManualClock) -> None:
        self.disk = disk
        self.clock = clock
        self.rings = HistoryRings()
        self.file = HistoryFile(disk, "/data")
        self.file.load(self.rings, clock.now_ns())

    def run(self, seconds: int, published: float) -> None:
        for _ in range(seconds):
            self.clock.advance(1)
            self.rings.add(self.clock.now_ns(), 1.0, (published,) * len(SERIES), {})
            if self.rings.has_changes:
                run_work(self.file.save(self.rings))

    def stop(self) -> None:
        self.rings.complete()
        run_work(self.file.save(self.rings))

    @property
    def published(self) -> list[float | None]:
        return self.rings.read(40, 10, self.clock.now_ns()).series["published"]


@pytest.fixture
def disk() -> FaultyDisk:
    made = FaultyDisk()
    made.make_directory("/data")
    return made


@pytest.fixture
def keeper(disk: FaultyDisk) -> Keeper:
    return Keeper(disk, ManualClock())


def restarted(keeper: Keeper, disk: FaultyDisk | None = None) -> Keeper:
    return Keeper(disk or keeper.disk, keeper.clock)


def test_history_is_kept_across_a_restart_with_a_gap_for_the_downtime(keeper: Keeper) -> None:
    keeper.run(10, 5)
    keeper.stop()
    keeper.clock.advance(20)
    after = restarted(keeper)
    after.run(11, 7)
    assert after.published == [5, None, None, 7]


def test_a_killed_broker_loses_the_last_ten_seconds_at_most(keeper: Keeper) -> None:
    keeper.run(25, 5)
    after = restarted(keeper, keeper.disk.crash("everything"))
    after.run(6, 7)
    assert after.published == [None, 5, 5, 7]


@pytest.mark.parametrize("seed", range(5))
def test_a_loss_of_power_leaves_rows_or_gaps(seed: int) -> None:
    disk = FaultyDisk(seed)
    disk.make_directory("/data")
    keeper = Keeper(disk, ManualClock())
    keeper.run(41, 5)
    after = restarted(keeper, disk.crash("some", torn=True))
    assert set(after.published) <= {5, None}
    after.run(11, 7)
    assert after.published[-1] == 7


def test_the_file_has_a_fixed_size(keeper: Keeper) -> None:
    for _ in range(3):
        keeper.run(11, 5)
        assert keeper.disk.open(PATH, "read").size() == FILE_BYTES
        keeper.clock.advance(86_400)


@pytest.mark.parametrize("content", [b"", b"a letter to my broker", bytes(5000)])
def test_a_foreign_file_is_replaced_with_a_word(
    disk: FaultyDisk, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk.write_file(PATH, content)
    keeper = Keeper(disk, ManualClock())
    assert "/data/history is not a history that this version writes: it starts anew" in caplog.text
    keeper.run(11, 5)
    assert restarted(keeper).published == [None, None, None, 5]


def test_damaged_rows_are_left_out_with_a_word(keeper: Keeper, caplog: pytest.LogCaptureFixture) -> None:
    keeper.run(41, 5)
    content = keeper.disk.read_file(PATH)
    keeper.disk.flip(PATH, next(place for place in range(4096, FILE_BYTES) if content[place]))
    after = restarted(keeper)
    assert after.published.count(5) == 3
    assert "left out of /data/history because of damage: 1 row" in caplog.text


def test_a_deleted_file_starts_anew(keeper: Keeper) -> None:
    keeper.run(11, 5)
    keeper.disk.remove(PATH)
    keeper.run(10, 6)
    assert restarted(keeper).published == [None, None, None, 5.9]


def test_a_full_disk_is_told_once_and_written_later(keeper: Keeper, caplog: pytest.LogCaptureFixture) -> None:
    keeper.disk.capacity_bytes = 100
    keeper.run(31, 5)
    assert caplog.text.count("the history cannot be written and is kept in memory") == 1
    assert keeper.published == [None, 5, 5, 5]
    keeper.disk.capacity_bytes = None
    keeper.run(10, 6)
    assert restarted(keeper).published == [5, 5, 5, 5.9]


def test_a_disk_that_does_not_read_is_no_obstacle(keeper: Keeper, caplog: pytest.LogCaptureFixture) -> None:
    keeper.run(11, 5)
    keeper.disk.fail("open", path=PATH)
    after = restarted(keeper)
    assert after.published == [None] * 4
    assert "the history cannot be read and starts anew" in caplog.text


def test_a_directory_of_that_name_is_no_obstacle(disk: FaultyDisk, caplog: pytest.LogCaptureFixture) -> None:
    disk.make_directory(PATH)
    keeper = Keeper(disk, ManualClock())
    keeper.run(11, 5)
    assert keeper.published == [None, None, None, 5]
    assert [one.levelno for one in caplog.records] == [logging.WARNING] * 2
