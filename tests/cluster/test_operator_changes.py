"""Changes of a cluster of real brokers by an operator: another controller, a replaced voter, a removed node."""

import shutil
import sys
from pathlib import Path

import pytest

from goqueue.client import Client
from goqueue.errors import ClusterChangeRefused, NodeNotFound
from tests.cli.programs import cli
from tests.cluster.processes import NAMES, ServedCluster, cluster

ADMIN = (sys.executable, "-m", "goqueue_admin.main")


def client_of(nodes: ServedCluster, name: str) -> Client:
    return Client(nodes.brokers[name].url)


def test_any_node_transfers_the_controllership(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        first = nodes.controller()
        second, third = (name for name in NAMES if name != first)
        with client_of(nodes, third) as client:
            assert client.transfer_controller(second).controller_id == second
            assert client.transfer_controller().controller_id != second
            with pytest.raises(ClusterChangeRefused, match="no voter that is connected"):
                client.transfer_controller("n9")


def test_lost_voter_is_replaced_and_then_another_node_may_be_lost(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        lost = next(name for name in NAMES if name != nodes.controller())
        other = next(name for name in NAMES if name not in (lost, nodes.controller()))
        shutil.copytree(tmp_path / lost, tmp_path / "saved")
        nodes.kill(lost)
        with client_of(nodes, other) as client, pytest.raises(ClusterChangeRefused, match="is not connected"):
            client.replace_voter(lost)
        shutil.rmtree(tmp_path / lost)
        nodes.start(lost)
        nodes.wait(lambda: nodes.node(other, lost).role == "observer" and nodes.node(other, lost).status == "alive")

        done = cli(nodes.brokers[lost].url, "cluster", "replace-voter", lost, "--yes", command=ADMIN)

        assert (done.code, done.err) == (0, "")
        nodes.wait(lambda: nodes.state(lost).has_vote)
        nodes.wait(lambda: all(nodes.node(name, lost).problem is None for name in NAMES))
        with client_of(nodes, other) as client:
            assert not client.replace_voter(lost).changed
        nodes.kill(other)
        survivors = tuple(name for name in NAMES if name != other)
        nodes.controller(other_than=other, seen_from=survivors)
        nodes.start(other)
        nodes.wait(lambda: nodes.state(other).controller_id is not None)
        assert {one.role for one in nodes.state(other).nodes} == {"controller", "voter"}, "after a restart as well"

        nodes.kill(lost)
        shutil.rmtree(tmp_path / lost)
        shutil.move(tmp_path / "saved", tmp_path / lost)
        nodes.start(lost)
        nodes.wait(lambda: nodes.state(lost).controller_id is not None)
        nodes.wait(lambda: not nodes.state(lost).has_vote)


def test_node_is_removed_only_when_it_is_of_no_use(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes, client_of(nodes, "n1") as client:
        with pytest.raises(ClusterChangeRefused, match=r"is connected|is a voter"):
            client.remove_node("n2")
        with pytest.raises(NodeNotFound):
            client.remove_node("n9")
        with pytest.raises(NodeNotFound, match=r"cluster\.peers"):
            client.replace_voter("n9")
