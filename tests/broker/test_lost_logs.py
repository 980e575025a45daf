"""Logs that are gone or end early are named, and their offsets are not given out again."""

import asyncio
from collections.abc import Callable

import pytest

from goqueue.broker.offline_catalog import read_noted_ends
from goqueue.broker.work import run
from goqueue.errors import GoQueueError, LogFenced, RangeDamaged
from goqueue.limits import LOST_OFFSETS
from goqueue.storage import check
from goqueue.storage.disk import read_all
from goqueue.storage.flusher import Mode
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import Running, Told, frames_of, offer_batch
from tests.runtime.test_upkeep import upkeep_of
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


def killed(*values: bytes, partitions: int = 2, flush: Mode = "always") -> FaultyDisk:
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
    """What `goqueue fsck --repair` does to one log."""
    directory, end = f"{LOGS}/{name}", read_noted_ends(disk, LOGS)[name]
    tasks, strangers = check.plan(disk, name, directory)
    reports = [check.check_segment(disk, task) for task in tasks]
    known = check.KnownEnd(end, is_exact=False)
    check.repair(disk, directory, check.summarise(name, directory, reports, strangers, known))


@pytest.mark.parametrize("remove", [remove_tree, remove_logs])
def test_partition_whose_log_is_gone_after_a_kill_is_refused(remove: Callable[[FaultyDisk, str], None]) -> None:
    disk = killed(b"a", b"b")
    remove(disk, f"{LOGS}/orders/0")
    running = Running(disk)
    assert isinstance(running.store.unopened["orders/0"], RangeDamaged)
    with pytest.raises(LogFenced, match="orders/0 is gone") as refused:
        offer_batch(running.partition(), frames_of([b"c"]))
    assert "fsck --repair" in str(refused.value.hint)
    with pytest.raises(LogFenced, match="orders/0 is gone"):
        run(running.partition().read(0, 1000))
    offer_batch(running.partition(number=1), frames_of([b"c"]))


def test_lost_log_is_still_refused_after_more_starts() -> None:
    disk = killed(b"a")
    remove_tree(disk, f"{LOGS}/orders/0")
    again = Running(disk).crash("everything").restart().restart()
    assert "orders/0" in again.store.unopened


def test_topic_whose_directory_is_gone_is_refused_as_a_whole() -> None:
    disk = killed(b"a")
    remove_tree(disk, f"{LOGS}/orders")
    assert list(Running(disk).store.unopened) == ["orders/0", "orders/1"]


def test_log_that_is_put_back_is_served_again() -> None:
    disk = killed(b"a")
    disk.rename(f"{LOGS}/orders", f"{DATA}/elsewhere")
    running = Running(disk)
    assert "orders/0" in running.store.unopened
    disk = running.disk.crash("everything")
    disk.rename(f"{DATA}/elsewhere", f"{LOGS}/orders")
    assert Running(disk).publish(frames_of([b"b"])).first_offset == 1


def test_lost_log_that_is_repaired_goes_on_behind_every_offset_it_may_have_given_out() -> None:
    disk = noted(Running(killed(b"a", b"b"))).disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0")
    repair(disk, "orders/0")
    running = Running(disk)
    assert running.store.unopened == {}
    assert running.publish(frames_of([b"c"])).first_offset == 2 + LOST_OFFSETS
    assert running.crash().partition().earliest == 2 + LOST_OFFSETS


def test_topic_with_a_lost_log_can_be_deleted_and_created_anew() -> None:
    disk = killed(b"a")
    remove_tree(disk, f"{LOGS}/orders/0")
    running = Running(disk)
    running.delete()
    running.flush()
    running.create()
    assert running.publish(frames_of([b"new"])).first_offset == 0
    assert running.crash().partition().log_end == 1


@pytest.mark.parametrize("flush", ["always", "interval"])
def test_log_that_ends_before_the_noted_end_goes_on_at_that_end(flush: Mode) -> None:
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


def test_only_what_is_on_the_device_is_noted() -> None:
    running = Running(flush="interval")
    running.create()
    offer_batch(running.partition(), frames_of([b"a"]))
    running.store.resources.flusher.flush(sync=False)
    running.store.settle()
    assert running.partition().high_watermark == 1
    running.broker.note_ends(["orders"])
    running.flush()
    assert read_noted_ends(running.disk, LOGS) == {"orders/0": 0}


def test_log_that_a_clean_stop_left_empty_is_made_anew() -> None:
    running = Running()
    running.create()
    disk = running.restart().restart().disk
    again = Running(disk.crash("everything"))
    again.broker.close()
    again.store.close()
    disk = again.disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0")
    assert Running(disk).publish(frames_of([b"first"])).first_offset == 0


def test_log_that_was_made_and_never_noted_to_be_empty_by_a_stop_is_not_made_anew() -> None:
    running = Running()
    running.create()
    running.flush()
    disk = running.disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0")
    assert list(Running(disk).store.unopened) == ["orders/0"]


def test_delayed_log_that_is_gone_is_refused_and_the_partition_itself_is_not() -> None:
    running = Running()
    running.create()
    delays = running.broker.scheduling(running.partition()).delays
    running.flush()
    disk = running.disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0/delayed")
    again = Running(disk)
    assert list(again.store.unopened) == [delays.name]
    with pytest.raises(LogFenced, match="orders/0/delayed is gone"):
        again.broker.scheduling(again.partition()).delays.inbox.log.refuse_unless_open()
    assert again.publish(frames_of([b"now"])).first_offset == 0


def test_repaired_delayed_log_takes_messages_again() -> None:
    running = Running()
    running.create()
    running.broker.scheduling(running.partition())
    running.flush()
    disk = running.disk.crash("everything")
    remove_tree(disk, f"{LOGS}/orders/0/delayed")
    repair(disk, "orders/0/delayed")
    again = Running(disk)
    assert again.broker.scheduling(again.partition()).delays.inbox.log_end == LOST_OFFSETS


def test_ends_of_a_topic_that_was_created_anew_are_its_own() -> None:
    running = Running()
    running.create()
    running.publish(frames_of([b"a", b"b"]))
    noted(running)
    running.delete()
    running.flush()
    running.create()
    running.flush()
    assert read_noted_ends(running.disk, LOGS) == {"orders/0": 0}
    assert running.crash("everything").store.unopened == {}


def test_ends_are_noted_once_and_survive_the_compaction_of_the_catalog() -> None:
    running = Running()
    running.create()
    catalog = running.broker.topics["__metadata"].partitions[0]
    for number in range(40):
        running.publish(frames_of([b"x"]))
        noted(running)
        end = catalog.log_end
        noted(running)
        assert catalog.log_end == end, number
    assert catalog.log.size < 3 * catalog.log.settings.segment_bytes
    assert read_noted_ends(running.disk, LOGS) == {"orders/0": 40}


def test_settings_that_are_changed_keep_the_noted_ends() -> None:
    running = noted(Running(killed(b"a")))
    told: Told[object] = Told()
    running.broker.alter_topic("orders", {"retention_hours": 2.0}, told)
    running.flush()
    assert read_noted_ends(running.disk, LOGS)["orders/0"] == 1


def test_a_catalog_that_cannot_note_ends_keeps_nothing_else_from_working() -> None:
    running = Running(killed(b"a"))
    running.flush()
    running.broker.topics["__metadata"].partitions[0].log.fence_off(GoQueueError("broken"))
    running.publish(frames_of([b"b"]))
    running.broker.note_ends(["orders"])
    assert running.publish(frames_of([b"c"])).first_offset == 2
