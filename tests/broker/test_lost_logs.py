"""Logs that are gone or end early are named, and their offsets are not given out again."""

import asyncio
from collections.abc import Callable

import pytest

from goqueue.broker.core.work import run_work
from goqueue.broker.offline_catalog import read_noted_ends
from goqueue.errors import GoQueueError, LogFenced, RangeDamaged
from goqueue.limits import LOST_LOG_OFFSETS_SKIPPED
from goqueue.storage import check
from goqueue.storage.disk import read_all
from goqueue.storage.flusher import FlushMode
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import Running, Told, frames_of, offer_batch
from tests.runtime.test_upkeep_runner import upkeep_of
from tests.storage.stores import DATA

LOGS = f"{DATA}/logs"


def remove_tree(disk: FaultyDisk, path: str) -> None:
    for entry in disk.entries(path):
        if entry.kind == "directory":
            remove_tree(disk, f"{path}/{entry.name}")
        else:
            disk.remove(f"{path}/{entry.name}")
    disk.remove_directory(path)


def remove_logs(disk: FaultyDisk, path: str) -> None:
    for entry in disk.entries(path):
        if entry.name.endswith(".log"):
            disk.remove(f"{path}/{entry.name}")


def killed(*values: bytes, partitions: int = 2, flush: FlushMode = "always") -> FaultyDisk:
    """The disk of a broker that was killed a moment after it had published to partition 0."""
    running = Running(flush=flush)
    running.create(partitions=partitions)
    running.publish(frames_of(values))
    running.flush()
    return running.disk.crash("everything")


def noted(running: Running) -> Running:
    """With the ends noted as upkeep does it."""
    asyncio.run(upkeep_of(running)._look_at_all())
    running.flush()
    return running


def repair(disk: FaultyDisk, name: str) -> None:
    """The repair of one log, as `goqueue fsck --repair` does it."""
    directory, end = f"{LOGS}/{name}", read_noted_ends(disk, LOGS)[name]
    tasks, strangers = check.plan_check(disk, name, directory)
    reports = [check.check_segment(disk, task) for task in tasks]
    known = check.KnownEnd(end, is_exact=False)
    check.repair_log(disk, directory, check.summarize_log(name, directory, reports, strangers, known))


@pytest.mark.parametrize("remove", [remove_tree, remove_logs])
def test_partition_with_missing_log_is_refused_after_a_kill(remove: Callable[[FaultyDisk, str], None]) -> None:
    disk = killed(b"a", b"b")
    remove(disk, f"{LOGS}/orders/0")
    running = Running(disk)
    assert isinstance(running.store.unopened["orders/0"], RangeDamaged)
    with pytest.raises(LogFenced, match="orders/0 is gone") as refused:
        offer_batch(running.partition(), frames_of([b"c"]))
    assert "fsck --repair" in str(refused.value.hint)
    with pytest.raises(LogFenced, match="orders/0 is gone"):
        run_work(running.partition().read(0, 1000))
    offer_batch(running.partition(number=1), frames_of([b"c"]))


def test_lost_log_is_still_refused_after_more_starts() -> None:
    disk = killed(b"a")
    remove_tree(disk, f"{LOGS}/orders/0")
    again = Running(disk).crash("everything").restart().restart()
    assert "orders/0" in again.store.unopened


def test_all_partitions_are_refused_when_the_topic_directory_is_missing() -> None:
    disk = killed(b"a")
    remove_tree(disk, f"{LOGS}/orders")
    assert list(Running(disk).store.unopened) == ["orders/0", "orders/1"]


def test_restored_log_directory_is_served_again() -> None:
    disk = killed(b"a")
    disk.rename(f"{LOGS}/orders", f"{DATA}/elsewhere")
    running = Running(disk)
    assert "orders/0" in running.store.unopened
    disk = running.disk.crash("everything")
    disk.rename(f"{DATA}/elsewhere", f"{LOGS}/orders")
    assert Running(disk).publish(frames_of([b"b"])).first_offset == 1


def test_repaired_log_reuses_no_offset() -> None:
    disk = noted(Running(killed(b"a", b"b"))).disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0")
    repair(disk, "orders/0")
    running = Running(disk)
    assert running.store.unopened == {}
    assert running.publish(frames_of([b"c"])).first_offset == 2 + LOST_LOG_OFFSETS_SKIPPED
    assert running.crash().partition().earliest == 2 + LOST_LOG_OFFSETS_SKIPPED


def test_topic_with_a_lost_log_can_be_deleted_and_recreated() -> None:
    disk = killed(b"a")
    remove_tree(disk, f"{LOGS}/orders/0")
    running = Running(disk)
    running.delete()
    running.flush()
    running.create()
    assert running.publish(frames_of([b"new"])).first_offset == 0
    assert running.crash().partition().log_end == 1


@pytest.mark.parametrize("flush", ["always", "interval"])
def test_log_shorter_than_its_noted_end_continues_at_that_end(flush: FlushMode) -> None:
    running = Running(killed(b"a", flush=flush), flush=flush)
    directory = f"{LOGS}/orders/0"
    backup = {one.name: read_all(running.disk, f"{directory}/{one.name}") for one in running.disk.entries(directory)}
    running.publish(frames_of([b"b", b"c"]))
    disk = noted(running).disk.crash("everything")
    for name, content in backup.items():
        disk.write_file(f"{directory}/{name}", content)
    running = Running(disk)
    (damage,) = running.store.recovered["orders/0"].damages
    assert (damage.first_offset, damage.next_offset) == (1, 3)
    assert running.publish(frames_of([b"d"])).first_offset == 3


def test_noted_ends_cover_only_synced_messages() -> None:
    running = Running(flush="interval")
    running.create()
    offer_batch(running.partition(), frames_of([b"a"]))
    running.store.resources.flusher.flush(sync=False)
    running.store.settle()
    assert running.partition().high_watermark == 1
    running.broker.note_ends(["orders"])
    running.flush()
    assert read_noted_ends(running.disk, LOGS) == {"orders/0": 0}


def test_missing_log_that_was_empty_at_clean_stop_is_created_again(running: Running) -> None:
    disk = running.restart().restart().disk
    again = Running(disk.crash("everything"))
    again.broker.close()
    again.store.close()
    disk = again.disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0")
    assert Running(disk).publish(frames_of([b"first"])).first_offset == 0


def test_missing_log_without_clean_stop_is_not_created_again(running: Running) -> None:
    running.flush()
    disk = running.disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0")
    assert list(Running(disk).store.unopened) == ["orders/0"]


def test_missing_delayed_log_does_not_block_its_partition(running: Running) -> None:
    delays = running.broker.scheduling(running.partition()).delays
    running.flush()
    disk = running.disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0/delayed")
    again = Running(disk)
    assert list(again.store.unopened) == [delays.name]
    with pytest.raises(LogFenced, match="orders/0/delayed is gone"):
        again.broker.scheduling(again.partition()).delays.delayed_log.log.refuse_unless_open()
    assert again.publish(frames_of([b"now"])).first_offset == 0


def test_repaired_delayed_log_takes_messages_again(running: Running) -> None:
    running.broker.scheduling(running.partition())
    running.flush()
    disk = running.disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0/delayed")
    repair(disk, "orders/0/delayed")
    again = Running(disk)
    assert again.broker.scheduling(again.partition()).delays.delayed_log.log_end == LOST_LOG_OFFSETS_SKIPPED


def test_recreated_topic_has_no_noted_ends_of_its_predecessor(running: Running) -> None:
    running.publish(frames_of([b"a", b"b"]))
    noted(running)
    running.delete()
    running.flush()
    running.create()
    running.flush()
    assert read_noted_ends(running.disk, LOGS) == {"orders/0": 0}
    assert running.crash("everything").store.unopened == {}


def test_noted_ends_survive_catalog_compaction(running: Running) -> None:
    catalog = running.broker.topics["__metadata"].partitions[0]
    for number in range(40):
        running.publish(frames_of([b"x"]))
        noted(running)
        end = catalog.log_end
        noted(running)
        assert catalog.log_end == end, number
    assert catalog.log.size < 3 * catalog.log.settings.segment_bytes
    assert read_noted_ends(running.disk, LOGS) == {"orders/0": 40}


def test_changing_topic_settings_keeps_noted_ends() -> None:
    running = noted(Running(killed(b"a")))
    told: Told[object] = Told()
    running.broker.alter_topic("orders", {"retention_hours": 2.0}, told)
    running.flush()
    assert read_noted_ends(running.disk, LOGS)["orders/0"] == 1


def test_publishing_works_when_ends_cannot_be_noted() -> None:
    running = Running(killed(b"a"))
    running.flush()
    running.broker.topics["__metadata"].partitions[0].log.fence_off(GoQueueError("broken"))
    running.publish(frames_of([b"b"]))
    running.broker.note_ends(["orders"])
    assert running.publish(frames_of([b"c"])).first_offset == 2
