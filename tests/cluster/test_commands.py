"""`goqueue-cli cluster`, asked at real brokers."""

import json
from pathlib import Path

import msgspec

from goqueue.client import ClusterHealthInfo
from goqueue_cli.cluster import describe_partitions
from tests.brokers import ask
from tests.cli.programs import cli
from tests.cluster.processes import NAMES, cluster
from tests.processes import Served


def test_status_and_nodes_show_the_cluster_and_who_is_missing(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        controller = nodes.controller()
        url = nodes.brokers[controller].url
        other, last = (name for name in NAMES if name != controller)
        banner = "\n".join(nodes.brokers[controller].banner)

        status = cli(url, "cluster", "status", "--node", other)
        listed = json.loads(cli(url, "cluster", "nodes", "-o", "json").out)

        assert f"cluster     node {controller}, elects with n1, n2, n3" in banner
        assert ask(url, "GET", "/stats").json["node_id"] == controller
        assert status.code == 0
        assert f"controller  {controller}, epoch" in status.out
        assert "voters      3 of 3 alive" in status.out
        assert "stop        safe: a majority and enough replicas are left" in status.out
        assert "\npartitions  " in status.out
        assert [(one["name"], one["status"]) for one in listed] == [(name, "alive") for name in NAMES]

        for name in (other, last):
            nodes.kill(name)
        nodes.wait(lambda: nodes.state(controller).controller_id is None)
        without = cli(url, "cluster", "status")

        assert without.code == 1
        assert "status      fail" in without.out
        assert "controller  none" in without.out


def test_broker_alone_says_how_to_make_a_cluster(tmp_path: Path) -> None:
    with Served("--data-dir", str(tmp_path)) as alone:
        done = cli(alone.url, "cluster", "status")

    assert done.code == 5
    assert "the broker runs alone: it has no cluster settings" in done.err
    assert "goqueue cluster dev" in done.err


def test_replicas_are_not_said_to_be_in_sync_without_a_controller() -> None:
    health = ClusterHealthInfo(
        status="ok", controller_id="n1", quorum=True, voters=3, voters_alive=3, topics="replicated", partitions=7
    )

    assert describe_partitions(health) == "7, all replicas are in sync"
    told = describe_partitions(msgspec.structs.replace(health, controller_id=None, offline_partitions=2))
    assert told == "7; without a controller only as last known: 2 without a leader"
