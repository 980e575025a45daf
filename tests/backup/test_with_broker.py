"""Backups of a real broker at work, as operators make them, and what its clients find after a restore."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.errors import BackupTargetInvalid, ConfigInvalid
from goqueue.testing.broker import LocalBroker
from tests.admin.programs import admin
from tests.api.keys import eventually
from tests.api.members import Member
from tests.brokers import ask, create, publish, read
from tests.cli.programs import Done, cli

COMMAND = (sys.executable, "-m", "goqueue")


def broker(tmp_path: Path, **settings: str) -> LocalBroker:
    given = {"backup__target": str(tmp_path / "backups"), "backup__rate": "0B", **settings}
    return LocalBroker(str(tmp_path / "data"), **given)


def goqueue(*words: str) -> Done:
    return cli("", *words, command=COMMAND)


def rows(done: Done) -> list[dict[str, Any]]:
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def begin_transaction(url: str, name: str) -> dict[str, Any]:
    """Begin a transaction over HTTP, with one message in it."""
    producer = ask(url, "POST", "/producers/init", {"transactional_id": name}).json
    ids: dict[str, Any] = {
        "producer_id": producer["producer_id"], "epoch": producer["epoch"], "transactional_id": name
    }  # fmt: skip
    assert ask(url, "POST", "/transactions/begin", ids).status == 200
    sent = {"producer_id": ids["producer_id"], "epoch": ids["epoch"], "topic": "orders", "partition": 1, "value": name}
    assert ask(url, "POST", "/transactions/publish", sent).status == 200
    return ids


def test_restored_broker_continues_where_the_cut_was(tmp_path: Path) -> None:
    data, target = tmp_path / "data", str(tmp_path / "backups")
    with broker(tmp_path) as running, Client(running.url) as client:
        create(running.url, "orders", 2)
        create(running.url, "empty")
        publish(running.url, "orders", "a", "b", "c", partition=0)
        publish(running.url, "orders", "due", partition=1, delay="1s")
        publish(running.url, "orders", "far", partition=1, delay="1h")
        assert ask(running.url, "POST", "/transactions/commit", begin_transaction(running.url, "kept")).status == 200
        lost = begin_transaction(running.url, "open")
        member = Member(running.url).join()
        leased = member.ask("GET", f"/poll?member_id={member.id}&max_messages=2").json["messages"]
        assert ask(running.url, "POST", "/messages/ack", {"receipt_handle": leased[0]["receipt_handle"]}).status == 200
        (made,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        assert (made["state"], made["unavailable"], made["damaged_ranges"]) == ("complete", [], 0)
        publish(running.url, "orders", "behind the cut", partition=0)
        with client.producer() as producer:
            producer.send("orders", "of a producer behind the cut", partition=0).result()
        after_cut = Member(running.url).join()
        logs = {one["name"] for one in rows(goqueue("backup", "describe", "--from", target, "-o", "json"))}
        assert {"orders/0", "orders/1/delayed", "empty/0", "__metadata/0", "__audit/0", "__schemas/0"} <= logs
        assert {f"__consumer_offsets/{number}" for number in range(8)} <= logs
        assert logs == set(running.daemon.store.logs)
        (verified,) = rows(admin(running.url, "backup", "verify", "-o", "json"))
        assert (verified["id"], verified["verification"]["problems"]) == (made["id"], 0)
    assert "is sound" in goqueue("backup", "verify", "--from", target).err
    for words in (("backup", "verify"), ("restore", "--data-dir", str(tmp_path / "new"))):
        assert f"`goqueue backup list --from {target}`" in goqueue(*words, "nix", "--from", target).err
    shutil.rmtree(data)
    planned = goqueue("restore", "--from", target, "--data-dir", str(data), "--dry-run")
    assert made["id"] in planned.err
    assert not data.exists()
    assert goqueue("restore", "--from", target, "--data-dir", str(data)).out == f"goqueue serve --data-dir {data}\n"
    with broker(tmp_path) as running, Client(running.url) as client:
        assert [one["value"] for one in read(running.url, "orders")] == ["a", "b", "c"]
        assert read(running.url, "empty") == []
        eventually(lambda: [one["value"] for one in read(running.url, "orders", 1)] == ["kept", "due"])
        assert [one["offset"] for one in ask(running.url, "GET", "/topics/orders/delayed").json["messages"]] == [1]
        assert ask(running.url, "GET", "/groups/billing/offsets?topic=orders").json["offsets"]["orders"]["0"] >= 0
        assert ask(running.url, "POST", "/transactions/commit", lost).json["code"] in (
            "producer_fenced",
            "transaction_aborted",
        )
        after_cut.url = running.url
        gone = after_cut.ask("POST", "/heartbeat", {"member_id": after_cut.id, "generation": after_cut.generation})
        assert gone.code == "member_unknown"
        assert "data_directory_gone" not in ask(running.url, "GET", "/doctor").body.decode()
        (again,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        assert again["new_bytes"] < made["bytes"], "what is restored needs no second copy"
        deleted = admin(running.url, "backup", "delete", made["id"], "--yes", "-o", "json")
        assert rows(deleted)[0]["result"] == "deleted"
        assert [one["id"] for one in rows(admin(running.url, "backup", "list", "-o", "json"))] == [again["id"]]
        assert admin(running.url, "backup", "describe", made["id"]).code == 5


def test_backup_is_cancelled_throttled_and_refused_where_it_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="in the data directory"):
        broker(tmp_path, backup__target=str(tmp_path / "data" / "backups"))
    for path in ("/dev/full", "/dev/full/backups", "/dev"):
        with pytest.raises(BackupTargetInvalid, match=path):
            broker(tmp_path, backup__target=path).__enter__()
    with broker(tmp_path, backup__rate="1000B") as running:
        create(running.url, "orders")
        publish(running.url, "orders", *("x" * 1000 for _ in range(100)))
        (made,) = rows(admin(running.url, "backup", "create", "--no-wait", "-o", "json"))
        assert made["state"] == "running"
        assert ask(running.url, "POST", "/admin/backup", {}).code == "backups_busy"
        eventually(
            lambda: ask(running.url, "GET", f"/admin/backup/{made['id']}").json["progress"]["bytes_total"] > 10**5
        )
        removed = ask(running.url, "DELETE", f"/admin/backup/{made['id']}").json
        assert removed == {"id": made["id"], "result": "cancelled"}
        assert not (tmp_path / "data" / "cut").exists()
        (failed,) = rows(admin(running.url, "backup", "list", "-o", "json"))
        assert failed["state"] == "cancelled"
        for _ in range(5):  # before, while and after the cut is taken
            made = ask(running.url, "POST", "/admin/backup", {}).json
            assert ask(running.url, "DELETE", f"/admin/backup/{made['id']}").json["result"] == "cancelled"
        assert ask(running.url, "POST", "/admin/backup", {}).status == 202
    assert not (tmp_path / "data" / "cut").exists(), "a stop cancels it"
    with LocalBroker(str(tmp_path / "data")) as running:
        assert ask(running.url, "POST", "/admin/backup", {}).code == "backups_off"
        assert "no target for backups" in admin(running.url, "backup", "list").err
        assert admin(running.url, "backup", "create").code == 5


def test_schedule_makes_verifies_and_prunes_backups_and_tells_their_age(tmp_path: Path) -> None:
    keep = {f"backup__keep_{name}": "0" for name in ("hourly", "daily", "weekly", "monthly")}
    with broker(tmp_path, backup__interval="200ms", **keep) as running:
        publishing = ask(running.url, "POST", "/topics", {"name": "orders"})
        assert publishing.status == 201

        def listed() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = ask(running.url, "GET", "/admin/backup").json["backups"]
            return found

        eventually(lambda: any(one["verification"] for one in listed()))
        first = listed()[-1]["id"]
        eventually(lambda: all(one["id"] != first for one in listed()))
        assert len(listed()) < 4, "only the newest and the newest verified one are kept"
        scraped = ask(running.url, "GET", "/metrics").body.decode()
        ages = [line.split() for line in scraped.splitlines() if line.startswith("goqueue_backup_")]
        assert all(float(value) > 1e9 for name, value in ages if name.endswith("timestamp_seconds"))
        assert {name for name, _ in ages} >= {"goqueue_backup_failures_total"}
        checks = {one["name"]: one["status"] for one in ask(running.url, "GET", "/doctor").json["checks"]}
        assert checks["backups"] == "ok"
        (row,) = rows(admin(running.url, "backup", "schedule", "-o", "json"))
        assert (row["interval_seconds"], row["keep_daily"]) == (0.2, 0)
        assert row["next_at"]


def test_restore_in_a_wrong_place_is_refused_with_what_to_do(tmp_path: Path) -> None:
    data, target = tmp_path / "data", str(tmp_path / "backups")
    with broker(tmp_path) as running:
        assert admin(running.url, "backup", "create").code == 0
    file = tmp_path / "file"
    file.touch()
    for source, path, sentence in (
        (target, str(file), f"{file} is not a directory"),
        (target, f"{target}/inside", f"{target}/inside is in the target of the backups"),
        (str(file), str(data), f"{file} holds no backups"),
        (str(data), str(tmp_path / "new"), f"{data} holds no backups"),
    ):
        refused = goqueue("restore", "--from", source, "--data-dir", path)
        assert (refused.code, sentence in refused.err, "hint: name " in refused.err) == (2, True, True), refused.err
    assert (
        f"{target} holds backups: it is no data directory" in goqueue("serve", "--data-dir", target, "--port", "0").err
    )


def test_target_that_is_not_mounted_at_a_start_is_not_made_anew(tmp_path: Path) -> None:
    target, away = tmp_path / "backups", tmp_path / "away"

    def create_fails(url: str) -> str:
        failed = admin(url, "backup", "create")
        assert failed.code == 1
        findings = {one["code"]: one for one in ask(url, "GET", "/doctor").json["findings"]}
        assert findings["backup_target_gone"]["subject"] == str(target)
        return failed.err

    with broker(tmp_path) as running:
        assert admin(running.url, "backup", "create").code == 0
    target.rename(away)
    target.mkdir()
    with broker(tmp_path, backup__interval="1h") as running:
        eventually(lambda: "backup_failed" in ask(running.url, "GET", "/doctor").body.decode())
        failed = create_fails(running.url)
        assert "has no backups any more" in failed
        assert "`goqueue-admin backup create --new-target` begins with what is there" in " ".join(failed.split())
        assert list(target.iterdir()) == []
        assert len(rows(admin(running.url, "backup", "create", "--new-target", "-o", "json"))) == 1
        assert len(rows(admin(running.url, "backup", "create", "-o", "json"))) == 1
    shutil.rmtree(target)
    away.rename(target)
    with broker(tmp_path) as running:
        assert "is another target than the one" in create_fails(running.url)
    other = tmp_path / "other"
    with broker(tmp_path, backup__target=str(other)) as running:
        assert admin(running.url, "backup", "create").code == 0
    shutil.rmtree(other)
    (tmp_path / "data" / "backup-target").write_bytes(b"damaged")
    with broker(tmp_path, backup__target=str(other)) as running:
        assert admin(running.url, "backup", "create").code == 0


def test_prune_and_doctor_look_at_what_the_target_has(tmp_path: Path) -> None:
    with broker(tmp_path, backup__keep_hourly="1") as running:
        made = []
        for topic in ("orders", "refunds"):
            create(running.url, topic)
            publish(running.url, "orders", topic, partition=0)
            made.append(rows(admin(running.url, "backup", "create", "-o", "json"))[0]["id"])
        newest_first, words = made[::-1], ("--from", str(tmp_path / "backups"), "-o", "json")
        assert [one["name"] for one in rows(goqueue("backup", "list", *words))] == newest_first
        assert [one["id"] for one in rows(admin(running.url, "backup", "list", "-o", "json"))] == newest_first
        assert rows(admin(running.url, "backup", "describe", "-o", "json"))[0]["id"] == made[1]
        for name, count in ((made[0], 1), (made[1], 2)):
            logs = {one["name"]: one["next_offset"] for one in rows(goqueue("backup", "describe", name, *words))}
            assert logs["orders/0"] == count
            assert name in goqueue("backup", "verify", name, *words[:2]).err
        found = rows(goqueue("backup", "diff", made[0], *words))
        changes = {one["name"]: (one["before"], one["after"], one["gone_bytes"]) for one in found}
        assert (changes["orders/0"], changes["refunds/0"]) == ((1, 2, 0), (None, 0, 0))
        assert "__security/0" not in changes
        assert "is the newest: there is none to compare it with" in goqueue("backup", "diff", made[1], *words).err
        long_ago = ("restore", *words[:2], "--data-dir", str(tmp_path / "then"), "--to", "2020-01-01T00:00:00Z")
        assert "no message of a topic was there then" in goqueue(*long_ago, "--dry-run").err
        assert rows(admin(running.url, "backup", "prune", "--dry-run", "-o", "json")) == [
            {"name": made[0], "result": "would be deleted"}
        ]
        assert "`--yes` confirms it" in admin(running.url, "backup", "prune").err
        assert rows(admin(running.url, "backup", "prune", "--yes", "-o", "json"))[0]["result"] == "deleted"
        piece = max((tmp_path / "backups" / "objects").glob("*/*"), key=lambda path: path.stat().st_size)
        piece.write_bytes(b"x" + piece.read_bytes()[1:])
        failed = admin(running.url, "backup", "verify")
        assert failed.code == 1
        assert piece.name in failed.err
        assert "1 PROBLEM " in failed.out
        assert "it writes again what it needs of the damaged objects" in " ".join(failed.err.split())
        findings = {one["code"]: one for one in ask(running.url, "GET", "/doctor").json["findings"]}
        assert findings["backup_damaged"]["subject"] == made[1]
        assert admin(running.url, "backup", "create").code == 0
        for name in ("", made[1]):
            assert admin(running.url, "backup", "verify", *name.split()).code == 0, "the piece is written again"
        assert "backup_damaged" not in {one["code"] for one in ask(running.url, "GET", "/doctor").json["findings"]}
        (tmp_path / "backups").rename(tmp_path / "away")
        assert ask(running.url, "GET", "/admin/backup").code == "backup_target_invalid"
        assert "has no backups any more" in admin(running.url, "backup", "create").err
        assert not (tmp_path / "backups").exists()
        findings = {one["code"]: one for one in ask(running.url, "GET", "/doctor").json["findings"]}
        assert findings["backup_target_gone"]["severity"] == "critical"
        shutil.rmtree(tmp_path / "data")
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "lock").touch()
        findings = {one["code"]: one for one in ask(running.url, "GET", "/doctor").json["findings"]}
        assert findings["data_directory_gone"]["subject"] == str(tmp_path / "data")
    assert not (tmp_path / "data" / "clean").exists(), "it would be of other logs"
