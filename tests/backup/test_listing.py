"""Lists of backups, while others make and delete them."""

from collections.abc import Callable
from typing import Literal

import pytest

from goqueue.backup.catalog import BackupCatalog
from goqueue.backup.opening import open_target
from goqueue.backup.verify import readable_manifests
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.backup.backups import TARGET, back_up, name_of
from tests.backup.keys import locked
from tests.backup.test_backup import filled


class SharedDisk(FaultyDisk):
    """A disk that another process changes right after a path was looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.next_changes: dict[str, Callable[[], None]] = {}

    def kind(self, path: str) -> Literal["file", "directory", "other", "absent"]:
        found = super().kind(path)
        self.next_changes.pop(path, lambda: None)()
        return found


def test_list_is_empty_while_the_first_backup_makes_the_target() -> None:
    disk = SharedDisk()
    target = open_target(TARGET, disk=disk)

    def make() -> None:
        with locked(target):
            pass

    disk.next_changes[f"{TARGET}/id"] = make
    assert BackupCatalog(target).summaries() == []
    assert target.known_id is not None


@pytest.mark.parametrize("path", [f"{TARGET}/verified", f"{TARGET}/backups/{name_of(0)}"])
def test_backup_that_is_deleted_while_backups_are_listed_is_left_out(path: str) -> None:
    disk, clock = SharedDisk(), ManualClock()
    store = filled(disk, clock)
    for number in (0, 1):
        back_up(disk, store, number)
    target = open_target(TARGET, disk=disk)
    disk.next_changes[path] = lambda: disk.remove(f"{TARGET}/backups/{name_of(0)}")
    assert [one.id for one in BackupCatalog(target).summaries()] == [name_of(1)]
    assert [one.id for one in readable_manifests(target, [name_of(0), name_of(1)])] == [name_of(1)]
