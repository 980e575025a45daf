"""Transactions over HTTP: begun, written to, ended; fenced, repeated, too late; and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from goqueue.limits import EPOCH_MAX
from goqueue.runtime import notary
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.members import PATIENCE, Member
from tests.api.members import of as of_lease
from tests.api.wire import frames, section, send, until
from tests.brokers import Answer, ask, broker, create, publish

__all__ = ["broker"]

Whose = dict[str, Any]


@pytest.fixture
def url(broker: LocalBroker) -> str:
    create(broker.url, "t", partitions=3)
    return broker.url


def init(url: str, name: str = "app-1", **fields: Any) -> Whose:
    answer = ask(url, "POST", "/producers/init", {"transactional_id": name, **fields})
    assert answer.status == 200, answer.body
    return {name: answer.json[name] for name in ("producer_id", "epoch", "transactional_id")}


def call_init(url: str, whose: Whose) -> Answer:
    """By somebody who had this before."""
    return ask(url, "POST", "/producers/init", whose)


def call(url: str, what: str, whose: Whose, **fields: Any) -> Answer:
    return ask(url, "POST", f"/transactions/{what}", {**whose, **fields})


def done(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


def refused(answer: Answer, status: int, code: str, place: str = "") -> dict[str, Any]:
    assert (answer.status, answer.code) == (status, code), answer.body
    assert place in str(answer.json), answer.body
    details: dict[str, Any] = answer.json.get("details", {})
    return details


def put(url: str, whose: Whose, value: str, **fields: Any) -> dict[str, Any]:
    given = {"topic": "t", "partition": 0, "value": value, **fields}
    return done(ask(url, "POST", "/transactions/publish", {**whose, **given}))


def next_of(ended: dict[str, Any], whose: Whose) -> Whose:
    return {**whose, "producer_id": ended["producer_id"], "epoch": ended["epoch"]}


def of(url: str, name: str = "app-1") -> dict[str, Any]:
    return done(ask(url, "GET", f"/transactions/{name}"))


def position(url: str, partition: int = 0) -> dict[str, Any]:
    found: list[dict[str, Any]] = ask(url, "GET", "/topics/t/partitions").json["partitions"]
    return found[partition]


# --- its life ---


def test_a_transaction_is_begun_written_to_and_committed(url: str) -> None:
    whose = init(url)

    begun = done(call(url, "begin", whose))
    first, second = put(url, whose, "one"), put(url, whose, "two", partition=2)
    ended = done(call(url, "commit", whose))

    assert begun["transaction_id"] == f"{whose['producer_id']}-{whose['epoch']}"
    assert (first["offset"], first["duplicate"], second["partition"]) == (0, False, 2)
    assert ended == {
        "transaction_id": begun["transaction_id"],
        "state": "complete_commit",
        "producer_id": whose["producer_id"],
        "epoch": whose["epoch"] + 1,
    }
    assert of(url)["last"]["state"] == "complete_commit"


def test_what_is_open_holds_back_what_comes_behind_it_until_it_ends(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    put(url, whose, "one")
    put(url, whose, "two")

    [listed] = done(ask(url, "GET", "/transactions"))["transactions"]
    before = position(url)
    done(call(url, "abort", whose))
    after = position(url)

    assert (before["last_stable"], before["high_watermark"]) == (0, 2)
    assert (after["last_stable"], after["high_watermark"]) == (3, 3)  # with the marker
    assert listed["transactional_id"] == "app-1"
    assert listed["partitions"] == [
        {"topic": "t", "partition": 0, "delayed": False, "first_offset": 0, "messages": 2, "held_back": 2},
    ]
    assert done(ask(url, "GET", "/transactions"))["transactions"] == []


def test_every_end_raises_the_epoch_so_a_late_call_does_not_touch_the_next_transaction(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    following = next_of(done(call(url, "abort", whose)), whose)
    done(call(url, "begin", following))
    put(url, following, "of the next")

    refused(call(url, "commit", whose), 409, "transaction_aborted")
    refused(call(url, "begin", whose), 409, "transaction_aborted")
    refused(call(url, "publish", whose, topic="t", value="late"), 409, "transaction_aborted")

    assert of(url)["state"] == "ongoing"
    done(call(url, "commit", following))


def test_an_end_that_is_repeated_is_answered_as_the_first_time(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    put(url, whose, "one")

    first, second = done(call(url, "commit", whose)), done(call(url, "commit", whose))

    assert first == second
    assert position(url)["latest"] == 2  # one message, one marker
    refused(call(url, "abort", whose), 409, "transaction_not_open", "committed before")


def test_an_abort_may_be_repeated_and_is_no_commit(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    assert done(call(url, "abort", whose)) == done(call(url, "abort", whose, reason="again"))
    assert refused(call(url, "commit", whose), 409, "transaction_aborted")["reason"] == "asked"


def test_an_empty_transaction_ends_as_any_other(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    assert done(call(url, "begin", whose))["state"] == "ongoing"  # repeated
    assert done(call(url, "commit", whose))["state"] == "complete_commit"


def test_nothing_happens_in_a_transaction_that_was_not_begun(url: str) -> None:
    whose = init(url)
    refused(call(url, "publish", whose, topic="t", value="x"), 409, "transaction_not_open", "begin")
    refused(call(url, "commit", whose), 409, "transaction_not_open")
    refused(call(url, "abort", whose), 409, "transaction_not_open")
    refused(call(url, "add-partition", whose, topic="t", partition=0), 409, "transaction_not_open")


def test_a_partition_can_be_named_before_anything_is_written_there(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    assert done(call(url, "add-partition", whose, topic="t", partition=1))["added"]
    assert of(url)["partitions"] == [
        {"topic": "t", "partition": 1, "delayed": False, "first_offset": None, "messages": 0, "held_back": 0}
    ]
    refused(call(url, "add-partition", whose, topic="t", partition=7), 404, "partition_not_found")
    refused(call(url, "add-partition", whose, topic="nix", partition=0), 404, "topic_not_found")
    done(call(url, "commit", whose))
    assert position(url, 1)["latest"] == 0


# --- who ---


def test_whoever_takes_the_id_aborts_what_its_predecessor_left_and_fences_it(url: str) -> None:
    zombie = init(url)
    done(call(url, "begin", zombie))
    put(url, zombie, "lost")

    heir = init(url)

    assert heir["epoch"] > zombie["epoch"]
    assert of(url)["last"]["state"] == "complete_abort"
    for what in ("begin", "commit", "abort"):
        refused(call(url, what, zombie), 409, "producer_fenced")
    refused(call(url, "publish", zombie, topic="t", value="x"), 409, "producer_fenced")
    done(call(url, "begin", heir))
    put(url, heir, "kept")
    done(call(url, "commit", heir))


def test_a_zombie_whose_transaction_timed_out_does_not_take_the_id_back(url: str) -> None:
    zombie = init(url)
    done(call(url, "begin", zombie))
    done(call(url, "abort", zombie, reason="timeout"))
    heir = init(url)
    refused(call_init(url, zombie), 409, "producer_fenced", "by now")
    done(call(url, "begin", heir))
    refused(call_init(url, zombie), 409, "producer_fenced")


def test_who_names_the_epoch_that_it_had_goes_on_and_is_answered_the_same_again(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    following = done(call_init(url, whose))  # what was open is aborted
    assert following["epoch"] == whose["epoch"] + 2
    assert of(url)["last"]["state"] == "complete_abort"
    assert done(call_init(url, whose)) == following
    done(call(url, "begin", whose | {"epoch": following["epoch"]}))
    refused(call_init(url, whose), 409, "producer_fenced")


def test_who_had_an_epoch_that_has_ended_goes_on(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    ended = done(call(url, "commit", whose))
    assert done(call_init(url, whose))["epoch"] == ended["epoch"] + 1


@pytest.mark.parametrize("left_out", ["transactional_id", "producer_id", "epoch"])
def test_half_of_what_a_producer_had_is_refused(url: str, left_out: str) -> None:
    whose = {name: value for name, value in init(url).items() if name != left_out}
    refused(call_init(url, whose), 400, "request_invalid")


def test_an_epoch_that_was_never_given_out_is_refused(url: str) -> None:
    whose = init(url)
    refused(call(url, "begin", {**whose, "epoch": whose["epoch"] + 1}), 409, "unknown_producer", "never given out")
    refused(call(url, "begin", {**whose, "producer_id": 10**9}), 409, "producer_fenced", "belongs to producer")
    unknown = {"producer_id": 10**9, "epoch": 0, "transactional_id": "other"}
    for what in ("begin", "commit", "abort"):
        refused(call(url, what, unknown), 409, "unknown_producer", "never given out")
    refused(call_init(url, unknown), 409, "unknown_producer", "never given out")
    ahead = {**whose, "epoch": whose["epoch"] + 1}
    refused(call_init(url, ahead), 409, "unknown_producer", "never given out")
    refused(call(url, "begin", {**whose, "transactional_id": "other"}), 404, "producer_not_found", "other")


def test_a_producer_with_a_transactional_id_publishes_in_transactions_only(url: str) -> None:
    whose = init(url)
    body = section(0, frames([b"x"], (whose["producer_id"], whose["epoch"], 0)))
    refused(send(url, body), 409, "transaction_not_open", "app-1")


def test_a_heartbeat_is_for_whoever_has_the_epoch(url: str) -> None:
    whose = init(url)
    path = f"/producers/{whose['producer_id']}/heartbeat"
    assert done(ask(url, "POST", path, {"epoch": whose["epoch"]})) == {"ok": True}
    assert done(ask(url, "POST", path, {"epoch": whose["epoch"], "transactional_id": "app-1"})) == {"ok": True}
    init(url)
    refused(ask(url, "POST", path, {"epoch": whose["epoch"]}), 409, "producer_fenced")
    plain = done(ask(url, "POST", "/producers/init", {}))["producer_id"]
    assert done(ask(url, "POST", f"/producers/{plain}/heartbeat", {"epoch": 0})) == {"ok": True}
    refused(ask(url, "POST", "/producers/999999999/heartbeat", {"epoch": 0}), 409, "unknown_producer")
    for stranger in ("x", "-1", "1" * 30):
        refused(ask(url, "POST", f"/producers/{stranger}/heartbeat", {"epoch": 0}), 404, "producer_not_found")


@pytest.mark.parametrize("name", ["a b", "a/b", "ü", "\x1b[31m", "", "x" * 256, ".", "..", "stats"])
def test_a_transactional_id_is_fit_for_a_path_and_a_terminal(url: str, name: str) -> None:
    refused(ask(url, "POST", "/producers/init", {"transactional_id": name}), 400, "request_invalid", "transactional_id")


@pytest.mark.parametrize("timeout", [0, 999, 900_001, -5, 2**63, "1s"])
def test_a_timeout_has_bounds(url: str, timeout: Any) -> None:
    body = {"transactional_id": "a", "transaction_timeout_ms": timeout}
    refused(ask(url, "POST", "/producers/init", body), 400, "request_invalid", "transaction_timeout_ms")


@pytest.mark.parametrize("fields", [{"epoch": -1}, {"epoch": EPOCH_MAX + 1}, {"producer_id": 2**63}, {"epoch": 1.5}])
def test_numbers_that_are_none_are_refused(url: str, fields: dict[str, Any]) -> None:
    refused(call(url, "begin", {**init(url), **fields}), 400, "request_invalid")


# --- publishing ---


def test_messages_without_a_sequence_follow_each_other(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    assert [put(url, whose, str(number))["offset"] for number in range(7)] == list(range(7))


def test_with_a_sequence_a_retry_is_known_and_a_gap_is_refused(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))

    first = put(url, whose, "a", sequence=0)
    again = put(url, whose, "a", sequence=0)

    assert again == {**first, "duplicate": True}
    refused(call(url, "publish", whose, topic="t", partition=0, value="c", sequence=2), 409, "sequence_out_of_order")


def test_many_messages_go_to_where_their_keys_belong_in_one_request(url: str) -> None:
    whose = init(url)
    query = f"producer_id={whose['producer_id']}&epoch={whose['epoch']}&begin=true"
    body = {"messages": [{"key": f"k{number}", "value": str(number)} for number in range(20)]}

    results = done(ask(url, "POST", f"/topics/t/messages?{query}", body))["results"]

    assert len({one["partition"] for one in results}) == 3
    assert len(of(url)["partitions"]) == 3
    assert done(call(url, "commit", whose))["state"] == "complete_commit"
    refused(ask(url, "POST", f"/topics/t/messages?{query}", body), 409, "transaction_not_open", "committed before")


def test_frames_are_of_the_transaction_that_their_mark_names(url: str) -> None:
    whose = init(url)
    number, epoch = whose["producer_id"], whose["epoch"]
    query = f"producer_id={number}&epoch={epoch}"
    content = frames([b"a", b"b"], (number, epoch, 0), flags=frame.TRANSACTIONAL)

    refused(send(url, section(1, content), query=query), 409, "transaction_not_open")
    sent = done(send(url, section(1, content), query=query + "&begin=true"))["results"][0]
    again = done(send(url, section(1, content), query=query))["results"][0]

    assert (sent["first_offset"], sent["next_offset"], again["duplicate"]) == (0, 2, True)
    foreign = frames([b"a"], (number + 1, 0, 0), flags=frame.TRANSACTIONAL)
    refused(send(url, section(1, foreign), query=query), 400, "frame_invalid", "is not of transaction")
    for wrong in (frames([b"a"], (number, epoch, 2)), frames([b"a"], flags=frame.TRANSACTIONAL)):
        refused(send(url, section(1, wrong), query=query), 400, "frame_invalid")
    refused(send(url, section(1, content)), 400, "frame_invalid", "published in one")


def test_half_a_transaction_is_not_named(url: str) -> None:
    body = {"messages": [{"value": "x"}]}
    refused(ask(url, "POST", "/topics/t/messages?producer_id=1", body), 400, "request_invalid", "epoch")
    refused(ask(url, "POST", "/topics/t/messages?epoch=1", body), 400, "request_invalid", "producer_id")
    refused(ask(url, "POST", "/topics/t/messages?begin=true", body), 400, "request_invalid", "producer_id")


# --- members ---


def test_what_members_have_written_counts_if_the_commit_names_them(url: str) -> None:
    whose = init(url)
    winner = done(call(url, "join", whose, begin=True))["member_id"]
    loser = done(call(url, "join", whose))["member_id"]
    query = f"producer_id={whose['producer_id']}&epoch={whose['epoch']}"
    for member in (winner, loser):
        content = frames([f"of {member}".encode()], (member, 0, 0), flags=frame.TRANSACTIONAL)
        done(send(url, section(0, content), query=query))

    refused(call(url, "commit", whose, members=[winner, 10**6]), 400, "request_invalid", "members")
    done(call(url, "commit", whose, members=[winner], note="batch 7"))

    assert of(url)["last"]["note"] == "batch 7"
    late = frames([b"late"], (loser, 0, 1), flags=frame.TRANSACTIONAL)
    refused(send(url, section(0, late), query=query), 409, "transaction_not_open")


# --- lists ---


def test_numbers_of_transactions_are_told(url: str) -> None:
    for number, what in enumerate(("commit", "commit", "abort")):
        whose = init(url, f"app-{number}")
        done(call(url, "begin", whose))
        done(call(url, what, whose))
    done(call(url, "begin", init(url, "open")))

    stats = done(ask(url, "GET", "/transactions/stats"))

    assert (stats["committed_total"], stats["aborted_total"], stats["active_transactions"]) == (2, 1, 1)
    assert stats["aborted_by_reason"] == {"asked": 1}
    assert stats["transactional_ids"] == 4
    assert stats["avg_duration"] > 0
    listed = done(ask(url, "GET", "/transactions?state=all&limit=2"))
    assert (len(listed["transactions"]), listed["total"]) == (2, 4)
    [one] = done(ask(url, "GET", "/transactions?transactional_id=open"))["transactions"]
    assert one["state"] == "ongoing"
    refused(ask(url, "GET", "/transactions/nobody"), 404, "producer_not_found")


# --- what operators see ---


def test_the_oldest_is_listed_first_and_what_is_not_open_behind_it_by_its_last_use(url: str) -> None:
    names = ["one", "two", "three", "four"]
    whose = {name: init(url, name) for name in names}
    for name in ("three", "one"):
        done(call(url, "begin", whose[name]))
    done(call(url, "begin", whose["two"]))
    done(call(url, "commit", whose["two"]))

    def listed(query: str) -> list[str]:
        found = done(ask(url, "GET", f"/transactions?{query}"))
        return [one["transactional_id"] for one in found["transactions"]]

    assert listed("") == listed("state=ongoing") == ["three", "one"]
    assert listed("state=all") == ["three", "one", "two", "four"]
    assert listed("state=all&limit=3") == ["three", "one", "two"]
    assert listed("state=complete_commit") == ["two"]


def test_a_transaction_tells_how_long_it_has_and_what_is_its_own(url: str) -> None:
    whose = init(url, transaction_timeout_ms=30_000)
    assert of(url)["expires_in_seconds"] is None
    done(call(url, "begin", whose))
    put(url, whose, "one")
    publish(url, "t", "of another", partition=0)
    put(url, whose, "later", delay="1h")
    found = of(url)
    assert 20 < found["expires_in_seconds"] <= 30
    assert (found["messages"], found["held_back"], found["obstacle"]) == (2, 3, None)
    assert [(one["delayed"], one["messages"], one["held_back"]) for one in found["partitions"]] == [
        (False, 1, 2), (True, 1, 1),
    ]  # fmt: skip


def test_what_groups_acknowledge_in_it_is_counted_where_one_is_asked_for(url: str) -> None:
    publish(url, "t", "a", "b", partition=0)
    whose = init(url)
    done(call(url, "begin", whose))
    done(call(url, "offsets", whose, group="billing", offsets={"t": {"0": 2}}))
    assert of(url)["pledged"] == {"billing": 2}
    [listed] = done(ask(url, "GET", "/transactions"))["transactions"]
    assert (listed["pledged"], listed["groups"]) == (None, ["billing"])
    group = done(ask(url, "GET", "/groups/billing"))
    assert group["lag"]["t"]["0"]["pledged"] == 2
    done(call(url, "commit", whose))
    assert of(url)["pledged"] == {}


@pytest.mark.parametrize("settled_in", ["no transaction", "a transaction"])
def test_lease_that_ran_out_is_refused_after_another_lease_has_settled_its_messages(url: str, settled_in: str) -> None:
    publish(url, "t", "a", "b", partition=0)
    member, whose, other = Member(url).join(topics=["t"]), init(url), init(url, "app-2")
    (lost,) = member.lease(visibility_timeout="200ms")
    done(call(url, "begin", whose))
    put(url, whose, "made of a and b", partition=1)
    (again,) = member.lease(timeout=PATIENCE)
    if settled_in == "no transaction":
        assert member.settle(acks=[of_lease(again)])["acks"] == [{}]
    else:
        done(call(url, "begin", other))
        assert acked(url, other, member, again) == [None]
        done(call(url, "commit", other))
    assert acked(url, whose, member, lost) == ["lease_expired"]
    assert of(url)["pledged"] == {member.group: 0}


def test_acks_of_a_transaction_may_be_repeated_until_it_ends(url: str) -> None:
    publish(url, "t", "a", "b", partition=0)
    member, whose = Member(url).join(topics=["t"]), init(url)
    (lease,) = member.lease()
    done(call(url, "begin", whose))
    for _ in range(2):
        assert acked(url, whose, member, lease) == [None]
    assert of(url)["pledged"] == {member.group: 2}
    following = next_of(done(call(url, "commit", whose)), whose)
    refused(call(url, "acks", whose, **of_member(member, lease)), 409, "transaction_not_open")
    done(call(url, "begin", following))
    assert acked(url, following, member, lease) == ["lease_expired"]


def of_member(member: Member, lease: dict[str, Any]) -> dict[str, Any]:
    return {"group": member.group, "member_id": member.id, "acks": [of_lease(lease)]}


def acked(url: str, whose: Whose, member: Member, lease: dict[str, Any]) -> list[str | None]:
    """The code of each refusal."""
    results = done(call(url, "acks", whose, **of_member(member, lease)))["results"]
    return [result.get("error", {}).get("code") for result in results]


def test_lists_of_topics_say_what_is_held_back(url: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    put(url, whose, "one", partition=1)
    publish(url, "t", "of another", partition=1)
    [row] = done(ask(url, "GET", "/topics?details=true"))["details"]
    assert row["held_back"] == 2
    done(call(url, "abort", whose))
    [row] = done(ask(url, "GET", "/topics?details=true"))["details"]
    assert row["held_back"] == 0


# --- topics that come and go meanwhile ---


@pytest.mark.parametrize("fields", [{}, {"delay": "10ms"}])
def test_a_topic_that_was_made_anew_in_the_middle_is_another_one_of_the_transaction(
    url: str, fields: dict[str, Any]
) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    put(url, whose, "lost with its topic", **fields)
    done(ask(url, "DELETE", "/topics/t"))
    create(url, "t")
    put(url, whose, "kept", **fields)

    open_before = of(url)["partitions"]
    done(call(url, "commit", whose))

    assert [one["messages"] for one in open_before] == [0, 1]
    assert done(ask(url, "GET", "/transactions/stats"))["held_back"] == 0
    found = done(ask(url, "GET", "/topics/t/partitions/0/messages?wait=5"))["messages"]
    assert [one["value"] for one in found] == ["kept"]


@pytest.mark.parametrize("reason", ["asked", "fenced", "timeout", "restart"])
def test_a_reason_in_words_of_the_broker_is_somebody_s_words_all_the_same(url: str, reason: str) -> None:
    whose = init(url)
    done(call(url, "begin", whose))
    ended = done(call(url, "abort", whose, reason=reason))

    again = done(call(url, "abort", whose, reason=reason))
    details = refused(call(url, "commit", whose), 409, "transaction_aborted")

    assert again == ended
    assert details["reason"] == f"'{reason}'"
    assert done(ask(url, "GET", "/transactions/stats"))["aborted_by_reason"] == {"asked": 1}


def test_no_topic_is_made_for_a_producer_that_nobody_knows(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), topics__auto_create="true") as broker:
        message = {"messages": [{"value": "x"}]}
        path = "/topics/new/messages?producer_id=99&epoch=0&begin=true"
        refused(ask(broker.url, "POST", path, message), 409, "unknown_producer")
        refused(ask(broker.url, "GET", "/topics/new"), 404, "topic_not_found")


def test_many_that_run_into_their_timeout_together_are_ended_some_at_a_time(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notary, "_TOGETHER", 2)
    for number in range(7):
        whose = init(url, f"app-{number}", transaction_timeout_ms=1000)
        done(call(url, "begin", whose))
        put(url, whose, "never seen")

    until(url, lambda: done(ask(url, "GET", "/transactions"))["total"] == 0)

    assert done(ask(url, "GET", "/transactions/stats"))["aborted_by_reason"] == {"timeout": 7}
    assert done(ask(url, "GET", "/topics/t/partitions/0/messages"))["messages"] == []
