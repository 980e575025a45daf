"""Tenants of a cluster of real brokers: changed at any node, in force at all."""

from pathlib import Path
from typing import Any

from tests.brokers import Answer, ask
from tests.cluster.processes import NAMES, ServedCluster, cluster

TEAM = {"x-tenant": "team-a"}


def call(nodes: ServedCluster, name: str, method: str, path: str, body: Any = None, *, own: bool = False) -> Answer:
    return ask(nodes.brokers[name].url, method, path, body, TEAM if own else {})


def done(nodes: ServedCluster, name: str, method: str, path: str, body: Any = None, *, own: bool = False) -> Answer:
    """Ask again while there is no leader."""
    answers: list[Answer] = []

    def is_answered() -> bool:
        answers.append(call(nodes, name, method, path, body, own=own))
        return answers[-1].status != 503

    nodes.wait(is_answered)
    assert answers[-1].status in (200, 201), answers[-1].body
    return answers[-1]


def is_joined(nodes: ServedCluster, group: str) -> bool:
    """Join a group at the node that coordinates it, if one does."""
    path, body = f"/groups/{group}/join", {"topics": ["orders"]}
    return any(call(nodes, name, "POST", path, body, own=True).status == 200 for name in NAMES)


def test_tenants_and_their_quotas_are_those_of_the_cluster(tmp_path: Path) -> None:
    with cluster(tmp_path, "--tenants-enabled", "true") as nodes:
        done(nodes, "n2", "POST", "/admin/tenants", {"name": "Team A", "quotas": {"max_topics": 1}})
        for name in NAMES:
            assert call(nodes, name, "GET", "/admin/tenants/team-a").json["name"] == "Team A"
        done(nodes, "n1", "POST", "/topics", {"name": "orders"}, own=True)
        refused = call(nodes, "n3", "POST", "/topics", {"name": "refunds"}, own=True)
        assert (refused.status, refused.code) == (429, "quota_reached")

        done(nodes, "n3", "POST", "/admin/tenants/team-a/suspend", {"reason": "unpaid"})
        for name in NAMES:
            refused = call(nodes, name, "POST", "/topics/orders/messages", {"messages": [{"value": "a"}]}, own=True)
            assert (refused.status, refused.code) == (403, "tenant_suspended"), name
        done(nodes, "n2", "POST", "/admin/tenants/team-a/activate", {})
        done(nodes, "n1", "PUT", "/admin/tenants/team-a/quotas", {"max_topics": 2})
        done(nodes, "n3", "POST", "/topics", {"name": "refunds"}, own=True)


def test_tenant_is_deleted_with_what_other_nodes_coordinate(tmp_path: Path) -> None:
    with cluster(tmp_path, "--tenants-enabled", "true") as nodes:
        done(nodes, "n1", "POST", "/admin/tenants", {"name": "Team A"})
        done(nodes, "n2", "POST", "/topics", {"name": "orders", "num_partitions": 3}, own=True)
        done(nodes, "n3", "POST", "/subjects/orders-value/versions", {"schema": '"string"'}, own=True)
        groups = [f"g{number}" for number in range(6)]
        for group in groups:
            nodes.wait(lambda group=group: is_joined(nodes, group))  # type: ignore[misc]
        for name in NAMES:
            plan = done(nodes, name, "DELETE", "/admin/tenants/team-a?dry_run=true").json["contents"]
            assert (plan["groups"], plan["topics"], plan["subjects"]) == (groups, ["orders"], ["orders-value"])
            listed = done(nodes, name, "GET", "/admin/tenants/team-a/groups").json["groups"]
            assert [one["name"] for one in listed] == groups
        done(nodes, "n2", "DELETE", "/admin/tenants/team-a")
        for name in NAMES:
            assert call(nodes, name, "GET", "/admin/tenants/team-a").status == 404
            assert call(nodes, name, "GET", "/topics").json == {"topics": []}
            assert call(nodes, name, "GET", "/groups").json["groups"] == []
            assert call(nodes, name, "GET", "/subjects").json == []
