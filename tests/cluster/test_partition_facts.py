"""Partitions of a cluster of real brokers, as operators see them."""

from pathlib import Path

from goqueue.client import Client
from tests.brokers import ask
from tests.cli.programs import cli
from tests.cluster.processes import NAMES, cluster


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
        findings = ask(url, "GET", "/doctor").json["findings"]
        assert "partition_under_replicated" in {one["code"] for one in findings}
        metrics = ask(url, "GET", "/metrics").body.decode()
        lines = dict(one.rsplit(" ", 1) for one in metrics.splitlines() if one.startswith("goqueue_cluster_"))
        assert float(lines["goqueue_cluster_under_replicated_partitions"]) >= 3
        assert float(lines["goqueue_cluster_isr_shrinks_total"]) >= 3
        assert float(lines["goqueue_cluster_leader_elections_total"]) >= 1
