"""A topic of a cluster of real brokers, whose leader is killed."""

from pathlib import Path
from typing import Any

from tests.brokers import ask
from tests.cluster.processes import NAMES, ServedCluster, cluster


def partition(nodes: ServedCluster, seen_from: str) -> dict[str, Any]:
    (found,) = ask(nodes.brokers[seen_from].url, "GET", "/topics/orders/partitions").json["partitions"]
    return dict(found)


def create(nodes: ServedCluster) -> str:
    """Create a topic; return its leader once all replicas are in sync."""
    nodes.controller()
    url = nodes.brokers["n1"].url
    nodes.wait(lambda: ask(url, "POST", "/topics", {"name": "orders", "num_partitions": 1}).status in (200, 201))
    return leader(nodes, "n1", in_sync=3)


def leader(nodes: ServedCluster, seen_from: str, *, other_than: str = "", in_sync: int = 2) -> str:
    """Wait until a leader has so many replicas in sync."""

    def is_there() -> bool:
        found = partition(nodes, seen_from)
        return found["leader"] not in (None, other_than) and len(found["in_sync_replicas"]) >= in_sync

    nodes.wait(is_there)
    return str(partition(nodes, seen_from)["leader"])


def publish(nodes: ServedCluster, name: str, *values: str) -> int:
    messages = [{"value": value} for value in values]
    return ask(nodes.brokers[name].url, "POST", "/topics/orders/messages", {"messages": messages}).status


def values(nodes: ServedCluster, name: str) -> list[str]:
    path = "/topics/orders/partitions/0/messages?offset=0&limit=1000&replica=any"
    return [one["value"] for one in ask(nodes.brokers[name].url, "GET", path).json["messages"]]


def files(directory: Path, name: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((directory / name / "logs/orders/0").glob("*.log")))


def test_killed_leader_loses_nothing_and_has_the_same_bytes_when_it_returns(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        first = create(nodes)
        expected = [str(number) for number in range(100)]
        nodes.wait(lambda: publish(nodes, first, expected[0]) == 200)
        for value in expected[1:]:
            assert publish(nodes, first, value) == 200
        nodes.kill(first)
        second = leader(nodes, next(iter(nodes.brokers)), other_than=first)
        nodes.wait(lambda: publish(nodes, second, "after") == 200)
        nodes.start(first)
        leader(nodes, second, in_sync=3)

        nodes.wait(lambda: all(values(nodes, name) == [*expected, "after"] for name in NAMES))
        assert len({files(tmp_path, name) for name in NAMES}) == 1
