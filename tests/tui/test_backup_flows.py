"""Backups are made, looked at, verified, restored from and deleted in the dashboard, with a real broker."""

import re
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from goqueue.backup.opening import open_target
from goqueue.testing.broker import LocalBroker
from goqueue_admin.dashboard.screens.routes import HOME, Location
from tests.api.keys import eventually, secured
from tests.backup.keys import key_file, keys_of, locked
from tests.brokers import ask, create, publish, read
from tests.tui.pilots import press, see, see_page, shown, table, text, until

BACKUPS = Location("backups")


def broker(tmp_path: Path, **settings: str) -> LocalBroker:
    given = {"backup__target": str(tmp_path / "backups"), "backup__rate": "0B", **settings}
    return LocalBroker(str(tmp_path / "data"), **given)


def make_backup(url: str) -> str:
    """Make a backup over HTTP."""
    name = str(ask(url, "POST", "/admin/backup", {}).json["id"])
    eventually(lambda: ask(url, "GET", f"/admin/backup/{name}").json["state"] == "complete")
    return name


async def agree(pilot: "Pilot[Any]", *parts: str) -> None:
    """See the plan, apply it, see its result, and close the dialog."""
    *plan, result = parts
    await see(pilot, *plan, "(y)")
    await press(pilot, "y")
    await see(pilot, result)
    await press(pilot, "escape")


async def until_listed(pilot: "Pilot[Any]", count: int, state: str) -> list[Any]:
    """Wait for so many backups, the newest of which is in a state while nothing else runs."""

    def holds() -> bool:
        found = table(pilot.app).records
        return len(found) == count and (not count or (found[0].told.state, found[0].told.progress) == (state, None))

    await until(pilot, holds, f"there are never {count} backups, of which the newest is {state}")
    return list(table(pilot.app).records)


async def test_backup_is_made_verified_restored_from_and_deleted(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        create(running.url, "orders", 2)
        publish(running.url, "orders", "a", "b", "c", partition=1)
        async with shown(running.url, BACKUPS, size=(100, 30)) as pilot:
            await see(pilot, "n makes one", str(tmp_path / "backups"), "none: `backup.interval` makes one")
            await press(pilot, "n")
            await agree(pilot, "everything is copied", "esc shows how far it is")
            (made,) = await until_listed(pilot, 1, "complete")
            assert made.told.id == ask(running.url, "GET", "/admin/backup").json["backups"][0]["id"]
            await press(pilot, "v")
            await agree(pilot, "every frame is read again", "is being verified")
            await until(pilot, lambda: table(pilot.app).records[0].told.verification is not None)
            await see(pilot, "since the newest verified one")
            await press(pilot, "enter")
            await see_page(pilot, "backup")
            await see(pilot, "orders/1", "ago: sound")
            logs = {one.name: (one.first_offset, one.next_offset) for one in table(pilot.app).records}
            assert logs["orders/1"] == (0, 3)
            table(pilot.app).seek("orders/1")
            await press(pilot, "R", "down", *"before", "down", "down", *"1=x", "enter")
            await see(pilot, "'1=x' is not a partition and an offset")
            await press(pilot, "ctrl+u", *"1=2", "enter")
            await agree(pilot, "orders → before", "only messages below 2", "before is being restored")
            await see(pilot, "before, complete")
            assert [one["value"] for one in read(running.url, "before", 1)] == ["a", "b"]
            await press(pilot, "x")
            await agree(pilot, "No complete backup is left.", f"{made.told.id} is deleted")
            await see(pilot, "there is no backup")
            await press(pilot, "escape")
            await see_page(pilot, "backups")
            await until_listed(pilot, 0, "")


async def test_running_backup_shows_its_progress_until_it_is_cancelled(tmp_path: Path) -> None:
    with broker(tmp_path, backup__rate="2000B") as running:
        create(running.url, "orders", 2)
        for partition in range(2):
            publish(running.url, "orders", *("x" * 1000 for _ in range(partition * 99 + 1)), partition=partition)
        async with shown(running.url, BACKUPS, size=(80, 24)) as pilot:
            await see(pilot, "n makes one")
            await press(pilot, "n")
            await agree(pilot, "a backup of all logs", "esc shows how far it is")
            await see(pilot, "backing up", "B/s, ")
            told = re.search(r" (\d+) % of 10\dKiB, (\S+)/s, (\S+) left", text(pilot.app))
            assert told is not None, text(pilot.app)
            assert int(told[1]) < 10, "a piece is done when it is written"
            await press(pilot, "n")
            await see(pilot, "wait for")
            await press(pilot, "escape", "x")
            await agree(pilot, "is cancelled; the next one continues", "is cancelled")
            await until_listed(pilot, 1, "cancelled")
            await press(pilot, "enter")
            await see(pilot, "It was cancelled: nothing is in it.")


async def test_prune_shows_what_retention_does_not_keep(tmp_path: Path) -> None:
    with broker(tmp_path, backup__keep_hourly="1") as running:
        first, second = (make_backup(running.url) for _ in range(2))
        async with shown(running.url, BACKUPS, size=(80, 24)) as pilot:
            await until_listed(pilot, 2, "complete")
            await press(pilot, "X")
            await agree(pilot, f"{first} is deleted", "1 backup kept", "1 backup deleted, 1 kept")
            (left,) = await until_listed(pilot, 1, "complete")
            assert left.told.id == second
            await press(pilot, "X")
            await see(pilot, "there is nothing to delete")


async def test_screen_says_that_its_target_is_gone_or_was_never_set(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        made = make_backup(running.url)
        (tmp_path / "backups").rename(tmp_path / "away")
        async with shown(running.url, BACKUPS, size=(200, 24)) as pilot:
            await see(pilot, "has no backups any more")
            await press(pilot, "n")
            await see(pilot, "Make a backup", "mount its device again")
            assert "(y)" not in text(pilot.app)
            (tmp_path / "away").rename(tmp_path / "backups")
            await press(pilot, "escape", "r")
            await see(pilot, made)
    with LocalBroker(str(tmp_path / "data")) as running:
        async with shown(running.url, BACKUPS, size=(100, 24)) as pilot:
            await see(pilot, "the broker has no target for backups")
            await press(pilot, "n")
            await see(pilot, "set `backup.target`")
            assert "(y)" not in text(pilot.app)


async def test_damaged_backup_is_named_from_the_overview_to_its_object(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        create(running.url, "orders")
        publish(running.url, "orders", "x" * 5000)
        made = make_backup(running.url)
        piece = max((tmp_path / "backups" / "objects").glob("*/*"), key=lambda path: path.stat().st_size)
        piece.write_bytes(b"x" + piece.read_bytes()[1:])
        ask(running.url, "POST", f"/admin/backup/{made}/verify", {})
        eventually(lambda: ask(running.url, "GET", f"/admin/backup/{made}").json["verification"])
        async with shown(running.url, HOME, size=(100, 30)) as pilot:
            await see(pilot, "the backup is not as it was written")
            table(pilot.app).seek(f"backup_damaged {made}")
            await press(pilot, "enter")
            await see_page(pilot, "backup")
            await see(pilot, "1 problem", "x deletes it")
            await press(pilot, "i")
            await see(pilot, piece.name)


async def test_verification_that_cannot_be_done_is_shown_with_its_reason(tmp_path: Path) -> None:
    with broker(tmp_path) as running:
        made = make_backup(running.url)
        with locked(open_target(str(tmp_path / "backups"))):
            ask(running.url, "POST", f"/admin/backup/{made}/verify", {})
            eventually(lambda: ask(running.url, "GET", f"/admin/backup/{made}").json["verification_problem"])
        async with shown(running.url, BACKUPS, size=(100, 30)) as pilot:
            await see(pilot, "◆ failed")
            await press(pilot, "enter")
            await see(pilot, "its last verification failed: ")


async def test_encrypted_backup_names_its_key_and_is_locked_without_it(tmp_path: Path) -> None:
    keys, other = (key_file(tmp_path / name) for name in ("key", "other"))
    (key,) = keys_of(keys).ids
    with broker(tmp_path, backup__key_file=str(keys)) as running:
        made = make_backup(running.url)
        async with shown(running.url, Location("backup", (made,)), size=(100, 24)) as pilot:
            await see(pilot, "● complete", f"with key {key}", "__metadata/0")
    with broker(tmp_path, backup__key_file=str(other)) as running:
        async with shown(running.url, BACKUPS, size=(100, 24)) as pilot:
            await see(pilot, "1 locked", "◇ locked")
            await press(pilot, "enter")
            await see(pilot, f"is encrypted with key {key}", "Its logs are listed when the broker has its key.")


async def test_key_without_the_right_is_refused_and_a_read_only_screen_offers_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with secured(tmp_path, backup__target=str(tmp_path / "backups"), backup__rate="0B") as running:
        rules = [{"kind": "cluster", "actions": ["describe"]}]
        monkeypatch.setenv("GOQUEUE_API_KEY", running.new_key("viewer", rules=rules))
        async with shown(running.url, BACKUPS, size=(80, 24)) as pilot:
            await see(pilot, "n makes one")
            await press(pilot, "n")
            await see(pilot, "(y)")
            await press(pilot, "y")
            await see(pilot, "may not write the cluster")
        assert running.do("GET", "/admin/backup")["backups"] == []
        async with shown(running.url, BACKUPS, size=(80, 24), read_only=True) as pilot:
            await see(pilot, "There are no backups yet.")
            await press(pilot, *"nvRxX")
            await see(pilot, "overview › backups")
            assert not any(word in text(pilot.app) for word in ("Back up", "Prune", "(y)"))
        monkeypatch.setenv("GOQUEUE_API_KEY", running.new_key("consumer", "consumer"))
        async with shown(running.url, BACKUPS, size=(80, 24)) as pilot:
            await see(pilot, "may not describe the cluster")
