"""Answers of nodes of a cluster to clients, and their refusals."""

from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.brokers import ask
from tests.cluster.processes import SECRET, ServedCluster, cluster, free_ports


def test_nodes_of_a_cluster_tell_its_version(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        url = nodes.brokers["n1"].url
        assert ask(url, "GET", "/groups").json == {"groups": []}
        assert "producer_id" in ask(url, "POST", "/producers/init", {}).json
        assert int(ask(url, "GET", "/health").headers["goqueue-metadata"]) > 0


def test_node_that_has_not_found_its_cluster_asks_for_patience(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    with LocalBroker(str(tmp_path / "data")) as alone:
        assert ask(alone.url, "POST", "/topics", {"name": "orders"}).status == 201
    peers = ", ".join(f"n{number}=127.0.0.1:{port}" for number, port in enumerate(free_ports(3), 1))
    settings = {"cluster__node_id": "n1", "cluster__peers": peers, "cluster__secret_file": str(secret)}
    member = {"member_id": "m1", "generation": 1}
    requests = {
        "POST /groups/billing/join": {"topics": ["orders"]},
        "POST /groups/billing/leave": {"member_id": "m1"},
        "POST /groups/billing/heartbeat": member,
        "GET /groups/billing/poll?member_id=m1&generation=1": None,
        "GET /groups/billing": None,
        "POST /topics/orders/messages": {"messages": [{"value": "a"}]},
        "GET /topics/unknown": None,
        "GET /topics/unknown/partitions/0/messages": None,
        "GET /cluster/metadata": None,
        "GET /cluster/partitions?topic=orders": None,
        "GET /cluster/partition/orders/0/info": None,
    }
    with LocalBroker(str(tmp_path / "data"), **settings) as node:
        for request, body in requests.items():
            method, path = request.split()
            answer = ask(node.url, method, path, body)
            assert answer.status == 503, (request, answer.body)
            assert answer.code in ("leader_unavailable", "controller_unavailable"), (request, answer.body)
            assert answer.headers["retry-after"] == "1", request
        assert ask(node.url, "GET", "/cluster/health").json["topics"] == "unknown"


def test_cluster_of_one_node_keeps_groups(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    (port,) = free_ports(1)
    settings = {"cluster__node_id": "n1", "cluster__peers": f"n1=127.0.0.1:{port}", "cluster__secret_file": str(secret)}
    with LocalBroker(str(tmp_path / "data"), **settings) as node:
        assert ask(node.url, "POST", "/topics", {"name": "orders"}).status == 201
        joined = {"topics": ["orders"]}
        ServedCluster.wait_for(lambda: ask(node.url, "POST", "/groups/billing/join", joined).status == 200)
        assert ask(node.url, "POST", "/producers/init", {"transactional_id": "orders-1"}).status == 200
        assert "goqueue-metadata" in ask(node.url, "GET", "/health").headers
