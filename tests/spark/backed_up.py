"""A data directory with backups, the newest of which is restored."""

from pathlib import Path

from goqueue.backup.opening import open_target
from goqueue.config import BackupConfig
from goqueue.spark.logs.backup import BackupLogs
from goqueue.spark.logs.directory import DirectoryLogs
from tests.backup.backups import back_up_to, restore_from
from tests.spark.stock import DISK, Sent, Stock

ROUNDS = 4


class BackedUp:
    """A data directory with several backups, the newest of which is restored."""

    def __init__(self, path: Path, target: str, settings: BackupConfig) -> None:
        self.target, self.settings, self.restored = target, settings, str(path / "restored")
        opened = open_target(target, settings)
        with Stock(path / "data", segment_bytes=1 << 20) as stock:
            stock.create("orders", 2).create("state")
            for number in range(ROUNDS):
                stock.fill("orders", 30).fill("state", 30)
                aborted = stock.append("orders", Sent(b"aborted", is_transactional=True))
                stock.end("orders", aborted, is_commit=False)
                committed = stock.append("orders", Sent(b"committed", is_transactional=True))
                stock.end("orders", committed)
                if number == 1:
                    stock.roll("state")
                    stock.compact("state")
                back_up_to(opened, DISK, stock.store, number)
            stock.append("orders", Sent(b"behind the cut"))
        restore_from(opened, DISK, ROUNDS - 1, self.restored)

    @property
    def logs(self) -> BackupLogs:
        return BackupLogs.at(self.target, None, self.settings)

    @property
    def directory(self) -> DirectoryLogs:
        return DirectoryLogs.at(self.restored)

    @property
    def options(self) -> dict[str, str]:
        found = {"backup": self.target, "backup.endpoint": self.settings.endpoint, "backup.region": "us-east-1"}
        return {**found, "backup.allowHttp": "true", "backup.keyFile": self.settings.key_file}
