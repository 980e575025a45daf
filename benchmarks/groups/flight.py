"""Memory of the broker for messages in flight."""

import asyncio
from collections.abc import Iterator

import uvloop

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.rows import BATCH, REPEATS, values
from benchmarks.groups.member import Member, asked, together
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement
from benchmarks.storage.stock import Stopwatch

MB = 1e6
MEMBERS = 10
TOPIC = "flight"
MESSAGES = 1_000_000
MESSAGES_AT_ONCE = 10_000
SINGLES = 100_000
SINGLES_MEMBERS = 64
"""More of them: each waits for the disk for every message, and what a poll costs grows with the leases that its
partition has already."""
GAINED = "memory gained"


@measurement(
    f"{MESSAGES:,} messages in flight, {MEMBERS} members, {OURS}",
    Figure("MB", GAINED, budget=at_most(50), less_is_better=True, is_total=True),
    Figure("leases", "given"),
    repeats=REPEATS,
)
def ranges(bench: Bench) -> Iterator[Sample]:
    """Leases as large as polls make them."""
    count = bench.size(MESSAGES, MESSAGES // 10)
    while True:
        gained, leases, _ = _held(bench, count, MESSAGES_AT_ONCE, MEMBERS)
        yield gained / MB, leases


@measurement(
    f"{SINGLES:,} messages in flight, a lease each, {SINGLES_MEMBERS} members, {OURS}",
    Figure("MB", GAINED, less_is_better=True, is_total=True),
    Figure("leases/s", "given"),
    repeats=1,
)
def singles(bench: Bench) -> Iterator[Sample]:
    """The most that messages in flight can cost: each was handed out by itself."""
    count = bench.size(SINGLES, SINGLES // 10)
    while True:
        gained, leases, seconds = _held(bench, count, 1, SINGLES_MEMBERS)
        yield gained / MB, leases / seconds


def _held(bench: Bench, count: int, at_once: int, members: int) -> tuple[int, int, float]:
    """The bytes gained by handing out so many messages, in how many leases, and the seconds that it took.

    Each member has a partition.
    """
    broker = GoQueue()
    room = bench.room()
    with running(broker, room):
        broker.create(TOPIC, members)
        batch = values(bench, count=BATCH)
        keys = [b"%08d" % number for number in range(BATCH)]
        broker.publish_bulk(TOPIC, batch, count // BATCH, keys)
        uvloop.run(_pass(broker.port, count, members))
        before = broker.server.memory()
        watch = Stopwatch()
        leases = uvloop.run(_hold(broker.port, count, at_once, members))
        gained = broker.server.memory() - before
        seconds = watch.seconds()
    bench.clear(room)
    return max(0, gained), leases, seconds


async def _pass(port: int, count: int, number: int) -> None:
    """Another group has all of it before, so that what answers need besides is there already."""
    members = await together(port, "before", TOPIC, number, number)
    left = count

    async def take(member: Member) -> None:
        nonlocal left
        while leases := await member.poll(wait="0s"):
            await member.ack(leases)
            left -= sum(lease.end - lease.first for lease in leases)

    await asyncio.gather(*(take(member) for member in members))
    assert left == 0, f"{left} messages were not handed out"
    for member in members:
        await member.leave()
        member.close()


async def _hold(port: int, count: int, at_once: int, number: int) -> int:
    members = await together(port, "flight", TOPIC, number, number)

    async def take(member: Member) -> int:
        given = 0
        while leases := await member.poll(at_once, wait="0s"):
            given += len(leases)
        return given

    given = await asyncio.gather(*(take(member) for member in members))
    found = await asked(port, "/reliability/stats")
    assert found["in_flight"] == count, f"{found['in_flight']} messages are in flight"
    for member in members:
        member.close()
    return sum(given)
