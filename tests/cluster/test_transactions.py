"""Transactions of clusters of real brokers: any node may lead what they write to, and may be killed meanwhile."""

from pathlib import Path

from goqueue.client import Client
from tests.brokers import ask
from tests.cluster.processes import NAMES, ServedCluster, cluster, free_ports

ID = "billing-1"


class AtFixedAddresses(ServedCluster):
    """Brokers that come back where they were."""

    def __init__(self, directory: Path, *words: str) -> None:
        super().__init__(directory, *words)
        self._ports = dict(zip(NAMES, free_ports(len(NAMES)), strict=True))

    def words_of(self, name: str) -> tuple[str, ...]:
        return ("--port", str(self._ports[name]))


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
    with cluster(tmp_path, made=AtFixedAddresses) as nodes:
        create(nodes, "orders")
        with Client(nodes.urls) as client, client.producer(transactional_id=ID) as producer:
            with producer.transaction() as one:
                for number in range(3):
                    one.send("orders", "first", partition=number)
            with producer.transaction() as two:
                for number in range(3):
                    two.send("orders", "second", partition=number).result()
                killed = coordinator(nodes)
                nodes.kill(killed)
                two.send("orders", "third", partition=0)
            assert committed(nodes, "orders") == [["first", "second", "third"], *[["first", "second"]] * 2]
            nodes.start(killed)
            with producer.transaction() as three:
                for number in range(3):
                    three.send("orders", "never", partition=number).result()
                three.abort()
            for broker in nodes.brokers.values():
                nodes.wait(lambda url=broker.url: states(url) == [(ID, "complete_abort")])  # type: ignore[misc]
        assert committed(nodes, "orders") == [["first", "second", "third"], *[["first", "second"]] * 2]


def test_messages_are_processed_once_while_nodes_are_killed(tmp_path: Path) -> None:
    with cluster(tmp_path, made=AtFixedAddresses) as nodes:
        create(nodes, "orders")
        create(nodes, "bills")
        wanted = [f"order {number}" for number in range(60)]
        with Client(nodes.urls) as client:
            with client.producer() as producer:
                for number, value in enumerate(wanted):
                    producer.send("orders", value, partition=number % 3)
            left, done = list(NAMES), 0
            with (
                client.producer(transactional_id=ID) as producer,
                client.consumer("billing", ["orders"], max_messages=5) as consumer,
            ):
                for batch in consumer.batches():
                    with producer.transaction() as transaction:
                        for message in batch:
                            transaction.send("bills", message.value, partition=message.partition)
                        transaction.ack(batch)
                        if done % 20 < len(batch) and left and len(nodes.brokers) == len(NAMES):
                            nodes.kill(killed := left.pop())
                    done += len(batch)
                    if len(nodes.brokers) < len(NAMES):
                        nodes.start(killed)
                    if done >= len(wanted):
                        break
        assert sorted(value for part in committed(nodes, "bills") for value in part) == sorted(wanted)
