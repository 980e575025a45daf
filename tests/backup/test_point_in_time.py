"""A whole data directory as it was at a time, or with partitions that end at an offset."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from goqueue.backup.opening import open_target
from goqueue.backup.point_in_time import PointPlanner, choose_backups
from goqueue.errors import BackupNotFound, OffsetOutOfRange, RestoreImpossible
from goqueue.quantities import format_time
from goqueue.storage.compaction import plan_compaction
from goqueue.testing.broker import LocalBroker
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from tests.admin.programs import admin
from tests.api.keys import eventually
from tests.api.members import Member, receipts
from tests.api.members import values as of_poll
from tests.backup.backups import TARGET, back_up
from tests.backup.test_with_broker import begin_transaction, broker, goqueue, rows
from tests.brokers import ask, create, publish, read
from tests.storage.stores import append, finish, open_store


def values(url: str, topic: str, partition: int = 0) -> list[str]:
    """The values of all messages; a read ends where a segment ends."""
    found: list[dict[str, Any]] = []
    while more := read(url, topic, partition, f"offset={found[-1]['offset'] + 1 if found else 0}"):
        found += more
    return [one["value"] for one in found]


def findings(url: str) -> set[str]:
    return {one["code"] for one in ask(url, "GET", "/doctor").json["findings"]} - {"unclean_start", "backup_none"}


def ack(member: Member, count: int) -> list[str]:
    """Get and acknowledge so many messages."""
    found: list[str] = []
    while len(found) < count:
        left = count - len(found)
        polled = member.ask("GET", f"/poll?member_id={member.id}&max_messages={left}&timeout=30s").json["messages"]
        assert polled, f"{count} messages were expected, and {found} came"
        assert ask(member.url, "POST", "/messages/ack", {"receipt_handles": receipts(polled)}).status == 200
        found += of_poll(polled)
    return sorted(found)


def test_restored_directory_is_as_it_was_at_a_time(tmp_path: Path) -> None:
    target, data = str(tmp_path / "backups"), tmp_path / "then"
    with broker(tmp_path) as running:
        create(running.url, "orders", 2)
        publish(running.url, "orders", "a", "b", "c", partition=0)
        member = Member(running.url).join()
        assert ack(member, 1) == ["a"]
        admin(running.url, "backup", "create")
        publish(running.url, "orders", "d", "e", partition=0)
        publish(running.url, "orders", "due later", partition=0, delay="3s")
        assert ack(member, 2) == ["b", "c"]
        lost = begin_transaction(running.url, "open")
        kept = begin_transaction(running.url, "ended")
        assert ask(running.url, "POST", "/transactions/commit", kept).status == 200
        moment = format_time(time.time_ns())
        assert ask(running.url, "POST", "/transactions/commit", lost).status == 200
        assert ack(member, 4) == ["d", "e", "ended", "open"]
        publish(running.url, "orders", "too late", partition=0)
        create(running.url, "younger")
        publish(running.url, "younger", "x")
        admin(running.url, "backup", "create")
    words = ("restore", "--from", target, "--data-dir", str(data), "--to", moment)
    planned = goqueue(*words, "--dry-run")
    assert f"as they were at {moment[:19]}" in planned.err
    assert re.search(r"orders: \d messages .* ?dropped", planned.err), planned.err
    assert "younger: partitions that did not exist then are left out" in planned.err
    assert not data.exists()
    assert goqueue(*words).code == 0
    with LocalBroker(str(data)) as running:
        eventually(lambda: values(running.url, "orders") == ["a", "b", "c", "d", "e", "due later"])
        assert values(running.url, "orders", 1) == ["ended"], "what was open is aborted"
        assert ask(running.url, "GET", "/topics/younger").status == 404
        assert publish(running.url, "orders", "new", partition=0)[0]["offset"] > 6, "offsets are not given out twice"
        member.url = running.url
        member.leave()
        again = Member(running.url).join()
        assert ack(again, 5) == ["d", "due later", "e", "ended", "new"]
        assert findings(running.url) == set()
    assert goqueue("fsck", str(data)).code == 0
    other = goqueue(*words, "nix")
    assert other.code == 5


def test_partition_ends_at_an_offset_and_goes_on_where_the_backup_ended(tmp_path: Path) -> None:
    target, data = str(tmp_path / "backups"), tmp_path / "then"
    with broker(tmp_path) as running:
        create(running.url, "orders", 2)
        publish(running.url, "orders", "a", "b", "c", "d", partition=0)
        assert ask(running.url, "POST", "/transactions/commit", begin_transaction(running.url, "x")).status == 200
        member = Member(running.url).join()
        assert ack(member, 5) == ["a", "b", "c", "d", "x"]
        (made,) = rows(admin(running.url, "backup", "create", "-o", "json"))
    words = ("restore", "--from", target, "--data-dir", str(data), "--offset", "orders/0=1", "--offset", "orders/1=1")
    assert "orders: 4 messages dropped" in goqueue(*words, "--dry-run").err
    assert "has no partition 'orders/7'" in goqueue(*words, "--offset", "orders/7=1").err
    assert "write TOPIC/PARTITION=OFFSET" in goqueue(*words, "--offset", "orders=1").err
    assert goqueue(*words).code == 0
    with LocalBroker(str(data)) as running:
        assert (values(running.url, "orders"), values(running.url, "orders", 1)) == (["a"], [])
        assert publish(running.url, "orders", "e", partition=0)[0]["offset"] == 4
        member.url = running.url
        member.leave()
        assert ack(Member(running.url).join(), 1) == ["e"], "the group was at the end, and is there"
        assert findings(running.url) == set()
        assert made["state"] == "complete"


def test_time_that_no_backup_tells_is_refused() -> None:
    disk, clock = FaultyDisk(), ManualClock()
    store = open_store(disk, clock, segment_bytes=1000)
    log, internal = store.create("t/0"), store.create("__transactions/0")
    store.create("__metadata/0")
    target = open_target(TARGET, disk=disk)
    with pytest.raises(BackupNotFound, match="there is no backup"):
        choose_backups(target, clock.now_ns())
    times = []
    for number in range(12):
        times.append(clock.now_ns())
        append(store, log, b"%d" % number * 300, key=b"k")
        append(store, internal, b"%d" % number * 300, key=b"k")
        clock.advance(10)
        if number == 2:
            back_up(disk, store)
    finish(plan_compaction(internal, disk, now_ns=clock.now_ns()))
    second = back_up(disk, store, 1)
    manifest, earlier = choose_backups(target, times[5])
    assert (manifest, earlier is not None) == (second, True)
    with pytest.raises(RestoreImpossible, match=r"does not tell what __transactions/0 held .* compacted"):
        PointPlanner(target, manifest, earlier, times[5]).plan({})
    point = PointPlanner(target, manifest, earlier, times[11]).plan({})
    assert point.left_out == ("t/0",), "the catalog does not know it"
    assert {name: (one.offset, one.dropped) for name, one in point.ends.items()} == {"__transactions/0": (11, 1)}
    with pytest.raises(OffsetOutOfRange, match="it has 0 up to 12 there"):
        PointPlanner(target, manifest, None, None).plan({"t/0": 13})
    with pytest.raises(BackupNotFound, match="the newest backup is of"):
        choose_backups(target, clock.now_ns() + 1)
