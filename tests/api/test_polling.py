"""What a poll hands out: as JSON with receipts, as leases with frames, at once or when something comes."""

import json
import socket
import threading
from pathlib import Path
from select import select
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.members import LEASES, PATIENCE, Member, leases, of, receipts, told, values, waiting
from tests.api.wire import frames, section, send, until
from tests.brokers import Answer, ask, broker, create, publish, read

__all__ = ["broker"]


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """A broker with the topic `orders` of two partitions."""
    create(broker.url, "orders", partitions=2)
    return broker.url


@pytest.fixture
def member(url: str) -> Member:
    """The only one of its group."""
    return Member(url).join()


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


def test_who_does_not_want_to_see_messages_is_given_none(member: Member) -> None:
    publish(member.url, "orders", "a")
    head = member.ask("HEAD", f"/poll?member_id={member.id}")
    assert (head.status, head.body) == (200, b"")
    assert values(member.poll()) == ["a"]
    assert member.ask("HEAD", "/poll?member_id=nobody").status == 409


def test_nothing_is_handed_out_twice_while_it_is_lent(member: Member) -> None:
    publish(member.url, "orders", *"abcdef", partition=0)
    assert values(member.poll(max_messages=4)) == list("abcd")
    assert values(member.poll()) == ["e", "f"]
    assert member.poll() == []


def test_groups_do_not_know_of_each_other(url: str) -> None:
    publish(url, "orders", "a")
    assert [values(Member(url, name).join().poll()) for name in ("billing", "shipping")] == [["a"], ["a"]]


@pytest.mark.parametrize("name", ["limit", "max_messages"])
def test_no_more_messages_come_than_were_asked_for(member: Member, name: str) -> None:
    publish(member.url, "orders", *"abc", partition=0)
    publish(member.url, "orders", *"def", partition=1)
    assert [len(member.poll(**{name: 4})) for _ in range(3)] == [4, 2, 0]


def test_both_words_for_a_limit_must_agree(member: Member) -> None:
    assert member.poll(limit=2, max_messages=2) == []
    assert member.polled(limit=2, max_messages=3).code == "request_invalid"


def test_no_more_bytes_come_than_were_asked_for_but_one_message_always(member: Member) -> None:
    publish(member.url, "orders", *("x" * 1000 for _ in range(5)), partition=0)
    assert len(member.poll(max_bytes=1)) == 1
    assert len(member.poll(max_bytes=2500)) == 2


def test_no_member_has_more_in_hand_than_it_may(url: str) -> None:
    publish(url, "orders", *"abcdef", partition=0)
    member = Member(url, max_in_flight=4).join()
    found = member.poll()
    assert (values(found), member.poll()) == (list("abcd"), [])
    told(ask(url, "POST", "/messages/ack", {"receipt_handles": receipts(found)[:1]}))
    assert values(member.poll()) == ["e"]


def test_all_partitions_have_their_turn(member: Member) -> None:
    for partition in (0, 1):
        publish(member.url, "orders", *"abc", partition=partition)
    assert {member.poll(max_messages=1)[0]["partition"] for _ in range(2)} == {0, 1}


def test_many_messages_are_told_as_well_as_few(member: Member) -> None:
    texts = [f"{number:>500}" for number in range(400)]
    publish(member.url, "orders", *texts, partition=0)
    found = member.poll(max_messages=400)
    assert values(found) == texts
    assert told(ask(member.url, "POST", "/messages/ack", {"receipt_handles": receipts(found)}))["acknowledged"] is True


def test_a_group_may_begin_with_what_comes(url: str) -> None:
    publish(url, "orders", "before", partition=0)
    member = Member(url, start="latest").join()
    publish(url, "orders", "after", partition=0)
    assert values(member.poll()) == ["after"]


def test_messages_of_one_key_wait_for_each_other_where_that_is_wished(url: str) -> None:
    publish(url, "orders", "a1", "a2", partition=0, key="a")
    publish(url, "orders", "b1", partition=0, key="b")
    member = Member(url, order="key").join()
    (first,) = member.poll(max_messages=1)
    told(ask(url, "POST", "/messages/nack", {"receipt_handle": first["receipt_handle"], "delay": "0s"}))
    (again,) = member.poll(max_messages=1)
    assert (again["value"], again["attempt"]) == ("a1", 2)
    assert values(member.poll()) == ["b1"]
    told(ask(url, "POST", "/messages/ack", {"receipt_handle": again["receipt_handle"]}))
    assert values(member.poll()) == ["a2"]


@pytest.mark.parametrize(
    "query",
    [
        "timeout=61s", "timeout=-1s", "timeout=soon", "max_messages=0", "max_messages=-1", "max_messages=1.5",
        f"max_messages={2**63}", "limit=1000001", "max_bytes=0", f"max_bytes={16 * 2**20 + 1}", "generation=-1",
        "generation=0.5", f"generation={2**31}", f"generation={2**63}", "visibility_timeout=99ms",
        "visibility_timeout=13h", "visibility_timeout=0", "consumer=1", "member_id=&timeout=0", "skip_damage=maybe",
    ],
)  # fmt: skip
def test_polls_that_mean_nothing_are_refused(member: Member, query: str) -> None:
    given = "" if query.startswith("member_id=") else f"member_id={member.id}&"
    answer = member.ask("GET", f"/poll?{given}{query}")
    assert (answer.status, answer.code) == (400, "request_invalid")


# --- leases ---


def test_leases_are_handed_out_with_their_frames(member: Member) -> None:
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
        "topic": "orders", "partition": 0, "first": 0, "end": 2, "attempt": 1, "failures": 0, "visibility": 5.0,
    }  # fmt: skip


def member_frame(message: frame.Message) -> bytes:
    """As long as it lies there."""
    return frame.encode(message.value, message.key)


def test_no_leases_are_an_empty_list(member: Member) -> None:
    assert leases(member.polled({"accept": f"{LEASES}, application/json"})) == (
        {"generation": 1, "rebalance_required": False, "leases": []},
        [],
    )


def test_what_was_tried_before_has_a_lease_of_its_own(member: Member) -> None:
    publish(member.url, "orders", *"abcd", partition=0)
    (lease,) = member.lease(max_messages=3)
    member.settle(nacks=[of(lease, (1, 2), delay=0)], releases=[of(lease, (0, 1))], acks=[of(lease, (2, 3))])
    found = {(one["first"], one["end"]): (one["attempt"], one["failures"]) for one in member.lease()}
    assert found == {(0, 1): (2, 0), (1, 2): (2, 1), (3, 4): (1, 0)}


def test_offsets_without_a_message_need_no_answer(broker: LocalBroker) -> None:
    create(broker.url, "orders", cleanup="compact", segment_bytes=4096)
    for number in range(60):
        publish(broker.url, "orders", f"{number}" * 100, key=f"k{number % 3}")
    told(ask(broker.url, "GET", "/topics/orders"))
    member = Member(broker.url).join()
    head, content = leases(member.polled({"accept": LEASES}))
    assert head["leases"][0]["first"] == 0
    assert sum(map(len, content)) <= 60
    member.settle(acks=[of(lease) for lease in head["leases"]])
    assert told(member.ask("GET", "/offsets"))["offsets"] == {"orders": {"0": 60}}


# --- waiting ---


def test_who_waits_is_woken_by_what_is_published(broker: LocalBroker, member: Member) -> None:
    with waiting(broker, member) as answer:
        publish(member.url, "orders", "new")
        assert values(told(answer.result())["messages"]) == ["new"]


def test_who_waits_is_woken_by_a_retry_that_is_due(member: Member) -> None:
    publish(member.url, "orders", "a")
    (message,) = member.poll()
    told(ask(member.url, "POST", "/messages/nack", {"receipt_handle": message["receipt_handle"], "delay": "100ms"}))
    (again,) = member.poll(timeout=PATIENCE)
    assert (again["value"], again["attempt"]) == ("a", 2)


def test_who_waits_is_woken_by_a_lease_that_ends(member: Member) -> None:
    publish(member.url, "orders", "a")
    member.poll(visibility_timeout="100ms")
    (lease,) = member.lease(timeout=PATIENCE)
    assert (lease["attempt"], lease["failures"]) == (2, 1)


def test_who_waits_is_woken_when_it_is_given_more(broker: LocalBroker, url: str) -> None:
    first, second = Member(url, cooperative=True).join(), Member(url, cooperative=True).join()
    publish(url, "orders", "a", partition=1)
    with waiting(broker, second) as answer:
        first.say("/revoke", revoked_partitions=[{"topic": "orders", "partition": 1}])
        assert values(told(answer.result())["messages"]) == ["a"]


def test_who_waits_and_said_what_it_knows_is_told_that_it_has_more(broker: LocalBroker, url: str) -> None:
    first, second = Member(url, cooperative=True).join(), Member(url, cooperative=True).join()
    with waiting(broker, second, generation=second.generation) as answer:
        revoked = first.say("/revoke", revoked_partitions=[{"topic": "orders", "partition": 1}])
        found = told(answer.result())
        assert (found["messages"], found["rebalance_required"]) == ([], True)
        assert found["generation"] == revoked["generation"]


def test_who_waits_is_told_what_it_is_to_give_up(broker: LocalBroker, url: str) -> None:
    first = Member(url, cooperative=True).join()
    with waiting(broker, first, generation=first.generation) as answer:
        Member(url, cooperative=True).join()
        assert told(answer.result())["rebalance_required"] is True


def test_who_loses_something_while_it_waits_is_told_so(broker: LocalBroker, url: str) -> None:
    first = Member(url).join()
    with waiting(broker, first, generation=first.generation) as answer:
        Member(url).join()
        found = told(answer.result())
        assert (found["messages"], found["rebalance_required"]) == ([], True)


def test_who_waits_for_room_is_woken_when_there_is_some(broker: LocalBroker, url: str) -> None:
    publish(url, "orders", "a", "b", partition=0)
    member = Member(url, max_in_flight=1).join()
    (first,) = member.poll()
    with waiting(broker, member) as answer:
        told(ask(url, "POST", "/messages/ack", {"receipt_handle": first["receipt_handle"]}))
        assert values(told(answer.result())["messages"]) == ["b"]


def test_who_waits_and_leaves_is_no_member_any_more(broker: LocalBroker, member: Member) -> None:
    with waiting(broker, member) as answer:
        member.leave()
        assert answer.result().code == "member_unknown"
    attendance = broker.daemon.runtime.broker.coordinator.rebalancer.attendance("billing")
    assert attendance.members == {}


def test_who_waits_in_vain_is_told_so(member: Member) -> None:
    for timeout in ("1ms", "0.001", 0):
        assert member.poll(timeout=timeout) == []


def test_whoever_waits_is_alive(broker: LocalBroker, url: str) -> None:
    member, other = Member(url, session_timeout="1s").join(), Member(url, "others", session_timeout="1s").join()
    with waiting(broker, member) as answer:
        until(url, lambda: told(ask(url, "GET", "/groups/others"))["state"] == "empty")
        publish(url, "orders", "a")
        assert values(told(answer.result())["messages"]) == ["a"]
    assert other.polled().code == "member_unknown"


def test_who_waits_goes_home_when_the_broker_stops(tmp_path: Path) -> None:
    local = LocalBroker(str(tmp_path / "data")).start()
    create(local.url, "orders")
    member = Member(local.url).join()
    with waiting(local, member) as answer:
        local.stop()
        assert told(answer.result())["messages"] == []


def test_two_polls_of_one_member_share_what_there_is(broker: LocalBroker, member: Member) -> None:
    with waiting(broker, member) as first, waiting(broker, member) as second:
        publish(member.url, "orders", "a", partition=0)
        until(member.url, lambda: first.done() or second.done())
        publish(member.url, "orders", "b", partition=0)
        found = [values(told(answer.result())["messages"]) for answer in (first, second)]
        assert sorted(found) == [["a"], ["b"]]


# --- leaving in the middle ---


def leave_during(url: str, member: Member, **query: Any) -> socket.socket:
    """A connection with a poll on its way, whose answer nobody will read."""
    address = urlsplit(url)
    connection = socket.create_connection((address.hostname or "", address.port or 0), timeout=30)
    target = f"/groups/{member.group}/poll?{urlencode({'member_id': member.id, **query})}"
    connection.sendall(f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
    return connection


def test_whoever_leaves_while_it_waits_is_not_waited_for(broker: LocalBroker, member: Member) -> None:
    presence = broker.daemon.runtime.broker.coordinator.membership.presence("billing", member.id)
    with leave_during(member.url, member, timeout="60s"):
        until(member.url, lambda: presence.polls)
    until(member.url, lambda: not presence.polls)
    assert presence.waiting == {}
    publish(member.url, "orders", "a")
    (lease,) = member.lease()
    assert (lease["attempt"], lease["failures"]) == (1, 0)


def test_whoever_leaves_when_messages_come_has_failed_at_none(broker: LocalBroker, member: Member) -> None:
    presence = broker.daemon.runtime.broker.coordinator.membership.presence("billing", member.id)
    for number in range(50):
        publishing = threading.Thread(target=publish, args=(member.url, "orders", str(number)), kwargs={"partition": 0})
        with leave_during(member.url, member, timeout="60s", visibility_timeout="60s") as connection:
            until(member.url, lambda: presence.polls or select([connection], [], [], 0)[0])
            publishing.start()
        publishing.join()
        until(member.url, lambda: not presence.polls)
    stats = told(ask(member.url, "GET", "/reliability/stats"))
    member.leave()
    heir = Member(member.url).join()
    found: list[int] = []
    while len(found) < 50:
        for lease in heir.lease(timeout=PATIENCE):
            assert lease["failures"] == 0
            found += range(lease["first"], lease["end"])
    assert sorted(found) == list(range(50))
    assert (stats["expiries_total"], stats["nacks_total"]) == (0, 0)


def test_whoever_leaves_before_its_messages_are_written_out_gives_them_back(
    broker: LocalBroker, member: Member
) -> None:
    publish(member.url, "orders", *("x" * 900 for _ in range(1000)), partition=0)
    presence = broker.daemon.runtime.broker.coordinator.membership.presence("billing", member.id)
    cursors = broker.daemon.runtime.broker.coordinator.ledger.cursors("billing")
    with leave_during(member.url, member, max_messages=1000):
        until(member.url, lambda: presence.polls or cursors["orders", 0].position)
    until(member.url, lambda: not presence.polls)
    lent = told(ask(member.url, "GET", "/reliability/stats"))["in_flight"]
    assert lent in (0, 1000)
    assert sum(lease["end"] - lease["first"] for lease in member.lease(max_messages=1000)) == 1000 - lent


# --- damage and the end of topics ---


def test_a_group_passes_over_what_retention_has_removed(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), storage__upkeep_interval="100ms") as local:
        settings = {"segment_bytes": 4096, "retention_bytes": 4096}
        create(local.url, "orders", **settings)
        member = Member(local.url).join()
        for _ in range(20):
            publish(local.url, "orders", "x" * 1000)
        until(local.url, lambda: earliest(local.url) > 0)
        (lease,) = member.lease(timeout=PATIENCE, max_messages=1)
        assert lease["first"] >= 1
        lag = told(ask(local.url, "GET", "/groups/billing"))["lag"]["orders"]["0"]
        assert lag["lost"] == lease["first"]


def earliest(url: str) -> int:
    found: int = told(ask(url, "GET", "/topics/orders"))["partition_offsets"]["0"]["earliest"]
    return found


def test_damage_is_told_and_passed_over_on_request(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as local:
        create(local.url, "orders")
        for number in range(3):
            publish(local.url, "orders", f"{number}" * 100)
    (log,) = (tmp_path / "data/logs/orders/0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[content.index(b"0" * 100) + 50] ^= 1
    log.write_bytes(content)
    with LocalBroker(str(tmp_path / "data")) as local:
        member = Member(local.url).join()
        refused: Answer = member.polled()
        assert (refused.status, refused.code) == (503, "range_damaged")
        assert [value[0] for value in values(member.poll(skip_damage="true"))] == ["1", "2"]


def test_the_answer_is_one_json_value(member: Member) -> None:
    publish(member.url, "orders", 'a "quoted" \x01 value', partition=0)
    answer = member.polled()
    assert json.loads(answer.body)["messages"][0]["value"] == 'a "quoted" \x01 value'
    assert answer.body.isascii() or answer.body.decode().isprintable()
