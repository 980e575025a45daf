"""Background work: what goes wrong with one partition costs nobody else anything."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.broker.transactions import coordinator as coordinator_module
from goqueue.broker.upkeep import Compacted
from goqueue.broker.work import Work, run
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerStopping, DiskFull, LogClosed
from goqueue.limits import GROUP_LOGS, TRANSACTION_RETENTION_SECONDS
from goqueue.runtime.upkeep import Upkeep
from tests.broker.brokers import Running, frames_of


async def look_once(running: Running, perform: Callable[[Work[Any]], Awaitable[Any]]) -> None:
    upkeep = Upkeep(running.broker, running.store, running.disk, running.clock, perform)
    await upkeep._look_at_all()


def test_a_failure_at_one_partition_does_not_keep_upkeep_from_the_others() -> None:
    running = Running()
    running.create("orders", partitions=2)
    met: list[BaseException] = [ValueError("a mistake"), DiskFull("no room")]
    looked = 0

    async def perform(work: Work[Any]) -> None:
        nonlocal looked
        looked += 1
        if met and looked > 2:
            raise met.pop()
        run(work)

    asyncio.run(look_once(running, perform))
    internal = 1 + 1 + GROUP_LOGS
    expected = 5 + internal + 2  # clock, trash, reserve, records of groups, transactional ids; and those of the topic
    assert (looked, met) == (expected, [])


def with_two_versions() -> Running:
    running = Running()
    running.create("prices", cleanup="compact")
    for value in (b"old", b"new"):
        running.publish(frames_of([value], key=b"a"), "prices")
    return running


def upkeep_of(running: Running) -> Upkeep:
    async def perform(work: Work[Any]) -> Any:
        return run(work, running.flush)

    return Upkeep(running.broker, running.store, running.disk, running.clock, perform)


def test_who_asks_before_a_compaction_began_gets_the_same_answer() -> None:
    running = with_two_versions()

    async def main() -> list[Compacted]:
        upkeep, partition = upkeep_of(running), running.partition("prices")
        upkeep.start(3600)
        asked = [upkeep.compact(partition), upkeep.compact(partition)]
        done = await asyncio.gather(*asked)
        done.append(await upkeep.compact(partition))
        await upkeep.stop()
        return done

    first, same, later = asyncio.run(main())
    assert first is same
    assert (first.messages_removed, later.messages_removed) == (1, 0)


def test_a_compaction_that_fails_is_told_and_the_next_one_is_made() -> None:
    running = with_two_versions()
    running.create("gone", cleanup="compact")
    gone = running.partition("gone")
    running.delete("gone")

    async def main() -> Compacted:
        upkeep = upkeep_of(running)
        upkeep.start(3600)
        refused, asked = upkeep.compact(gone), upkeep.compact(running.partition("prices"))
        with pytest.raises(LogClosed):
            await refused
        done = await asked
        await upkeep.stop()
        return done

    assert asyncio.run(main()).messages_removed == 1


def test_who_waits_for_a_compaction_hears_that_the_broker_stops() -> None:
    running = with_two_versions()

    async def main() -> None:
        upkeep = upkeep_of(running)
        upkeep.start(3600)
        asked = upkeep.compact(running.partition("prices"))
        await upkeep.stop()
        with pytest.raises(BrokerStopping):
            await asked

    asyncio.run(main())


def test_transactional_ids_that_nobody_has_used_for_long_are_forgotten_and_those_that_are_open_are_not() -> None:
    running = Running()
    coordinator = running.broker.transactions
    coordinator.on_gathered = coordinator.commit
    for name in ("unused", "open", "used"):
        registered = run(coordinator.init(name, 60 * NANOSECONDS), running.flush)
        if name == "open":
            run(coordinator.begin(registered.whose, name), running.flush)
    running.clock.advance(TRANSACTION_RETENTION_SECONDS + 1)
    run(coordinator.init("used", 60 * NANOSECONDS), running.flush)

    asyncio.run(upkeep_of(running)._look_at_all())
    running.flush()

    assert set(coordinator.register.by_id) == {"open", "used"}
    assert set(running.crash().broker.transactions.register.by_id) == {"open", "used"}


def test_no_more_ids_are_forgotten_at_once_than_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator_module, "TRANSACTIONAL_IDS_FORGOTTEN", 2)
    running = Running()
    coordinator = running.broker.transactions
    coordinator.on_gathered = coordinator.commit
    for number in range(3):
        run(coordinator.init(f"app-{number}", 60 * NANOSECONDS), running.flush)
    running.clock.advance(TRANSACTION_RETENTION_SECONDS + 1)

    left = []
    for _ in range(2):
        asyncio.run(upkeep_of(running)._look_at_all())
        left.append(len(coordinator.register))

    assert left == [1, 0]
