"""`goqueue fsck` with copies, and with topics whose records are lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from goqueue.broker.offline_catalog import find_lost_topics, record_topics
from goqueue.storage import check
from goqueue.storage.check import LogReport
from goqueue.storage.disk import SystemDisk
from goqueue.storage.layout import find_logs
from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import Running
from tests.broker.groupwork import Team
from tests.broker.test_internal_damage import damage_both, floors, internal_logs, lived, lose_topic
from tests.brokers import create, publish, read
from tests.commands.test_fsck import codes, fsck, report
from tests.storage.stores import DATA

ROOT = f"{DATA}/logs"


def reports(disk: FaultyDisk) -> Iterator[LogReport]:
    for name in find_logs(disk, ROOT):
        directory = f"{ROOT}/{name}"
        tasks, found = check.plan_check(disk, name, directory)
        yield check.summarize_log(name, directory, [check.check_segment(disk, task) for task in tasks], found, None)


def findings(disk: FaultyDisk) -> list[str]:
    return [finding.code for one in reports(disk) for finding in one.findings if finding.code != "index_missing"]


def repair(disk: FaultyDisk) -> None:
    for one in reports(disk):
        if any(finding.repair for finding in one.findings):
            check.repair_log(disk, f"{ROOT}/{one.name}", one)


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_damage_is_restored_from_a_copy(end: str) -> None:
    before = lived(end)
    assert findings(before) == []
    for path in internal_logs(before):
        for position in range(0, len(before.read_file(path)), 211):
            disk = before.after_crash("everything")
            disk.flip(path, position)
            assert findings(disk) == ["range_healable"]
            repair(disk)
            assert findings(disk) == []
            assert disk.read_file(path) == before.read_file(path)


@pytest.mark.parametrize("change", ["flipped", "cut"])
def test_a_copy_that_differs_is_made_anew(change: str) -> None:
    disk = lived("killed").after_crash("everything")
    path = next(iter(internal_logs(disk))).replace(".log", ".copy")
    content = disk.read_file(path)
    if change == "flipped":
        disk.flip(path, 50)
    else:
        disk.write_file(path, content[:-7])
    assert findings(disk) == ["copy_differs"]
    repair(disk)
    assert findings(disk) == []
    assert disk.read_file(path) == content


def test_a_log_file_that_is_gone_is_made_again_from_its_copy() -> None:
    disk = lived("stopped").after_crash("everything")
    path = next(iter(internal_logs(disk)))
    content = disk.read_file(path)
    disk.remove(path)
    assert findings(disk) == ["range_healable"]
    repair(disk)
    assert disk.read_file(path) == content


def test_damage_of_log_and_copy_stays_damage() -> None:
    disk = lived("killed").after_crash("everything")
    path = next(iter(internal_logs(disk)))
    damage_both(disk, path, 20)
    assert findings(disk) == ["range_damaged"]


def test_a_topic_that_is_recorded_again_is_served_and_its_groups_find_their_places() -> None:
    before = lived("killed")
    disk = before.after_crash("everything")
    lose_topic(disk, b"orders")
    (lost,) = find_lost_topics(disk, ROOT)
    assert (lost.name, lost.partitions) == ("orders", 1)
    record_topics(disk, ROOT, [lost])
    assert find_lost_topics(disk, ROOT) == []
    running, intact = Running(disk), Running(before.after_crash("everything"))
    assert running.names() == {"orders", "events"}
    assert running.broker.unclaimed == []
    assert running.partition().log_end == intact.partition().log_end
    Team(running).due(60)
    assert floors(running) == floors(intact)


def test_a_directory_that_no_broker_has_used_has_no_lost_topics() -> None:
    disk = FaultyDisk()
    disk.write_file(f"{ROOT}/orders/0/{0:020d}.log", b"")
    assert find_lost_topics(disk, ROOT) == []


def test_fsck_rebuilds_all_topics_of_a_broker_whose_catalog_is_gone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with LocalBroker(str(data)) as local:
        create(local.url, "orders", 3)
        publish(local.url, "orders", "a")
    for path in (data / "logs/__metadata/0").iterdir():
        path.unlink()
    assert "topic_unrecorded" in codes(report(str(data)))
    done = fsck(str(data), "--repair", "--yes")
    assert "record it again: 3 partitions, with the settings of a new topic" in done.stderr
    assert find_lost_topics(SystemDisk(), f"{data}/logs") == []
    with LocalBroker(str(data)) as local:
        messages = [message for number in range(3) for message in read(local.url, "orders", number)]
        assert [message["value"] for message in messages] == ["a"]
