"""A run of real processes around a broker that can lose its power, fill its disk, and be damaged while it is down."""

from pathlib import Path
from typing import Literal

from goqueue.testing.disk import Keep
from tests.crash.device import Device
from tests.crash.transaction_run import TransactionRun
from tests.processes import Served

Ending = Literal["killed", "stopped", "power lost"]


class PowerRun(TransactionRun):
    """A run with transactions, on a device that forgets what was not synced when the power goes."""

    def __init__(self, path: Path, seed: str, partitions: int) -> None:
        super().__init__(path, seed, partitions)
        self.device = Device(path / "data", path / "journal", seed)
        self._full = path / "journal.full"

    def _new_broker(self) -> Served:
        served = super()._new_broker()
        served.program = "tests.crash.power_process", str(self.device.data), str(self.device.journal)
        return served

    def end_broker(self, ending: Ending, keep: Keep | None = None) -> None:
        if ending == "stopped":
            code, said = self.broker.stop()
            assert code == 0, said
        else:
            self.broker.kill()
        if ending == "power lost":
            self.device.power_lost(keep)
        else:
            self.device.process_ended()

    def begin_broker(self) -> None:
        self.broker = self._start_broker()

    def kill_broker(self) -> None:
        self.end_broker("killed")
        self.begin_broker()

    def restart_broker(self) -> None:
        self.end_broker("stopped")
        self.begin_broker()

    def cut_power(self, keep: Keep | None = None) -> None:
        self.end_broker("power lost", keep)
        self.begin_broker()

    def fill_disk(self) -> None:
        """From here on next to nothing fits on it."""
        self._full.touch()

    def free_disk(self) -> None:
        self._full.unlink(missing_ok=True)
