"""`goqueue-cli dlq` against a real broker with messages that really failed."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
import yaml

from goqueue.testing.broker import LocalBroker
from tests.api.wire import until
from tests.brokers import broker, create, publish, read
from tests.cli.letterbox import at_work, failed, give_up
from tests.cli.programs import COMMAND, ROOT, cli, environment, on_a_terminal, running

__all__ = ["broker"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the records of redrives go."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return str(tmp_path)


# --- list ---


def test_topics_with_dead_letters_are_listed_with_how_many(broker: LocalBroker) -> None:
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


def test_topics_are_named_by_themselves_or_by_their_dead_letters(broker: LocalBroker) -> None:
    failed(broker.url)
    create(broker.url, "payments")
    for name in ("orders", "orders.dlq"):
        assert cli(broker.url, "dlq", "list", name, "-o", "name").out == "orders.dlq\n"
    none = cli(broker.url, "dlq", "list", "payments", "payments.dlq", "--no-headers")
    assert (none.code, none.out.split()) == (0, ["payments.dlq", "0", "0", "-"])


# --- errors ---


def test_reasons_are_counted_with_an_example_of_each(broker: LocalBroker) -> None:
    failed(broker.url)
    lines = [line.split(maxsplit=3) for line in cli(broker.url, "dlq", "errors", "orders").out.splitlines()]
    assert lines[0] == ["COUNT", "AGE", "EXAMPLE", "ERROR"]
    assert [(line[0], line[2], line[3]) for line in lines[1:]] == [
        ("2", "0@1", "timeout after 30 s"),
        ("1", "0@2", "no such customer"),
    ]
    (frequent, _) = json.loads(cli(broker.url, "dlq", "errors", "orders.dlq", "-o", "json").out)
    assert (frequent["error"], frequent["count"], frequent["example"]) == ("timeout after 30 s", 2, "orders.dlq/0@1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", frequent["newest"])


@pytest.mark.parametrize("verb", ["errors", "browse", "show", "sample", "redrive"])
def test_a_topic_without_dead_letters_has_none(broker: LocalBroker, verb: str) -> None:
    create(broker.url, "orders")
    for topic in ("orders", "orders.dlq"):
        done = cli(broker.url, "dlq", verb, topic)
        assert done.code == 0
        assert "dead letters of orders" in done.err


@pytest.mark.parametrize("verb", ["errors", "browse", "sample", "redrive", "describe", "list"])
def test_a_mistyped_topic_is_told_the_nearest_one(broker: LocalBroker, verb: str) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, "dlq", verb, "oders", *(["0@0"] if verb == "describe" else []))
    assert (done.code, done.out) == (5, "")
    assert "hint: did you mean orders?\n" in done.err


@pytest.mark.parametrize("verb", ["errors", "browse", "sample", "redrive"])
def test_a_topic_that_resembles_no_other_is_looked_for_in_the_list(broker: LocalBroker, verb: str) -> None:
    done = cli(broker.url, "dlq", verb, "wombats")
    assert "hint: `goqueue-cli dlq list` shows the topics with dead letters\n" in done.err


# --- browse ---


def test_dead_letters_are_shown_with_where_and_why(broker: LocalBroker) -> None:
    failed(broker.url)
    lines = [line.split(maxsplit=5) for line in cli(broker.url, "dlq", "browse", "orders").out.splitlines()]
    assert lines[0] == ["PLACE", "AGE", "ATTEMPTS", "ORIGIN", "KEY", "ERROR"]
    assert [[*line[:1], *line[2:]] for line in lines[1:]] == [
        ["0@0", "1", "orders/0@0", "k1", "timeout after 30 s"],
        ["0@1", "1", "orders/0@1", "k1", "timeout after 30 s"],
        ["0@2", "1", "orders/0@2", "k2", "no such customer"],
    ]


def test_every_form_has_all_of_a_dead_letter(broker: LocalBroker) -> None:
    failed(broker.url)
    rows = json.loads(cli(broker.url, "dlq", "show", "orders", "-o", "json").out)
    first = rows[0]
    assert (first["name"], first["origin"], first["value"]) == (
        "orders.dlq/0@0", "orders/0@0", '{"id": 17, "total": 1.50}',
    )  # fmt: skip
    assert (first["headers"]["source"], first["group"], first["attempts"]) == ("shop", "billing", 1)
    assert yaml.safe_load(cli(broker.url, "dlq", "browse", "orders", "-o", "yaml").out) == rows
    assert cli(broker.url, "dlq", "browse", "orders", "-o", "name").out.splitlines()[1] == "orders.dlq/0@1"


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
def test_dead_letters_are_chosen(broker: LocalBroker, words: list[str], places: list[str]) -> None:
    failed(broker.url)
    done = cli(broker.url, "dlq", "browse", "orders", *words, "-o", "name")
    assert (done.code, done.out.split()) == (0, [f"orders.dlq/{place}" for place in places])


def test_that_there_are_more_is_said(broker: LocalBroker) -> None:
    failed(broker.url)
    assert cli(broker.url, "dlq", "browse", "orders", "--limit", "2").err == "the first 2; `--limit 20` shows more\n"
    assert cli(broker.url, "dlq", "browse", "orders", "--limit", "3").err == ""
    assert cli(broker.url, "dlq", "browse", "orders", "--error", "x").err == "no such dead letters of orders\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--from", "17"], "error: --from 17 is no time\nhint: write it as in --from -1h"),
        (["--to", "yesterday"], "error: --to: 'yesterday' is not a time"),
        (["--limit", "-1"], "error: --limit is -1, and must be at least 0\n"),
    ],
)
def test_what_chooses_nothing_is_refused(words: list[str], said: str) -> None:
    done = cli("", "dlq", "browse", "orders", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


# --- describe and sample ---


def test_one_is_shown_in_full_with_its_json_indented(broker: LocalBroker) -> None:
    failed(broker.url)
    lines = cli(broker.url, "dlq", "describe", "orders", "0@0").out.splitlines()
    assert lines[0] == "orders.dlq/0@0"
    assert "  error      timeout after 30 s" in lines
    assert "  origin     orders/0@0" in lines
    assert "  header     source=shop" in lines
    assert lines[-4:] == ["    {", '      "id": 17,', '      "total": 1.50', "    }"]


def test_several_are_described_and_one_that_is_not_there_fails_alone(broker: LocalBroker) -> None:
    failed(broker.url)
    done = cli(broker.url, "dlq", "describe", "orders", "orders.dlq/0@2", "0@9", "4@0", "-o", "jsonl")
    found, gone, nowhere = map(json.loads, done.out.splitlines())
    assert done.code == 1
    assert (found["value"], found["error"], found["sent_back"]) == ("plain", "no such customer", False)
    assert (gone["error"]["code"], nowhere["error"]["code"]) == ("offset_out_of_range", "partition_not_found")
    assert "hint: `goqueue-cli dlq browse orders.dlq` shows those that there are\n" in done.err


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("17", "error: '17' is not the place of a dead letter\nhint: write it as in 0@17\n"),
        ("payments.dlq/0@1", "error: 'payments.dlq/0@1' is not in topic orders.dlq\n"),
    ],
)
def test_what_is_no_place_is_refused(place: str, said: str) -> None:
    done = cli("", "dlq", "describe", "orders", place)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_no_terminal_obeys_a_dead_letter(broker: LocalBroker) -> None:
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


def test_what_is_no_text_is_said_to_be_none(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    give_up(broker.url, "/wBh", reason="bad", encoding="base64", key="/w==", key_encoding="base64")
    lines = cli(broker.url, "dlq", "describe", "orders", "0@0").out.splitlines()
    assert "  key        \\\\xff" in lines or "  key        \\xff" in lines
    assert "  value      3B, not text" in lines
    assert lines[-1].strip() in {"\\xff\\x00a", "\\\\xff\\x00a"}


def test_a_sample_has_one_of_each_reason_first(broker: LocalBroker) -> None:
    failed(broker.url)
    found = json.loads(cli(broker.url, "dlq", "sample", "orders", "-n", "2", "-o", "json").out)
    assert [row["error"] for row in found] == ["no such customer", "timeout after 30 s"]
    chosen = cli(broker.url, "dlq", "sample", "orders", "--error", "timeout", "-o", "name").out.split()
    assert chosen == ["orders.dlq/0@1", "orders.dlq/0@0"]
    assert cli(broker.url, "dlq", "sample", "orders", "-n", "1").out.startswith("orders.dlq/0@2\n")


def test_a_sample_cuts_what_is_long(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    give_up(broker.url, "x" * 5_000, reason="too long")
    assert "    ... and 3,000 more characters\n" in cli(broker.url, "dlq", "sample", "orders").out
    assert "x" * 5_000 in cli(broker.url, "dlq", "describe", "orders", "0@0").out


def test_a_reader_that_has_left_ends_it_quietly(broker: LocalBroker) -> None:
    failed(broker.url)
    for words in (["browse", "orders"], ["describe", "orders", "0@0"], ["list", "-o", "json"]):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            done = subprocess.run(
                [*COMMAND, "dlq", *words], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url), stdout=pipe,
                stderr=subprocess.PIPE, check=False,
            )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")


# --- redrive ---


@pytest.mark.usefixtures("home")
def test_a_dry_run_counts_by_reason_and_target_and_moves_nothing(broker: LocalBroker) -> None:
    failed(broker.url)
    done = cli(broker.url, "dlq", "redrive", "orders", "--dry-run")
    assert [line.split(maxsplit=2) for line in done.out.splitlines()] == [
        ["COUNT", "TARGET", "ERROR"],
        ["2", "orders", "timeout after 30 s"],
        ["1", "orders", "no such customer"],
    ]
    assert (done.code, done.err) == (0, "3 dead letters of orders.dlq would go to orders\n")
    assert len(read(broker.url, "orders")) == 3


@pytest.mark.usefixtures("home")
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
def test_those_that_fit_come_back_at_the_end_of_the_topic(
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


@pytest.mark.usefixtures("home")
def test_another_topic_may_be_the_target(broker: LocalBroker) -> None:
    failed(broker.url)
    create(broker.url, "repair")
    done = cli(broker.url, "dlq", "redrive", "orders", "--target", "repair", "--yes")
    assert done.code == 0
    assert len(read(broker.url, "repair")) == 3
    missing = cli(broker.url, "dlq", "redrive", "orders", "--target", "repare", "--yes")
    assert missing.code == 5
    assert "hint: did you mean repair?\n" in missing.err


def test_it_says_what_was_sent_where_and_undo_shows_it(broker: LocalBroker, home: str) -> None:
    failed(broker.url)
    done = cli(broker.url, "dlq", "redrive", "orders", "--yes")
    (file,) = Path(home, ".goqueue", "undo").iterdir()
    assert f"`goqueue-cli undo {file.name}" in done.err
    shown = cli(broker.url, "undo", file.name)
    assert (shown.code, shown.out.splitlines()[1].split()) == (0, ["orders.dlq/0", "orders/0", "0-2", "3"])
    assert "3 messages of orders.dlq sent back at " in shown.err
    assert "cannot be taken back" in shown.err
    again = cli(broker.url, "dlq", "describe", "orders", "0@0")
    assert again.out.startswith("orders.dlq/0@0, sent back already\n")


@pytest.mark.usefixtures("home")
def test_it_asks_on_a_terminal_with_what_would_go(broker: LocalBroker) -> None:
    failed(broker.url)
    kept = on_a_terminal(broker.url, "dlq", "redrive", "orders", typed="n\n")
    assert kept.code == 1
    assert kept.err == (
        "  2 that failed with timeout after 30 s -> orders\n"
        "  1 that failed with no such customer -> orders\n"
        "send 3 dead letters of orders.dlq to orders? [y/N] nothing was changed\n"
    )
    assert on_a_terminal(broker.url, "dlq", "redrive", "orders", typed="y\n").code == 0
    assert len(read(broker.url, "orders")) == 6
    nobody = cli(broker.url, "dlq", "redrive", "orders", given="y\n")
    assert (nobody.code, nobody.err) == (0, "no such dead letters of orders.dlq\n")


def test_nobody_is_asked_where_nobody_is(broker: LocalBroker, home: str) -> None:
    failed(broker.url)
    done = cli(broker.url, "dlq", "redrive", "orders", given="y\n")
    assert (done.code, done.out) == (2, "")
    assert "error: nobody can be asked whether to send 3 dead letters of orders.dlq to orders\n" in done.err
    assert not Path(home, ".goqueue").exists()


@pytest.mark.usefixtures("home")
def test_what_fails_again_meanwhile_is_not_sent_again(broker: LocalBroker) -> None:
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


def test_an_interruption_ends_between_two_requests_and_says_how_many_went(broker: LocalBroker, home: str) -> None:
    create(broker.url, "orders")
    give_up(broker.url, *map(str, range(50)), reason="timeout")
    words = ["dlq", "redrive", "orders", "--rate", "1", "--yes", "-o", "jsonl"]
    with running(broker.url, *words) as process:
        undo = Path(home, ".goqueue", "undo")
        while not any('"ranges"' in file.read_text() for file in undo.glob("*.json")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    row = json.loads(out)
    assert process.returncode == 130
    assert 0 < row["moved"] == len(read(broker.url, "orders")) - 50 < 50
    assert row["complete"] is False
    assert f"interrupted: {row['moved']} dead letter".encode() in err
    (file,) = undo.iterdir()
    (moved,) = json.loads(file.read_text())["moved"]
    assert moved == {"source": "orders.dlq/0", "target": "orders/0", "ranges": [[0, row["moved"]]]}


@pytest.mark.usefixtures("home")
def test_a_second_interruption_does_not_wait_for_the_request(broker: LocalBroker) -> None:
    failed(broker.url)
    with running(broker.url, "dlq", "redrive", "orders", "--rate", "0.25", "--yes") as process:
        assert process.stderr is not None
        until(broker.url, lambda: len(read(broker.url, "orders")) == 4)
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline().startswith(b"stopping when what is under way is done")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (130, b"")
    assert err == b"0 dead letters sent back before, and maybe more\ninterrupted\n"
    left = cli(broker.url, "dlq", "redrive", "orders", "--yes", "-o", "jsonl")
    assert json.loads(left.out)["moved"] == 2


@pytest.mark.usefixtures("home")
def test_what_cannot_go_is_told_and_the_others_go(broker: LocalBroker) -> None:
    failed(broker.url)
    publish(broker.url, "orders.dlq", "stray")
    planned = cli(broker.url, "dlq", "redrive", "orders", "--dry-run")
    assert "1 dead letter cannot go: topic_not_found: the message does not tell which topic it came from" in planned.err
    done = cli(broker.url, "dlq", "redrive", "orders", "--yes", "-o", "jsonl")
    row = json.loads(done.out)
    assert (done.code, row["moved"], row["failed"]) == (1, 3, 1)
    assert "1 dead letter not sent: topic_not_found: " in done.err
    alone = cli(broker.url, "dlq", "redrive", "orders", "--yes")
    assert (alone.code, "1 dead letter cannot go: topic_not_found" in alone.err) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--header", "source"], "error: --header 'source' is no header\nhint: write it as in --header source=shop\n"),
        (["--rate", "0"], "error: --rate is 0"),
        (["--limit", "0"], "error: --limit is 0, and must be at least 1\n"),
        (["--from", "17"], "error: --from 17 is no time\n"),
        (["--target", ""], "error: '' is not the name of a topic\n"),
    ],
)
def test_what_cannot_be_redriven_is_told_in_terms_of_the_flag(words: list[str], said: str) -> None:
    done = cli("", "dlq", "redrive", "orders", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
