"""Backups that are not what they should be: one that lacks a lost log, and one that cannot be verified."""

from pathlib import Path

import pytest

from goqueue.backup.opening import open_target
from goqueue.backup.target import BackupTarget
from goqueue.errors import DiskFull
from tests.admin.programs import admin
from tests.backup.keys import locked
from tests.backup.test_with_broker import broker, goqueue, rows
from tests.brokers import ask, create, publish, read

KEEP_ONE = {"backup__keep_hourly": "1", **{f"backup__keep_{one}": "0" for one in ("daily", "weekly", "monthly")}}


def findings(url: str) -> dict[str, str]:
    return {one["code"]: f"{one['sentence']}; {one['hint']}" for one in ask(url, "GET", "/doctor").json["findings"]}


def test_backup_without_a_lost_log_is_marked_until_it_is_repaired_from_an_earlier_one(tmp_path: Path) -> None:
    target = str(tmp_path / "backups")
    with broker(tmp_path, **KEEP_ONE) as running:
        create(running.url, "big")
        publish(running.url, "big", "a", "b")
        (whole,) = rows(admin(running.url, "backup", "create", "-o", "json"))
    for segment in (tmp_path / "data/logs/big/0").glob("*.log"):
        segment.unlink()
    with broker(tmp_path, **KEEP_ONE) as running:
        assert f"--repair --repair-from {target}" in findings(running.url)["log_closed"]
        made = admin(running.url, "backup", "create")
        assert (
            made.code,
            "incomplete" in made.out,
            "lacks logs that the broker could not open: big/0" in made.err,
        ) == (
            0,
            True,
            True,
        )
        assert rows(admin(running.url, "backup", "prune", "--yes", "-o", "json")) == []
        listed = admin(running.url, "backup", "list")
        assert ("incomplete" in listed.out, "incomplete backups lack logs" in listed.err) == (True, True)
        verified = admin(running.url, "backup", "verify")
        assert (verified.code, "lacks logs that the broker could not open: big/0" in verified.err) == (0, True)
        assert "but big/0 is not in it: " in goqueue("backup", "verify", "--from", target).err
        listed = goqueue("backup", "list", "--from", target)
        assert ("incomplete" in listed.out, "incomplete backups lack logs" in listed.err) == (True, True)
        assert (
            "the newest backup lacks 1 log that the broker could not open: big/0"
            in (findings(running.url)["backup_incomplete"])
        )
    repaired = goqueue("fsck", str(tmp_path / "data"), "--repair", "--repair-from", target, "--yes")
    assert f"big/0: the whole log from backup {whole['id']}" in repaired.err
    with broker(tmp_path, **KEEP_ONE) as running:
        assert [one["value"] for one in read(running.url, "big")] == ["a", "b"]
        assert rows(admin(running.url, "backup", "create", "-o", "json"))[0]["state"] == "complete"
        assert "backup_incomplete" not in findings(running.url)
        assert admin(running.url, "backup", "verify").code == 0
        deleted = rows(admin(running.url, "backup", "prune", "--yes", "-o", "json"))
        assert len(deleted) == 2
        assert whole["id"] in {one["name"] for one in deleted}


def test_verification_that_cannot_be_done_ends_with_its_error(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        made = rows(admin(running.url, "backup", "create", "-o", "json"))[0]["id"]
        with locked(open_target(str(tmp_path / "backups"))):
            failed = admin(running.url, "backup", "verify")
            assert (failed.code, f"backup {made} was not verified" in failed.err) == (1, True)
            assert admin(running.url, "backup", "create").code == 1
        described = ask(running.url, "GET", f"/admin/backup/{made}").json
        assert described["verification"] is None
        assert described["verification_problem"] in " ".join(failed.err.split())
        assert "its last verification failed: " in admin(running.url, "backup", "describe", made).err
        assert "1 backup in " in (listed := admin(running.url, "backup", "list").err)
        assert ", beside 1 failed or cancelled attempt" in listed
        assert admin(running.url, "backup", "verify").code == 0
        assert ask(running.url, "GET", f"/admin/backup/{made}").json["verification_problem"] is None


def test_backup_to_a_full_target_says_that_it_must_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_full(*_: object) -> None:
        raise DiskFull("no space left on the device", hint="free some space: writing resumes by itself")

    monkeypatch.setattr(BackupTarget, "put_manifest", is_full)
    with broker(tmp_path) as running:
        failed = admin(running.url, "backup", "create")
        assert (failed.code, "no space left on the device; free some space, and try again" in failed.err) == (1, True)
