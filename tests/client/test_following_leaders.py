"""Clients of a cluster: requests go to the leaders of partitions, and nothing is lost or doubled by that."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.client.address import Address
from goqueue.client.cluster_metadata import ClusterMetadata, NodeEndpoint, PartitionLeader, TopicLeaders
from goqueue.client.cluster_view import UNKNOWN, ClusterView
from goqueue.errors import LeaderUnavailable, NotInCluster, NotLeader
from goqueue.testing.broker import LocalBroker
from tests.client.clusters import LedCluster, led_cluster, partitions_of
from tests.client.peers import Asked, Reply, peer, refusal
from tests.client.relay import once, relay

A, B = Address("a", 1), Address("b", 1)


@pytest.fixture
def cluster(broker: LocalBroker) -> Iterator[LedCluster]:
    """A topic of three partitions, each led by another node."""
    with Client(broker.url) as client:
        client.create_topic("orders", 3)
    with led_cluster(broker.url, "orders", ["n1", "n2", "n3"]) as made:
        yield made


def values(broker: LocalBroker, partition: int | None = None) -> list[int]:
    with Client(broker.url) as client:
        return [int(message.text or -1) for message in client.reader("orders", partition)]


def publishes(cluster: LedCluster) -> dict[str, set[int]]:
    """The partitions to which each node was sent messages."""
    return {
        name: {
            partition
            for asked in node.asked("/messages")
            for partition in partitions_of(asked, asked.target.partition("?")[0])
        }
        for name, node in cluster.nodes.items()
    }


# --- publishing ---


def test_producer_sends_to_the_leader_of_each_partition(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    with client_class(cluster.urls) as client, client.producer() as producer:
        for number in range(60):
            producer.send("orders", str(number), partition=number % 3)
    assert publishes(cluster) == {"n1": {0}, "n2": {1}, "n3": {2}}
    assert cluster.refusals == 0
    assert [values(broker, one) for one in range(3)] == [list(range(one, 60, 3)) for one in range(3)]


def test_producer_follows_a_new_leader_in_order(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    with client_class(cluster.urls) as client, client.producer(linger=0) as producer:
        for number in range(200):
            producer.send("orders", str(number), partition=0)
            if number in {50, 100, 150}:
                producer.flush()
                cluster.lead(0, {50: "n2", 100: "n3", 150: "n1"}[number])
    assert values(broker, 0) == list(range(200))
    assert {name for name, partitions in publishes(cluster).items() if 0 in partitions} == {"n1", "n2", "n3"}


def test_producer_waits_for_the_next_leader_when_a_node_is_lost(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    looks = []

    def elect(asked: Asked) -> None:
        """Let n2 lead once metadata without a leader was given out three times."""
        if "/cluster/metadata" in asked.target and cluster.leaders[0] is None:
            looks.append(asked)
            if len(looks) == 3:
                cluster.lead(0, "n2")

    with client_class(cluster.urls) as client, client.producer() as producer:
        producer.send("orders", "0", partition=0).result()
        for name in ("n2", "n3"):
            cluster.nodes[name].relay.before = elect
        cluster.lose("n1", None)
        for number in range(1, 30):
            producer.send("orders", str(number), partition=number % 3)
        producer.flush()
    assert len(looks) >= 3
    assert sorted(values(broker)) == list(range(30))
    assert values(broker, 0) == list(range(0, 30, 3))


def test_node_that_does_not_know_a_new_topic_yet_is_asked_again(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    node = cluster.nodes["n2"].relay
    instead, unknown = node.instead, [refusal("topic_not_found", 404)]

    def answer(asked: Asked) -> Reply:
        if "/messages" in asked.target and unknown:
            head, _, body = unknown.pop().partition(b"\r\n\r\n")
            return head + b"\r\ngoqueue-metadata: 0\r\n\r\n" + body
        return instead(asked)

    node.instead = answer
    with client_class(cluster.urls) as client, client.producer() as producer:
        assert producer.send("orders", "0", partition=1).result().offset == 0
    assert not unknown
    assert values(broker, 1) == [0]


def test_each_producer_of_a_client_notices_a_new_leader(cluster: LedCluster, client_class: type[Client]) -> None:
    with client_class(cluster.urls) as client, client.producer() as one, client.producer() as other:
        for producer in (one, other):
            producer.send("orders", "0", partition=0).result()
        cluster.lose("n1", None)
        waiting = [producer.send("orders", "1", partition=0) for producer in (one, other)]
        cluster.lead(0, "n2")
        assert sorted(str(delivery.result(30).offset) for delivery in waiting) == ["2", "3"]


def test_lost_node_does_not_delay_partitions_of_other_leaders(cluster: LedCluster, client_class: type[Client]) -> None:
    with client_class(cluster.urls) as client, client.producer(delivery_timeout=60) as producer:
        for partition in range(3):
            producer.send("orders", "0", partition=partition).result()
        cluster.lose("n1", None)
        stuck = producer.send("orders", "1", partition=0)
        for number in range(20):
            producer.send("orders", str(number), partition=1 + number % 2).result(10)
        cluster.lead(0, "n3")
        assert stuck.result(30).offset == 1


def test_batch_that_the_former_leader_stored_is_not_stored_again(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    first = cluster.nodes["n1"].relay
    with client_class(cluster.urls) as client, client.producer() as producer:
        producer.send("orders", "0", partition=0).result()
        lose = once("/messages")

        def lose_and_move(asked: Asked) -> bool:
            if not lose(asked):
                return False
            cluster.lead(0, "n2")
            return True

        first.loses = lose_and_move
        assert producer.send("orders", "1", partition=0).result().offset == 1
        assert producer.send("orders", "2", partition=0).result().offset == 2
    assert len(first.lost) == 1
    assert values(broker, 0) == [0, 1, 2]


def test_client_with_one_address_goes_on_at_nodes_that_it_was_told_of(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    with client_class(cluster.urls[0]) as client, client.producer() as producer:
        producer.send("orders", "0", partition=0).result()
        cluster.lose("n1", "n2")
        producer.send("orders", "1", partition=0).result()
        assert client.topics() == ["orders"]
    assert values(broker, 0) == [0, 1]


def test_client_of_a_node_that_is_cut_off_goes_on_at_the_others(
    cluster: LedCluster, client_class: type[Client]
) -> None:
    cluster.cut("n1", "n2")
    with client_class(cluster.urls[0], timeout=30) as client:
        assert client.publish("orders", "0", partition=0).offset == 0
    with client_class(cluster.urls[0], timeout=30) as client:
        assert client.segments("orders", 0).high_watermark == 1
    with client_class(cluster.urls[0], timeout=30) as client, client.producer(delivery_timeout=30) as producer:
        assert producer.send("orders", "1", partition=0).result().offset == 1
    with client_class(cluster.urls[0], timeout=30) as client:
        assert [message.text for message in client.reader("orders", 0)] == ["0", "1"]


def test_batch_is_repeated_when_leadership_was_lost_while_it_waited(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    """The section was stored all the same, so it must keep its producer and sequence."""
    first = cluster.nodes["n1"].relay
    lost = refusal("leadership_lost", 503, details={"topic": "orders", "partition": 0, "leader_epoch": 1})
    with client_class(cluster.urls) as client, client.producer() as producer:
        producer.send("orders", "0", partition=0).result()
        instead = first.instead
        state = {"left": 1}

        def store_and_lose(asked: Asked) -> Reply:
            if "/messages" in asked.target and state["left"]:
                state["left"] = 0
                with relay(broker.url) as straight:
                    assert straight.answer(asked)
                cluster.lead(0, "n3")
                return lost
            return instead(asked)

        first.instead = store_and_lose
        assert producer.send("orders", "1", partition=0).result().offset == 1
    assert values(broker, 0) == [0, 1]


def test_callbacks_of_several_leaders_are_not_called_at_the_same_time(
    cluster: LedCluster,
) -> None:
    busy, seen = threading.Lock(), []

    def delivered(_: Any) -> None:
        seen.append(busy.acquire(blocking=False))
        busy.release()

    with Client(cluster.urls) as client, client.producer(linger=0) as producer:
        for number in range(90):
            producer.send("orders", str(number), partition=number % 3, on_delivery=delivered)
    assert seen == [True] * 90


def test_topics_of_a_cluster_without_metadata_are_those_of_the_node(
    broker: LocalBroker, client_class: type[Client]
) -> None:
    with Client(broker.url) as client:
        client.create_topic("orders", 1)
    with relay(broker.url) as node, client_class(node.peer.url) as client:
        node.headers = lambda: {"goqueue-metadata": "3"}
        node.instead = lambda asked: refusal("endpoint_not_found", 404) if "/cluster/metadata" in asked.target else None
        with client.producer() as producer:
            for number in range(3):
                producer.send("orders", str(number)).result()
        assert len(node.asked("/cluster/metadata")) == 1
    assert values(broker) == [0, 1, 2]


def test_producer_whose_key_may_not_see_metadata_finds_leaders_by_refusals(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    for node in cluster.nodes.values():
        instead = node.relay.instead
        node.relay.instead = lambda asked, instead=instead: (  # type: ignore[misc]
            refusal("permission_denied", 403) if "/cluster/metadata" in asked.target else instead(asked)
        )
    with client_class(cluster.urls) as client, client.producer() as producer:
        for number in range(30):
            producer.send("orders", str(number), partition=number % 3)
    assert [values(broker, one) for one in range(3)] == [list(range(one, 30, 3)) for one in range(3)]


def test_topic_that_is_hidden_in_metadata_is_sent_to_the_leaders_that_nodes_name(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    cluster.topic, hidden = "hidden", cluster.topic
    for node in cluster.nodes.values():
        instead = node.relay.instead

        def named(asked: Asked, instead: Any = instead) -> Reply:
            cluster.topic = "hidden" if "/cluster/metadata" in asked.target else hidden
            answer: Reply = instead(asked)
            return answer

        node.relay.instead = named
    with client_class(cluster.urls) as client, client.producer() as producer:
        for number in range(30):
            producer.send("orders", str(number), partition=number % 3)
    assert [values(broker, one) for one in range(3)] == [list(range(one, 30, 3)) for one in range(3)]


def test_broker_alone_gets_no_other_requests_than_before(broker: LocalBroker, client_class: type[Client]) -> None:
    with Client(broker.url) as client:
        client.create_topic("orders", 2)
    with relay(broker.url) as node, client_class(node.peer.url) as client:
        with client.producer() as producer:
            producer.send("orders", "1", partition=1).result()
        assert [message.text for message in client.reader("orders", 1)] == ["1"]
        asked = [(one.method, one.target) for one in node.peer.asked]
    assert asked == [
        ("GET", "/topics/orders"),
        ("POST", "/producers/init"),
        ("POST", "/topics/orders/messages"),
        ("GET", "/topics/orders"),
        ("GET", "/topics/orders/partitions/1/messages?offset=0&max_bytes=1048576"),
    ]


# --- single requests ---


def test_request_goes_where_a_refusal_says(cluster: LedCluster, client_class: type[Client]) -> None:
    with client_class(cluster.urls) as client:
        assert client.publish("orders", "1", partition=2).offset == 0
        assert client.publish("orders", "2", partition=2).offset == 1
    assert cluster.refusals <= 2


def test_request_about_a_partition_goes_to_its_known_leader(cluster: LedCluster, client_class: type[Client]) -> None:
    with client_class(cluster.urls) as client:
        for _ in range(5):
            assert client.segments("orders", 1).high_watermark == 0
    assert cluster.refusals == 1
    assert len(cluster.nodes["n2"].asked("/segments")) == 5


def test_request_waits_until_there_is_a_leader(cluster: LedCluster, client_class: type[Client]) -> None:
    asked: list[Asked] = []

    def elect(one: Asked) -> None:
        asked.append(one)
        if len(asked) == 4:
            cluster.lead(0, "n3")

    cluster.lead(0, None)
    for node in cluster.nodes.values():
        node.relay.before = elect
    with client_class(cluster.urls) as client:
        assert client.segments("orders", 0).high_watermark == 0


def test_error_without_a_leader_says_so(cluster: LedCluster, client_class: type[Client]) -> None:
    cluster.lead(0, None)
    with client_class(cluster.urls, timeout=0.3) as client, pytest.raises(LeaderUnavailable):
        client.segments("orders", 0)


def test_what_a_cluster_does_not_serve_is_told_at_once(client_class: type[Client]) -> None:
    with peer(lambda _: refusal("not_in_cluster", 503)) as node, client_class(node.url) as client:
        with pytest.raises(NotInCluster):
            client.groups()
        assert len(node.asked) == 1


# --- reading ---


def test_reader_reads_from_leaders_and_follows_them(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    with client_class(broker.url) as client, client.producer() as producer:
        for number in range(90):
            producer.send("orders", str(number), partition=number % 3)
    found: list[int] = []
    with client_class(cluster.urls) as client:
        for message in client.reader("orders", max_bytes=100):
            found.append(int(message.text or -1))
            if len(found) == 10:
                cluster.lose("n1", "n2")
            if len(found) == 40:
                cluster.lead(2, "n2")
    assert sorted(found) == list(range(90))


def test_reader_of_any_replica_asks_the_node_that_it_has(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    with client_class(broker.url) as client:
        stored = client.publish("orders", "1", partition=1)
    with client_class(cluster.urls) as client:
        reader = client.reader("orders", 1, replica="any", at_least=[stored])
        assert [message.text for message in reader] == ["1"]
        assert "replica=any&at_least=1" in cluster.nodes["n1"].asked("/partitions/1/messages")[-1].target
        cluster.unreplicated.add("n1")
        assert [message.text for message in client.reader("orders", 1, replica="any")] == ["1"]


def test_reader_waits_for_what_its_caller_has_published(broker: LocalBroker, client_class: type[Client]) -> None:
    behind: list[Reply] = [refusal("behind", 409, details={"high_watermark": 0})]
    with relay(broker.url) as node, client_class(node.peer.url) as client:
        node.instead = lambda asked: behind.pop() if "at_least" in asked.target and behind else None
        client.create_topic("orders", 1)
        stored = client.publish("orders", "1")
        assert [one.text for one in client.reader("orders", at_least={0: stored.offset + 1})] == ["1"]
        assert not behind


# --- groups ---


def test_consumer_follows_the_coordinator_of_its_group(
    broker: LocalBroker, cluster: LedCluster, client_class: type[Client]
) -> None:
    cluster.coordinator = "n2"
    with client_class(broker.url) as client, client.producer() as producer:
        for number in range(60):
            producer.send("orders", str(number), partition=number % 3)
    found: list[int] = []
    with (
        client_class(cluster.urls) as client,
        client.consumer("billing", ["orders"], start="earliest", max_messages=5) as consumer,
    ):
        for message in consumer:
            found.append(int(message.text or -1))
            message.ack()
            if len(found) == 20:
                cluster.coordinator = "n3"
            if len(found) == 60:
                break
    assert sorted(found) == list(range(60))
    assert cluster.nodes["n3"].asked("/poll")
    with Client(broker.url) as client:
        lag = client.group("billing").lag["orders"]
    assert [one.messages for one in lag.values()] == [0, 0, 0]


# --- what is known of a cluster ---


def metadata(version: int, leader: str | None, epoch: int, topic: str = "t") -> ClusterMetadata:
    nodes = [NodeEndpoint("a", "http://a:1"), NodeEndpoint("b", "http://b:1")]
    return ClusterMetadata(version, nodes, [TopicLeaders(topic, [PartitionLeader(0, leader, epoch)])])


def not_leader(address: str | None, epoch: int) -> NotLeader:
    return NotLeader("no", topic="t", partition=0, leader_address=address, leader_epoch=epoch)


def test_leader_of_an_earlier_epoch_is_not_believed() -> None:
    view = ClusterView(secure=False)
    assert view.lane("t", 0) is UNKNOWN
    assert view.learn(metadata(5, "b", 3), ["t"]) == {("t", 0)}
    view.heed(not_leader("http://a:1", 2))
    assert view.lane("t", 0) == B
    view.heed(not_leader("http://a:1", 4))
    assert view.lane("t", 0) == A
    assert view.learn(metadata(6, "b", 3), ["t"]) == set()
    assert view.learn(metadata(4, "b", 9), ["t"]) == set(), "metadata that is older than what was loaded"
    assert view.lane("t", 0) == A


def test_leader_that_does_not_answer_is_unknown_until_it_is_named_again() -> None:
    view = ClusterView(secure=False)
    view.learn(metadata(5, "a", 3), ["t"])
    view.doubt(B)
    assert view.lane("t", 0) == A
    view.doubt(A)
    assert view.lane("t", 0) is UNKNOWN
    assert view.is_incomplete([("t", 0)])
    view.heed(not_leader("http://a:1", 3))
    assert view.lane("t", 0) == A
    view.heed(LeaderUnavailable("no", topic="t", partition=0))
    assert view.lane("t", 0) is UNKNOWN


def test_topic_that_is_not_in_the_metadata_is_for_any_node() -> None:
    view = ClusterView(secure=False)
    view.learn(metadata(5, "a", 3, "other"), ["t"])
    assert view.lane("t", 0) is None
    view.learn(metadata(6, "b", 1), ["t"])
    assert view.lane("t", 0) == B


def test_nodes_are_reached_with_tls_exactly_if_the_client_uses_it() -> None:
    view = ClusterView(secure=True)
    view.learn(metadata(5, "a", 3), ["t"])
    assert str(view.leader(("t", 0))) == "https://a:1"


@pytest.mark.parametrize("address", [None, "", "not an address", 7])
def test_refusal_without_a_usable_address_leaves_the_leader_unknown(address: Any) -> None:
    view = ClusterView(secure=False)
    view.heed(not_leader(address, 1))
    assert view.lane("t", 0) is UNKNOWN
