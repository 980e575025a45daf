"""Programs that use a cluster of real brokers while its nodes are killed."""

import json
import threading
import time
from pathlib import Path

from goqueue.client import Client
from goqueue.client.cluster_metadata import PartitionLeader
from tests.cli.programs import cli
from tests.cluster.processes import NAMES, ServedCluster, cluster

PAUSE_SECONDS_MAX = 30
"""Far more than a change of leaders takes, for a machine that is busy with other tests."""


def leaders(client: Client, topic: str) -> list[PartitionLeader]:
    return [one for found in client.cluster_metadata(topic).topics for one in found.partitions]


def await_replicas(nodes: ServedCluster, client: Client, topic: str) -> None:
    nodes.wait(lambda: all(len(one.isr) == len(NAMES) and bool(one.leader) for one in leaders(client, topic)))


def test_killed_leader_loses_and_doubles_nothing_of_publishers_readers_and_commands(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes, Client(nodes.urls) as client:
        urls = nodes.urls
        client.create_topic("orders", 3)
        await_replicas(nodes, client, "orders")
        victim = str(leaders(client, "orders")[0].leader)
        stored: list[tuple[int, int | None, str]] = []
        longest = 0.0
        killer = threading.Thread(target=lambda: nodes.kill(victim))

        with client.producer(linger=0) as producer:
            for number in range(90):
                if number == 30:
                    killer.start()
                began = time.monotonic()
                sent = [(one, producer.send("orders", f"{number}", partition=one)) for one in range(3)]
                stored += [(one, delivery.result(60).offset, f"{number}") for one, delivery in sent]
                longest = max(longest, time.monotonic() - began)
        killer.join()

        assert longest < PAUSE_SECONDS_MAX
        assert sorted((one.partition, one.offset, one.text) for one in client.reader("orders")) == sorted(stored)
        assert all(one.leader not in {None, victim} for one in leaders(client, "orders"))

        last = client.publish("orders", "last", partition=0)
        seen = [one.text for one in client.reader("orders", 0, replica="any", at_least=[last])]
        assert seen == [*map(str, range(90)), "last"]

        for url in urls:  # one of them does not answer
            assert cli(f"{url},{','.join(urls)}", "publish", "orders", "by a command").code == 0
        done = cli(",".join(urls), "consume", "orders", "-o", "jsonl", "--from", "earliest")
        values = [json.loads(line)["value"] for line in done.out.splitlines()]
        assert (done.code, len(values), values.count("by a command")) == (0, len(stored) + 4, 3)
