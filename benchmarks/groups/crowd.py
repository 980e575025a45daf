"""Many members that only say that they live, over a few connections, each in its own moment."""

import asyncio
import itertools
import json
import sys
import time
from contextlib import suppress

from benchmarks.broker.latency import Answers
from benchmarks.groups import wire
from benchmarks.groups.member import Member, Talk
from goqueue.limits import HEARTBEAT_SECONDS

NEWS = b'"rebalance_required":true'


async def attend(port: int, topic: str, groups: int, members: int, connections: int) -> dict[str, float]:
    """Have them join, say so, and send heartbeats until the input ends. Each line of input is answered with how many
    heartbeats were answered a second since the last one, and how long they took from when they were due."""
    talks = [await Talk.open(port) for _ in range(connections)]
    begin = time.perf_counter()
    crowd = await _joined(talks, topic, groups, members)
    print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)
    times: list[float] = []
    beating = asyncio.gather(
        *(_beat(talk, crowd[place::connections], place / connections, times) for place, talk in enumerate(talks))
    )
    asking = asyncio.ensure_future(_report(times))
    asking.add_done_callback(lambda _: beating.cancel())
    with suppress(asyncio.CancelledError):
        await beating
    for talk in talks:
        talk.close()
    return {}


async def _joined(talks: list[Talk], topic: str, groups: int, members: int) -> list[tuple[str, Member]]:
    """All members of a group join at once, and of some groups at a time, so that each rebalances once."""
    numbers = itertools.count()
    crowd: list[tuple[str, Member]] = []

    async def gather(team: list[Talk]) -> None:
        while (number := next(numbers)) < groups:
            group = f"crowd-{number}"
            joining = [Member(talk, group, topic) for talk in team]
            await asyncio.gather(*(member.join("idle") for member in joining))
            crowd.extend((group, member) for member in joining)

    teams = [list(team) for team in zip(*[iter(talks)] * members, strict=False)]
    await asyncio.gather(*(gather(team) for team in teams))
    for _, member in crowd:
        await member.look()
    return crowd


async def _beat(talk: Talk, crowd: list[tuple[str, Member]], phase: float, times: list[float]) -> None:
    """For each of them in turn, so that all have their turn in the usual time."""
    requests = itertools.cycle([wire.heartbeat(group, member.id, member.generation) for group, member in crowd])
    interval = HEARTBEAT_SECONDS / len(crowd)
    begin = time.perf_counter() + phase * interval
    for number, request in enumerate(requests):
        due = begin + number * interval
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        answer = await talk.answer(request)
        times.append(time.perf_counter() - due)
        if NEWS in answer:
            raise RuntimeError(f"a member that was to be idle has news: {answer.decode()}")


async def _report(times: list[float]) -> None:
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    begin = time.perf_counter()
    while await lines.readline():
        now = time.perf_counter()
        found = Answers.of(times, now - begin)
        times.clear()
        begin = now
        print(json.dumps({"rate": found.rate, "most": found.most}), flush=True)
