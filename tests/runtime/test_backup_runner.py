"""The backups of a broker that has just started."""

import asyncio
import threading
from pathlib import Path

from goqueue.backup.opening import open_target
from goqueue.backup.retention import BackupRetention
from goqueue.clock import SystemClock
from goqueue.observe.metrics import Metrics
from goqueue.runtime.backup_runner import BackupRunner
from goqueue.runtime.runtime import Runtime
from goqueue.storage.disk import DirectoryEntry, SystemDisk
from goqueue.storage.store import StoreSettings


class SlowDisk(SystemDisk):
    """Looks for the files of an interrupted backup late: when the next one has some, or `goes_on`."""

    def __init__(self) -> None:
        self.goes_on, self.removed = threading.Event(), threading.Event()
        self.is_asked = False

    def entries(self, path: str) -> list[DirectoryEntry]:
        if path.endswith("/cut") and not self.is_asked:
            self.is_asked = True
            self.goes_on.wait(30)
        return super().entries(path)

    def link(self, path: str, new: str) -> None:
        super().link(path, new)
        if not self.goes_on.is_set():
            self.goes_on.set()
            self.removed.wait(30)

    def remove_directory(self, path: str) -> None:
        super().remove_directory(path)
        self.removed.set()


def test_backup_that_begins_with_the_broker_waits_until_the_leftovers_are_gone(tmp_path: Path) -> None:
    async def main() -> None:
        disk = SlowDisk()
        runtime = Runtime(disk, SystemClock(), Metrics("1"))
        runtime.start(str(tmp_path / "data"), "a test", StoreSettings())
        (tmp_path / "data/cut").mkdir()
        target = open_target(str(tmp_path / "backups"), disk=disk)
        runner = BackupRunner(runtime, target, 0, BackupRetention(1, 1, 1, 1))
        runner.start()
        run = runner.begin_backup()
        for _ in range(2_000):  # enough for a backup that does not wait
            await asyncio.sleep(0)
        disk.goes_on.set()
        await runner.wait()
        assert (run.state, run.problem) == ("complete", None)
        await runner.stop()
        await runtime.stop()

    asyncio.run(main())
