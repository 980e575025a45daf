"""Background work: a failure of one partition does not affect the others."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from goqueue.broker.core.upkeep import CompactionResult
from goqueue.broker.core.work import Work, run_work
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerStopping, DiskFull, LogClosed
from goqueue.limits import GROUP_LOGS, TRANSACTION_LOGS, TRANSACTION_RETENTION_SECONDS
from goqueue.runtime.upkeep_runner import UpkeepRunner
from tests.broker.brokers import Running, frames_of


async def look_once(running: Running, perform: Callable[[Work[Any]], Awaitable[Any]]) -> None:
    upkeep = UpkeepRunner(running.broker, running.store, running.disk, running.clock, perform)
    await upkeep._look_at_all()


def test_failure_of_one_partition_does_not_stop_upkeep_of_others() -> None:
    running = Running()
    running.create("orders", partitions=2)
    met: list[BaseException] = [ValueError("a mistake"), DiskFull("no room")]
    looked = 0

    async def perform(work: Work[Any]) -> None:
        nonlocal looked
        looked += 1
        if met and looked > 2:
            raise met.pop()
        run_work(work)

    asyncio.run(look_once(running, perform))
    internal = 5 + GROUP_LOGS + TRANSACTION_LOGS
    expected = 5 + internal + 2  # clock, trash, reserve, records of groups, transactional ids; and those of the topic
    assert (looked, met) == (expected, [])


def test_partition_to_which_nothing_happens_is_left_alone_until_its_messages_are_too_old() -> None:
    running = Running()
    running.create("orders", retention_hours=1)
    looked: list[str] = []

    async def perform(work: Work[Any]) -> Any:
        return run_work(work, running.flush)

    async def main() -> None:
        upkeep = UpkeepRunner(running.broker, running.store, running.disk, running.clock, perform)
        attempt = upkeep._attempt

        async def note(what: str, work: Work[Any]) -> None:
            looked.append(what)
            await attempt(what, work)

        upkeep._attempt = note  # type: ignore[method-assign]

        async def looks(count: int) -> int:
            looked.clear()
            for _ in range(count):
                await upkeep._look_at_all()
            return looked.count("orders/0")

        await looks(2)
        assert await looks(40) == 2, "all the same now and then, in case that something was refused"
        running.publish(frames_of([b"x"] * 3))
        assert await looks(1) == 1
        await looks(2)
        running.clock.advance(3601)
        assert await looks(3) == 3

    asyncio.run(main())


def with_two_versions() -> Running:
    running = Running()
    running.create("prices", cleanup="compact")
    for value in (b"old", b"new"):
        running.publish(frames_of([value], key=b"a"), "prices")
    return running


def upkeep_of(running: Running) -> UpkeepRunner:
    async def perform(work: Work[Any]) -> Any:
        return run_work(work, running.flush)

    return UpkeepRunner(running.broker, running.store, running.disk, running.clock, perform)


def test_concurrent_compaction_requests_share_one_result() -> None:
    running = with_two_versions()

    async def main() -> list[CompactionResult]:
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


def test_failed_compaction_does_not_block_the_next() -> None:
    running = with_two_versions()
    running.create("gone", cleanup="compact")
    gone = running.partition("gone")
    running.delete("gone")

    async def main() -> CompactionResult:
        upkeep = upkeep_of(running)
        upkeep.start(3600)
        refused, asked = upkeep.compact(gone), upkeep.compact(running.partition("prices"))
        with pytest.raises(LogClosed):
            await refused
        done = await asked
        await upkeep.stop()
        return done

    assert asyncio.run(main()).messages_removed == 1


def test_pending_compaction_is_refused_when_the_broker_stops() -> None:
    running = with_two_versions()

    async def main() -> None:
        upkeep = upkeep_of(running)
        upkeep.start(3600)
        asked = upkeep.compact(running.partition("prices"))
        await upkeep.stop()
        with pytest.raises(BrokerStopping):
            await asked

    asyncio.run(main())


def test_unused_transactional_ids_are_removed() -> None:
    running = Running()
    shards = running.broker.transactions
    for name in ("unused", "open", "used"):
        registered = run_work(shards.of(name).init(name, 60 * NANOSECONDS), running.flush)
        if name == "open":
            run_work(shards.of(name).begin(registered.whose, name), running.flush)
    running.clock.advance(TRANSACTION_RETENTION_SECONDS + 1)
    run_work(shards.of("used").init("used", 60 * NANOSECONDS), running.flush)

    asyncio.run(upkeep_of(running)._look_at_all())
    running.flush()

    assert set(shards.by_producer.values()) == {"open", "used"}
    assert set(running.crash().broker.transactions.by_producer.values()) == {"open", "used"}


def test_number_of_removed_ids_per_round_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue.broker.transactions.registry.TRANSACTIONAL_IDS_DELETED_AT_ONCE", 2)
    running = Running()
    shards = running.broker.transactions
    coordinator = shards.at(0)
    for name in [name for name in map(str, range(99)) if shards.of(name) is coordinator][:3]:
        run_work(coordinator.init(name, 60 * NANOSECONDS), running.flush)
    running.clock.advance(TRANSACTION_RETENTION_SECONDS + 1)

    left = []
    for _ in range(2):
        asyncio.run(upkeep_of(running)._look_at_all())
        left.append(len(coordinator.register))

    assert left == [1, 0]
