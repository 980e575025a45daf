"""A data directory that a broker has worked in: producers, a group that acknowledges and rejects, dead letters."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker

MADE_NS = 1_700_000_000_000_000_000
"""What the header `produced_at` says of every message, in milliseconds."""
MESSAGES, READ, SENT_BACK = 120, 90, 2


@dataclass(frozen=True)
class Traffic:
    """The directory, and what the broker reported of it."""

    path: Path
    lag: dict[str, dict[str, Any]]
    """Of the group `billing`."""
    acknowledged: int
    rejected: int


def work(client: Client) -> tuple[int, int]:
    """Topics `jobs` and `state`; the group `billing` reads a part of `jobs`, and gives up each tenth message."""
    client.create_topic("jobs", 2, retention_hours=24, retention_bytes=1_000_000)
    client.create_topic("state", 1, cleanup="compact")
    with client.producer() as producer:
        for number in range(MESSAGES):
            headers = {"tenant": ("acme", "blue", "cyan")[number % 3], "produced_at": str(MADE_NS // 10**6)}
            producer.send("jobs", b'{"order": {"made": "2023-11-14T22:13:20Z"}}', f"k{number % 7}", headers=headers)
    for number in range(20):
        client.publish("state", f"v{number}", f"s{number % 3}")
    acknowledged = rejected = 0
    with client.consumer("billing", ["jobs"]) as consumer:
        for message in islice(consumer, READ):
            if message.offset % 10 == 3:
                message.reject(f"no such form {message.offset}")
                rejected += 1
            else:
                message.ack()
                acknowledged += 1
    client.redrive("jobs", limit=SENT_BACK)
    return acknowledged, rejected


def traffic(path: Path) -> Traffic:
    """The directory, once the broker has stopped."""
    with LocalBroker(str(path)) as broker, Client(broker.url) as client:
        acknowledged, rejected = work(client)
        return Traffic(path, client.group("billing")["lag"], acknowledged, rejected)
