"""Partitions of a cluster of real brokers, as operators see them."""

from pathlib import Path
from typing import ClassVar

from goqueue.client import Client
from tests.brokers import ask
from tests.cli.programs import cli
from tests.cluster.processes import NAMES, ServedCluster, cluster, free_ports


class WithObservers(ServedCluster):
    ports: ClassVar[dict[str, int]] = {}

    def words_of(self, name: str) -> tuple[str, ...]:
        return ("--cluster-listen", f"127.0.0.1:{self.ports[name]}") if name in self.ports else ()


def test_nodes_without_a_vote_have_replicas_of_each_others_partitions(tmp_path: Path) -> None:
    with cluster(tmp_path, made=WithObservers) as nodes:
        assert isinstance(nodes, WithObservers)
        nodes.ports.update(zip(("n4", "n5"), free_ports(2), strict=True))
        nodes.start("n4", "n5")
        nodes.wait(lambda: all(one.address for one in nodes.state("n1").nodes) and len(nodes.state("n1").nodes) == 5)
        nodes.wait(lambda: nodes.node("n4", "n5").status == nodes.node("n5", "n4").status == "alive")
        with Client(nodes.brokers["n1"].url) as client:
            client.create_topic("wide", 10)
            found = client.cluster_partitions("wide")
            assert any({one.node for one in row.replicas} > {"n4", "n5"} for row in found)
            nodes.wait(lambda: all(one.status == "ok" for one in client.cluster_partitions("wide")))


def test_partitions_are_listed_with_replicas_lag_and_what_is_wrong(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        controller = nodes.controller()
        with Client(nodes.brokers[controller].url) as client:
            client.create_topic("orders", 3)
            nodes.wait(lambda: all(len(one.isr) == 3 for one in client.cluster_partitions("orders")))
            found = client.cluster_partitions("orders")
            assert [one.status for one in found] == ["ok"] * 3
            assert {one.preferred_leader for one in found} == set(NAMES)
            assert client.cluster_partitions("orders", unhealthy=True) == []
            nodes.wait(
                lambda: all(
                    replica.lag == 0
                    for one in client.cluster_partitions("orders")
                    if one.leader == controller
                    for replica in one.replicas
                )
            )
            lost = next(name for name in NAMES if name != controller)
            nodes.kill(lost)
            nodes.wait(lambda: len(client.cluster_partitions("orders", unhealthy=True)) == 3)
            row = client.cluster_partitions("orders")[0]
            assert {one.node for one in row.replicas if not one.in_sync} == {lost}
            assert row.status == "under_replicated"

        url = nodes.brokers[controller].url
        listed = cli(url, "cluster", "partitions", "--topic", "orders", "--under-replicated")
        assert (listed.code, listed.out.count(f"{lost}!")) == (0, 3)
        assert cli(url, "cluster", "partitions", "--offline").out.count("orders") == 0
        described = cli(url, "topic", "describe", "orders").out
        assert "LEADER" in described
        assert "n1 n2 n3" in described
        findings = ask(url, "GET", "/doctor").json["findings"]
        assert "partition_under_replicated" in {one["code"] for one in findings}
        metrics = ask(url, "GET", "/metrics").body.decode()
        lines = dict(one.rsplit(" ", 1) for one in metrics.splitlines() if one.startswith("goqueue_cluster_"))
        assert float(lines["goqueue_cluster_under_replicated_partitions"]) >= 3
        assert float(lines["goqueue_cluster_isr_shrinks_total"]) >= 3
        assert float(lines["goqueue_cluster_leader_elections_total"]) >= 1
