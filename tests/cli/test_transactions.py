"""`goqueue-cli transaction list` and `transaction describe` against a real broker."""

import json
from collections.abc import Sequence

import pytest
import yaml

from goqueue.testing.broker import LocalBroker
from goqueue.testing.disk import FaultyDisk
from tests.brokers import ask, create, publish
from tests.cli.programs import cli, on_a_terminal, running
from tests.cli.transactions import Producer


@pytest.fixture
def url(broker: LocalBroker) -> str:
    """Topics with messages in front of the transactions, and behind them."""
    create(broker.url, "orders", partitions=2)
    create(broker.url, "payments")
    publish(broker.url, "payments", *"abcde")
    return broker.url


@pytest.fixture
def tills(url: str) -> Producer:
    """An open transaction in two partitions and a group; the address is that of the broker."""
    producer = Producer(url, "till-1")
    for partition in (0, 1, 1):
        producer.put("orders", partition)
    producer.ack("billing", "payments", 2)
    publish(url, "orders", *"xyz", partition=1)
    return producer


@pytest.fixture(scope="module")
def several(module_broker: LocalBroker) -> str:
    """A broker with a transactional id in each state, for tests that leave them so."""
    url = module_broker.url
    create(url, "orders")
    create(url, "payments")
    later = Producer(url, "till-1", begins=False)
    Producer(url, "till-2").put("orders")
    gone = Producer(url, "gone")
    kept = Producer(url, "kept")
    later.begin()
    later.put("payments")
    gone.abort()
    kept.commit()
    Producer(url, "idle", begins=False)
    return url


def lines(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines()]


def names(url: str, *flags: str) -> list[str]:
    done = cli(url, "transaction", "list", *flags, "-o", "name")
    assert done.code == 0, done.err
    return done.out.splitlines()


# --- list ---


@pytest.mark.usefixtures("tills")
def test_open_transactions_are_listed_with_what_they_hold_back(url: str) -> None:
    done = cli(url, "transaction", "list")
    title, row = lines(done.out)
    assert title == ["ID", "STATE", "AGE", "IDLE", "LEFT", "HELD-BACK", "PARTITIONS", "GROUPS"]
    assert (row[0], row[1], row[-3:]) == ("till-1", "ongoing", ["6", "orders/0-1", "billing"])
    assert (done.code, done.err) == (0, "")


def test_every_format_of_the_list_has_the_same_content(url: str, tills: Producer) -> None:
    def told(output: str) -> str:
        return cli(url, "transaction", "list", "-o", output).out

    (row,) = json.loads(told("json"))
    assert (row["name"], row["transaction_id"], row["groups"]) == ("till-1", tills.id, ["billing"])
    assert (row["messages"], row["held_back"]) == (3, 6)
    assert 0 < row["expires_in_seconds"] <= row["timeout_seconds"] == 600
    (again,) = map(json.loads, told("jsonl").splitlines())
    assert again.keys() == row.keys() == yaml.safe_load(told("yaml"))[0].keys()
    assert told("csv").startswith("name,state,age_seconds,idle_seconds,expires_in_seconds,held_back,")
    assert {"MESSAGES", "TRANSACTION", "MEMBERS", "TIMEOUT", "LAST"} <= set(lines(told("wide"))[0])


def test_where_nothing_is_open_there_is_none(broker: LocalBroker) -> None:
    done = cli(broker.url, "transaction", "list")
    assert (done.code, done.out, done.err) == (0, "", "there are no open transactions\n")
    assert cli(broker.url, "transaction", "list", "-o", "json").out == "[]\n"
    for flags, said in (
        (("--all", "till*"), "there are no transactions like till*\n"),
        (("--topic", "orders"), "there are no open transactions in orders\n"),
        (("--state", "prepare_abort"), "there are no prepare_abort transactions\n"),
    ):
        assert cli(broker.url, "transaction", "list", *flags).err == said


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], ["till-2", "till-1"]),
        (["--state", "ongoing"], ["till-2", "till-1"]),
        (["--all"], ["till-2", "till-1", "idle", "kept", "gone"]),
        (["--all", "--limit", "3"], ["till-2", "till-1", "idle"]),
        (["--state", "empty"], ["idle"]),
        (["--state", "complete_commit"], ["kept"]),
        (["--state", "complete_abort"], ["gone"]),
        (["--topic", "payments"], ["till-1"]),
        (["*-2"], ["till-2"]),
        (["--sort-by", "name"], ["till-1", "till-2"]),
    ],
)
def test_the_oldest_come_first_and_those_that_are_not_open_behind(
    several: str, flags: Sequence[str], expected: list[str]
) -> None:
    assert names(several, *flags) == expected


def test_unknown_state_gets_a_suggestion(broker: LocalBroker) -> None:
    done = cli(broker.url, "transaction", "list", "--state", "ongoin")
    assert (done.code, done.out) == (2, "")
    assert done.err == "error: --state: there is no 'ongoin'\nhint: did you mean ongoing?\n"
    assert cli(broker.url, "transaction", "list", "--all", "--state", "empty").code == 2


def test_how_each_has_ended_is_listed_with_all(url: str) -> None:
    Producer(url, "kept").commit()
    title, row = lines(cli(url, "transaction", "list", "--all").out)
    assert (title[-1], row[:3]) == ("LAST", ["kept", "complete_commit", "-"])
    assert "committed" in row


@pytest.mark.parametrize("columns", [60, 200])
def test_a_long_id_gives_way_on_a_terminal_and_numbers_do_not(url: str, columns: int) -> None:
    Producer(url, "a-job-with-a-name-that-says-much-of-what-it-does").put("orders")
    done = on_a_terminal(url, "transaction", "list", columns=columns, NO_COLOR="1")
    title, row = done.out.splitlines()
    assert max(len(title), len(row)) <= columns
    assert ("…" in row) is (columns == 60)
    assert "\x1b" not in done.out


def test_watching_tells_what_comes_and_goes_and_nothing_of_time(url: str) -> None:
    producer = Producer(url, "till-1")
    with running(url, "transaction", "list", "--watch", "--every", "100ms", "-o", "jsonl") as process:

        def told() -> tuple[str, str, int]:
            row = json.loads(process.stdout.readline())
            return row["event"], row["name"], row["messages"]

        assert told() == ("added", "till-1", 0)
        producer.put("orders")
        while (event := told()) == ("changed", "till-1", 0):  # it was seen between the two
            continue
        assert event == ("changed", "till-1", 1)
        producer.commit()
        assert told() == ("removed", "till-1", 1)


# --- describe ---


def test_a_description_says_what_waits_and_what_happens_next(url: str, tills: Producer) -> None:
    done = cli(url, "transaction", "describe", "till-1")
    told = done.out.splitlines()
    assert told[0].startswith(f"till-1: transaction {tills.id} is open for ")
    assert told[1].startswith("  next       is aborted in ")
    assert " without a request of its producer, and in 1" in told[1]
    assert "  messages   3 of its own, and 3 of others behind them, not visible to readers" in told
    assert "  group      billing: 2 messages acked in it, and not delivered until it ends" in told
    assert lines(done.out)[-3:] == [
        ["PARTITION", "FIRST", "MESSAGES", "HELD-BACK"], ["orders/0", "0", "1", "1"], ["orders/1", "0", "2", "5"],
    ]  # fmt: skip
    assert (done.code, done.err) == (0, "`goqueue-cli transaction abort till-1` ends it now\n")


def test_one_that_may_last_no_longer_than_its_timeout_says_so(url: str) -> None:
    Producer(url, "till-1", timeout=900.0)
    told = cli(url, "transaction", "describe", "till-1").out
    assert ", the maximum duration of a transaction\n" in told


def test_what_is_to_be_delivered_later_is_named_as_such(url: str) -> None:
    producer = Producer(url, "till-1")
    producer.put("orders", 1, delay="1h")
    producer.put("payments")
    assert "orders/1 (delayed)" in cli(url, "transaction", "describe", "till-1").out
    assert "payments/0 orders/1 (delayed)" in cli(url, "transaction", "list").out


def test_where_nothing_is_open_the_latest_end_is_described(url: str) -> None:
    producer = Producer(url, "till-1")
    first = producer.id
    producer.commit(note="batch 17")
    told = cli(url, "transaction", "describe", "till-1").out
    assert told.startswith(f"till-1: no transaction is open; {first} was committed ")
    assert f"  next       its next transaction is {producer.id}, which its producer has to begin\n" in told
    assert "  note       batch 17\n" in told
    producer.begin()
    producer.abort("no such customer")
    assert ": no such customer\n" in cli(url, "transaction", "describe", "till-1").out


@pytest.mark.usefixtures("tills")
def test_descriptions_of_several_are_one_document(url: str) -> None:
    Producer(url, "till-2", begins=False)
    rows = json.loads(cli(url, "transaction", "describe", "till-1", "till-2", "-o", "json").out)
    assert [(row["name"], row["state"]) for row in rows] == [("till-1", "ongoing"), ("till-2", "empty")]
    assert [row["pledged"] for row in rows] == [{"billing": 2}, {}]


@pytest.mark.usefixtures("tills")
def test_mistyped_transactional_id_gets_a_suggestion(url: str) -> None:
    done = cli(url, "transaction", "describe", "til-1")
    assert (done.code, done.out) == (5, "")
    assert done.err == (
        "error: could not describe transactional id til-1\n"
        "cause: producer_not_found: there is no transactional id 'til-1'\n"
        "hint: did you mean till-1?\n"
    )
    unlike = cli(url, "transaction", "describe", "nothing-of-that-kind")
    assert unlike.err.endswith("hint: `goqueue-cli transaction list --all` shows the transactional ids\n")


def test_an_end_that_cannot_be_carried_out_says_what_is_in_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FaultyDisk()
    monkeypatch.setattr("goqueue.daemon.SystemDisk", lambda: disk)
    with LocalBroker("/data") as local:
        create(local.url, "orders")
        producer = Producer(local.url, "till-1")
        producer.put("orders")
        disk.fail("sync", path="*/orders/0/*")
        assert producer.try_to("commit").code == "transaction_pending"
        listed = cli(local.url, "transaction", "list")
        assert lines(listed.out)[1][:2] == ["till-1", "prepare_commit"]
        sentence = "its end is decided and blocked: log orders/0 is fenced after a failure"
        assert listed.err.startswith(f"till-1: {sentence}")
        told = cli(local.url, "transaction", "describe", "till-1")
        assert "next       will be committed; retried every second, and blocked now: log" in told.out
        assert told.err == ""
        refused = cli(local.url, "transaction", "abort", "till-1", "--yes")
        assert refused.code == 5
        assert f"transaction_not_open: transaction {producer.id} is being committed\n" in refused.err


# --- what others say of it ---


@pytest.mark.usefixtures("tills")
def test_topics_and_groups_say_what_transactions_hold_back(url: str) -> None:
    wide = cli(url, "topic", "list", "-o", "wide")
    title, *rows = lines(wide.out)
    place = title.index("HELD-BACK")
    assert [row[place] for row in rows] == ["6", "0"]
    hint = (
        "orders: 6 messages held back by open transactions; `goqueue-cli transaction list --topic orders` shows which\n"
    )
    assert wide.err == hint
    topic = cli(url, "topic", "describe", "orders")
    assert [line[-1] for line in lines(topic.out)[-3:]] == ["HELD-BACK", "1", "5"]
    assert topic.err == hint
    assert "HELD-BACK" not in cli(url, "topic", "describe", "payments").out
    group = cli(url, "group", "describe", "billing")
    assert "2 messages acked in open transactions; `goqueue-cli transaction list` shows them\n" in group.err
    title, row = lines(cli(url, "group", "lag", "billing", "-o", "wide").out)
    assert row[title.index("PLEDGED")] == "2"


@pytest.mark.usefixtures("tills")
def test_consume_with_isolation_levels(url: str) -> None:
    committed = cli(url, "consume", "orders")
    assert (committed.code, committed.out) == (0, "")
    assert committed.err == (
        "no messages\n6 messages held back by open transactions; `goqueue-cli transaction list --topic orders` shows "
        "which\n"
    )
    everything = cli(url, "consume", "orders", "--isolation", "read_uncommitted")
    assert (sorted(everything.out.split()), everything.err) == (["x", "x", "x", "x", "y", "z"], "")
    last = cli(url, "consume", "orders", "--partition", "1", "--last", "2", "--isolation", "read_uncommitted")
    assert last.out.split() == ["y", "z"]
    wrong = cli(url, "consume", "orders", "--isolation", "read_uncomitted")
    assert wrong.code == 2
    assert "read_uncommitted" in wrong.err
    member = cli(url, "consume", "orders", "--isolation", "read_uncommitted", "--group", "billing")
    assert (member.code, member.out) == (2, "")


def test_a_list_is_no_longer_than_a_broker_tells_at_once(url: str) -> None:
    assert ask(url, "GET", "/transactions?limit=10001").status == 400
    assert cli(url, "transaction", "list", "--limit", "10001").code == 2
    Producer(url, "till-1")
    done = cli(url, "transaction", "list", "--limit", "1")
    assert done.err == "the first 1; `--limit 10` may show more\n"
