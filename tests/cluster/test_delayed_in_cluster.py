"""Delayed messages of a cluster of real brokers, over HTTP and the SDK."""

from pathlib import Path
from typing import Any

from goqueue.client import Client
from tests.brokers import ask
from tests.cluster.processes import ServedCluster, cluster


def test_delayed_messages_are_listed_and_changed_at_the_leaders_of_their_partitions(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes, Client(nodes.urls) as client:
        client.create_topic("orders", partitions=3)
        nodes.wait(lambda: len({one["leader"] for one in partitions(nodes)} - {None}) == 3)
        for number in range(12):
            client.publish("orders", b"x", partition=number % 3, delay=3600)

        url, first = nodes.brokers["n1"].url, partitions(nodes)[0]
        listed = f"/topics/orders/delayed?partition={first['partition']}"
        answers = {name: ask(broker.url, "GET", listed) for name, broker in nodes.brokers.items()}
        assert answers[first["leader"]].json["total"] == 4
        assert {one.code for name, one in answers.items() if name != first["leader"]} == {"not_leader"}
        nodes.wait(lambda: ask(url, "GET", "/topics/orders/delayed").json["total"] == 12)

        assert client.cancel_delayed("orders", 0, 1)["cancelled"]
        assert client.delayed_message("orders", 0, 1)["state"] == "cancelled"
        changed = ask(url, "POST", "/topics/orders/delayed/cancel", {"limit": 5})
        assert (changed.status, changed.json["changed"]) == (200, 5), changed.body
        assert client.deliver_delayed_where("orders")["changed"] == 6

        client.create_topic("narrow", partitions=3, replication_factor=1, min_isr=1)
        nodes.wait(lambda: client.publish("narrow", b"x", partition=2, delay=60).delayed)
        client.publish("narrow", b"x", partition=0, delay=30)
        for broker in nodes.brokers.values():
            rows = ask(broker.url, "GET", "/topics/narrow/delayed?limit=10&skip=0").json
            assert [one["partition"] for one in rows["messages"]] == [0, 2]
            assert rows["total"] == 2
        assert sum(len(list(client.reader("orders", partitions=[number]))) for number in range(3)) == 6


def partitions(nodes: ServedCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ask(nodes.brokers["n1"].url, "GET", "/topics/orders/partitions").json["partitions"]
    return found
