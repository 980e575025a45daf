"""What nobody sends to groups by accident: each is refused with a code, changes nothing, and the members go on."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.broker import LocalBroker
from tests.api.members import Member, of, receipts, told, values
from tests.brokers import Answer, ask, create, publish
from tests.processes import Served


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker with the topic `t` and a group whose only member has two of five messages, at the end as well."""
    with LocalBroker(str(tmp_path / "data")) as local:
        create(local.url, "t")
        publish(local.url, "t", *"abcde")
        member = Member(local.url, topics=["t"]).join()
        (lease,) = member.lease(max_messages=2)
        before = state(local.url)
        yield local
        assert state(local.url) == before
        assert known(local) == {"billing": {member.id}}
        assert member.settle(acks=[of(lease)])["acks"] == [{}]
        assert values(member.poll()) == list("cde")


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
    """All that there is, but for when somebody was seen."""
    groups = told(ask(url, "GET", "/groups"))["groups"]
    described = [told(ask(url, "GET", f"/groups/{name}/cooperative")) for name in groups]
    offsets = [told(ask(url, "GET", f"/groups/{name}/offsets")) for name in groups]
    numbers = told(ask(url, "GET", "/reliability/stats"))
    return described, offsets, (numbers["in_flight"], numbers["waiting"]), told(ask(url, "GET", "/topics"))


def known(broker: LocalBroker) -> dict[str, set[str]]:
    """Of whom the broker keeps anything in memory."""
    attendance = broker.daemon.runtime.broker.coordinator.rebalancer._attendance
    return {name: set(found.members) for name, found in attendance.items()}


def refused(answer: Answer, status: int, code: str) -> None:
    assert (answer.status, answer.code) == (status, code), answer.body[:1000]
    assert answer.json["error"].isprintable()
    assert len(answer.body) < 100_000


# --- names ---

PATHS = {
    "dots": "%2e%2e", "one dot": "%2E", "slash": "a%2Fb", "parent": "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "twice": "%252e%252e%252f", "nul": "%00", "backslash": "a%5Cb", "newline": "a%0d%0ax-evil:%201",
    "no utf-8": "%ff%fe", "no escape": "a%zz", "overlong": "%c0%ae%c0%ae", "plus": "a+b", "umlaut": "%C3%A4",
    "semicolon": "billing;v=1", "escape": "%1b%5b2J", "long": "n" * 300, "longest": "n" * 256, "colon": "a:b",
}  # fmt: skip
BODIES: dict[str, Any] = {
    "join": {"topics": ["t"]}, "join/cooperative": {"topics": ["t"]}, "heartbeat": {"member_id": "m"},
    "heartbeat/cooperative": {"member_id": "m"}, "revoke": {"member_id": "m", "revoked_partitions": []},
    "leave": {"member_id": "m"}, "leave/cooperative": {"member_id": "m"}, "settle": {"member_id": "m"},
    "offsets": {"member_id": "m", "offsets": {}}, "offsets/reset": {"topic": "t", "to": "latest"},
}  # fmt: skip
ASKED = ["", "/offsets", "/cooperative", "/rebalance/stats", "/assignment?member_id=m", "/poll?member_id=m"]


@pytest.mark.parametrize("name", PATHS.values(), ids=PATHS)
def test_names_that_could_mean_something_else_are_of_no_group(url: str, name: str) -> None:
    for path, body in BODIES.items():
        refused(ask(url, "POST", f"/groups/{name}/{path}", body), 400, "group_name_invalid")
    for path in ASKED:
        refused(ask(url, "GET", f"/groups/{name}{path}"), 400, "group_name_invalid")
    refused(ask(url, "DELETE", f"/groups/{name}"), 400, "group_name_invalid")


@pytest.mark.parametrize("path", ["/groups/../topics/t", "/groups/billing/../../etc", "//groups/billing", "/groups//"])
def test_paths_are_not_simplified(url: str, path: str) -> None:
    assert ask(url, "GET", path).status in (400, 404)


def test_groups_of_the_brokers_own_are_nobodys(url: str) -> None:
    for path in ("join", "join/cooperative", "offsets/reset"):
        refused(ask(url, "POST", f"/groups/__dead_letters/{path}", BODIES[path]), 400, "group_name_invalid")


def test_groups_that_are_only_asked_for_leave_nothing_behind(broker: LocalBroker) -> None:
    url, coordinator = broker.url, broker.daemon.runtime.broker.coordinator
    before = len(coordinator.deadlines._armed)
    for number in range(400):
        name = f"invented-{number}"
        for path in (*ASKED, "/nowhere"):
            assert ask(url, "GET", f"/groups/{name}{path}").status == 404
        for path in ("heartbeat", "leave", "settle", "offsets", "revoke"):
            assert ask(url, "POST", f"/groups/{name}/{path}", BODIES[path]).code == "group_not_found"
        assert ask(url, "DELETE", f"/groups/{name}").code == "group_not_found"
    assert set(known(broker)) == {"billing"}
    assert coordinator.ledger.group_count == 1
    assert len(coordinator.deadlines._armed) <= before


def test_members_that_are_only_asked_for_leave_nothing_behind(broker: LocalBroker) -> None:
    for number in range(150):
        name = f"invented-{number}"
        for path in ("heartbeat", "leave", "settle", "offsets", "revoke"):
            body = {**BODIES[path], "member_id": name}
            assert ask(broker.url, "POST", f"/groups/billing/{path}", body).code == "member_unknown"
        for path in ("assignment", "poll"):
            assert ask(broker.url, "GET", f"/groups/billing/{path}?member_id={name}").code == "member_unknown"
    assert len(known(broker)["billing"]) == 1


def test_whoever_is_refused_when_joining_leaves_nothing_behind(broker: LocalBroker) -> None:
    for number in range(200):
        refused(ask(broker.url, "POST", f"/groups/g{number}/join", {"topics": [f"n{number}"]}), 404, "topic_not_found")
    assert set(known(broker)) == {"billing"}


def test_member_ids_are_compared_and_not_understood(url: str) -> None:
    for name in ("../../etc", "a/b", "\x00", "\x1b[2J", "billing/..", "' or 1=1", "n" * 300, "ä\u202e", "{}"):
        refused(ask(url, "POST", "/groups/billing/heartbeat", {"member_id": name}), 409, "member_unknown")
    for none in ("", "n" * 301, None, 5, "\ud800"):
        refused(ask(url, "POST", "/groups/billing/heartbeat", {"member_id": none}), 400, "request_invalid")


# --- receipts ---


def test_receipts_that_nobody_gave_are_refused(url: str) -> None:
    lease = "0123456789abcdefghijklmnopqrstuvw"
    forged = {
        "nothing": "", "a word": "receipt", "no lease": "t:0:0:1:", "short lease": "t:0:0:1:0",
        "other lease": f"t:0:0:1:{lease}", "negative": f"t:-1:0:1:{lease}",
        "huge partition": f"t:{'9' * 20}:0:1:{lease}", "huge offset": f"t:0:{2**64}:1:{lease}",
        "no attempt": f"t:0:0:0:{lease}", "other digits": f"t:\u0660:0:1:{lease}", "a line": f"t:0:0:1:{lease}\n",
        "nul": f"t:0:0:1:{lease}\0", "a path": f"../t:0:0:1:{lease}", "large letters": f"t:0:0:1:{lease.upper()}",
        "escape": "\x1b[2J", "signs": f"t:+0:0:1:{lease}", "zeros": f"t:00:0:1:{lease}",
        "far log": f"t:0:0:1:z{'0' * 32}",
    }  # fmt: skip
    for verb in ("ack", "nack", "reject", "visibility"):
        more = {"timeout": "1m"} if verb == "visibility" else {}
        for handle in forged.values():
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
    """What the member has in hand."""
    cursor = broker.daemon.runtime.broker.coordinator.ledger.cursors("billing")["t", 0]
    return {"topic": "t", "partition": 0, "lease": next(iter(cursor.leases)), "first": 0, "end": 2}


@pytest.mark.parametrize("verb", ["acks", "nacks", "releases"])
def test_ranges_beyond_a_lease_are_refused_in_no_time(member: Member, lease: dict[str, Any], verb: str) -> None:
    for found in ((0, 2**63 - 1), (1, 2**62), (2, 3), (2**63 - 2, 2**63 - 1), (0, 3)):
        answer = member.settle(**{verb: [of(lease, found)]})
        assert answer[verb][0]["error"]["code"] == "lease_expired"


@pytest.mark.parametrize("verb", ["acks", "nacks", "rejects", "releases"])
@pytest.mark.parametrize("found", [(1, 0), (0, 0), (2**63 - 1, 0), (2**63 - 1, 2**63 - 1)])
def test_ranges_that_hold_nothing_are_refused(
    member: Member, lease: dict[str, Any], verb: str, found: tuple[int, int]
) -> None:
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
    "ranges",
    [
        "[]", "[[]]", "[[0]]", "[[0, 1, 2]]", "[[-1, 1]]", "[[0, 0.5]]", "[[0, 9223372036854775808]]", '[["0", "1"]]',
        "[[0, true]]", "[[null, 1]]", "{}", "0", "[[0, 1e400]]", "[[0, " + "9" * 1_000_000 + "]]", "[" * 5000,
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_ranges_that_are_none_are_refused(member: Member, lease: dict[str, Any], ranges: str) -> None:
    body = json.dumps({"member_id": member.id, "acks": [of(lease)]}).replace("[[0, 2]]", ranges)
    refused(member.ask("POST", "/settle", body.encode()), 400, "request_invalid")


@pytest.mark.parametrize(
    "more",
    [
        {"delay": -1}, {"delay": "13h"}, {"delay": "soon"}, {"delay": 1e300}, {"reason": "x" * 501}, {"reason": 5},
        {"partition": -1}, {"partition": 1000}, {"partition": 2**63}, {"partition": 0.5}, {"lease": "n" * 401},
        {"lease": None}, {"topic": None}, {"unknown": 1}, {"reason": "\ud800"},
    ],
    ids=str,
)  # fmt: skip
def test_entries_that_mean_nothing_are_refused(member: Member, lease: dict[str, Any], more: dict[str, Any]) -> None:
    body = {"member_id": member.id, "acks": [of(lease, (0, 1))], "nacks": [{**of(lease, (1, 2)), **more}]}
    refused(member.ask("POST", "/settle", body), 400, "request_invalid")


def test_places_that_are_not_there_are_no_leases(member: Member, lease: dict[str, Any]) -> None:
    for more in ({"partition": 999}, {"topic": "nowhere"}, {"topic": ".."}, {"lease": ""}, {"lease": "\x1b[2J"}):
        answer = member.settle(acks=[{**of(lease), **more}])
        assert answer["acks"][0]["error"]["code"] == "lease_expired"
        assert answer["acks"][0]["error"]["error"].isprintable()


@pytest.mark.parametrize("topic", ["../t", "\x1b[2J", "t\n", "", "t" * 256, "t\x00", "\u202et"])
def test_places_that_cannot_be_are_refused(member: Member, lease: dict[str, Any], topic: str) -> None:
    place = {"topic": topic, "partition": 0}
    bodies: dict[str, Any] = {
        "settle": {"acks": [{**of(lease), **place}]},
        "revoke": {"revoked_partitions": [place]},
        "offsets": {"offsets": {topic: {"0": 1}}},
    }
    for path, body in bodies.items():
        refused(member.ask("POST", f"/{path}", {"member_id": member.id, **body}), 400, "request_invalid")


# --- numbers and texts ---


@pytest.mark.parametrize("generation", [-1, 0.5, 2**31, 2**63, "1", True, "9" * 1000])
def test_generations_that_are_none_are_refused(member: Member, generation: Any) -> None:
    bodies: dict[str, Any] = {
        "heartbeat": {},
        "revoke": {"revoked_partitions": []},
        "settle": {},
        "offsets": {"offsets": {}},
    }
    for path, more in bodies.items():
        body = {"member_id": member.id, "generation": generation, **more}
        refused(member.ask("POST", f"/{path}", body), 400, "request_invalid")


@pytest.mark.parametrize("generation", [0, 2, 2**31 - 1])
def test_generations_that_never_were_are_stale(member: Member, generation: int) -> None:
    bodies: dict[str, Any] = {"heartbeat": {}, "settle": {}, "revoke": {"revoked_partitions": []}}
    for path, more in bodies.items():
        body = {"member_id": member.id, "generation": generation, **more}
        refused(member.ask("POST", f"/{path}", body), 409, "generation_stale")


@pytest.mark.parametrize("digits", [20, 5000, 1_000_000])
def test_numbers_without_end_are_refused(member: Member, digits: int) -> None:
    number = "9" * digits
    for path, body in {
        "heartbeat": f'{{"member_id":"m","generation":{number}}}',
        "offsets": f'{{"member_id":"m","offsets":{{"t":{{"0":{number}}}}}}}',
        "offsets/reset": f'{{"topic":"t","to":"shift","shift":-{number}}}',
        "join": f'{{"topics":["t"],"session_timeout":{number}}}',
        "revoke": f'{{"member_id":"m","revoked_partitions":[{{"topic":"t","partition":{number}}}]}}',
    }.items():
        refused(member.ask("POST", f"/{path}", body.encode()), 400, "request_invalid")


@pytest.mark.parametrize(
    "wishes",
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
def test_wishes_that_cannot_be_are_refused(url: str, wishes: dict[str, Any]) -> None:
    refused(ask(url, "POST", "/groups/new/join", {"topics": ["t"], **wishes}), 400, "request_invalid")


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


def test_places_of_others_cannot_be_given_up(url: str, member: Member) -> None:
    other = Member(url, "other", topics=["t"], cooperative=True).join()
    answer = other.say("/revoke", revoked_partitions=[{"topic": "t", "partition": 0}])
    assert (answer["generation"], answer["pending_count"]) == (1, 0)
    assert len(member.assignment()["partitions"]) == len(other.assignment()["partitions"]) == 1
    be_gone(other)


@pytest.mark.parametrize("path", ["join", "heartbeat", "settle", "offsets"])
def test_bodies_that_are_none_are_refused(url: str, path: str) -> None:
    for body in (
        b"",
        b"[]",
        b"null",
        b'{"member_id":"m"',
        b'{"member_id":"m","member_id":"n"}',
        b"\xff",
        b"[" * 100_000,
    ):
        refused(ask(url, "POST", f"/groups/billing/{path}", body), 400, "request_invalid")


def test_the_type_of_an_answer_is_one_that_there_is(url: str) -> None:
    other = Member(url, "other", topics=["t"]).join()
    for accept in ("text/html", "application/vnd.goqueue.frames", "\x9b31m", "*/*", "a" * 5000):
        answer = other.polled({"accept": accept}, max_messages=1)
        assert answer.headers["content-type"] == "application/json"
        assert len(answer.json["messages"]) == 1
    be_gone(other)


# --- what reaches the log of the broker ---


def test_nothing_that_a_terminal_obeys_reaches_the_log(tmp_path: Path) -> None:
    evil = "\x1b[2J\r\nERROR forged\x07 \x9b31m"
    with Served("--data-dir", str(tmp_path / "data"), "--log-level", "debug", "--log-requests", "1000") as served:
        url = served.url
        create(url, "t")
        publish(url, "t", "a")
        member = Member(url, topics=["t"], client_id="<b>\u00e4</b>").join()
        refused(ask(url, "POST", "/groups/g/join", {"topics": ["t"], "client_id": evil}), 400, "request_invalid")
        refused(ask(url, "POST", "/groups/billing/heartbeat", {"member_id": evil}), 409, "member_unknown")
        refused(ask(url, "POST", "/messages/ack", {"receipt_handle": evil}), 400, "receipt_invalid")
        refused(ask(url, "GET", "/groups/%1b%5b2J%0d%0aERROR%20forged"), 400, "group_name_invalid")
        (lease,) = member.lease()
        member.settle(rejects=[of(lease, reason=evil)])
        _, said = served.stop()
    lines = said.splitlines()
    assert all(line.isprintable() for line in lines), lines
    assert not [line for line in lines if line.startswith(("forged", "ERROR forged"))]
