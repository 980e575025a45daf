"""A critical message behind very many normal ones, on its way to a group that is at work on those."""

import asyncio
import time
from collections.abc import Iterator

import uvloop

from benchmarks.broker.contract import running
from benchmarks.broker.goqueue import OURS, GoQueue
from benchmarks.broker.latency import Answers
from benchmarks.broker.rows import BATCH, SYNC, sync_alone, values
from benchmarks.groups import wire
from benchmarks.groups.member import Member, Talk, together
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement

BEHIND = 10_000_000
AT_ONCE = 100
HALF = Figure("ms", "half within", less_is_better=True)
MOST = Figure("ms", "99 of 100 within", budget=at_most(5), less_is_better=True)


@measurement(f"a critical message behind {BEHIND:,} others, {OURS}", HALF, MOST, SYNC, repeats=1)
def behind(bench: Bench) -> Iterator[Sample]:
    """From the request that publishes to the answer that has it, while the group polls and acknowledges others."""
    broker = GoQueue()
    count, asked = bench.size(BEHIND, BEHIND // 20), bench.size(500, 100)
    with running(broker, bench.room()) as topics:
        topic = next(topics)
        broker.publish_bulk(topic, values(bench), count // BATCH)
        while True:
            sync = sync_alone(bench)
            found = uvloop.run(_overtake(broker.port, topic, count, asked))
            yield found.half, found.most, sync


async def _overtake(port: int, topic: str, count: int, asked: int) -> Answers:
    publisher = await Talk.open(port)
    [member] = await together(port, f"{topic}-group", topic, 1, 1)
    message = {"value": "v" * 100, "priority": "critical", "partition": 0}
    request = wire.post(f"/topics/{topic}/messages", {"messages": [message]})
    times = []
    begin = time.perf_counter()
    for _ in range(asked + asked // 10):
        arrival = asyncio.ensure_future(_until(member, count))
        await asyncio.sleep(0)
        start = time.perf_counter()
        await publisher.answer(request)
        times.append(await arrival - start)
    await member.leave()
    for one in (publisher, member):
        one.close()
    return Answers.of(times[asked // 10 :], time.perf_counter() - begin)


async def _until(member: Member, offset: int) -> float:
    """Work on what there is until a message from this offset on comes; the moment at which it did."""
    while True:
        leases = await member.poll(AT_ONCE)
        moment = time.perf_counter()
        await member.ack(leases)
        if any(lease.first >= offset for lease in leases):
            return moment
