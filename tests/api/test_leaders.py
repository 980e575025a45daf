"""Answers of a node of a cluster about partitions: as their leader, as a follower, and without a replica."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from goqueue.broker.core.leadership import Leadership
from goqueue.testing.broker import LocalBroker
from tests.api.wire import frames, messages, section, send
from tests.brokers import Answer, ask, create, publish

ADDRESSES = {"n1": "http://10.0.0.1:8080", "n2": "http://10.0.0.2:8080"}


def led(broker: LocalBroker, partition: int, leader: str, **fields: Any) -> Leadership:
    """Let a node lead a partition of `orders`; the broker is node n1 of three."""
    found = broker.daemon.runtime.broker.topics["orders"].partitions[partition]
    made = found.leadership or Leadership("orders", partition, "n1", ADDRESSES.get)
    made.leader, made.leader_epoch, made.min_isr = leader, 5, 2
    made.replicas = made.isr = ("n1", "n2", "n3")
    made.is_leading = made.is_settled = leader == "n1"
    for name, value in fields.items():
        setattr(made, name, value)
    found.leadership = made
    return made


@pytest.fixture
def node(broker: LocalBroker) -> LocalBroker:
    """Node n1, which leads partition 0 of `orders` and follows n2 in partition 1."""
    create(broker.url, "orders", partitions=2)
    publish(broker.url, "orders", "a", "b", partition=1)
    led(broker, 0, "n1")
    led(broker, 1, "n2")
    return broker


def offer(url: str, query: str, *messages: dict[str, Any]) -> Answer:
    return ask(url, "POST", f"/topics/orders/messages{query}", {"messages": list(messages)})


def fetch(url: str, partition: int, query: str = "") -> Answer:
    return ask(url, "GET", f"/topics/orders/partitions/{partition}/messages?{query}")


# --- publish ---


def test_publish_to_a_follower_names_the_leader(node: LocalBroker) -> None:
    answer = offer(node.url, "", {"value": "tea", "partition": 1})
    assert (answer.status, answer.code) == (421, "not_leader")
    assert answer.json["details"] == {
        "topic": "orders", "partition": 1, "leader": "n2", "leader_address": ADDRESSES["n2"], "leader_epoch": 5,
    }  # fmt: skip


def test_result_of_a_leader_has_its_epoch(node: LocalBroker) -> None:
    (result,) = publish(node.url, "orders", "tea", partition=0)
    assert result["leader_epoch"] == 5


def test_publish_to_several_leaders_stores_what_is_led_here(node: LocalBroker) -> None:
    here, there = offer(node.url, "", {"value": "a", "partition": 0}, {"value": "b", "partition": 1}).json["results"]
    assert here["offset"] == 0
    assert there["error"]["code"] == "not_leader"
    assert there["error"]["details"]["leader_address"] == ADDRESSES["n2"]


def test_sections_of_several_leaders_have_errors_of_their_own(node: LocalBroker) -> None:
    body = section(0, frames([b"a"])) + section(1, frames([b"b"]))
    here, there = send(node.url, body, "orders").json["results"]
    assert (here["next_offset"], here["leader_epoch"]) == (1, 5)
    assert there["error"]["code"] == "not_leader"


def test_section_of_another_leader_fails_the_request(node: LocalBroker) -> None:
    assert send(node.url, section(1, frames([b"b"])), "orders").status == 421


def test_messages_without_a_key_go_to_partitions_that_are_led_here(node: LocalBroker) -> None:
    assert {result["partition"] for result in publish(node.url, "orders", *"abcdef")} == {0}


def test_publish_needs_enough_replicas_unless_the_leader_suffices(node: LocalBroker) -> None:
    led(node, 0, "n1", isr=("n1",))
    answer = offer(node.url, "", {"value": "tea", "partition": 0})
    assert (answer.status, answer.code) == (503, "not_enough_replicas")
    assert answer.json["details"]["isr"] == ["n1"]
    assert answer.headers["retry-after"] == "1"
    (result,) = offer(node.url, "?acks=leader", {"value": "tea", "partition": 0}).json["results"]
    assert result["offset"] == 0, "the refused message had left something behind"


def test_partition_without_a_leader_asks_for_patience(node: LocalBroker) -> None:
    led(node, 0, "")
    answer = offer(node.url, "", {"value": "tea", "partition": 0})
    assert (answer.status, answer.code) == (503, "leader_unavailable")
    assert answer.json["details"]["replica_addresses"] == [ADDRESSES["n2"]]


def test_idempotent_producer_of_another_node_is_accepted(node: LocalBroker) -> None:
    unknown_here = 7 << 40
    answer = send(node.url, section(0, frames([b"a"], (unknown_here, 0, 0))), "orders")
    assert answer.json["results"][0]["next_offset"] == 1


# --- read ---


def test_read_of_a_follower_names_the_leader(node: LocalBroker) -> None:
    answer = fetch(node.url, 1)
    assert (answer.status, answer.code) == (421, "not_leader")


def test_follower_answers_a_read_of_any_replica(node: LocalBroker) -> None:
    assert [one["value"] for one in fetch(node.url, 1, "replica=any").json["messages"]] == ["a", "b"]


def test_node_without_a_replica_names_the_leader(node: LocalBroker) -> None:
    led(node, 1, "n2", replicas=("n2", "n3"))
    assert fetch(node.url, 1, "replica=any").status == 421


def test_follower_is_behind_where_its_leader_may_have_more(node: LocalBroker) -> None:
    answer = fetch(node.url, 1, "replica=any&offset=3")
    assert (answer.status, answer.code) == (409, "behind")
    assert answer.json["details"]["high_watermark"] == 2


def test_leader_without_its_lease_is_behind_like_any_replica(node: LocalBroker) -> None:
    led(node, 1, "n1", _has_lease=lambda: False)

    answer = fetch(node.url, 1, "replica=any&offset=3")

    assert (answer.status, answer.code) == (409, "behind")


def test_leader_that_has_not_settled_is_behind_above_what_it_inherited(node: LocalBroker) -> None:
    led(node, 1, "n1", is_settled=False)
    assert fetch(node.url, 1, "offset=3").code == "behind"
    led(node, 1, "n1")
    assert fetch(node.url, 1, "offset=3").code == "offset_out_of_range"


@pytest.mark.parametrize("order", ["offset", "priority"])
def test_waiting_read_is_answered_when_the_leadership_moves(node: LocalBroker, order: str) -> None:
    partition = node.daemon.runtime.broker.topics["orders"].partitions[0]
    is_waiting, watch = threading.Event(), partition.watch

    def noted(callback: Any) -> Any:
        is_waiting.set()
        return watch(callback)

    partition.watch = noted  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(fetch, node.url, 0, f"wait=25s&order={order}")
        assert is_waiting.wait(60)
        led(node, 0, "n2")
        node.daemon.runtime.turn.loop.call_soon_threadsafe(partition.wake)
        answer = waiting.result()
    assert (answer.status, answer.code) == (421, "not_leader")


def test_read_waits_until_what_was_published_is_there(node: LocalBroker) -> None:
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(fetch, node.url, 0, "wait=25s&at_least=1")
        publish(node.url, "orders", "tea", partition=0)
        assert [one["value"] for one in waiting.result().json["messages"]] == ["tea"]
    assert fetch(node.url, 0, "at_least=2").code == "behind"


def test_offset_by_time_and_segments_are_answered_by_the_leader(node: LocalBroker) -> None:
    for path in ("offset?time=2026-01-01T00:00:00Z&", "segments?", "aborted?"):
        address = f"/topics/orders/partitions/1/{path}"
        assert ask(node.url, "GET", address).status == 421
        assert ask(node.url, "GET", f"{address}replica=any").status == 200


def test_merged_read_shows_all_replicas_of_the_node(node: LocalBroker) -> None:
    found = ask(node.url, "GET", "/topics/orders/messages").json["messages"]
    assert [one["value"] for one in found] == ["a", "b"]


# --- facts ---


def test_partitions_name_their_leaders_and_replicas(node: LocalBroker) -> None:
    led(node, 0, "", replicas=("n2", "n3"), isr=("n2",))
    first, second = ask(node.url, "GET", "/topics/orders/partitions").json["partitions"]
    assert (first["leader"], first["replicas"], first["in_sync_replicas"]) == (None, ["n2", "n3"], ["n2"])
    assert (first["local"], first["latest"], first["size_bytes"]) == (False, None, None)
    assert (second["leader"], second["leader_epoch"], second["min_isr"]) == ("n2", 5, 2)
    assert (second["local"], second["latest"]) == (True, 2)


def test_follower_appends_nothing_of_its_own(node: LocalBroker) -> None:
    partition = node.daemon.runtime.broker.topics["orders"].partitions[1]
    refused: list[Any] = []

    def append() -> None:
        partition.offer([frames([b"stray"])], refused.append)
        partition.commit()
        done.set()

    done = threading.Event()
    node.daemon.runtime.turn.loop.call_soon_threadsafe(append)
    assert done.wait(60)
    assert [one.code for one in refused] == ["not_leader"]
    assert partition.log_end == 2


def test_frames_of_a_follower_are_read_up_to_its_high_watermark(node: LocalBroker) -> None:
    path = "/topics/orders/partitions/1/messages?replica=any"
    answer = ask(node.url, "GET", path, headers={"accept": "application/vnd.goqueue.frames"})
    assert [one.value for one in messages(answer.body)] == [b"a", b"b"]
    assert answer.headers["x-goqueue-high-watermark"] == "2"
