"""Backups under mixed load of real processes, while the broker is killed; each is restored and judged by the checker.

A restored broker has the state of a crash at the cut. So the history of its run is what had been answered when the
backup was requested, and all that was asked until it was complete, which may have taken effect or not.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goqueue.backup.opening import open_target
from goqueue.backup.restore import plan_restore, restore_backup
from goqueue.backup.verify import load_manifest, verify_backup
from goqueue.storage.disk import SystemDisk
from goqueue.testing.history.events import BegunEvent, Event, read
from goqueue.testing.history.report import HistoryReport
from tests.brokers import ask
from tests.crash.group_run import GROUP
from tests.crash.life import telling
from tests.crash.transaction_run import TransactionRun

SHARE = 10
TRANSFORMERS = "h"
NOTES = 40
"""Lines of progress of the processes between two backups."""
SESSION, VISIBILITY, TIMEOUT = "1s", "1s", "1s"


@dataclass(frozen=True)
class Taken:
    """A backup, and the two times between which its cut is."""

    id: str
    after_ns: int
    before_ns: int

    def covers(self, event: Event) -> bool:
        """Return whether an event belongs to the history up to the cut."""
        is_request = isinstance(event, BegunEvent) or type(event).__name__.endswith("SentEvent")
        return event.at_ns <= (self.before_ns if is_request else self.after_ns)


class BackedUpRun(TransactionRun):
    """A run with transactions, groups and delayed messages, whose broker makes backups."""

    groups = (GROUP, TRANSFORMERS)

    def __init__(self, path: Path, seed: str) -> None:
        super().__init__(path, seed, partitions=3)
        self.target = path / "backups"
        self.settings = "--backup-target", str(self.target), "--backup-rate", "0B", "--storage-segment-bytes", "64KiB"

    def start_load(self) -> None:
        common: dict[str, Any] = {"session": SESSION, "visibility": VISIBILITY}
        self.start("group_producer", "producer", mixed=True)
        self.start("group_consumer", "consumer", style="batches", nacks=0.03, rejects=0.01, **common)
        self.write("writer", timeout=TIMEOUT, aborts=0.1)
        given = {"group": TRANSFORMERS, "timeout": TIMEOUT, "aborts": 0.05}
        self.write("transformer", "transaction_transformer", **common, **given)

    def begin_backup(self) -> str:
        return str(ask(self.url, "POST", "/admin/backup", {}).json["id"])

    def back_up(self) -> Taken:
        began_ns = time.monotonic_ns()
        found = ask(self.url, "GET", f"/admin/backup/{self.begin_backup()}").json
        while found["state"] == "running":
            found = ask(self.url, "GET", f"/admin/backup/{found['id']}").json
        assert found["state"] == "complete", found
        return Taken(found["id"], began_ns, time.monotonic_ns())

    def kill_during_backup(self) -> list[Taken]:
        """Kill the broker in the middle of a backup, or shortly after it."""
        began_ns, made = time.monotonic_ns(), self.begin_backup()
        for _ in range(self.chance.randrange(4)):
            ask(self.url, "GET", f"/admin/backup/{made}")
        self.kill_broker()
        listed = [one["id"] for one in ask(self.url, "GET", "/admin/backup").json["backups"]]
        return [Taken(made, began_ns, time.monotonic_ns())] if made in listed else []


class RestoredRun(TransactionRun):
    """A run that goes on in the restored directory of a backup, up to its end."""

    groups = BackedUpRun.groups

    def __init__(self, path: Path, seed: str, history: list[Event]) -> None:
        super().__init__(path, seed, partitions=3)
        self._history = history

    def _create_topics(self) -> None:
        """They are restored."""
        assert not [line for line in self.broker.banner if line.startswith(("DAMAGE", "CLOSED"))]

    def _events(self) -> list[Event]:
        return [*self._history, *super()._events()]


def judge_restored(run: BackedUpRun, taken: Taken) -> HistoryReport:
    """Restore a backup, let everything end there that was under way, and judge the history."""
    path, disk, target = run.target.parent / taken.id, SystemDisk(), open_target(str(run.target))
    history = [event for event in read(sorted(path.parent.glob("*.jsonl"))) if taken.covers(event)]
    assert verify_backup(target, taken.id).is_sound
    path.mkdir()
    restore_backup(disk, target, plan_restore(disk, load_manifest(target, taken.id), str(path / "data")), "this test")
    with RestoredRun(path, f"{run.seed} {taken.id}", history) as restored:
        restored.finish()
        for group in restored.groups:
            restored.drain(group)
        return restored.judge()[1]


def test_every_backup_under_mixed_load_is_restored_without_a_loss_or_a_return(
    tmp_path: Path, seed: str, kills: int
) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), BackedUpRun(tmp_path, seed) as run, ThreadPoolExecutor(2) as threads:
        run.start_load()
        run.go_on(NOTES)
        taken = [run.back_up()]
        for _ in range(kills):
            run.go_on(NOTES)
            taken += run.kill_during_backup()
            run.go_on(NOTES)
            taken.append(run.back_up())
        run.await_outcomes()
        listed = ask(run.url, "GET", "/admin/backup").json["backups"]
        assert {one.id for one in taken} == {one["id"] for one in listed}
        assert all(one["new_bytes"] < one["bytes"] for one in listed[:-1]), "they are incremental"
        reports = list(threads.map(judge_restored, [run] * len(taken), taken))
        assert all(report.counts.acked and report.counts.published for report in reports)
        assert reports[-1].counts.committed
