"""Transactions over HTTP: begun, written to, ended; fenced, repeated, too late; and what is refused."""

from pathlib import Path
from typing import Any

import pytest

from goqueue.limits import EPOCH_MAX
from goqueue.runtime import transaction_runner
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.api.wire import frames, section, send, until
from tests.brokers import Answer, ask, create, publish

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
    """Call init with a former identity."""
    return ask(url, "POST", "/producers/init", whose)


def call(url: str, what: str, whose: Whose, **fields: Any) -> Answer:
    return ask(url, "POST", f"/transactions/{what}", {**whose, **fields})


def begun(url: str, name: str = "app-1", **fields: Any) -> Whose:
    whose = init(url, name, **fields)
    done(call(url, "begin", whose))
    return whose


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


def test_only_visible_messages_count_as_messages(url: str) -> None:
    publish(url, "t", "plain", partition=0)
    for end in ("commit", "abort"):
        whose = init(url, end)
        done(call(url, "begin", whose))
        put(url, whose, "first")
        put(url, whose, "second", partition=1)
        done(call(url, end, whose))
    whose = init(url, "open")
    done(call(url, "begin", whose))
    put(url, whose, "third", partition=2)
    topic = done(ask(url, "GET", "/topics/t"))
    offsets = sum(one["latest"] - one["earliest"] for one in topic["partition_offsets"].values())
    assert (topic["total_messages"], topic["other_records"], offsets) == (3, 7, 10)
    assert done(ask(url, "GET", "/stats"))["topic_stats"]["t"]["messages"] == 3


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


def test_open_transaction_holds_back_later_messages_until_it_ends(url: str) -> None:
    whose = begun(url)
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
        {"topic": "t", "partition": 0, "delayed": False, "first_offset": 0, "messages": 2, "held_back": 2}
    ]
    assert done(ask(url, "GET", "/transactions"))["transactions"] == []


def test_every_end_raises_the_epoch_so_a_late_call_does_not_touch_the_next_transaction(url: str) -> None:
    whose = begun(url)
    following = next_of(done(call(url, "abort", whose)), whose)
    done(call(url, "begin", following))
    put(url, following, "of the next")

    refused(call(url, "commit", whose), 409, "transaction_aborted")
    refused(call(url, "begin", whose), 409, "transaction_aborted")
    refused(call(url, "publish", whose, topic="t", value="late"), 409, "transaction_aborted")

    assert of(url)["state"] == "ongoing"
    done(call(url, "commit", following))


def test_an_end_that_is_repeated_is_answered_as_the_first_time(url: str) -> None:
    whose = begun(url)
    put(url, whose, "one")

    first, second = done(call(url, "commit", whose)), done(call(url, "commit", whose))

    assert first == second
    assert position(url)["latest"] == 2  # one message, one marker
    refused(call(url, "abort", whose), 409, "transaction_not_open", "committed before")


def test_an_abort_may_be_repeated_and_is_no_commit(url: str) -> None:
    whose = begun(url)
    assert done(call(url, "abort", whose)) == done(call(url, "abort", whose, reason="again"))
    assert refused(call(url, "commit", whose), 409, "transaction_aborted")["reason"] == "asked"


def test_an_empty_transaction_ends_as_any_other(url: str) -> None:
    whose = begun(url)
    assert done(call(url, "begin", whose))["state"] == "ongoing"  # repeated
    assert done(call(url, "commit", whose))["state"] == "complete_commit"


def test_transaction_that_was_not_begun_is_refused(url: str) -> None:
    whose = init(url)
    refused(call(url, "publish", whose, topic="t", value="x"), 409, "transaction_not_open", "begin")
    refused(call(url, "commit", whose), 409, "transaction_not_open")
    refused(call(url, "abort", whose), 409, "transaction_not_open")
    refused(call(url, "add-partition", whose, topic="t", partition=0), 409, "transaction_not_open")


def test_a_partition_can_be_named_before_anything_is_written_there(url: str) -> None:
    whose = begun(url)
    assert done(call(url, "add-partition", whose, topic="t", partition=1))["added"]
    assert of(url)["partitions"] == [
        {"topic": "t", "partition": 1, "delayed": False, "first_offset": None, "messages": 0, "held_back": 0}
    ]
    refused(call(url, "add-partition", whose, topic="t", partition=7), 404, "partition_not_found")
    refused(call(url, "add-partition", whose, topic="nix", partition=0), 404, "topic_not_found")
    done(call(url, "commit", whose))
    assert position(url, 1)["latest"] == 0


# --- who ---


def test_init_aborts_the_open_transaction_and_fences_its_producer(url: str) -> None:
    zombie = begun(url)
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


def test_init_with_the_current_epoch_continues_and_can_be_repeated(url: str) -> None:
    whose = begun(url)
    following = done(call_init(url, whose))  # what was open is aborted
    assert following["epoch"] == whose["epoch"] + 2
    assert of(url)["last"]["state"] == "complete_abort"
    assert done(call_init(url, whose)) == following
    done(call(url, "begin", whose | {"epoch": following["epoch"]}))
    refused(call_init(url, whose), 409, "producer_fenced")


@pytest.mark.parametrize("left_out", ["transactional_id", "producer_id", "epoch"])
def test_incomplete_former_identity_is_refused(unchanged: str, left_out: str) -> None:
    whose = {name: value for name, value in init(unchanged).items() if name != left_out}
    refused(call_init(unchanged, whose), 400, "request_invalid")


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
    refused(send(url, body), 409, "transaction_not_open", str(whose["producer_id"]))


def test_heartbeat_needs_the_current_epoch(url: str) -> None:
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
def test_a_transactional_id_is_fit_for_a_path_and_a_terminal(unchanged: str, name: str) -> None:
    refused(
        ask(unchanged, "POST", "/producers/init", {"transactional_id": name}),
        400,
        "request_invalid",
        "transactional_id",
    )


@pytest.mark.parametrize("timeout", [0, 999, 900_001, -5, 2**63, "1s"])
def test_a_timeout_has_bounds(unchanged: str, timeout: Any) -> None:
    body = {"transactional_id": "a", "transaction_timeout_ms": timeout}
    refused(ask(unchanged, "POST", "/producers/init", body), 400, "request_invalid", "transaction_timeout_ms")


@pytest.mark.parametrize("fields", [{"epoch": -1}, {"epoch": EPOCH_MAX + 1}, {"producer_id": 2**63}, {"epoch": 1.5}])
def test_invalid_numbers_are_refused(unchanged: str, fields: dict[str, Any]) -> None:
    refused(call(unchanged, "begin", {**init(unchanged), **fields}), 400, "request_invalid")


# --- publishing ---


def test_with_a_sequence_a_retry_is_known_and_a_gap_is_refused(url: str) -> None:
    whose = begun(url)

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
    refused(send(url, section(1, foreign), query=query), 400, "frame_invalid", "is not in transaction")
    for wrong in (frames([b"a"], (number, epoch, 2)), frames([b"a"], flags=frame.TRANSACTIONAL)):
        refused(send(url, section(1, wrong), query=query), 400, "frame_invalid")
    refused(send(url, section(1, content)), 400, "frame_invalid", "not published in a transaction")


def test_transaction_needs_producer_id_and_epoch(unchanged: str) -> None:
    body = {"messages": [{"value": "x"}]}
    refused(ask(unchanged, "POST", "/topics/t/messages?producer_id=1", body), 400, "request_invalid", "epoch")
    refused(ask(unchanged, "POST", "/topics/t/messages?epoch=1", body), 400, "request_invalid", "producer_id")
    refused(ask(unchanged, "POST", "/topics/t/messages?begin=true", body), 400, "request_invalid", "producer_id")


# --- members ---


def test_commit_keeps_only_messages_of_named_members(url: str) -> None:
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


def test_transaction_statistics_are_returned(url: str) -> None:
    for number, what in enumerate(("commit", "commit", "abort")):
        whose = begun(url, f"app-{number}")
        done(call(url, what, whose))
    begun(url, "open")

    stats = done(ask(url, "GET", "/transactions/stats"))

    assert (stats["committed_total"], stats["aborted_total"], stats["active_transactions"]) == (2, 1, 1)
    assert stats["aborted_by_reason"] == {"asked": 1}
    assert stats["transactional_ids"] == 4
    assert stats["avg_duration"] > 0
    listed = done(ask(url, "GET", "/transactions?state=all&limit=2"))
    assert (len(listed["transactions"]), listed["total"]) == (2, 4)
    [one] = done(ask(url, "GET", "/transactions?transactional_id=open"))["transactions"]
    assert one["state"] == "ongoing"
    refused(ask(url, "GET", "/transactions/unknown"), 404, "producer_not_found")


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


def test_transaction_description_counts_its_acks(url: str) -> None:
    publish(url, "t", "a", "b", partition=0)
    whose = begun(url)
    done(call(url, "offsets", whose, group="billing", offsets={"t": {"0": 2}}))
    assert of(url)["pledged"] == {"billing": 2}
    [listed] = done(ask(url, "GET", "/transactions"))["transactions"]
    assert (listed["pledged"], listed["groups"]) == (None, ["billing"])
    group = done(ask(url, "GET", "/groups/billing"))
    assert group["lag"]["t"]["0"]["pledged"] == 2
    done(call(url, "commit", whose))
    assert of(url)["pledged"] == {}


def test_lists_of_topics_say_what_is_held_back(url: str) -> None:
    whose = begun(url)
    put(url, whose, "one", partition=1)
    publish(url, "t", "of another", partition=1)
    [row] = done(ask(url, "GET", "/topics?details=true"))["details"]
    assert row["held_back"] == 2
    done(call(url, "abort", whose))
    [row] = done(ask(url, "GET", "/topics?details=true"))["details"]
    assert row["held_back"] == 0


@pytest.mark.parametrize("reason", ["asked", "restart"])
def test_reason_of_a_client_is_quoted_even_if_it_is_a_word_of_the_broker(url: str, reason: str) -> None:
    whose = begun(url)
    ended = done(call(url, "abort", whose, reason=reason))

    again = done(call(url, "abort", whose, reason=reason))
    details = refused(call(url, "commit", whose), 409, "transaction_aborted")

    assert again == ended
    assert details["reason"] == f"'{reason}'"
    assert done(ask(url, "GET", "/transactions/stats"))["aborted_by_reason"] == {"asked": 1}


def test_unknown_producer_does_not_create_a_topic(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data"), topics__auto_create="true") as broker:
        message = {"messages": [{"value": "x"}]}
        path = "/topics/new/messages?producer_id=99&epoch=0&begin=true"
        refused(ask(broker.url, "POST", path, message), 409, "unknown_producer")
        refused(ask(broker.url, "GET", "/topics/new"), 404, "topic_not_found")


def test_many_timed_out_transactions_are_aborted_in_parts(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_runner, "_TOGETHER", 2)
    for number in range(7):
        whose = begun(url, f"app-{number}", transaction_timeout_ms=1000)
        put(url, whose, "never seen")

    until(url, lambda: done(ask(url, "GET", "/transactions"))["total"] == 0)

    assert done(ask(url, "GET", "/transactions/stats"))["aborted_by_reason"] == {"timeout": 7}
    assert done(ask(url, "GET", "/topics/t/partitions/0/messages"))["messages"] == []
