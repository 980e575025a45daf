"""Real brokers killed with SIGKILL while they back up, prune and restore, and `goqueue restore` killed on its way."""

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random

from goqueue.backup.opening import open_target
from goqueue.backup.restore import plan_restore, restore_backup
from goqueue.backup.verify import load_manifest, verify_backup
from goqueue.storage.disk import SystemDisk
from tests.api.keys import eventually
from tests.brokers import ask, create, publish, read
from tests.cli.programs import Done, cli, environment
from tests.crash.life import telling
from tests.forked import Program
from tests.processes import ROOT, Served

SHARE = 4
TOPICS = 8
CHANGES_MAX = 60
"""Names that a backup, a deletion or a restore adds and removes here, roughly."""
COMMAND = (sys.executable, "-m", "goqueue")


def goqueue(*words: str) -> Done:
    return cli("", *words, command=COMMAND)


def names(path: Path) -> set[str]:
    return {f"{folder}/{name}" for folder, inner, files in os.walk(path) for name in (*inner, *files)}


def await_changes(path: Path, count: int, is_over: Callable[[], bool]) -> None:
    """Wait until so many names below a directory were added or removed, or until nothing goes on."""
    before = names(path)
    while not is_over() and len(before ^ names(path)) < count:  # a pause would miss most of the steps
        pass


def values(url: str, topic: str) -> list[str]:
    return [one["value"] for one in read(url, topic)]


class Broker:
    """A broker that is killed and started again, with a target for backups and what it has acknowledged there."""

    def __init__(self, path: Path) -> None:
        self.data, self.target = path / "data", open_target(str(path / "backups"), disk=SystemDisk())
        self.backups = path / "backups"
        self.complete: set[str] = set()
        self.copy = ""
        """The name that the last restored topic got."""
        self._served = self._start()
        self._numbers = iter(range(10**6))
        for number in range(TOPICS):
            create(self.url, f"t{number}")

    def _start(self) -> Served:
        words = ("--data-dir", str(self.data), "--backup-target", str(self.backups), "--backup-rate", "0B")
        keep = [f"--backup-keep-{name}=0" for name in ("hourly", "daily", "weekly", "monthly")]
        return Served(*words, *keep).launch().await_start()

    @property
    def url(self) -> str:
        return self._served.url

    def kill(self) -> None:
        self._served.kill()

    def publish(self) -> None:
        number = next(self._numbers)
        for topic in range(TOPICS):
            publish(self.url, f"t{topic}", f"{number} {topic}")

    def back_up(self) -> str:
        """Make a backup, and return its id."""
        made = str(ask(self.url, "POST", "/admin/backup", {}).json["id"])
        eventually(lambda: ask(self.url, "GET", f"/admin/backup/{made}").json["state"] == "complete")
        self.complete.add(made)
        return made

    def prune(self) -> None:
        self.complete = {max(self.complete)}  # what is deleted is not known until the answer
        assert ask(self.url, "POST", "/admin/backup/prune", {}).status == 200

    def restore_topic(self, name: str) -> None:
        """Restore a topic, unless a kill in its last step has left logs with this name, which is refused."""
        self.copy, path = name, f"/admin/backup/{max(self.complete)}"
        begun = ask(self.url, "POST", f"{path}/restore", {"topic": "t0", "name": name})
        if begun.status == 409 and begun.code == "log_exists":
            self.restore_topic(f"{name}-again")
            return
        assert begun.status == 202, begun.body
        eventually(lambda: ask(self.url, "GET", path).json["progress"] is None)

    def kill_during(self, act: Callable[[], object], path: Path, changes: int) -> None:
        with ThreadPoolExecutor(1) as threads:
            acting = threads.submit(act)
            await_changes(path, changes, acting.done)
            self.kill()
            with suppress(OSError):
                acting.result()
        self._served = self._start()

    def check(self) -> None:
        """Every backup of the list is sound, and none that was complete is missing."""
        ids = self.target.ids()
        assert self.complete <= set(ids)
        assert [name for name in ids if not verify_backup(self.target, name).is_sound] == []


def test_killed_broker_keeps_earlier_backups_and_completes_the_next_ones(tmp_path: Path, seed: str, kills: int) -> None:
    chance, broker = Random(seed), Broker(tmp_path)
    try:
        with telling(f"seed {seed}, in {tmp_path}"):
            for number in range(kills):
                broker.publish()
                broker.back_up()
                broker.publish()
                broker.kill_during(broker.back_up, broker.backups, chance.randrange(1, CHANGES_MAX))
                broker.check()
                broker.back_up()
                broker.kill_during(broker.prune, broker.backups, chance.randrange(1, CHANGES_MAX))
                broker.check()
                broker.prune()
                broker.check()
                assert len(broker.target.ids()) == 1
                restore = partial(broker.restore_topic, f"copy-{number}")
                broker.kill_during(restore, broker.data, chance.randrange(1, 12))
                if ask(broker.url, "GET", f"/topics/{broker.copy}").status == 404:
                    restore()
                assert values(broker.url, broker.copy) == values(broker.url, "t0")
                assert not (broker.data / "cut").exists()
                assert not (broker.data / "restoring").exists()
    finally:
        broker.kill()


def test_killed_restore_is_refused_as_a_directory_and_continued(tmp_path: Path, seed: str, kills: int) -> None:
    chance, broker = Random(seed), Broker(tmp_path)
    try:
        broker.publish()
        made = broker.back_up()
    finally:
        broker.kill()
    disk, whole, half = SystemDisk(), tmp_path / "whole", tmp_path / "half"
    restore_backup(disk, broker.target, plan_restore(disk, load_manifest(broker.target, made), str(whole)), "test")
    words = ("restore", "--from", str(broker.backups), "--data-dir", str(half))
    with telling(f"seed {seed}, in {tmp_path}"):
        for _ in range(kills):
            half.mkdir()
            program = Program([*COMMAND, *words], stderr=subprocess.PIPE, cwd=ROOT, env=environment())
            await_changes(half, chance.randrange(1, CHANGES_MAX), partial(has_ended, program))
            program.kill()
            program.communicate()
            if (half / "logs").exists() and b"restoring" in (half / "FORMAT").read_bytes():
                refused = goqueue("serve", "--data-dir", str(half), "--port", "0")
                assert refused.code == 2
                assert "run `goqueue restore` again" in refused.err
            again = goqueue(*words)
            assert again.code == 0 or "is not empty" in again.err
            assert content(half) == content(whole)
            half.rename(tmp_path / f"done-{len(list(tmp_path.iterdir()))}")


def has_ended(program: Program) -> bool:
    return program.poll() is not None


def content(path: Path) -> dict[str, bytes]:
    """All files but the lock, which names a process."""
    files = {str(one.relative_to(path)): one for one in path.rglob("*") if one.is_file()}
    return {name: one.read_bytes() for name, one in files.items() if name != "lock"}
