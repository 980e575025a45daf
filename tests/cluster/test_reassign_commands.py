"""`goqueue-admin reassign` and `cluster drain`, asked at real brokers."""

import json
import sys
from pathlib import Path

import yaml

from goqueue.client import Client, PlannedMove
from goqueue_admin.plan_files import read_plan, write_undo
from tests.brokers import ask
from tests.cli.programs import Done, cli
from tests.cluster.processes import NAMES, ServedCluster, cluster

_ADMIN = (sys.executable, "-m", "goqueue_admin.main")


def admin(nodes: ServedCluster, *words: str, given: str = "") -> Done:
    return cli(nodes.brokers["n1"].url, *words, given=given, command=_ADMIN)


def test_operator_moves_a_partition_drains_a_node_and_takes_both_back(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes, Client(nodes.urls) as client:
        client.create_topic("orders", partitions=1, replication_factor=2, min_isr=1)
        (found,) = client.cluster_partitions("orders")
        first, second = (one.node for one in found.replicas)
        (third,) = set(NAMES) - {first, second}
        plan = tmp_path / "plan.yaml"
        plan.write_text(f"moves:\n- {{topic: orders, partition: 0, replicas: [{third}, {second}]}}\n")

        client.alter_topic("orders", min_isr=2)
        small = f"[{{topic: orders, partition: 0, replicas: [{third}]}}]"
        told = admin(nodes, "reassign", "apply", "-", "--dry-run", given=small).err
        assert "orders/0 gets 1 replica, fewer than its min_isr 2" in told
        client.alter_topic("orders", min_isr=1)
        shown = json.loads(admin(nodes, "reassign", "apply", str(plan), "--dry-run", "-o", "json").out)
        applied = admin(nodes, "reassign", "apply", str(plan), "--throttle", "10MiB", "--wait", "--yes")
        listed = json.loads(admin(nodes, "reassign", "list", "-o", "json").out)
        described = json.loads(admin(nodes, "reassign", "describe", "1", "-o", "json").out)

        assert (shown[0]["before"], shown[0]["replicas"]) == ([first, second], [third, second])
        assert applied.code == 0, applied.err
        assert [(one["id"], one["state"], one["throttle"]) for one in listed] == [(1, "completed", 10 << 20)]
        assert [(one["stage"], one["replicas"]) for one in described] == [("done", [third, second])]
        nodes.wait(lambda: admin(nodes, "reassign", "verify", "1").code == 0)
        assert admin(nodes, "reassign", "cancel", "1", "--yes").code == 1
        assert admin(nodes, "reassign", "apply", str(plan), "--yes").code == 1, "there is nothing to move"
        assert [one.name for one in sorted(tmp_path.glob("plan.yaml.*"))] == ["plan.yaml.undo.yaml"]
        undo = yaml.safe_load(Path(f"{plan}.undo.yaml").read_text())
        assert undo == {"moves": [{"topic": "orders", "partition": 0, "replicas": [first, second]}]}

        nodes.wait(lambda: len(client.cluster_partitions("orders")[0].isr) == 2)
        drained = admin(nodes, "cluster", "drain", third, "--wait", "--yes")
        assert drained.code == 0, drained.err
        assert all(one.leader != third for one in client.cluster_partitions())
        health = ask(nodes.brokers["n1"].url, "GET", f"/cluster/health?safe_to_stop={third}").json
        assert (health["safe_to_stop"], health["unsafe_because"], health["draining"]) == (True, None, [third])
        assert "False" in admin(nodes, "cluster", "undrain", third).out

        client.create_topic("single", partitions=1, replication_factor=1)
        (only,) = client.cluster_partitions("single")
        refused = admin(nodes, "cluster", "drain", only.replicas[0].node, "--wait", "--yes")
        assert (refused.code, "no other node has a replica of single/0" in refused.err) == (1, True), refused.err


def test_way_back_of_another_reassignment_is_kept(tmp_path: Path) -> None:
    first, second = (PlannedMove(topic="orders", partition=0, replicas=[node]) for node in ("n1", "n2"))
    path = tmp_path / "plan.yaml.undo.yaml"

    written = [write_undo(path, [move]) for move in (first, first, second, second)]

    assert [one.name for one in written] == ["plan.yaml.undo.yaml"] * 2 + ["plan.yaml.undo-2.yaml"] * 2
    assert [read_plan(one)[0].replicas for one in (written[0], written[2])] == [["n1"], ["n2"]]


def test_plan_that_is_not_one_is_refused_with_the_place() -> None:
    for content, sentence in (
        ("moves: 3", "has no moves"),
        ("- {topic: orders, partition: 0}", "move 1 of the plan - is wrong: replicas"),
        ("[{topic: t, partition: 0, replicas: [n1], leader: n1}]", "is wrong: leader"),
        ("{", "neither YAML nor JSON"),
    ):
        done = cli("http://127.0.0.1:1", "reassign", "apply", "-", "--yes", given=content, command=_ADMIN)
        assert done.code == 2
        assert sentence in done.err
