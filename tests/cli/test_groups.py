"""`goqueue-cli group`, to look at groups, against a real broker with real members."""

import csv
import json
import signal

import pytest

from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.cli.letterbox import at_work, give_up, settle
from tests.cli.programs import cli, on_a_terminal, running


def two_groups(broker: LocalBroker) -> str:
    """`billing` has done two of five messages of `orders`, `shipping` all of them."""
    create(broker.url, "orders")
    publish(broker.url, "orders", *"ab")
    settle(broker.url, lambda message: message.ack())
    publish(broker.url, "orders", *"cde")
    settle(broker.url, lambda message: message.ack(), group="shipping")
    return broker.url


@pytest.fixture(scope="module")
def url(module_broker: LocalBroker) -> str:
    """A broker with two groups, for tests that leave them as they are."""
    return two_groups(module_broker)


# --- list ---


def test_groups_are_listed_with_how_far_behind_they_are(url: str) -> None:
    done = cli(url, "group", "list")
    titles, billing, shipping = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert titles.split() == ["GROUP", "STATE", "CONDITION", "MEMBERS", "TOPICS", "LAG", "BEHIND", "DRAINS-IN"]
    assert billing.split()[:6] == ["billing", "empty", "lagging", "0", "orders", "3"]
    assert shipping.split()[:6] == ["shipping", "empty", "keeping_up", "0", "orders", "0"]
    wide = cli(url, "group", "list", "-o", "wide").out.splitlines()[0]
    assert {"INCOMING", "IN-FLIGHT", "LOST", "GENERATION"} <= set(wide.split())


def test_a_list_for_programs_has_raw_numbers(url: str) -> None:
    found = {row["name"]: row for row in json.loads(cli(url, "group", "list", "-o", "json").out)}
    assert found["billing"]["total_lag"] == 3
    assert found["billing"]["topics"] == ["orders"]
    assert found["billing"]["drain_seconds"] is None
    (line,) = csv.DictReader(cli(url, "group", "list", "ship*", "-o", "csv").out.splitlines())
    assert (line["name"], line["total_lag"]) == ("shipping", "0")


def test_a_pattern_chooses_groups_by_their_names(url: str) -> None:
    assert cli(url, "group", "list", "bill*", "-o", "name").out == "billing\n"
    nothing = cli(url, "group", "list", "x*")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "there are no groups like x*\n")
    assert cli(url, "group", "list", "x*", "-o", "json").out == "[]\n"


# --- describe ---


def test_a_description_has_facts_members_and_partitions(broker: LocalBroker) -> None:
    create(broker.url, "orders", 4)
    with at_work(broker.url) as member:
        done = cli(broker.url, "group", "describe", "billing")
        assert member.member_id
    lines = done.out.splitlines()
    assert done.code == 0
    assert lines[0] == "billing: stable, 1 member, no lag"
    assert "  assignment_strategy=sticky" in lines
    (place,) = (line for line in lines if line.startswith(member.member_id))
    assert place.split()[1] == "orders/0-3"
    assert [line.split()[0] for line in lines[-4:]] == ["orders/0", "orders/1", "orders/2", "orders/3"]


def test_group_describe_names_commands_for_failing_messages(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    give_up(broker.url, "bad", reason="no such customer")
    publish(broker.url, "orders", "poison", "b")
    settle(broker.url, lambda one: one.nack(delay="1h") if one.value == b"poison" else one.ack())
    done = cli(broker.url, "group", "describe", "billing")
    assert done.err == (
        "orders/0: 1 message waiting for a retry; the first one: "
        "`goqueue-cli consume orders --partition 0 --from 1 --limit 1`\n"
        "orders has dead letters: `goqueue-cli dlq errors orders` shows why\n"
    )
    assert cli(broker.url, *["consume", "orders", "--partition", "0", "--from", "1", "--limit", "1"]).out == "poison\n"
    assert "billing: empty, 0 members, 1 message behind, the oldest for " in done.out


def test_a_description_for_programs_is_that_of_the_broker(url: str) -> None:
    (found,) = json.loads(cli(url, "group", "describe", "billing", "-o", "json").out)
    answer = ask(url, "GET", "/groups/billing").json
    assert found["lag"]["orders"]["0"]["committed"] == 2
    assert found.keys() == answer.keys() | {"name"}


@pytest.mark.parametrize("words", [("describe",), ("lag",), ("delete", "--yes"), ("reset", "--to", "latest")])
def test_mistyped_group_gets_a_suggestion(url: str, words: tuple[str, ...]) -> None:
    done = cli(url, "group", *words, "biling")
    assert (done.code, done.out) == (5, "")
    assert "cause: group_not_found: group 'biling' does not exist\nhint: did you mean billing?\n" in done.err
    other = cli(url, "group", *words, "wombats")
    assert "hint: `goqueue-cli group list` shows the groups\n" in other.err


def test_one_of_several_groups_fails_alone(url: str) -> None:
    done = cli(url, "group", "describe", "billing", "missing", "-o", "jsonl")
    found, missing = map(json.loads, done.out.splitlines())
    assert done.code == 1
    assert (found["name"], missing["error"]["code"]) == ("billing", "group_not_found")


def test_an_empty_name_is_told_to_be_none() -> None:
    for verb in ("describe", "lag", "delete", "watch", "wait"):
        done = cli("", "group", verb, "", *(["--for", "lag=0"] if verb == "wait" else []))
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("error: '' is not the name of a group\n")


# --- lag ---


def test_lag_is_shown_for_each_partition_with_a_total(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", "a", partition=0)
    settle(broker.url, lambda message: message.ack())
    publish(broker.url, "orders", *"bcd", partition=1)
    done = cli(broker.url, "group", "lag", "billing")
    rows = [line.split() for line in done.out.splitlines()]
    assert rows[0] == ["PARTITION", "COMMITTED", "END", "LAG", "BEHIND", "IN-FLIGHT", "WAITING", "RATE", "DRAINS-IN"]
    assert rows[1][:5] == ["orders/0", "1", "1", "0", "0s"]
    assert rows[2][:4] == ["orders/1", "0", "3", "3"]
    assert rows[3][:4] == ["total", "-", "-", "3"]


def test_lag_for_programs_has_a_row_for_each_partition_and_no_total(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", "a", partition=1)
    settle(broker.url, lambda message: message.nack(delay="1h"))
    first, second = map(json.loads, cli(broker.url, "group", "lag", "billing", "-o", "jsonl").out.splitlines())
    assert (first["name"], first["messages"]) == ("billing/orders/0", 0)
    assert (second["topic"], second["partition"], second["messages"], second["waiting"]) == ("orders", 1, 1, 1)
    assert second["incoming"] > 0


# --- watch ---


@pytest.mark.parametrize("words", [("watch",), ("list", "--watch"), ("watch", "billing"), ("lag", "billing", "-w")])
def test_a_pipe_gets_an_event_for_each_change(broker: LocalBroker, words: tuple[str, ...]) -> None:
    two_groups(broker)
    with running(broker.url, "group", *words, "--every", "100ms", "-o", "jsonl") as process:
        first = json.loads(process.stdout.readline())
        assert first["event"] == "added"
        publish(broker.url, "orders", "f")
        events = (json.loads(line) for line in process.stdout)
        changed = next(row for row in events if row["event"] == "changed" and row["name"].startswith("billing"))
        assert 4 in {changed.get("total_lag"), changed.get("messages")}
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


# --- wait ---


def test_wait_returns_if_conditions_hold(url: str) -> None:
    conditions = ("lag<=3", "members=0", "state=empty", "waiting=0", "behind<1h")
    words = [word for condition in conditions for word in ("--for", condition)]
    done = cli(url, "group", "wait", "billing", "shipping", *words)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_wait_for_a_group_that_does_not_exist_yet(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    with running(broker.url, "group", "wait", "billing", "--for", "members>=1", "--timeout", "30s") as process:
        assert process.stderr.readline() == b"group 'billing' does not exist yet\n"
        with at_work(broker.url):
            assert process.wait() == 0


def test_wait_timeout_ends_with_6_and_the_current_state(url: str) -> None:
    done = cli(url, "group", "wait", "shipping", "billing", "--for", "lag=0", "--timeout", "300ms")
    assert (done.code, done.out) == (6, "")
    assert (
        "cause: request_timed_out: waited 300ms for lag=0 of shipping, billing: "
        "billing has lag 3, not shrinking\n" in done.err
    )


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("lag", "error: --for 'lag' is not a condition\nhint: use --for lag=0"),
        ("lagg=0", "error: --for: a group has no 'lagg' to wait for\nhint: did you mean lag?"),
        ("lag=few", "error: --for lag: 'few' is not a whole number"),
        ("state=done", "error: --for: 'done' is not a state\nhint: there are stable, rebalancing, empty"),
        ("state>stable", "error: --for state>stable: states can be compared"),
        ("behind<soon", "error: --for behind: 'soon' is not a duration"),
    ],
)
def test_wait_refuses_invalid_conditions(condition: str, said: str) -> None:
    done = cli("", "group", "wait", "billing", "--for", condition)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_waiting_for_nothing_is_refused() -> None:
    assert "error: no condition to wait for\n" in cli("", "group", "wait", "billing").err


# --- edit ---


def test_group_edit_shows_each_setting_before_and_after(broker: LocalBroker) -> None:
    url = two_groups(broker)
    words = ("--set", "max_retries=5", "--set", "retry_delay=2s")
    planned = cli(url, "group", "edit", "billing", *words, "--dry-run", "--no-headers").out.splitlines()
    assert [line.split()[:4] for line in planned] == [
        ["billing", "max_retries", "null", "5"],
        ["billing", "retry_delay", "null", "2s"],
    ]
    assert cli(url, "group", "alter", "billing", *words).code == 0
    again = cli(url, "group", "set", "billing", "shipping", "--set", "max_retries=5", "--no-headers").out.splitlines()
    assert [line.split() for line in again] == [
        ["billing", "-", "-", "-", "as", "it", "was"],
        ["shipping", "max_retries", "null", "5", "changed"],
    ]
    shown = cli(url, "group", "describe", "billing").out
    assert "orders  5 (group)    2s (group)   1m               30s         orders.dlq" in shown
    assert cli(url, "group", "edit", "billing", "--set", "max_retries=null", "-o", "json").code == 0
    (found,) = json.loads(cli(url, "group", "describe", "billing", "-o", "json").out)
    assert found["settings"] == {"retry_delay": 2.0}


def test_dropping_of_messages_needs_confirmation(broker: LocalBroker) -> None:
    url = two_groups(broker)
    refused = cli(url, "group", "edit", "billing", "--set", "dead_letter_topic=none")
    assert (refused.code, refused.out) == (2, "")
    assert "drop messages that fail for the last time" in refused.err
    assert cli(url, "group", "edit", "billing", "--set", "dead_letter_topic=none", "--yes").code == 0
    assert "none (group)" in cli(url, "group", "describe", "billing").out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "there is nothing to change"),
        (("--set", "max_retrys=5"), "did you mean max_retries?"),
        (("--set", "order=key"), "the first member of a group sets it"),
        (("--set", "max_retries"), "is not a setting"),
        (("--set", "retry_delay=soon"), "use a duration such as --set retry_delay=30, or 1m"),
        (("--set", "max_retries=5000"), "at most 1000 is allowed"),
        (("--set", "max_retries=often"), "not one of unlimited"),
    ],
)
def test_group_edit_refuses_what_it_does_not_know(url: str, words: tuple[str, ...], sentence: str) -> None:
    done = cli(url, "group", "edit", "billing", *words)
    assert (done.code != 0, done.out) == (True, "")
    assert sentence in done.err


# --- delete ---


def test_group_delete_needs_confirmation(broker: LocalBroker) -> None:
    two_groups(broker)
    refused = cli(broker.url, "group", "delete", "billing", given="y\n")
    assert (refused.code, refused.out) == (2, "")
    assert "hint: `--yes` confirms it" in refused.err
    kept = on_a_terminal(broker.url, "group", "delete", "billing", typed="n\n")
    assert kept.code == 1
    assert kept.err == "delete group billing with all offsets? [y/N] nothing was changed\n"
    assert on_a_terminal(broker.url, "group", "delete", "billing", typed="y\n").code == 0
    assert cli(broker.url, "group", "list", "-o", "name").out == "shipping\n"


def test_a_dry_run_deletes_nothing(url: str) -> None:
    done = cli(url, "group", "delete", "billing", "--dry-run", "-o", "jsonl")
    assert (done.code, json.loads(done.out)["result"]) == (0, "would be deleted")
    assert "billing" in cli(url, "group", "list", "-o", "name").out


def test_a_group_with_members_is_kept(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    with at_work(broker.url):
        done = cli(broker.url, "group", "delete", "billing", "--yes")
        planned = cli(broker.url, "group", "delete", "billing", "--dry-run")
    assert (done.code, done.out) == (5, "")
    assert "cause: group_not_empty: group 'billing' has 1 member" in done.err
    assert "would be refused: it has 1 member" in planned.out
