"""Polls: JSON with receipt handles, leases with frames, at once or after a wait."""

import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import LEASES
from tests.api.members import Member, leases, told, values, waiting
from tests.api.test_reading import broker_with_damage
from tests.api.wire import frames, section, send, until
from tests.brokers import Answer, ask, create, publish, read


@pytest.fixture(scope="module")
def idle_member(unchanged: str) -> Member:
    """A member of which every poll is refused."""
    return Member(unchanged, topics=["t"], session_timeout="30m").join()


# --- JSON ---


def test_messages_come_with_what_settles_them(member: Member) -> None:
    publish(member.url, "orders", "paid", partition=1, key="7", headers={"till": "3"}, priority="high")
    answer = told(member.polled())
    (message,) = answer["messages"]
    handle = message.pop("receipt_handle")
    assert handle.startswith("orders:1:0:1:")
    assert message.pop("timestamp") == read(member.url, "orders", 1)[0]["timestamp"]
    assert message == {
        "topic": "orders", "partition": 1, "offset": 0, "key": "7", "value": "paid", "priority": 1,
        "headers": {"till": "3"}, "attempt": 1,
    }  # fmt: skip
    assert answer["next_offset"] == {"orders": {"1": 1}}
    assert (answer["generation"], answer["rebalance_required"]) == (1, False)


def test_an_empty_answer_has_the_same_form(member: Member) -> None:
    assert told(member.polled()) == {
        "messages": [], "next_offset": {}, "generation": 1, "rebalance_required": False,
    }  # fmt: skip


def test_bytes_that_are_no_text_come_as_base64(member: Member) -> None:
    send(member.url, section(0, frames([b"\xff\x00"], key=b"\xfe")), "orders")
    (message,) = member.poll()
    assert (message["value"], message["encoding"]) == ("/wA=", "base64")
    assert (message["key"], message["key_encoding"]) == ("/g==", "base64")


def test_a_message_without_key_and_value_has_neither(member: Member) -> None:
    send(member.url, section(0, frame.encode(b"", b"k", flags=frame.TOMBSTONE)), "orders")
    assert member.poll()[0]["value"] is None


def test_head_poll_leases_no_messages(member: Member) -> None:
    publish(member.url, "orders", "a")
    head = member.ask("HEAD", f"/poll?member_id={member.id}")
    assert (head.status, head.body) == (200, b"")
    assert values(member.poll()) == ["a"]
    assert member.ask("HEAD", "/poll?member_id=unknown").status == 409


@pytest.mark.parametrize("name", ["limit", "max_messages"])
def test_poll_respects_max_messages(member: Member, name: str) -> None:
    publish(member.url, "orders", *"abc", partition=0)
    publish(member.url, "orders", *"def", partition=1)
    assert [len(member.poll(**{name: 4})) for _ in range(3)] == [4, 2, 0]


def test_limit_and_max_messages_must_agree(member: Member) -> None:
    assert member.poll(limit=2, max_messages=2) == []
    assert member.polled(limit=2, max_messages=3).code == "request_invalid"


def test_poll_respects_max_bytes_but_returns_one_message(member: Member) -> None:
    publish(member.url, "orders", *("x" * 1000 for _ in range(5)), partition=0)
    assert len(member.poll(max_bytes=1)) == 1
    assert len(member.poll(max_bytes=2500)) == 2


def test_a_group_may_begin_with_what_comes(url: str) -> None:
    publish(url, "orders", "before", partition=0)
    member = Member(url, start="latest").join()
    publish(url, "orders", "after", partition=0)
    assert values(member.poll()) == ["after"]


@pytest.mark.parametrize(
    "query",
    [
        "timeout=61s", "timeout=-1s", "timeout=soon", "max_messages=0", "max_messages=-1", "max_messages=1.5",
        f"max_messages={2**63}", "limit=1000001", "max_bytes=0", f"max_bytes={16 * 2**20 + 1}", "generation=-1",
        "generation=0.5", f"generation={2**31}", f"generation={2**63}", "visibility_timeout=99ms",
        "visibility_timeout=13h", "visibility_timeout=0", "consumer=1", "member_id=&timeout=0", "skip_damage=maybe",
    ],
)  # fmt: skip
def test_invalid_poll_parameters_are_refused(idle_member: Member, query: str) -> None:
    given = "" if query.startswith("member_id=") else f"member_id={idle_member.id}&"
    answer = idle_member.ask("GET", f"/poll?{given}{query}")
    assert (answer.status, answer.code) == (400, "request_invalid")


# --- leases ---


def test_leases_are_returned_with_their_frames(member: Member) -> None:
    publish(member.url, "orders", "a", "b", partition=0, key="k")
    publish(member.url, "orders", "c", partition=1)
    head, found = leases(member.polled({"accept": LEASES}, visibility_timeout="5s"))
    assert (head["generation"], head["rebalance_required"]) == (1, False)
    by_partition = sorted(zip(head["leases"], found, strict=True), key=lambda pair: pair[0]["partition"])
    assert [[message.value for message in content] for _, content in by_partition] == [[b"a", b"b"], [b"c"]]
    first = by_partition[0][0]
    assert len({lease.pop("lease") for lease, _ in by_partition}) == 2
    assert first.pop("bytes") == sum(frame.measure(member_frame(message)) for message in by_partition[0][1])
    assert first == {
        "topic": "orders", "partition": 0, "first": 0, "end": 2, "attempt": 1, "failures": 0, "retry_delay": 1.0,
        "visibility": 5.0,
    }  # fmt: skip


def member_frame(message: frame.StoredMessage) -> bytes:
    """As long as it lies there."""
    return frame.encode(message.value, message.key)


def test_no_leases_are_an_empty_list(member: Member) -> None:
    assert leases(member.polled({"accept": f"{LEASES}, application/json"})) == (
        {"generation": 1, "rebalance_required": False, "leases": [], "retry_after": 0.0},
        [],
    )


# --- waiting ---


def test_waiting_request_is_woken_by_a_published_message(broker: LocalBroker, member: Member) -> None:
    with waiting(broker, member) as answer:
        publish(member.url, "orders", "new")
        assert values(told(answer.result())["messages"]) == ["new"]


def test_waiting_poll_is_woken_by_a_new_partition(broker: LocalBroker, url: str) -> None:
    first, second = Member(url, cooperative=True).join(), Member(url, cooperative=True).join()
    publish(url, "orders", "a", partition=1)
    with waiting(broker, second) as answer:
        first.say("/revoke", revoked_partitions=[{"topic": "orders", "partition": 1}])
        assert values(told(answer.result())["messages"]) == ["a"]


def test_waiting_poll_ends_when_a_partition_is_lost(broker: LocalBroker, url: str) -> None:
    first = Member(url).join()
    with waiting(broker, first, generation=first.generation) as answer:
        Member(url).join()
        found = told(answer.result())
        assert (found["messages"], found["rebalance_required"]) == ([], True)


def test_waiting_poll_ends_when_its_member_leaves(broker: LocalBroker, member: Member) -> None:
    with waiting(broker, member) as answer:
        member.leave()
        assert answer.result().code == "member_unknown"
    group_session = broker.daemon.runtime.broker.groups.of("billing").rebalancer.group_session("billing")
    assert group_session.members == {}


def test_poll_returns_no_messages_at_the_timeout(member: Member) -> None:
    for timeout in ("1ms", "0.001", 0):
        assert member.poll(timeout=timeout) == []


def test_waiting_request_ends_when_the_broker_stops(tmp_path: Path) -> None:
    local = LocalBroker(str(tmp_path / "data")).start()
    create(local.url, "orders")
    member = Member(local.url).join()
    with waiting(local, member) as answer:
        local.stop()
        assert told(answer.result())["messages"] == []


# --- leaving in the middle ---


def leave_during(url: str, member: Member, **query: Any) -> socket.socket:
    """A connection with a poll on its way, whose answer is not read."""
    address = urlsplit(url)
    connection = socket.create_connection((address.hostname or "", address.port or 0), timeout=30)
    target = f"/groups/{member.group}/poll?{urlencode({'member_id': member.id, **query})}"
    connection.sendall(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    return connection


def test_poll_of_a_client_that_leaves_is_cancelled(broker: LocalBroker, member: Member) -> None:
    presence = broker.daemon.runtime.broker.groups.of("billing").membership.session("billing", member.id)
    with leave_during(member.url, member, timeout="60s"):
        until(member.url, lambda: presence.polls)
    until(member.url, lambda: not presence.polls)
    assert presence.waiting == {}
    publish(member.url, "orders", "a")
    (lease,) = member.lease()
    assert (lease["attempt"], lease["failures"]) == (1, 0)


def test_client_that_leaves_before_the_answer_returns_its_messages(broker: LocalBroker, member: Member) -> None:
    publish(member.url, "orders", *("x" * 900 for _ in range(1000)), partition=0)
    presence = broker.daemon.runtime.broker.groups.of("billing").membership.session("billing", member.id)
    cursors = broker.daemon.runtime.broker.groups.of("billing").store.cursors("billing")
    with leave_during(member.url, member, max_messages=1000):
        until(member.url, lambda: presence.polls or cursors[PartitionRef("orders", 0)].position)
    until(member.url, lambda: not presence.polls)
    leased = told(ask(member.url, "GET", "/reliability/stats"))["in_flight"]
    assert leased in (0, 1000)
    assert sum(lease["end"] - lease["first"] for lease in member.lease(max_messages=1000)) == 1000 - leased


# --- damage and the end of topics ---


def test_damage_is_refused_and_skipped_on_request(tmp_path: Path) -> None:
    with broker_with_damage(tmp_path, 0) as local:
        member = Member(local.url, topics=["t"]).join()
        refused: Answer = member.polled()
        assert (refused.status, refused.code) == (503, "range_damaged")
        assert [value[0] for value in values(member.poll(skip_damage="true"))] == ["1", "2", "3", "4"]
