"""Requests between nodes over HTTP: signed with the secret, or refused."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from goqueue.api.cluster_peers import PROOF_HEADER
from goqueue.cluster.handshake import request_proof
from goqueue.cluster.messages import NodeIdentity
from goqueue.runtime.cluster.notes import NodeNotes
from goqueue.storage.disk import SystemDisk
from tests.brokers import Answer, ask
from tests.cluster.processes import NAMES, SECRET, ServedCluster, cluster
from tests.processes import Served


@contextmanager
def single(directory: Path) -> Iterator[str]:
    """A cluster of one node, which is its controller."""
    alone = ServedCluster(directory)
    alone.peers = alone.peers.partition(",")[0]
    try:
        alone.start("n1")
        alone.wait(lambda: alone.node("n1", "n1").broker_epoch is not None)
        yield alone.brokers["n1"].url
    finally:
        alone.end()


def signed(url: str, path: str, content: Mapping[str, object], *, secret: str = SECRET, at: float = 0.0) -> Answer:
    body, at_s = json.dumps(content).encode(), round(time.time() + at)
    proof = request_proof(secret.encode(), "POST", path, at_s, body)
    return ask(url, "POST", path, body, {PROOF_HEADER: f"{at_s} {proof}"})


BODIES: dict[str, dict[str, object]] = {
    "/cluster/vote": {
        "candidate_id": "n1", "directory_id": "", "cluster_id": "", "epoch": 1, "last_epoch": 0, "last_offset": 0,
    },
    "/cluster/heartbeat": {"node_id": "n2"},
    "/cluster/join": {"node_id": "n2", "directory_id": "", "incarnation": "1"},
    "/cluster/leave": {"node_id": "n2"},
}  # fmt: skip


def test_requests_of_strangers_are_refused(tmp_path: Path) -> None:
    with single(tmp_path) as url:
        for path, body in BODIES.items():
            assert ask(url, "POST", path, json.dumps(body).encode()).status == 403, path
            assert signed(url, path, body, secret=f"not {SECRET}").status == 403, path
            assert signed(url, path, body, at=-120).status == 403, path


def test_node_is_registered_by_join_and_taken_out_by_leave(tmp_path: Path) -> None:
    with single(tmp_path) as url:
        joined = signed(url, "/cluster/join", {"node_id": "n9", "directory_id": "d", "incarnation": "1"})
        listed = ask(url, "GET", "/cluster/state").json

        assert joined.json["success"]
        found = next(one for one in listed["nodes"] if one["node_id"] == "n9")
        assert (found["broker_epoch"], found["role"]) == (joined.json["broker_epoch"], "observer")
        assert signed(url, "/cluster/leave", {"node_id": "n9"}).json["success"]
        assert all(one["node_id"] != "n9" or one["broker_epoch"] is None
                   for one in ask(url, "GET", "/cluster/state").json["nodes"])  # fmt: skip


def test_vote_is_on_the_disk_when_it_is_answered(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        voter, candidate, third = NAMES
        identity = NodeIdentity(candidate, nodes.node(voter, candidate).directory_id or "")
        cluster_id = nodes.state(voter).cluster_id
        for name in (candidate, third):
            nodes.kill(name)
        nodes.wait(lambda: nodes.state(voter).controller_id is None)
        request: dict[str, object] = {
            "candidate_id": candidate, "directory_id": identity.directory, "cluster_id": cluster_id, "epoch": 1000,
            "last_epoch": 999, "last_offset": 1000,
        }  # fmt: skip

        answer = signed(nodes.brokers[voter].url, "/cluster/vote", request).json

        assert (answer["vote_granted"], answer["epoch"]) == (True, 1000)
        vote = NodeNotes(SystemDisk(), str(tmp_path / voter)).load_vote()
        assert (vote.term, vote.candidate) == (1000, identity)
        other = request | {"candidate_id": third, "directory_id": nodes.node(voter, third).directory_id}
        assert not signed(nodes.brokers[voter].url, "/cluster/vote", other).json["vote_granted"]
        foreign = request | {"cluster_id": "another", "epoch": 2000}
        assert signed(nodes.brokers[voter].url, "/cluster/vote", foreign).json["error"] == "another cluster"


def test_broker_alone_has_no_cluster(tmp_path: Path) -> None:
    with Served("--data-dir", str(tmp_path)) as alone:
        assert ask(alone.url, "GET", "/cluster/state").status == 409
        assert "\ngoqueue_cluster_epoch " not in ask(alone.url, "GET", "/metrics").body.decode()
        assert not any(path.name in ("cluster", "vote", "__cluster_metadata") for path in tmp_path.rglob("*"))


def test_unknown_node_is_not_safe_to_stop_but_unknown(tmp_path: Path) -> None:
    with single(tmp_path) as url:
        unknown = ask(url, "GET", "/cluster/health?node=nope")

        assert (unknown.status, unknown.json["code"]) == (404, "node_not_found")
        assert unknown.json["error"] == "the cluster has no node 'nope'"
        assert ask(url, "GET", "/cluster/health?node=n1").json["safe_to_stop"] is False


def test_metrics_and_doctor_tell_of_the_cluster(tmp_path: Path) -> None:
    with single(tmp_path) as url:
        metrics = ask(url, "GET", "/metrics").body.decode()
        checks = {one["name"]: one for one in ask(url, "GET", "/doctor").json["checks"]}

        assert "goqueue_cluster_is_controller 1.0" in metrics
        assert 'goqueue_cluster_nodes{status="alive"} 1.0' in metrics
        assert checks["cluster"]["message"] == "there is a controller, and 1 node can be reached"
