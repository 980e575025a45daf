"""Groups of clusters of real brokers: their coordinators are killed, and other nodes go on where they ended."""

from pathlib import Path
from typing import Any

from goqueue.client import Client
from tests.api.members import Member
from tests.brokers import Answer, ask
from tests.cluster.processes import NAMES, WAIT_SECONDS, ServedCluster, cluster

GROUP = "billing"


def coordinator(nodes: ServedCluster, *, group: str = GROUP, other_than: str = "") -> str:
    """Wait until all nodes agree on the coordinator of the group; return its id."""
    found: set[str] = set()

    def agreed() -> bool:
        found.clear()
        for name, broker in nodes.brokers.items():
            answer = ask(broker.url, "GET", f"/groups/{group}")
            found.add(answer.json["details"]["coordinator"] if answer.status == 421 else name)
            if answer.status not in (200, 404, 421):
                found.add("?")
        return len(found) == 1 and found.isdisjoint({"?", other_than})

    nodes.wait(agreed)
    return found.pop()


def leader_url(nodes: ServedCluster, topic: str = "orders") -> str:
    """Return the address of the leader of the first partition."""
    urls: list[str] = []

    def is_led() -> bool:
        url = next(iter(nodes.brokers.values())).url
        leader = ask(url, "GET", f"/topics/{topic}/partitions").json["partitions"][0]["leader"]
        urls.append(nodes.brokers[leader].url if leader in nodes.brokers else "")
        return bool(urls[-1])

    nodes.wait(is_led)
    return urls[-1]


def publish(nodes: ServedCluster, *values: str) -> None:
    def published() -> bool:
        answer = ask(leader_url(nodes), "POST", "/topics/orders/messages", {"messages": [{"value": v} for v in values]})
        return answer.status == 200

    nodes.wait(published)


def create(nodes: ServedCluster) -> None:
    def created() -> bool:
        answer = ask(nodes.brokers["n1"].url, "POST", "/topics", {"name": "orders", "num_partitions": 1})
        return answer.status in (201, 409)

    nodes.wait(created)
    nodes.wait(lambda: all(ask(one.url, "GET", "/topics/orders").status == 200 for one in nodes.brokers.values()))


def polled(nodes: ServedCluster, member: Member) -> Answer:
    """Poll at the coordinator, whichever node that is."""
    answers: list[Answer] = []

    def answered() -> bool:
        for broker in nodes.brokers.values():
            member.url = broker.url
            answer = member.polled(timeout="1s")
            if answer.status == 200:
                answers.append(answer)
                return True
        return False

    nodes.wait(answered)
    return answers[-1]


def values(answer: Answer) -> list[str]:
    return [one["value"] for one in answer.json["messages"]]


def lease_of(message: dict[str, Any]) -> str:
    return str(message["receipt_handle"]).rpartition(":")[2]


def test_group_goes_on_at_another_node_when_its_coordinator_is_killed(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        create(nodes)
        publish(nodes, "a", "b", "c")
        first = coordinator(nodes)
        member = Member(nodes.brokers[first].url, GROUP).join()
        leased = polled(nodes, member).json["messages"]
        assert [one["value"] for one in leased] == ["a", "b", "c"]
        acked = {"topic": "orders", "partition": 0, "lease": lease_of(leased[0]), "ranges": [[0, 1]]}
        member.settle(acks=[acked])

        nodes.kill(first)
        second = coordinator(nodes, other_than=first)
        member.url = nodes.brokers[second].url

        assert member.beat()["generation"] == member.generation, "the member noticed a rebalance"
        publish(nodes, "d")
        assert values(polled(nodes, member)) == ["d"], "what is leased or acked was handed out again"
        settled = member.settle(acks=[{**acked, "ranges": [[1, 3]]}])
        assert settled["acks"] == [{}]
        nodes.start(first)
        nodes.wait(lambda: ask(nodes.brokers[first].url, "GET", f"/groups/{GROUP}").status == 421)


def test_dead_letter_reaches_the_leader_of_its_topic(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        create(nodes)
        publish(nodes, "a", "b")
        member = Member(nodes.brokers[coordinator(nodes)].url, GROUP).join()
        for message in polled(nodes, member).json["messages"]:
            answer = ask(member.url, "POST", "/messages/reject", {"receipt_handle": message["receipt_handle"]})
            assert answer.status == 200, answer.body

        def arrived() -> bool:
            found = ask(leader_url(nodes, "orders.dlq"), "GET", "/topics/orders.dlq/messages")
            return [one["value"] for one in found.json["messages"]] == ["a", "b"]

        nodes.wait(arrived)
        assert {node.status for node in nodes.state("n1").nodes} == {"alive"}
        assert len(nodes.brokers) == len(NAMES)


def test_any_node_lists_the_groups_of_all_coordinators(tmp_path: Path) -> None:
    names = [f"group-{number}" for number in range(6)]
    with cluster(tmp_path) as nodes:
        create(nodes)
        coordinators = set()
        for name in names:
            coordinators.add(chosen := coordinator(nodes, group=name))
            Member(nodes.brokers[chosen].url, name).join()
        assert len(coordinators) > 1, "one node coordinates all of them, which shows nothing"
        for broker in nodes.brokers.values():
            listed = ask(broker.url, "GET", "/groups?details=true").json
            assert listed["groups"] == [row["group_id"] for row in listed["details"]] == names
            assert ask(broker.url, "GET", "/groups?limit=2&after=group-2").json["groups"] == ["group-3", "group-4"]
        nodes.kill("n3")
        nodes.wait(lambda: ask(nodes.brokers["n1"].url, "GET", "/groups").json.get("missing") == ["n3"])


def test_consumer_that_ends_leaves_at_the_next_coordinator(tmp_path: Path) -> None:
    with cluster(tmp_path) as nodes:
        create(nodes)
        publish(nodes, "a")
        first = coordinator(nodes)
        with Client(nodes.urls) as client, client.consumer(GROUP, ["orders"], session_timeout="10m") as consumer:
            assert next(iter(consumer)).value == b"a"
            nodes.kill(first)
            consumer.close(timeout=WAIT_SECONDS)
        second = nodes.brokers[coordinator(nodes, other_than=first)].url
        nodes.wait(lambda: ask(second, "GET", f"/groups/{GROUP}").json.get("members") == [])
