"""Schemas of a cluster of real brokers: registered at any node, and known to all."""

import json
from pathlib import Path
from typing import Any

from goqueue.testing.broker import LocalBroker
from tests.brokers import Answer, ask
from tests.cluster.processes import NAMES, ServedCluster, cluster


def schema(*fields: str) -> dict[str, Any]:
    rows = [{"name": name, "type": "long", "default": 0} for name in fields]
    return {"schema": json.dumps({"type": "record", "name": "Order", "fields": rows})}


def call(nodes: ServedCluster, name: str, method: str, path: str, body: Any = None) -> Answer:
    return ask(nodes.brokers[name].url, method, path, body)


def registered(nodes: ServedCluster, name: str, subject: str, *fields: str) -> int:
    """Register at one node, wherever the log is led; retry while there is no leader."""
    found: list[Answer] = []

    def done() -> bool:
        found.append(call(nodes, name, "POST", f"/subjects/{subject}/versions", schema(*fields)))
        assert found[-1].status in (200, 503), found[-1].body
        return found[-1].status == 200

    nodes.wait(done)
    return int(found[-1].json["id"])


def leader(nodes: ServedCluster, seen_from: str) -> str:
    return str(call(nodes, seen_from, "GET", "/cluster/partition/__schemas/0/info").json["leader"])


def test_schema_is_registered_at_any_node_and_known_to_all_at_once(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        ids = {}
        for number, name in enumerate(NAMES):
            fields = tuple(f"f{one}" for one in range(number + 1))
            ids[name] = registered(nodes, name, "orders-value", *fields)
            for other in NAMES:
                found = call(nodes, other, "GET", f"/schemas/ids/{ids[name]}")
                assert json.loads(found.json["schema"])["fields"][-1]["name"] == f"f{number}"
                assert call(nodes, other, "GET", "/subjects/orders-value/versions/latest").json["version"] == number + 1
        assert sorted(ids.values()) == [1, 2, 3]
        assert call(nodes, "n2", "PUT", "/config/orders-value", {"compatibility": "NONE"}).status == 200
        assert {call(nodes, one, "GET", "/config/orders-value").json["compatibilityLevel"] for one in NAMES} == {"NONE"}
        rules = {"name": "orders", "num_partitions": 3, "value_validation": "payload"}
        assert call(nodes, "n1", "POST", "/topics", rules).status == 201

        lost = leader(nodes, "n1")
        nodes.kill(lost)
        left = [name for name in NAMES if name != lost]
        assert registered(nodes, left[0], "orders-value", "f0", "f1") == ids["n2"]
        fourth = registered(nodes, left[1], "orders-value", "g0")
        assert fourth == 4
        nodes.start(lost)
        nodes.wait(lambda: call(nodes, lost, "GET", "/schemas/ids/4").status == 200)
        assert registered(nodes, lost, "refunds-value", "g0") == fourth


def test_schemas_from_before_the_cluster_are_taken_and_what_clashes_is_kept(tmp_path: Path) -> None:
    for name, subject, field in (
        ("n1", "orders-value", "a"),
        ("n2", "refunds-value", "b"),
        ("n3", "orders-value", "a"),
    ):
        with LocalBroker(str(tmp_path / name)) as alone:
            assert ask(alone.url, "POST", f"/subjects/{subject}/versions", schema(field)).json["id"] == 1
            if name == "n2":
                assert ask(alone.url, "POST", "/subjects/bills-value/versions", schema("c")).json["id"] == 2
    with cluster(tmp_path) as nodes:
        for name in NAMES:
            nodes.wait(lambda name=name: call(nodes, name, "GET", "/schemas/ids/2").status == 200)  # type: ignore[misc]
            found = json.loads(call(nodes, name, "GET", "/schemas/ids/1").json["schema"])
            assert found["fields"][0]["name"] == "a"
            assert call(nodes, name, "GET", "/subjects").json == ["bills-value", "orders-value"]

        def told(name: str) -> list[str]:
            rows = call(nodes, name, "GET", "/doctor").json["findings"]
            return [one["sentence"] for one in rows if one["code"] == "record_not_adopted"]

        nodes.wait(lambda: bool(told("n2")))
        assert "the id 1 of version 1 of refunds-value" in told("n2")[0]
        assert told("n1") == told("n3") == []
        assert registered(nodes, "n2", "refunds-value", "b") == 3
