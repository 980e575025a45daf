"""Groups of a cluster whose coordinator has no replica of their topics: it reads at the leaders."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.api.members import PATIENCE, Member
from tests.brokers import ask
from tests.cluster.processes import ServedCluster, cluster
from tests.cluster.test_group_failover import coordinator, polled, values


def test_group_is_given_messages_of_other_nodes_across_a_failover_of_their_leader(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes, ThreadPoolExecutor(1) as threads:
        create(nodes)
        replicas = partition_of(nodes)["replicas"]
        (outside,) = nodes.brokers.keys() - set(replicas)
        group = next(name for name in map(str, range(100)) if coordinator(nodes, group=name) == outside)
        publish(nodes, "a", "b")
        member = Member(nodes.brokers[outside].url, group).join(start="earliest")
        assert values(polled(nodes, member)) == ["a", "b"]
        assert ask(member.url, "GET", f"/groups/{group}").json["total_lag"] == 2

        waiting = threads.submit(member.poll, timeout=PATIENCE)
        publish(nodes, "c")
        assert [one["value"] for one in waiting.result()] == ["c"], "the waiting poll was not woken"

        nodes.kill(partition_of(nodes)["leader"])
        waiting = threads.submit(member.poll, timeout=PATIENCE)
        publish(nodes, "d")
        assert [one["value"] for one in waiting.result()] == ["d"], "the poll did not follow the new leader"
        assert member.beat()["generation"] == member.generation, "the member noticed a rebalance"


def create(nodes: ServedCluster) -> None:
    settings = {"name": "orders", "num_partitions": 1, "replication_factor": 2, "min_isr": 1}
    nodes.wait(lambda: ask(nodes.brokers["n1"].url, "POST", "/topics", settings).status in (201, 409))
    nodes.wait(lambda: all(ask(one.url, "GET", "/topics/orders").status == 200 for one in nodes.brokers.values()))
    nodes.wait(lambda: partition_of(nodes)["leader"] is not None)


def partition_of(nodes: ServedCluster) -> dict[str, Any]:
    """Return the only partition, as a node sees it."""
    url = next(iter(nodes.brokers.values())).url
    found: dict[str, Any] = ask(url, "GET", "/topics/orders/partitions").json["partitions"][0]
    return found


def publish(nodes: ServedCluster, *texts: str) -> None:
    def published() -> bool:
        broker = nodes.brokers.get(partition_of(nodes)["leader"] or "")
        body = {"messages": [{"value": text} for text in texts]}
        return broker is not None and ask(broker.url, "POST", "/topics/orders/messages", body).status == 200

    nodes.wait(published)
