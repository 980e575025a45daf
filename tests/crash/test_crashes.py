"""The process or the power ends at every operation of a scenario, and every promise holds afterwards."""

from itertools import cycle

import pytest

from goqueue.storage.disk import read_all, replace
from goqueue.testing.disk import Crashed, FaultyDisk, Keep
from tests.crash.life import Ledger, Scenario, check, telling
from tests.crash.scenarios import SCENARIOS, crashes, live, truncating, writing_slowly
from tests.storage.stores import open_store

WAYS_TO_END: dict[str, tuple[Keep, bool]] = {
    "killed": ("everything", False),
    "power lost": ("synced", False),
    "power lost while writing": ("some", False),
    "power lost within a block": ("some", True),
}
KEEPS: list[Keep] = ["everything", "synced", "some"]


@pytest.mark.parametrize("end", WAYS_TO_END)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_promise_holds_after_a_crash_at_every_operation(scenario: Scenario, end: str) -> None:
    keep, torn = WAYS_TO_END[end]
    for way, ended, ledger in crashes(scenario):
        left = ended.crash(keep, torn=torn)
        with telling(way, left):
            check(left, ledger)


@pytest.mark.parametrize("end", WAYS_TO_END)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_promise_holds_for_logs_with_copies(scenario: Scenario, end: str) -> None:
    keep, torn = WAYS_TO_END[end]
    for way, ended, ledger in crashes(scenario, copies=True, every=7):
        left = ended.crash(keep, torn=torn)
        with telling(way, left):
            check(left, ledger)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recovery_may_itself_be_interrupted_at_every_operation(scenario: Scenario) -> None:
    # A crash of each crash: those between are like their neighbours, and the next one loses something else.
    for keep, (way, ended, ledger) in zip(cycle(KEEPS), crashes(scenario, every=4), strict=False):
        left, operation, finished = ended.crash(keep), 0, False
        while not finished:
            operation += 1
            recovering = left.after_crash("everything")
            recovering.crash_at(operation)
            try:
                open_store(recovering)
                finished = True
            except Crashed:
                again = recovering.crash(keep)
                with telling(f"{way}, {keep} kept, and again at operation {operation} of the recovery", again):
                    check(again, ledger)


def test_between_two_syncs_a_killed_process_loses_nothing_that_was_answered() -> None:
    for way, ended, ledger in crashes(writing_slowly, "interval"):
        left = ended.crash("everything")
        with telling(way, left):
            check(left, ledger)


@pytest.mark.parametrize("keep", ["synced", "some"])
def test_between_two_syncs_a_loss_of_power_takes_the_newest_messages_and_no_other(keep: Keep) -> None:
    for way, ended, ledger in crashes(writing_slowly, "interval"):
        for owed in ledger.values():
            owed.certain = owed.durable
        left = ended.crash(keep, torn=True)
        with telling(way, left):
            check(left, ledger)


def test_what_is_torn_after_a_truncation_is_cut_and_does_not_count_as_damage() -> None:
    for seed in range(80, 120):
        ended, ledger = FaultyDisk(seed), Ledger()
        ended.crash_at(100, after_bytes=0)  # the first write behind a cut
        live(truncating, ended, ledger)
        left = ended.crash("some")
        with telling(f"seed {seed}", left):
            check(left, ledger)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("after_bytes", [0, 1, 50])
def test_a_replaced_file_is_the_old_or_the_new_one(keep: Keep, after_bytes: int) -> None:
    old, new = b"old" * 100, b"new" * 200
    for operation in range(1, 7):
        disk = FaultyDisk(operation)
        disk.write_file("/data/note", old)
        disk.crash_at(operation, after_bytes=after_bytes)
        try:
            replace(disk, "/data/note", new)
            assert read_all(disk.crash("synced"), "/data/note") == new
        except Crashed:
            left = disk.crash(keep, torn=True)
            assert read_all(left, "/data/note") in (old, new)
            replace(left, "/data/note", new)
            assert read_all(left.crash("synced"), "/data/note") == new
