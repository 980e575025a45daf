"""`goqueue-cli dlq` against a real broker with messages that really failed."""

import json
import re
import signal

import pytest
import yaml

from goqueue.client import Client, OperationInfo
from goqueue.testing.broker import LocalBroker
from tests.api.wire import until
from tests.brokers import ask, create, publish, read
from tests.cli.letterbox import at_work, failed, give_up
from tests.cli.programs import cli, on_a_terminal, running


@pytest.fixture(scope="module")
def letters(module_broker: LocalBroker) -> str:
    """A broker with dead letters of `orders` and none of `payments`, for tests that leave them as they are."""
    failed(module_broker.url)
    create(module_broker.url, "payments")
    return module_broker.url


# --- list ---


def test_dlq_list_counts_dead_letters(broker: LocalBroker) -> None:
    nothing = cli(broker.url, "dlq", "list")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "there are no dead letters\n")
    assert cli(broker.url, "dlq", "list", "-o", "json").out == "[]\n"
    failed(broker.url)
    create(broker.url, "payments")
    done = cli(broker.url, "dlq", "list")
    titles, row = done.out.splitlines()
    assert titles.split() == ["TOPIC", "LETTERS", "REASONS", "MOST-FREQUENT"]
    assert row.split(maxsplit=3) == ["orders.dlq", "3", "2", "timeout after 30 s"]
    (found,) = json.loads(cli(broker.url, "dlq", "list", "-o", "json").out)
    assert (found["topic"], found["letters"], found["complete"]) == ("orders", 3, True)
    assert found["errors"] == {"timeout after 30 s": 2, "no such customer": 1}


def test_dlq_list_accepts_topic_or_dead_letter_topic(letters: str) -> None:
    for name in ("orders", "orders.dlq"):
        assert cli(letters, "dlq", "list", name, "-o", "name").out == "orders.dlq\n"
    none = cli(letters, "dlq", "list", "payments", "payments.dlq", "--no-headers")
    assert (none.code, none.out.split()) == (0, ["payments.dlq", "0", "0", "-"])


# --- errors ---


def test_dlq_errors_counts_errors_with_examples(letters: str) -> None:
    lines = [line.split(maxsplit=3) for line in cli(letters, "dlq", "errors", "orders").out.splitlines()]
    assert lines[0] == ["COUNT", "AGE", "EXAMPLE", "ERROR"]
    assert [(line[0], line[2], line[3]) for line in lines[1:]] == [
        ("2", "0@1", "timeout after 30 s"),
        ("1", "0@2", "no such customer"),
    ]
    (frequent, _) = json.loads(cli(letters, "dlq", "errors", "orders.dlq", "-o", "json").out)
    assert (frequent["error"], frequent["count"], frequent["example"]) == ("timeout after 30 s", 2, "orders.dlq/0@1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", frequent["newest"])


@pytest.mark.parametrize("verb", ["errors", "browse", "show", "sample", "redrive"])
def test_a_topic_without_dead_letters_has_none(letters: str, verb: str) -> None:
    for topic in ("payments", "payments.dlq"):
        done = cli(letters, "dlq", verb, topic)
        assert done.code == 0
        assert "dead letters of payments" in done.err


@pytest.mark.parametrize("verb", ["errors", "browse", "sample", "redrive", "describe", "list"])
def test_mistyped_topic_gets_a_suggestion(letters: str, verb: str) -> None:
    done = cli(letters, "dlq", verb, "oders", *(["0@0"] if verb == "describe" else []))
    assert (done.code, done.out) == (5, "")
    assert "hint: did you mean orders" in done.err


@pytest.mark.parametrize("verb", ["errors", "browse", "sample", "redrive"])
def test_unknown_topic_without_suggestion_names_the_list(letters: str, verb: str) -> None:
    done = cli(letters, "dlq", verb, "wombats")
    assert "hint: `goqueue-cli dlq list` shows the topics with dead letters\n" in done.err


# --- browse ---


def test_dlq_browse_shows_place_origin_and_error(letters: str) -> None:
    lines = [line.split(maxsplit=5) for line in cli(letters, "dlq", "browse", "orders").out.splitlines()]
    assert lines[0] == ["PLACE", "AGE", "ATTEMPTS", "ORIGIN", "KEY", "ERROR"]
    assert [[*line[:1], *line[2:]] for line in lines[1:]] == [
        ["0@0", "1", "orders/0@0", "k1", "timeout after 30 s"],
        ["0@1", "1", "orders/0@1", "k1", "timeout after 30 s"],
        ["0@2", "1", "orders/0@2", "k2", "no such customer"],
    ]


def test_every_format_has_all_fields_of_a_dead_letter(letters: str) -> None:
    rows = json.loads(cli(letters, "dlq", "show", "orders", "-o", "json").out)
    first = rows[0]
    assert (first["name"], first["origin"], first["value"]) == (
        "orders.dlq/0@0", "orders/0@0", '{"id": 17, "total": 1.50}',
    )  # fmt: skip
    assert (first["headers"]["source"], first["group"], first["attempts"]) == ("shop", "billing", 1)
    assert yaml.safe_load(cli(letters, "dlq", "browse", "orders", "-o", "yaml").out) == rows
    assert cli(letters, "dlq", "browse", "orders", "-o", "name").out.splitlines()[1] == "orders.dlq/0@1"


@pytest.mark.parametrize(
    ("words", "places"),
    [
        (["--error", "timeout"], ["0@0", "0@1"]),
        (["--error", "teapot"], []),
        (["--group", "billing"], ["0@0", "0@1", "0@2"]),
        (["--group", "shipping"], []),
        (["--limit", "2"], ["0@0", "0@1"]),
        (["--limit", "0"], []),
        (["--from", "-1h"], ["0@0", "0@1", "0@2"]),
        (["--from", "earliest", "--to", "now"], ["0@0", "0@1", "0@2"]),
        (["--from", "2200-01-01"], []),
        (["--where", "json.id=18"], ["0@1"]),
        (["--where", "json.id>=17", "--where", "json.total"], ["0@0"]),
        (["--to", "-1h"], []),
    ],
)
def test_dlq_browse_filters_dead_letters(letters: str, words: list[str], places: list[str]) -> None:
    done = cli(letters, "dlq", "browse", "orders", *words, "-o", "name")
    assert (done.code, done.out.split()) == (0, [f"orders.dlq/{place}" for place in places])


def test_dlq_browse_reports_that_there_are_more(letters: str) -> None:
    assert cli(letters, "dlq", "browse", "orders", "--limit", "2").err == "the first 2; `--limit 20` shows more\n"
    assert cli(letters, "dlq", "browse", "orders", "--limit", "3").err == ""
    assert cli(letters, "dlq", "browse", "orders", "--error", "x").err == "no such dead letters of orders\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "17"], "error: --from 17 is not a time\nhint: use --from -1h"),
        (["--to", "yesterday"], "error: --to: 'yesterday' is not a time"),
        (["--limit", "-1"], "error: --limit is -1, and must be at least 0\n"),
    ],
)
def test_dlq_browse_refuses_invalid_filters(words: list[str], said: str) -> None:
    done = cli("", "dlq", "browse", "orders", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


# --- describe and sample ---


def test_dlq_describe_indents_json(letters: str) -> None:
    lines = cli(letters, "dlq", "describe", "orders", "0@0").out.splitlines()
    assert lines[0] == "orders.dlq/0@0"
    assert "  error      timeout after 30 s" in lines
    assert "  origin     orders/0@0" in lines
    assert "  header     source=shop" in lines
    assert lines[-4:] == ["    {", '      "id": 17,', '      "total": 1.50', "    }"]


def test_dlq_describe_of_a_missing_place_fails_alone(letters: str) -> None:
    done = cli(letters, "dlq", "describe", "orders", "orders.dlq/0@2", "0@9", "4@0", "-o", "jsonl")
    found, gone, nowhere = map(json.loads, done.out.splitlines())
    assert done.code == 1
    assert (found["value"], found["error"], found["sent_back"]) == ("plain", "no such customer", False)
    assert (gone["error"]["code"], nowhere["error"]["code"]) == ("offset_out_of_range", "partition_not_found")
    assert "hint: `goqueue-cli dlq browse orders.dlq` shows the dead letters\n" in done.err


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("17", "error: '17' is not the place of a dead letter\nhint: write it as in 0@17\n"),
        ("payments.dlq/0@1", "error: 'payments.dlq/0@1' is not in topic orders.dlq\n"),
    ],
)
def test_invalid_place_is_refused(letters: str, place: str, said: str) -> None:
    done = cli(letters, "dlq", "describe", "orders", place)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_dead_letter_has_no_control_characters_on_a_terminal(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    give_up(
        broker.url, "\x1b[2Jx\x07\nsecond\u202e", reason="bad \x1b]0;title", key="k\x1b[31m", headers={"h": "\x9b1m"}
    )
    for words in (["describe", "orders", "0@0"], ["sample", "orders"], ["browse", "orders"], ["errors", "orders"]):
        for form in ("table", "wide", "json", "csv", "yaml"):
            shown = on_a_terminal(broker.url, "dlq", *words, "-o", form, NO_COLOR="1")
            assert shown.code == 0
            assert re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown.out) is None, (words, form)
    full = cli(broker.url, "dlq", "describe", "orders", "0@0").out
    assert "    \\x1b[2Jx\\x07\n    second\\u202e\n" in full
    (found,) = json.loads(cli(broker.url, "dlq", "describe", "orders", "0@0", "-o", "json").out)
    assert found["value"] == "\x1b[2Jx\x07\nsecond\u202e"


def test_value_that_is_not_text_is_marked(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    give_up(broker.url, "/wBh", reason="bad", encoding="base64", key="/w==", key_encoding="base64")
    lines = cli(broker.url, "dlq", "describe", "orders", "0@0").out.splitlines()
    assert "  key        \\\\xff" in lines or "  key        \\xff" in lines
    assert "  value      3B, not text" in lines
    assert lines[-1].strip() in {"\\xff\\x00a", "\\\\xff\\x00a"}


def test_dlq_sample_begins_with_one_of_each_error(letters: str) -> None:
    found = json.loads(cli(letters, "dlq", "sample", "orders", "-n", "2", "-o", "json").out)
    assert [row["error"] for row in found] == ["no such customer", "timeout after 30 s"]
    chosen = cli(letters, "dlq", "sample", "orders", "--error", "timeout", "-o", "name").out.split()
    assert chosen == ["orders.dlq/0@1", "orders.dlq/0@0"]
    assert cli(letters, "dlq", "sample", "orders", "-n", "1").out.startswith("orders.dlq/0@2\n")


def test_dlq_sample_cuts_long_values(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    give_up(broker.url, "x" * 5_000, reason="too long")
    assert "    ... and 3,000 more characters\n" in cli(broker.url, "dlq", "sample", "orders").out
    assert "x" * 5_000 in cli(broker.url, "dlq", "describe", "orders", "0@0").out


# --- redrive ---


def test_redrive_dry_run_moves_nothing(letters: str) -> None:
    done = cli(letters, "dlq", "redrive", "orders", "--dry-run")
    assert [line.split(maxsplit=2) for line in done.out.splitlines()] == [
        ["COUNT", "TARGET", "ERROR"],
        ["2", "orders", "timeout after 30 s"],
        ["1", "orders", "no such customer"],
    ]
    assert (done.code, done.err) == (0, "3 dead letters of orders.dlq would be redriven to orders\n")
    assert len(read(letters, "orders")) == 3


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ([], ['{"id": 17, "total": 1.50}', '{"id": 18}', "plain"]),
        (["--error", "customer"], ["plain"]),
        (["--key", "k2"], ["plain"]),
        (["--group", "billing", "--limit", "1"], ['{"id": 17, "total": 1.50}']),
        (["--header", "source=shop", "--header", "dlq.offset=1"], ['{"id": 18}']),
        (["--from", "-1h", "--error", "no such"], ["plain"]),
        (["--to", "-1h"], []),
        (["--where", "json.id=18"], ['{"id": 18}']),
    ],
)
def test_redrive_appends_matching_dead_letters_to_the_topic(
    broker: LocalBroker, words: list[str], values: list[str]
) -> None:
    failed(broker.url)
    done = cli(broker.url, "dlq", "redrive", "orders", *words, "--yes", "-o", "jsonl")
    row = json.loads(done.out)
    assert done.code == 0
    assert (row["name"], row["moved"], row["failed"]) == ("orders.dlq", len(values), 0)
    assert [message["value"] for message in read(broker.url, "orders")[3:]] == values
    left = cli(broker.url, "dlq", "browse", "orders.dlq", "-o", "jsonl").out.splitlines()
    assert len(left) == 3 - len(values)


def test_redrive_to_another_topic(broker: LocalBroker) -> None:
    failed(broker.url)
    create(broker.url, "repair")
    done = cli(broker.url, "dlq", "redrive", "orders", "--target", "repair", "--yes")
    assert done.code == 0
    assert len(read(broker.url, "repair")) == 3
    missing = cli(broker.url, "dlq", "redrive", "orders", "--target", "repare", "--yes")
    assert missing.code == 5
    assert "hint: did you mean repair?\n" in missing.err


def test_redriven_letters_are_marked(broker: LocalBroker) -> None:
    failed(broker.url)
    assert cli(broker.url, "dlq", "redrive", "orders", "--yes").code == 0
    again = cli(broker.url, "dlq", "describe", "orders", "0@0")
    assert again.out.startswith("orders.dlq/0@0, redriven already\n")


def test_redrive_asks_on_a_terminal_with_its_plan(broker: LocalBroker) -> None:
    failed(broker.url)
    kept = on_a_terminal(broker.url, "dlq", "redrive", "orders", typed="n\n")
    assert kept.code == 1
    assert kept.err == (
        "  2 with timeout after 30 s -> orders\n"
        "  1 with no such customer -> orders\n"
        "redrive 3 dead letters of orders.dlq to orders? [y/N] nothing was changed\n"
    )
    assert on_a_terminal(broker.url, "dlq", "redrive", "orders", typed="y\n").code == 0
    assert len(read(broker.url, "orders")) == 6
    closed_url = cli(broker.url, "dlq", "redrive", "orders", given="y\n")
    assert (closed_url.code, closed_url.err) == (0, "no such dead letters of orders.dlq\n")


def test_confirmation_is_required_without_a_terminal(letters: str) -> None:
    done = cli(letters, "dlq", "redrive", "orders", given="y\n")
    assert (done.code, done.out) == (2, "")
    assert "error: confirmation required to redrive 3 dead letters of orders.dlq to orders\n" in done.err
    assert ask(letters, "GET", "/operations?kind=redrive").json["operations"] == []


def test_redrive_skips_messages_that_fail_again_meanwhile(broker: LocalBroker) -> None:
    failed(broker.url)
    with (
        at_work(broker.url) as member,
        running(broker.url, "dlq", "redrive", "orders", "--rate", "2", "--yes") as process,
    ):
        for _, message in zip(range(3), member, strict=False):
            message.reject("again")
        assert process.wait() == 0
    assert len(read(broker.url, "orders")) == 6
    left = cli(broker.url, "dlq", "errors", "orders", "-o", "jsonl").out.splitlines()
    assert [(json.loads(line)["error"], json.loads(line)["count"]) for line in left] == [("again", 3)]


def redrive_of(broker: LocalBroker) -> OperationInfo | None:
    """The recorded redrive, once it has moved a message."""
    with Client(broker.url) as client:
        found = [client.operation(one.id) for one in client.operations(kind="redrive")]
    return next((one for one in found if one.changes), None)


def test_interrupted_redrive_reports_moved_messages(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    give_up(broker.url, *map(str, range(50)), reason="timeout")
    words = ["dlq", "redrive", "orders", "--rate", "1", "--yes", "-o", "jsonl"]
    with running(broker.url, *words) as process:
        until(broker.url, lambda: redrive_of(broker) is not None)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    row = json.loads(out)
    assert process.returncode == 130
    assert 0 < row["moved"] == len(read(broker.url, "orders")) - 50 < 50
    assert row["complete"] is False
    assert f"interrupted: {row['moved']} dead letter".encode() in err
    recorded = redrive_of(broker)
    assert recorded is not None
    (moved,) = recorded.changes["moves"]
    assert (moved["first"], moved["end"], moved["target_topic"]) == (0, row["moved"], "orders")


def test_second_interruption_ends_redrive_at_once(broker: LocalBroker) -> None:
    failed(broker.url)
    with running(broker.url, "dlq", "redrive", "orders", "--rate", "0.25", "--yes") as process:
        until(broker.url, lambda: len(read(broker.url, "orders")) == 4)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith(b"stopping after the request in progress")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert err == b"0 dead letters redriven before, and possibly more\ninterrupted\n"
    left = cli(broker.url, "dlq", "redrive", "orders", "--yes", "-o", "jsonl")
    assert json.loads(left.out)["moved"] == 2


def test_redrive_reports_blocked_messages_and_moves_the_others(broker: LocalBroker) -> None:
    failed(broker.url)
    publish(broker.url, "orders.dlq", "stray")
    planned = cli(broker.url, "dlq", "redrive", "orders", "--dry-run")
    sentence = "1 dead letter cannot be redriven: topic_not_found: the message has no header with its original topic"
    assert sentence in planned.err
    done = cli(broker.url, "dlq", "redrive", "orders", "--yes", "-o", "jsonl")
    row = json.loads(done.out)
    assert (done.code, row["moved"], row["failed"]) == (1, 3, 1)
    assert "1 dead letter not redriven: topic_not_found: " in done.err
    alone = cli(broker.url, "dlq", "redrive", "orders", "--yes")
    assert (alone.code, "1 dead letter cannot be redriven: topic_not_found" in alone.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--header", "source"], "error: --header 'source' is not a header\nhint: use --header source=shop\n"),
        (["--rate", "0"], "error: --rate is 0"),
        (["--limit", "0"], "error: --limit is 0, and must be at least 1\n"),
        (["--from", "17"], "error: --from 17 is not a time\n"),
        (["--target", ""], "error: '' is not the name of a topic\n"),
    ],
)
def test_redrive_refuses_invalid_flags(words: list[str], said: str) -> None:
    done = cli("", "dlq", "redrive", "orders", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


# --- another dead-letter topic ---


def test_dead_letters_of_another_topic_are_found_by_both_names(broker: LocalBroker) -> None:
    url = broker.url
    for topic in ("orders", "payments"):
        create(url, topic, dead_letter_topic="failed")
    give_up(url, "a", "b", reason="no such customer")
    give_up(url, "c", reason="no such card", topic="payments")
    (row,) = cli(url, "dlq", "list", "--no-headers").out.splitlines()
    assert row.split()[:3] == ["failed", "3", "2"]
    assert cli(url, "dlq", "list", "orders", "-o", "name").out == "failed\n"
    (row,) = cli(url, "dlq", "errors", "payments", "--no-headers").out.splitlines()
    assert (row.split()[0], row.split()[3:]) == ("1", ["no", "such", "card"])
    names = cli(url, "dlq", "browse", "orders", "-o", "name").out.split()
    assert len(names) == 2
    assert all(name.startswith("failed/0@") for name in names)
    assert cli(url, "dlq", "describe", "orders", names[0]).out.startswith(f"{names[0]}\n")
    assert "no such customer" in cli(url, "dlq", "sample", "orders", "-n", "1").out
    done = cli(url, "dlq", "redrive", "orders", "--yes", "--no-headers")
    assert (done.code, done.out.split()[:2]) == (0, ["failed", "2"])
    assert [message["value"] for message in read(url, "orders")] == ["a", "b", "a", "b"]
    assert cli(url, "dlq", "browse", "failed", "-o", "name").out.count("failed/") == 1
    assert "`goqueue-cli dlq errors failed` shows why" in cli(url, "group", "describe", "billing").err
