"""Leaders of partitions over HTTP: any node tells them, operators move them, and a stopping node gives them away."""

from pathlib import Path
from typing import Any

from tests.brokers import Answer, ask
from tests.cluster.processes import NAMES, ServedCluster, cluster

TOPIC = {"name": "orders", "num_partitions": 3}


def metadata(nodes: ServedCluster, name: str, query: str = "") -> Any:
    return ask(nodes.brokers[name].url, "GET", f"/cluster/metadata{query}").json


def leaders(nodes: ServedCluster, name: str) -> list[str]:
    """Return the leaders of the topic, as a node knows them."""
    return [one["leader"] for one in metadata(nodes, name)["topics"][0]["partitions"]]


def publish(nodes: ServedCluster, name: str, partition: int) -> Answer:
    body = {"messages": [{"value": "tea", "partition": partition}]}
    return ask(nodes.brokers[name].url, "POST", "/topics/orders/messages", body)


def test_leaders_are_told_by_any_node_and_moved_by_operators(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        url = nodes.brokers["n2"].url
        assert ask(url, "POST", "/topics", TOPIC).status == 201
        found = metadata(nodes, "n3")
        assert [one["name"] for one in found["topics"]] == ["orders"]
        assert {one["node"] for one in found["nodes"]} == set(NAMES)
        assert set(leaders(nodes, "n3")) == set(NAMES)
        assert metadata(nodes, "n1", "?topic=nothing")["topics"] == []

        info = ask(url, "GET", "/cluster/partition/orders/0/info").json
        assert (info["leader"], info["leader_epoch"], set(info["isr"]), info["min_isr"]) == (
            leaders(nodes, "n1")[0], 1, set(NAMES), 2,
        )  # fmt: skip
        assert ask(url, "GET", "/cluster/partition/orders/9/info").code == "partition_not_found"
        assert ask(url, "GET", "/cluster/partition/nothing/0/info").code == "topic_not_found"

        other = next(one for one in info["replicas"] if one != info["leader"])
        moved = ask(url, "POST", "/cluster/leader-election", {"topic": "orders", "partition": 0, "node": other})
        assert (moved.json["leader"], moved.json["leader_epoch"]) == (other, 2)
        refused = ask(url, "POST", "/cluster/leader-election", {"topic": "orders", "partition": 0, "node": "n9"})
        assert (refused.status, refused.code) == (409, "election_refused")

        change = {"topic": "orders", "partition": 0, "leader_epoch": 2, "isr": [other]}
        stale = ask(url, "POST", "/cluster/isr", {**change, "partition_epoch": 1})
        assert (stale.status, stale.code) == (409, "isr_change_refused")
        current = ask(url, "GET", "/cluster/partition/orders/0/info").json["partition_epoch"]
        assert ask(url, "POST", "/cluster/isr", {**change, "partition_epoch": current}).json["isr"] == [other]


def test_stopping_node_has_given_its_leaders_away_when_its_connections_end(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        assert ask(nodes.brokers["n1"].url, "POST", "/topics", TOPIC).status == 201
        victim = nodes.controller()
        left = [name for name in NAMES if name != victim]
        stopped = nodes.brokers.pop(victim)
        stopped.stop()
        assert set(leaders(nodes, left[0])) == set(left)
        for number, leader in enumerate(leaders(nodes, left[0])):
            assert publish(nodes, leader, number).status == 200
        nodes.start(victim)
        nodes.wait(lambda: set(metadata(nodes, left[0])["topics"][0]["partitions"][0]["isr"]) == set(NAMES))
