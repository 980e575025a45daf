"""Hostile requests to groups: each is refused with a code, changes nothing, and the members keep working."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.testing.broker import LocalBroker
from tests.api.members import Member, of, receipts, told, values
from tests.api.test_hostile import PATHS, refused
from tests.brokers import ask, create, publish


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalBroker, str]]:
    """A broker with the topic `t` and a group whose only member has two of five messages; and the member's id."""
    with LocalBroker(str(tmp_path_factory.mktemp("hostile") / "data")) as local:
        create(local.url, "t")
        publish(local.url, "t", *"abcde")
        member = Member(local.url, topics=["t"], session_timeout="30m").join()
        (lease,) = member.lease(max_messages=2, visibility_timeout="1h")
        yield local, member.id
        assert member.settle(acks=[of(lease)])["acks"] == [{}]
        assert values(member.poll()) == list("cde")


@pytest.fixture
def broker(served: tuple[LocalBroker, str]) -> Iterator[LocalBroker]:
    """The broker, in which the test changes nothing."""
    local, member = served
    before = state(local.url)
    yield local
    assert state(local.url) == before
    assert known(local) == {"billing": {member}}


@pytest.fixture
def url(broker: LocalBroker) -> str:
    return broker.url


@pytest.fixture
def member(url: str) -> Member:
    """The member, as one that has come to know of it would be it."""
    found = Member(url, topics=["t"])
    found.id = told(ask(url, "GET", "/groups/billing"))["members"][0]["member_id"]
    return found


def state(url: str) -> Any:
    """Return the state of the broker, without the times of the last heartbeats."""
    groups = told(ask(url, "GET", "/groups"))["groups"]
    described = [told(ask(url, "GET", f"/groups/{name}/cooperative")) for name in groups]
    offsets = [told(ask(url, "GET", f"/groups/{name}/offsets")) for name in groups]
    numbers = told(ask(url, "GET", "/reliability/stats"))
    return described, offsets, (numbers["in_flight"], numbers["waiting"]), told(ask(url, "GET", "/topics"))


def known(broker: LocalBroker) -> dict[str, set[str]]:
    """Return the members that the broker keeps anything of in memory."""
    shards = broker.daemon.runtime.broker.groups
    return {name: set(found.members) for one in shards for name, found in one.rebalancer._sessions.items()}


# --- names ---

BODIES: dict[str, Any] = {
    "join": {"topics": ["t"]}, "join/cooperative": {"topics": ["t"]}, "heartbeat": {"member_id": "m"},
    "heartbeat/cooperative": {"member_id": "m"}, "revoke": {"member_id": "m", "revoked_partitions": []},
    "leave": {"member_id": "m"}, "leave/cooperative": {"member_id": "m"}, "settle": {"member_id": "m"},
    "offsets": {"member_id": "m", "offsets": {}}, "offsets/reset": {"topic": "t", "to": "latest"},
}  # fmt: skip
ASKED = ["", "/offsets", "/cooperative", "/rebalance/stats", "/assignment?member_id=m", "/poll?member_id=m"]


@pytest.mark.parametrize("name", PATHS.values(), ids=PATHS)
def test_invalid_group_name_is_refused(url: str, name: str) -> None:
    refused(ask(url, "GET", f"/groups/{name}"), 400, "group_name_invalid")
    refused(ask(url, "POST", f"/groups/{name}/join", BODIES["join"]), 400, "group_name_invalid")


def test_invalid_group_name_is_refused_at_every_endpoint(url: str) -> None:
    for path, body in BODIES.items():
        refused(ask(url, "POST", f"/groups/a%2Fb/{path}", body), 400, "group_name_invalid")
    for path in ASKED:
        refused(ask(url, "GET", f"/groups/a%2Fb{path}"), 400, "group_name_invalid")
    refused(ask(url, "DELETE", "/groups/a%2Fb"), 400, "group_name_invalid")


def test_groups_of_the_brokers_own_are_nobodys(url: str) -> None:
    for path in ("join", "join/cooperative", "offsets/reset"):
        refused(ask(url, "POST", f"/groups/__dead_letters/{path}", BODIES[path]), 400, "group_name_invalid")


def test_refused_requests_leave_no_state(broker: LocalBroker) -> None:
    url, shards = broker.url, broker.daemon.runtime.broker.groups
    before = sum(len(one.deadlines._armed) for one in shards)
    for path in (*ASKED, "/nowhere"):
        assert ask(url, "GET", f"/groups/invented{path}").status == 404
    assert ask(url, "DELETE", "/groups/invented").code == "group_not_found"
    for path in ("heartbeat", "leave", "settle", "offsets", "revoke"):
        body = {**BODIES[path], "member_id": "invented"}
        assert ask(url, "POST", f"/groups/invented/{path}", body).code == "group_not_found"
        assert ask(url, "POST", f"/groups/billing/{path}", body).code == "member_unknown"
    for path in ("assignment", "poll"):
        assert ask(url, "GET", f"/groups/billing/{path}?member_id=invented").code == "member_unknown"
    refused(ask(url, "POST", "/groups/new/join", {"topics": ["nowhere"]}), 404, "topic_not_found")
    assert set(known(broker)) == {"billing"}
    assert len(known(broker)["billing"]) == 1
    assert shards.group_count == 1
    assert sum(len(one.deadlines._armed) for one in shards) <= before


def test_member_ids_are_compared_and_not_understood(url: str) -> None:
    for name in ("../../etc", "a/b", "\x00", "\x1b[2J", "billing/..", "' or 1=1", "n" * 300, "ä\u202e", "{}"):
        refused(ask(url, "POST", "/groups/billing/heartbeat", {"member_id": name}), 409, "member_unknown")
    for none in ("", "n" * 301, None, 5, "\ud800"):
        refused(ask(url, "POST", "/groups/billing/heartbeat", {"member_id": none}), 400, "request_invalid")


# --- receipts ---


def test_forged_receipts_are_refused(url: str) -> None:
    lease = "0123456789abcdefghijklmnopqrstuvw"
    forged = ("", "t:0:0:1:", f"t:0:0:1:{lease}", f"t:{'9' * 20}:0:1:{lease}", f"t:0:0:1:{lease}\n", "\x1b[2J")
    for verb in ("ack", "nack", "reject", "visibility"):
        more = {"timeout": "1m"} if verb == "visibility" else {}
        for handle in forged:
            answer = ask(url, "POST", f"/messages/{verb}", {"receipt_handle": handle, **more})
            assert (answer.status, answer.code) in {(400, "receipt_invalid"), (409, "lease_expired")}, handle
            refused(answer, answer.status, answer.code)
        refused(ask(url, "POST", f"/messages/{verb}", {"receipt_handle": "n" * 401, **more}), 400, "request_invalid")


def test_receipts_that_were_changed_are_refused(url: str) -> None:
    other = Member(url, "other", topics=["t"]).join()
    handle = receipts(other.poll(max_messages=1, visibility_timeout="1h"))[0]
    topic, partition, offset, attempt, lease = handle.split(":")
    number = int(lease[0], 36)
    changed = [
        ("u", partition, offset, attempt, lease), (topic, "1", offset, attempt, lease),
        (topic, partition, "1", attempt, lease),
        (topic, partition, offset, "2", lease), (topic, partition, str(2**63 - 1), attempt, lease),
        (topic, partition, offset, attempt, f"{(number + 1) % 8}{lease[1:]}"),
        (topic, partition, offset, attempt, lease[:-1] + ("0" if lease[-1] != "0" else "1")),
    ]  # fmt: skip
    for fields in changed:
        refused(ask(url, "POST", "/messages/ack", {"receipt_handle": ":".join(fields)}), 409, "lease_expired")
    assert told(other.ask("GET", "/offsets"))["offsets"] == {"t": {"0": 0}}
    told(ask(url, "POST", "/messages/ack", {"receipt_handle": handle}))
    be_gone(other)


def be_gone(other: Member) -> None:
    """Nothing of another group is left."""
    other.leave()
    told(ask(other.url, "DELETE", f"/groups/{other.group}"))


@pytest.mark.parametrize("verb", ["ack", "nack", "reject", "visibility"])
def test_too_many_receipts_are_refused_whole(url: str, verb: str) -> None:
    more = {"timeout": "1m"} if verb == "visibility" else {}
    answer = ask(url, "POST", f"/messages/{verb}", {"receipt_handles": ["r"] * 10_001, **more})
    refused(answer, 400, "request_invalid")
    assert "10,001" in answer.json["error"]
    refused(ask(url, "POST", f"/messages/{verb}", {"receipt_handles": ["r"] * 10_000, **more}), 400, "receipt_invalid")


# --- ranges ---


@pytest.fixture
def lease(broker: LocalBroker) -> dict[str, Any]:
    """The lease of the member."""
    cursor = broker.daemon.runtime.broker.groups.cursors("billing")[PartitionRef("t", 0)]
    return {"topic": "t", "partition": 0, "lease": next(iter(cursor.leases)), "first": 0, "end": 2}


@pytest.mark.parametrize("verb", ["acks", "nacks", "releases"])
def test_ranges_beyond_a_lease_are_refused_in_no_time(member: Member, lease: dict[str, Any], verb: str) -> None:
    for found in ((0, 2**63 - 1), (1, 2**62), (2, 3), (2**63 - 2, 2**63 - 1), (0, 3)):
        answer = member.settle(**{verb: [of(lease, found)]})
        assert answer[verb][0]["error"]["code"] == "lease_expired"


@pytest.mark.parametrize("verb", ["acks", "nacks", "rejects", "releases"])
@pytest.mark.parametrize("found", [(1, 0), (0, 0), (2**63 - 1, 0), (2**63 - 1, 2**63 - 1)])
def test_empty_ranges_are_refused(member: Member, lease: dict[str, Any], verb: str, found: tuple[int, int]) -> None:
    body = {"member_id": member.id, "acks": [of(lease, (0, 1))], verb: [of(lease, (1, 2)), of(lease, (1, 2), found)]}
    answer = member.ask("POST", "/settle", body)
    refused(answer, 400, "request_invalid")
    assert answer.json["details"]["problems"][0]["place"] == f"{verb}[1].ranges[1]"


def test_rejecting_everything_that_could_be_is_refused_in_no_time(member: Member, lease: dict[str, Any]) -> None:
    body = {"member_id": member.id, "rejects": [of(lease, (0, 2**63 - 1))]}
    refused(member.ask("POST", "/settle", body), 400, "request_invalid")
    assert member.settle(rejects=[of(lease, (0, 10_000))])["rejects"][0]["error"]["code"] == "lease_expired"


def test_too_many_ranges_are_refused_whole(member: Member, lease: dict[str, Any]) -> None:
    one = of(lease, (0, 1))
    extension = {**{name: lease[name] for name in ("topic", "partition", "lease")}, "timeout": "1m"}
    for body in (
        {"acks": [of(lease, *[(0, 1)] * 10_001)]},
        {"acks": [one] * 10_001},
        {"acks": [one] * 5_000, "nacks": [one] * 5_001},
        {"acks": [one] * 10_000, "extensions": [extension]},
        {"acks": [of(lease, *[(0, 1)] * 300_000)]},
    ):
        refused(member.ask("POST", "/settle", {"member_id": member.id, **body}), 400, "request_invalid")


@pytest.mark.parametrize(
    "more",
    [
        {"ranges": []}, {"ranges": [[]]}, {"ranges": [[0]]}, {"ranges": [[0, 1, 2]]}, {"ranges": [[-1, 1]]},
        {"ranges": [[0, 2**63]]}, {"delay": -1}, {"delay": "13h"}, {"reason": "x" * 501}, {"partition": -1},
        {"partition": 1000}, {"lease": "n" * 401}, {"lease": None}, {"topic": None}, {"unknown": 1},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_settle_entries_are_refused(member: Member, lease: dict[str, Any], more: dict[str, Any]) -> None:
    body = {"member_id": member.id, "acks": [of(lease, (0, 1))], "nacks": [{**of(lease, (1, 2)), **more}]}
    refused(member.ask("POST", "/settle", body), 400, "request_invalid")


@pytest.mark.parametrize("topic", ["../t", "\x1b[2J", "t\n", "", "t" * 256, "t\x00", "\u202et"])
def test_invalid_topic_names_in_requests_are_refused(member: Member, lease: dict[str, Any], topic: str) -> None:
    place = {"topic": topic, "partition": 0}
    bodies: dict[str, dict[str, Any]] = {
        "settle": {"acks": [{**of(lease), **place}]},
        "revoke": {"revoked_partitions": [place]},
        "offsets": {"offsets": {topic: {"0": 1}}},
    }
    for path, body in bodies.items():
        refused(member.ask("POST", f"/{path}", {"member_id": member.id, **body}), 400, "request_invalid")


# --- numbers and texts ---


@pytest.mark.parametrize("generation", [-1, 0.5, 2**31, "1", True])
def test_invalid_generations_are_refused(member: Member, generation: Any) -> None:
    for path in ("heartbeat", "revoke", "settle", "offsets"):
        body = {**BODIES[path], "member_id": member.id, "generation": generation}
        refused(member.ask("POST", f"/{path}", body), 400, "request_invalid")


@pytest.mark.parametrize(
    "options",
    [
        {"session_timeout": "999ms"}, {"session_timeout": "31m"}, {"session_timeout": -5}, {"max_in_flight": 0},
        {"max_in_flight": 1_000_001}, {"max_in_flight": 1.5}, {"protocol": "greedy"}, {"assignment_strategy": ""},
        {"order": "any"}, {"start": "now"}, {"topics": "t"}, {"topics": [1]}, {"topics": ["t"] * 101}, {"group": "g"},
        {"client_id": ""}, {"client_id": "c" * 201}, {"client_id": "a\x1b[2Jb"}, {"client_id": "a\nb"},
        {"client_id": "a\x00"}, {"client_id": "\x9b31m"}, {"client_id": "\u202eevil"}, {"client_id": "a\u2028b"},
        {"client_id": "a\n"}, {"client_id": "\x7f"}, {"member_id": ""}, {"member_id": "m" * 301},
    ],
    ids=str,
)  # fmt: skip
def test_invalid_join_options_are_refused(url: str, options: dict[str, Any]) -> None:
    refused(ask(url, "POST", "/groups/new/join", {"topics": ["t"], **options}), 400, "request_invalid")


def test_client_ids_of_all_languages_are_taken(url: str) -> None:
    new = Member(url, "new", topics=["t"])
    for name in ("Kasse 3", "käse/brot", "客户端", "a" * 200, "<script>", "'; drop table", "\U0001f4a5"):
        new.join(client_id=name)
        assert re.fullmatch(r"[\w.-]+", new.id, re.ASCII)
        shown = told(ask(url, "GET", "/groups/new"))["members"]
        assert [one["client_id"] for one in shown] == [name]
        new.leave()
    told(ask(url, "DELETE", "/groups/new"))


def test_very_many_places_to_give_up_are_refused(member: Member) -> None:
    body = {"member_id": member.id, "revoked_partitions": [{"topic": "t", "partition": 0}] * 10_001}
    refused(member.ask("POST", "/revoke", body), 400, "request_invalid")
    answer = told(member.ask("POST", "/revoke", {**body, "revoked_partitions": body["revoked_partitions"][:10_000]}))
    assert answer["pending_count"] == 0


def test_the_type_of_an_answer_is_one_that_there_is(url: str) -> None:
    other = Member(url, "other", topics=["t"]).join()
    for accept in ("text/html", "application/vnd.goqueue.frames", "\x9b31m", "*/*", "a" * 5000):
        answer = other.polled({"accept": accept}, max_messages=1)
        assert answer.headers["content-type"] == "application/json"
        assert len(answer.json["messages"]) == 1
    be_gone(other)
