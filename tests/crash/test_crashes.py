"""The process or the power ends at every operation of a scenario, and every promise holds afterwards."""

from itertools import cycle

import pytest

from goqueue.storage.disk import read_all, replace_file
from goqueue.testing.disk import Crashed, FaultyDisk, Keep
from tests.crash.life import Checker, Ledger, Scenario, check, telling
from tests.crash.scenarios import SCENARIOS, Sample, crashes, live, truncating, writing_slowly
from tests.storage.stores import open_store

ENDS: dict[str, tuple[Keep, bool]] = {
    "killed": ("everything", False),
    "power lost": ("synced", False),
    "power lost while writing": ("some", False),
    "power lost within a block": ("some", True),
}
PARTIAL = ("power lost while writing", "power lost within a block")
KEEPS: list[Keep] = ["everything", "synced", "some"]


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize(("copies", "share"), [(False, 6), (True, 20)], ids=["one copy", "two copies"])
def test_every_answer_holds_after_a_crash_at_any_operation(
    scenario: Scenario, copies: bool, share: int, sample: Sample
) -> None:
    checker = Checker()
    for partial, (way, ended, ledger) in zip(
        cycle(PARTIAL), crashes(scenario, sample, share, copies=copies), strict=False
    ):
        for end in ("killed", "power lost", partial):
            keep, torn = ENDS[end]
            left = ended.after_crash(keep, torn=torn)
            with telling(f"{way}, {end}", left):
                checker.check(left, ledger)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_recovery_can_be_interrupted_at_any_operation(scenario: Scenario, sample: Sample) -> None:
    # A crash of each crash: those between are like their neighbors, and the next one loses something else.
    checker = Checker()
    for keep, (way, ended, ledger) in zip(cycle(KEEPS), crashes(scenario, sample, 24), strict=False):
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
                    checker.check(again, ledger)


@pytest.mark.parametrize("keep", KEEPS)
def test_crash_between_two_syncs_takes_only_the_newest_messages_and_only_when_power_is_lost(
    keep: Keep, sample: Sample
) -> None:
    checker = Checker()
    for way, ended, ledger in crashes(writing_slowly, sample, flush="interval"):
        if keep != "everything":
            for owed in ledger.values():
                owed.certain = owed.durable
        left = ended.crash(keep, torn=keep != "everything")
        with telling(way, left):
            checker.check(left, ledger)


def test_torn_write_after_truncation_is_cut_without_damage() -> None:
    for seed in range(80, 120):
        ended, ledger = FaultyDisk(seed), Ledger()
        ended.crash_at(100, after_bytes=0)  # the first write behind a cut
        live(truncating, ended, ledger)
        left = ended.crash("some")
        with telling(f"seed {seed}", left):
            check(left, ledger)


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("after_bytes", [0, 1, 50])
def test_replaced_file_is_old_or_new_after_a_crash(keep: Keep, after_bytes: int) -> None:
    old, new = b"old" * 100, b"new" * 200
    for operation in range(1, 7):
        disk = FaultyDisk(operation)
        disk.write_file("/data/note", old)
        disk.crash_at(operation, after_bytes=after_bytes)
        try:
            replace_file(disk, "/data/note", new)
            assert read_all(disk.crash("synced"), "/data/note") == new
        except Crashed:
            left = disk.crash(keep, torn=True)
            assert read_all(left, "/data/note") in (old, new)
            replace_file(left, "/data/note", new)
            assert read_all(left.crash("synced"), "/data/note") == new
