"""One topic of a backup: whole, up to a time or an offset, and into a running broker."""

import json
from pathlib import Path
from typing import Any

import pytest

from goqueue.backup.cut_writer import CutPoint
from goqueue.backup.opening import open_target
from goqueue.backup.topic_restore import plan_topic_restore, write_topic
from goqueue.client import Client
from goqueue.errors import BackupNotFound, OffsetOutOfRange
from goqueue.storage import frame, scan
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.log import Log
from goqueue.storage.store import Store
from goqueue.storage.transaction_marker import TransactionMarker, markers_in
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.admin.programs import admin
from tests.api.keys import eventually
from tests.api.members import Member
from tests.backup.backups import TARGET, back_up
from tests.backup.test_with_broker import begin_transaction, broker, rows
from tests.brokers import ask, create, publish, read
from tests.storage.stores import append, finish, messages, open_store

CLOCK_STEP = 10.0


def restored(disk: FaultyDisk, manifest: Any, cut: dict[int, int], time_ns: int | None = None) -> Store:
    """Write topic t, and open its logs as a broker does."""
    plan = plan_topic_restore(manifest, "t", time_ns, cut)
    path = f"/new/{sorted(cut.items())}-{time_ns}".replace(" ", "")
    write_topic(disk, open_target(TARGET, disk=disk), plan, f"{path}/logs/t", lambda _: None)
    store = open_store(disk, path=path)
    assert all(not one.damages and one.cut is None for one in store.recovered.values())
    return store


def filled(disk: FaultyDisk, clock: ManualClock) -> Store:
    """A store with ten messages in several segments, ten seconds apart, and a delayed log."""
    store = open_store(disk, clock, segment_bytes=1000)
    for name in ("t/0", "t/0/delayed"):
        store.create(name)
    for number in range(10):
        append(store, store.log("t/0"), b"%d" % number * 300)
        append(store, store.log("t/0/delayed"), b"later %d" % number)
        clock.advance(CLOCK_STEP)
    return store


def test_topic_ends_before_each_offset_and_each_time_like_the_log_did() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = filled(disk, clock)
    held, delayed = messages(store.log("t/0")), messages(store.log("t/0/delayed"))
    manifest = back_up(disk, store)
    whole = restored(disk, manifest, {})
    assert [messages(whole.log(name)) for name in ("t/0", "t/0/delayed")] == [held, delayed]
    for number, one in enumerate(held):
        store = restored(disk, manifest, {0: number})
        assert messages(store.log("t/0")) == held[:number]
        assert messages(store.log("t/0/delayed")) == delayed[:number], "it says nothing of what was cut"
        by_time = restored(disk, manifest, {}, one.timestamp_ns)
        assert messages(by_time.log("t/0")) == held[:number]
        assert append(by_time, by_time.log("t/0"), b"goes on") == range(number, number + 1)


def test_open_transactions_are_aborted_behind_the_cut_and_ended_ones_stay() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock)
    log = store.create("t/0")
    flags = {"flags": frame.TRANSACTIONAL}
    append(store, log, b"a", b"b", **flags)
    append(store, log, b"plain")
    append(store, log, b"c", **flags)
    append_marker(store, log, TransactionMarker(7, 1, True, ((0, 2),)))
    append(store, log, b"d", b"e", **flags)
    manifest = back_up(disk, store)
    assert ranges_aborted(restored(disk, manifest, {})) == [(3, 4), (5, 7)]
    assert ranges_aborted(restored(disk, manifest, {0: 4})) == [(0, 2), (3, 4)], "its commit is behind the cut"
    assert ranges_aborted(restored(disk, manifest, {0: 0})) == []


def append_marker(store: Store, log: Log, marker: TransactionMarker) -> None:
    log.append(scan.check_batch(bytearray(b"".join(marker.encode()))))
    store.flush()


def ranges_aborted(store: Store) -> list[tuple[int, int]]:
    buffers = store.log("t/0").read(0, 10**6).buffers
    markers = [one for buffer in buffers for _, one in markers_in(scan.walk(buffer)) if not one.is_commit]
    return [found for one in markers for found in one.ranges]


def test_compacted_log_keeps_its_note_up_to_the_cut_and_plans_are_refused() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock, segment_bytes=1000)
    log = store.create("t/0")
    for number in range(12):
        append(store, log, b"%d" % number * 300, key=b"k%d" % (number % 2))
    finish(plan_compaction(log, disk, now_ns=clock.now_ns()))
    manifest = back_up(disk, store)
    assert messages(restored(disk, manifest, {}).log("t/0")) == messages(log)
    short = restored(disk, manifest, {0: 11}).log("t/0")
    assert [one.offset for one in messages(short)] == [one.offset for one in messages(log) if one.offset < 11]
    assert plan_topic_restore(manifest, "t").cuts == {0: CutPoint()}
    with pytest.raises(OffsetOutOfRange, match="has 0 up to 12 there"):
        plan_topic_restore(manifest, "t", offsets={0: 13})
    with pytest.raises(OffsetOutOfRange, match="does not exist there"):
        plan_topic_restore(manifest, "t", offsets={1: 0})
    with pytest.raises(BackupNotFound, match="has no topic 'orders'"):
        plan_topic_restore(manifest, "orders")


def test_topic_is_restored_into_a_running_broker_under_another_name(tmp_path: Path) -> None:
    with broker(tmp_path) as running, Client(running.url) as client:
        create(running.url, "orders", 2, retention_hours=9)
        publish(running.url, "orders", "a", "b", "c", partition=0)
        publish(running.url, "orders", "soon", partition=1, delay="1s")
        begin_transaction(running.url, "open")
        (made,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        publish(running.url, "orders", "later", partition=0)
        words = ("backup", "restore", made["id"], "--topic", "orders")
        refused = admin(running.url, *words)
        assert refused.code == 5
        assert "topic 'orders' exists already" in refused.err
        (planned,) = rows(admin(running.url, *words, "--as", "before", "--dry-run", "-o", "json"))
        assert (planned["partitions"], planned["state"]) == (2, "planned")
        (done,) = rows(admin(running.url, *words, "--as", "before", "--offset", "0=2", "-o", "json"))
        assert done["state"] == "complete"
        assert [one["value"] for one in read(running.url, "before")] == ["a", "b"]
        assert client.topic("before").config["retention_hours"] == 9
        eventually(lambda: [one["value"] for one in read(running.url, "before", 1)] == ["soon"])
        publish(running.url, "before", "goes on", partition=0)
        member = Member(running.url, "readers", topics=["before"]).join()
        polled = member.ask("GET", f"/poll?member_id={member.id}&max_messages=9&timeout=30s").json["messages"]
        assert {one["value"] for one in polled} >= {"a", "b"}
        assert not (tmp_path / "data" / "restoring").exists()
        cut = (*words, "--until", "2001-01-01T00:00:00Z")
        assert "before it is cut" in admin(running.url, *cut, "--as", "x", "--dry-run").err
        (empty,) = rows(admin(running.url, *cut, "--as", "x", "-o", "json"))
        assert empty["bytes"] == 0 < planned["bytes"]
        assert "topic y is empty" in admin(running.url, *cut, "--as", "y").err
        assert read(running.url, "x") == []
    with broker(tmp_path) as running:
        assert [one["value"] for one in read(running.url, "before")] == ["a", "b", "goes on"]
        assert ask(running.url, "DELETE", "/topics/before").status == 200
        assert json.loads(ask(running.url, "GET", "/doctor").body)["status"] == "ok"


def test_restore_of_a_damaged_backup_fails_and_leaves_nothing(tmp_path: Path) -> None:
    with broker(tmp_path, backup__compression="none") as running:
        create(running.url, "orders")
        publish(running.url, "orders", "x" * 1000)
        (made,) = rows(admin(running.url, "backup", "create", "-o", "json"))
        for piece in (tmp_path / "backups" / "objects").glob("*/*"):
            if piece.stat().st_size > 1000 and b"x" * 1000 in piece.read_bytes():
                piece.write_bytes(piece.read_bytes()[:-1] + b"?")
        failed = admin(running.url, "backup", "restore", made["id"], "--topic", "orders", "--as", "again")
        assert failed.code == 1
        assert "is damaged" in failed.err
        assert ask(running.url, "GET", "/topics/again").status == 404
        assert not (tmp_path / "data" / "restoring").exists()
