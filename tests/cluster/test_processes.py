"""Clusters of real brokers, which are killed, stopped, wiped and refused."""

import shutil
from dataclasses import replace
from pathlib import Path
from signal import SIGCONT, SIGSTOP

from goqueue.runtime.cluster.notes import NodeNotes
from goqueue.storage.disk import SystemDisk
from tests.brokers import ask
from tests.cluster.processes import NAMES, SECRET, ServedCluster, cluster


def test_killed_controller_is_replaced_and_follows_when_it_returns(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        first = nodes.controller()
        term = nodes.state(first).epoch
        nodes.kill(first)

        second = nodes.controller(other_than=first)

        assert nodes.state(second).epoch > term
        nodes.start(first)
        assert nodes.controller(other_than=first) == second
        nodes.wait(lambda: len({nodes.state(name).version for name in NAMES}) == 1)
        nodes.wait(lambda: nodes.node(second, first).status == "alive")


def test_silent_controller_is_replaced_and_leads_no_more_when_it_wakes(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        first = nodes.controller()
        others = tuple(name for name in NAMES if name != first)
        nodes.brokers[first].process.send_signal(SIGSTOP)
        try:
            second = nodes.controller(other_than=first, seen_from=others)
        finally:
            nodes.brokers[first].process.send_signal(SIGCONT)

        assert nodes.controller(other_than=first) == second


def test_clean_stop_of_the_controller_hands_over(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        first = nodes.controller()
        code, _ = nodes.brokers.pop(first).stop()

        second = nodes.controller(other_than=first)

        assert code == 0
        nodes.wait(lambda: nodes.node(second, first).status in ("leaving", "dead"))  # its farewell may be lost


def test_node_with_an_empty_directory_has_no_vote(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        controller = nodes.controller()
        wiped = next(name for name in NAMES if name != controller)
        nodes.kill(wiped)
        shutil.rmtree(tmp_path / wiped)

        nodes.start(wiped)

        nodes.wait(lambda: nodes.state(wiped).controller_id == controller and nodes.state(wiped).version > 0)
        assert not nodes.state(wiped).has_vote
        for name in NAMES:
            nodes.wait(lambda name=name: nodes.node(name, wiped).role == "observer")  # type: ignore[misc]
            assert "its data directory is not the one that votes" in (nodes.node(name, wiped).problem or "")
            findings = ask(nodes.brokers[name].url, "GET", "/doctor").json["findings"]
            assert [one["subject"] for one in findings if one["code"] == "vote_missing"] == [wiped]


def test_two_wiped_nodes_form_no_second_cluster(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        before = nodes.state("n3").cluster_id
        for name in ("n1", "n2"):
            nodes.kill(name)
            shutil.rmtree(tmp_path / name)

        nodes.start("n1", "n2")

        nodes.wait(lambda: all(nodes.state(name).cluster_id == before for name in NAMES))
        nodes.wait(lambda: all(nodes.state(name).controller_id is None for name in NAMES))


def test_node_with_another_secret_is_refused(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        controller = nodes.controller()
        stranger = next(name for name in NAMES if name != controller)
        nodes.kill(stranger)

        nodes.start(stranger, secret=f"not {SECRET}")

        nodes.wait(lambda: any(one.problem for one in nodes.state(stranger).nodes))
        nodes.wait(lambda: all(nodes.node(name, stranger).problem for name in NAMES if name != stranger))
        assert nodes.state(stranger).controller_id is None
        sentences = [one.problem or "" for name in NAMES for one in nodes.state(name).nodes]
        assert any("secret" in sentence for sentence in sentences)


def test_directory_of_another_cluster_is_refused(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        controller = nodes.controller()
        stranger = next(name for name in NAMES if name != controller)
        nodes.brokers.pop(stranger).stop()
        notes = NodeNotes(SystemDisk(), str(tmp_path / stranger))
        note = notes.load(stranger)
        assert note is not None
        notes.save(replace(note, cluster_id="another"))

        nodes.start(stranger)

        nodes.wait(lambda: any("belongs to cluster" in (one.problem or "") for one in nodes.state(stranger).nodes))
        assert nodes.state(stranger).controller_id is None


def test_directory_of_another_node_is_refused_at_the_start(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        for name in ("n1", "n2"):
            nodes.brokers.pop(name).stop()
        (tmp_path / "n1").rename(tmp_path / "swapped")
        (tmp_path / "n2").rename(tmp_path / "n1")

        broker = nodes.launch("n1")
        _, said = broker.process.communicate()

        assert broker.process.returncode == 2
        assert "belongs to node n2" in said


def test_single_node_elects_itself(tmp_path: Path) -> None:
    alone = ServedCluster(tmp_path)
    alone.peers = alone.peers.partition(",")[0]
    try:
        alone.start("n1")

        assert alone.controller() == "n1"
        alone.wait(lambda: alone.node("n1", "n1").broker_epoch is not None)
    finally:
        alone.end()
