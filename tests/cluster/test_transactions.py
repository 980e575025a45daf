"""Transactions of clusters of real brokers: any node may lead what they write to, and may be killed meanwhile."""

from pathlib import Path

from goqueue.client import Client
from tests.brokers import ask
from tests.cluster.processes import ServedCluster, cluster

ID = "billing-1"


def create(nodes: ServedCluster, name: str) -> None:
    url = nodes.brokers["n1"].url
    nodes.wait(lambda: ask(url, "POST", "/topics", {"name": name, "num_partitions": 3}).status in (201, 409))


def coordinator(nodes: ServedCluster) -> str:
    """Wait until one node says that it coordinates the transactions of the id; return its name."""
    found: list[str] = []

    def is_found() -> bool:
        path = f"/transactions/{ID}"
        found[:] = [name for name, one in nodes.brokers.items() if ask(one.url, "GET", path).status == 200]
        return len(found) == 1

    nodes.wait(is_found)
    return found[0]


def states(url: str) -> list[tuple[str, str]]:
    rows = ask(url, "GET", "/transactions?state=all").json["transactions"]
    return [(row["transactional_id"], row["state"]) for row in rows]


def committed(nodes: ServedCluster, topic: str) -> list[list[str]]:
    """Return the committed messages of each partition."""
    with Client(nodes.urls) as client:
        return [
            [(message.value or b"").decode() for message in client.reader(topic, [number], until="now")]
            for number in range(3)
        ]


def test_transaction_over_all_nodes_outlives_its_coordinator(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        create(nodes, "orders")
        with Client(nodes.urls) as client, client.producer(transactional_id=ID) as producer:
            with producer.transaction() as one:
                for number in range(3):
                    one.send("orders", "first", partition=number)
            with producer.transaction() as two:
                for number in range(3):
                    two.send("orders", "second", partition=number).result()
                nodes.kill(killed := coordinator(nodes))
                two.send("orders", "third", partition=0)
            assert committed(nodes, "orders") == [["first", "second", "third"], *[["first", "second"]] * 2]
            with producer.transaction() as three:
                for number in range(3):
                    three.send("orders", "never", partition=number).result()
                three.abort()
            for broker in nodes.brokers.values():
                nodes.wait(lambda url=broker.url: states(url) == [(ID, "complete_abort")])  # type: ignore[misc]
            assert client.transactions("all").missing == (killed,), "the list does not say that it may lack some"
        assert committed(nodes, "orders") == [["first", "second", "third"], *[["first", "second"]] * 2]


def test_messages_are_processed_once_across_the_loss_of_a_coordinator(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        create(nodes, "orders")
        create(nodes, "bills")
        wanted, done, is_killed = [f"order {number}" for number in range(30)], 0, False
        with Client(nodes.urls) as client:
            with client.producer() as producer:
                for number, value in enumerate(wanted):
                    producer.send("orders", value, partition=number % 3)
            with (
                client.producer(transactional_id=ID) as producer,
                client.consumer("billing", ["orders"], max_messages=5) as consumer,
            ):
                for batch in consumer.batches():
                    with producer.transaction() as transaction:
                        for message in batch:
                            transaction.send("bills", message.value, partition=message.partition).result()
                        transaction.ack(batch)
                        if not is_killed:
                            nodes.kill(coordinator(nodes))
                            is_killed = True
                    done += len(batch)
                    if done >= len(wanted):
                        break
        assert sorted(value for part in committed(nodes, "bills") for value in part) == sorted(wanted)
