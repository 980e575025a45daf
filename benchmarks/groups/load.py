"""Load on groups from a process of its own.

`python -m benchmarks.groups.load JOB PORT ...` prints what it found as JSON.
"""

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import uvloop

from benchmarks.broker.latency import Answers, exchange
from benchmarks.broker.load import Connection, Crowd
from benchmarks.broker.request import publish_request
from benchmarks.groups import crowd, moves, wire
from benchmarks.groups.member import together
from goqueue.wire.leases import LeaseDescription

GROUP = "group"
ACKS_IN_LEASE = 1_000


async def acks(port: int, topic: str, count: int, connections: int) -> dict[str, float]:
    """Acknowledge messages by their receipts, over so many connections; a tenth of them before the clock runs."""
    [member] = await together(port, GROUP, topic, 1, 1)
    warm = max(connections, count // 10)
    leases: list[LeaseDescription] = []
    while sum(lease.end - lease.first for lease in leases) < warm + count:
        leases += await member.poll(ACKS_IN_LEASE)
    opened = [await Connection.open(port) for _ in range(connections)]
    requests = _acks(leases)
    try:
        await Crowd(opened, requests, warm).run()
        return asdict(await Crowd(opened, requests, count).run())
    finally:
        for connection in opened:
            connection.close()
        await member.leave()
        member.close()


def _acks(leases: list[LeaseDescription]) -> Iterator[bytes]:
    return iter([wire.ack_message(lease, offset) for lease in leases for offset in range(lease.first, lease.end)])


async def wakes(port: int, topic: str, count: int) -> dict[str, float]:
    """From a publish on one connection to the end of the long poll that a member has on another."""
    request = publish_request(topic, 1)
    publisher = await Connection.open(port)
    [member] = await together(port, GROUP, topic, 1, 1)
    in_hand: list[LeaseDescription] = []

    async def receive() -> None:
        in_hand[:] = await member.poll()
        assert len(in_hand) == 1, f"{len(in_hand)} leases came of one message"

    async def finish() -> None:
        await member.ack(in_hand)

    try:
        found: Answers = await exchange(lambda: publisher.ask(request), receive, count, finish)
        await member.leave()
        return asdict(found)
    finally:
        for connection in (publisher, member.talk):
            connection.close()


def main() -> None:
    name, port, *rest = sys.argv[1:]
    jobs: dict[str, Callable[..., Any]] = {
        "acks": acks,
        "wakes": wakes,
        "rounds": moves.rounds,
        "gaps": moves.gaps,
        "crowd": crowd.attend,
    }
    found = uvloop.run(jobs[name](int(port), *(int(one) if one.isdigit() else one for one in rest)))
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
