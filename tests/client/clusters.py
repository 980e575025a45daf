"""Nodes of a cluster in front of one broker, which stands for replicas that are always equal.

Each node passes on what concerns the partitions that it leads, and refuses the rest as a node does. So a test chooses
leaders and loses nodes, and the broker says whether anything was lost, doubled or put out of order.
"""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from goqueue.wire.sections import DELAYED, SECTION
from tests.client.peers import Asked, Reply, refusal, reply
from tests.client.relay import Relay, relay

_PARTITION = re.compile(r"/topics/([^/]+)/partitions/(\d+)/(?:messages|segments|aborted|offset)")


@dataclass
class LeadingNode:
    """A node, and what it has been asked."""

    name: str
    relay: Relay
    url: str

    def stop(self) -> None:
        self.relay.peer.close()

    def asked(self, part: str) -> list[Asked]:
        return self.relay.asked(part)


@dataclass
class LedCluster:
    """Three nodes; `leaders` has the name of the leader of each partition of the one topic."""

    topic: str
    leaders: list[str | None]
    version: int = 1
    epochs: list[int] = field(default_factory=list)
    nodes: dict[str, LeadingNode] = field(default_factory=dict)
    coordinator: str | None = None
    """The node that answers for groups; None if every one does."""
    refusals: int = 0
    unreplicated: set[str] = field(default_factory=set)
    """Nodes without replicas, which refuse reads of any."""
    cut_off: dict[str, Reply] = field(default_factory=dict)
    """Nodes that take no part any more, with the metadata that they know: they wait to lead for ever."""

    def cut(self, name: str, successor: str) -> None:
        """Let a node that leads hear nothing more; another one leads its partitions."""
        self.cut_off[name] = self._headed(reply(self._metadata({})))
        for partition, leader in enumerate(self.leaders):
            if leader == name:
                self.lead(partition, successor)

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes.values()]

    def lead(self, partition: int, name: str | None) -> None:
        """Let another node lead a partition."""
        self.leaders[partition] = name
        self.epochs[partition] += 1
        self.version += 1

    def lose(self, name: str, successor: str | None) -> None:
        """Stop a node; another one leads its partitions."""
        self.nodes[name].stop()
        for partition, leader in enumerate(self.leaders):
            if leader == name:
                self.lead(partition, successor)

    def answer(self, node: str, asked: Asked) -> Reply:
        """Answer in place of the broker, or return None to pass the request on."""
        place = urlsplit(asked.target)
        if node in self.cut_off:
            if place.path == "/cluster/metadata":
                return self.cut_off[node]
            if concerned := partitions_of(asked, place.path):
                return self._headed(self._waiting(node, concerned[0]))
        if place.path == "/cluster/metadata":
            return self._headed(reply(self._metadata(parse_qs(place.query))))
        if place.path.startswith("/groups/") and self.coordinator not in {None, node}:
            self.refusals += 1
            return self._headed(self._not_coordinator())
        if "replica=any" in place.query and node not in self.unreplicated:
            return None
        led_elsewhere = [one for one in partitions_of(asked, place.path) if self.leaders[one] != node]
        if not led_elsewhere:
            return None
        self.refusals += 1
        return self._headed(self._refusal(led_elsewhere[0]))

    def _not_coordinator(self) -> bytes:
        name = self.coordinator or ""
        details = {"coordinator": name, "coordinator_address": self.nodes[name].url, "log": "__consumer_offsets/3"}
        return refusal("not_coordinator", 421, details=details)

    def _waiting(self, node: str, partition: int) -> bytes:
        others = [one.url for name, one in self.nodes.items() if name != node]
        details = {"topic": self.topic, "partition": partition, "replica_addresses": others}
        return refusal("leader_unavailable", 503, details=details)

    def _refusal(self, partition: int) -> bytes:
        leader = self.leaders[partition]
        address = self.nodes[leader].url if leader else None
        epoch = self.epochs[partition]
        details = {"topic": self.topic, "partition": partition, "leader": leader, "leader_address": address}
        code, status = ("not_leader", 421) if leader else ("leader_unavailable", 503)
        return refusal(code, status, details=details | {"leader_epoch": epoch})

    def _metadata(self, query: dict[str, list[str]]) -> dict[str, object]:
        partitions: list[Any] = [
            {"partition": number, "leader": leader, "leader_epoch": self.epochs[number], "replicas": [], "isr": []}
            for number, leader in enumerate(self.leaders)
        ]
        named = self.topic in query.get("topic", [self.topic])
        return {
            "version": self.version,
            "controller": "n1",
            "nodes": [{"node": one.name, "client_address": one.url, "status": "alive"} for one in self.nodes.values()],
            "topics": [{"name": self.topic, "partitions": partitions}] if named else [],
        }

    def _headed(self, answer: bytes) -> bytes:
        head, _, body = answer.partition(b"\r\n\r\n")
        return head + b"\r\ngoqueue-metadata: %d\r\n\r\n" % self.version + body


def partitions_of(asked: Asked, path: str) -> list[int]:
    """Return the partitions that a request names."""
    if named := _PARTITION.match(path):
        return [int(named[2])]
    if asked.method != "POST" or not path.endswith("/messages"):
        return []
    if "json" in asked.headers["content-type"]:
        messages = json.loads(asked.body)["messages"]
        return [message["partition"] for message in messages if "partition" in message]
    found, position = list[int](), 0
    while position < len(asked.body):
        number, length = SECTION.unpack_from(asked.body, position)
        found.append(number & ~DELAYED)
        position += SECTION.size + length
    return found


@contextmanager
def led_cluster(target: str, topic: str, leaders: list[str | None]) -> Iterator[LedCluster]:
    """Run nodes n1 to n3 in front of a broker that has the topic."""
    cluster = LedCluster(topic, leaders, epochs=[1] * len(leaders))
    with ExitStack() as stack:
        for name in ("n1", "n2", "n3"):
            made = stack.enter_context(relay(target))
            made.instead = lambda asked, node=name: cluster.answer(node, asked)  # type: ignore[misc]
            made.headers = lambda: {"goqueue-metadata": str(cluster.version)}
            cluster.nodes[name] = LeadingNode(name, made, made.peer.url)
        yield cluster
