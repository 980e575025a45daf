"""`goqueue-cli topic` against a real broker."""

import csv
import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.cli.programs import cli, on_a_terminal, running


def test_topics_are_created_with_partitions_and_settings(broker: LocalBroker) -> None:
    made = cli(
        broker.url, "topic", "create", "orders", "prices", "--partitions", "2", "--set", "cleanup=compact",
        "--set", "retention_hours=null", "--no-headers",
    )  # fmt: skip
    assert (made.code, made.out, made.err) == (0, "orders  2  created\nprices  2  created\n", "")
    (topic,) = json.loads(cli(broker.url, "topic", "describe", "prices", "-o", "json").out)
    assert (topic["partitions"], topic["config"]["cleanup"]) == (2, "compact")
    assert topic["config"]["retention_hours"] is None


def test_a_topic_that_exists_is_a_conflict_and_one_of_several_fails_alone(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    alone = cli(broker.url, "topic", "create", "orders")
    assert (alone.code, alone.out) == (5, "")
    assert alone.err == (
        "error: could not create topic orders\n"
        "cause: topic_exists: topic 'orders' exists already\n"
        "hint: use it, or choose another name\n"
    )
    several = cli(broker.url, "topic", "create", "orders", "payments", "-o", "jsonl")
    failed, made = map(json.loads, several.out.splitlines())
    assert several.code == 1
    assert (failed["name"], failed["error"]["code"]) == ("orders", "topic_exists")
    assert (made["name"], made["result"]) == ("payments", "created")
    assert "error: could not create topic orders\n" in several.err


def test_an_unknown_setting_is_refused_with_those_that_there_are(broker: LocalBroker) -> None:
    done = cli(broker.url, "topic", "create", "orders", "--set", "retention=7")
    assert (done.code, done.out) == (2, "")
    assert (
        "cause: request_invalid: 'retention' is not a setting of a topic\nhint: did you mean retention_hours?"
        in done.err
    )
    other = cli(broker.url, "topic", "create", "orders", "--set", "wombat=7")
    assert "hint: there are retention_hours, retention_bytes, cleanup, " in other.err


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("cleanup", "error: --set 'cleanup' is not a setting\nhint: use --set retention_hours=24"),
        ("name=zzz", "hint: names are arguments: `goqueue-cli topic create zzz`"),
        ("num_partitions=3", "hint: `--partitions 3` sets the number"),
        ("auto=true", "error: --set: auto is not a setting of a topic"),
        ("retention_hours=soon", "hint: use --set retention_hours=24, or retention_hours=null for no limit"),
        ("retention_hours=7d", "hint: did you mean --set retention_hours=168?"),
        ("lane_weights=5,5", "error: --set lane_weights: there are 5 priorities, and '5,5' says 2\n"),
        ("lane_weights=50", "error: --set lane_weights: there are 5 priorities, and '50' says 1\n"),
        ("lane_weights=5,5,0,5,5", "error: --set lane_weights: '0' is not a whole number from 1 to 1000\n"),
        (
            "lane_weights=a,b",
            "hint: give one weight for each priority from critical to background, as in --set lane_weights=50,25,",
        ),
        ("lane_boost_seconds=never", "hint: use a duration such as --set lane_boost_seconds=30, or 1m\n"),
        ("segment_bytes=1XiB", "error: --set segment_bytes: '1XiB' has the unknown unit 'XiB'"),
    ],
)
def test_what_cannot_be_a_setting_is_told_in_terms_of_the_flag(setting: str, said: str) -> None:
    done = cli("", "topic", "create", "orders", "--set", setting)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_lanes_and_delays_are_set_as_people_write_them(broker: LocalBroker) -> None:
    settings = (
        "lane_weights=60, 20,10,6,4",
        "lane_boost_seconds=1m",
        "delay_expiry_seconds=1d",
        "max_message_bytes=2MiB",
    )
    words = [word for setting in settings for word in ("--set", setting)]
    done = cli(broker.url, "topic", "create", "orders", *words, "-o", "jsonl")
    config = json.loads(done.out)["config"]
    assert config["max_message_bytes"] == 2 * 2**20
    assert (config["lane_weights"], config["lane_boost_seconds"], config["delay_expiry_seconds"]) == (
        [60, 20, 10, 6, 4], 60, 86400,
    )  # fmt: skip
    assert "\n  lane_weights=60,20,10,6,4\n" in cli(broker.url, "topic", "describe", "orders").out
    edited = cli(broker.url, "topic", "edit", "orders", "--set", "lane_weights=[1,1,1,1,1]", "--no-headers")
    assert edited.out == "orders  lane_weights  60,20,10,6,4  1,1,1,1,1  changed\n"


def test_unknown_topic_without_suggestion_names_the_list(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    for words in (["topic", "describe"], ["topic", "delete", "--yes"], ["topic", "compact"], ["consume"]):
        assert "hint: `goqueue-cli topic list` shows the topics\n" in cli(broker.url, *words, "wombats").err


@pytest.mark.parametrize(
    "words", [["topic", "create"], ["topic", "delete"], ["topic", "compact"], ["consume"], ["publish"]]
)
def test_an_empty_name_is_told_to_be_none(words: list[str]) -> None:
    done = cli("", *words, "")
    assert (done.code, done.out) == (2, "")
    verb = "cannot be" if "create" in words else "is not"
    assert done.err.startswith(f"error: '' {verb} the name of a topic\n")


def test_a_name_that_is_far_too_long_is_cut_where_it_is_told(broker: LocalBroker) -> None:
    done = cli(broker.url, "topic", "create", "n" * 300)
    assert done.err.splitlines()[0] == f"error: could not create topic {'n' * 77}..."


def test_an_empty_list_is_a_list_and_no_failure(broker: LocalBroker) -> None:
    assert cli(broker.url, "topic", "list").err == "there are no topics\n"
    answers = {output: cli(broker.url, "topic", "list", "-o", output) for output in ("json", "yaml", "jsonl", "name")}
    assert {answer.code for answer in answers.values()} == {0}
    assert {output: answer.out for output, answer in answers.items()} == {
        "json": "[]\n", "yaml": "[]\n", "jsonl": "", "name": "",
    }  # fmt: skip


def test_every_format_of_the_list_has_the_same_content(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", "a", "b")

    def told(output: str) -> str:
        done = cli(broker.url, "topic", "list", "-o", output)
        assert (done.code, done.err) == (0, "")
        return done.out

    titles, row = told("table").splitlines()
    assert titles.split() == ["TOPIC", "PARTITIONS", "MESSAGES", "SIZE", "IN/S"]
    assert row.split()[:3] == ["orders", "2", "2"]
    assert row.endswith("/s")
    assert "cleanup=delete" in told("wide")
    assert {"BYTES/S", "OUT/S", "FAULTS", "CREATED", "CONFIG"} <= set(told("wide").splitlines()[0].split())
    assert told("name") == "orders\n"
    (found,) = json.loads(told("json"))
    assert (found["name"], found["total_messages"]) == ("orders", 2)
    for rate in ("published_per_second", "bytes_per_second", "read_per_second"):
        assert found[rate] >= 0  # another look may see another
    assert json.loads(told("jsonl")).keys() == found.keys()
    assert yaml.safe_load(told("yaml"))[0]["config"] == found["config"]
    (line,) = csv.DictReader(told("csv").splitlines())
    assert (line["total_messages"], json.loads(line["config"])) == ("2", found["config"])
    assert line.keys() == found.keys()


def test_a_list_may_be_of_some_and_sorted(broker: LocalBroker) -> None:
    for name in ("orders", "ordeals", "prices"):
        create(broker.url, name)
    publish(broker.url, "ordeals", "a")
    assert cli(broker.url, "topic", "list", "ord*", "-o", "name").out == "ordeals\norders\n"
    by_count = cli(broker.url, "topic", "list", "--sort-by", "messages:desc", "-o", "name").out
    assert by_count.splitlines()[0] == "ordeals"
    none = cli(broker.url, "topic", "list", "z*")
    assert (none.code, none.err) == (0, "there are no topics like z*\n")


def test_a_list_tells_of_partitions_that_take_no_messages(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker:
        create(broker.url, "orders", 2)
        publish(broker.url, "orders", "a", partition=1)
    shutil.rmtree(tmp_path / "data/logs/orders/1")
    with LocalBroker(str(tmp_path / "data")) as broker:
        told = cli(broker.url, "topic", "list").err
        assert told == "orders: 1 partition takes no messages; `goqueue-cli topic describe orders` shows why\n"
        titles, _, row = cli(broker.url, "topic", "describe", "orders").out.splitlines()[-3:]
        assert titles.split()[-1] == "FAULT"
        assert "orders/1" in row


def test_who_watches_without_a_terminal_gets_a_line_for_each_change(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    with running(broker.url, "topic", "watch", "ord*", "--every", "100ms", "-o", "jsonl") as process:
        first = json.loads(process.stdout.readline())
        assert (first["event"], first["name"], first["total_messages"]) == ("added", "orders", 0)
        publish(broker.url, "orders", "a")
        changed = json.loads(process.stdout.readline())
        assert (changed["event"], changed["total_messages"]) == ("changed", 1)
        assert cli(broker.url, "topic", "delete", "orders", "--yes").code == 0
        lines = iter(process.stdout.readline, b"")
        assert any(json.loads(line)["event"] == "removed" for line in lines)
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130


def test_internal_topics_are_listed_when_asked_for(broker: LocalBroker) -> None:
    assert "__metadata\n" in cli(broker.url, "topic", "list", "--internal", "-o", "name").out


def test_a_description_has_the_settings_and_a_line_for_each_partition(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2, cleanup="compact")
    publish(broker.url, "orders", "a", partition=1)
    lines = cli(broker.url, "topic", "describe", "orders").out.splitlines()
    assert re.fullmatch(r"orders: 2 partitions, 1 message, \d+B, created .* ago", lines[0])
    assert "  cleanup=compact" in lines
    assert [line.split() for line in lines[-3:]] == [
        ["PARTITION", "EARLIEST", "LATEST", "SIZE", "SEGMENTS"],
        ["0", "0", "0", "0B", "1"],
        ["1", "0", "1", lines[0].split()[5].rstrip(","), "1"],
    ]
    (found,) = json.loads(cli(broker.url, "topic", "describe", "orders", "-o", "json").out)
    assert found["created_at"].endswith("Z")
    assert [(one["latest"], one["fault"]) for one in found["partition_details"]] == [(0, None), (1, None)]


# --- edit ---


def test_an_edit_says_what_was_and_what_is(broker: LocalBroker) -> None:
    create(broker.url, "orders", retention_hours=48)
    create(broker.url, "prices", retention_hours=24)
    words = ("topic", "edit", "orders", "prices", "--set", "retention_hours=24", "--set", "segment_bytes=1MiB")
    planned = cli(broker.url, *words, "--dry-run")
    assert [line.split() for line in planned.out.splitlines()] == [
        ["TOPIC", "SETTING", "BEFORE", "AFTER", "RESULT"],
        ["orders", "retention_hours", "48.0", "24", "would", "be", "changed"],
        ["orders", "segment_bytes", "null", "1048576", "would", "be", "changed"],
        ["prices", "segment_bytes", "null", "1048576", "would", "be", "changed"],
    ]
    done = cli(broker.url, *words, "-o", "json")
    rows = json.loads(done.out)
    assert [row.pop("operation") for row in rows] == [3, 4], "topics were created before"
    assert rows == [
        {
            "name": "orders",
            "result": "changed",
            "changes": {
                "retention_hours": {"before": 48.0, "after": 24.0},
                "segment_bytes": {"before": None, "after": 1048576},
            },
        },
        {"name": "prices", "result": "changed", "changes": {"segment_bytes": {"before": None, "after": 1048576}}},
    ]
    again = cli(broker.url, "topic", "alter", *words[2:], "--no-headers")
    assert again.out.split() == ["orders", "-", "-", "-", "as", "it", "was", "prices", "-", "-", "-", "as", "it", "was"]


def test_a_dry_run_changes_nothing(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    before = cli(broker.url, "topic", "describe", "orders", "-o", "json").out
    assert cli(broker.url, "topic", "edit", "orders", "--set", "cleanup=compact", "--dry-run").code == 0
    assert cli(broker.url, "topic", "describe", "orders", "-o", "json").out == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "error: there is nothing to change\nhint: use `--set retention_hours=24`\n"),
        (["--set", "num_partitions=6"], "hint: a topic keeps the number of partitions that it was created with\n"),
        (["--set", "name=other"], "hint: a topic keeps its name\n"),
        (["--set", "cleanup"], "hint: use --set retention_hours=24\n"),
        (["--set", "retention_hours=NaN"], "NaN is not a number\nhint: retention_hours=null means no limit\n"),
        (["--set", "retention_hours=-Infinity"], "-Infinity is not a number\n"),
        (["--set", "retention_hours=1e400"], "1e400 is not a number\n"),
        (["--set", "retention_hours=-1"], "--set retention_hours: -1 is less than 0\n"),
        (["--set", "max_retries=-1", "--dry-run"], "--set max_retries: -1 is less than 0\n"),
    ],
)
def test_an_edit_that_cannot_be_is_refused_before_the_broker_is_asked(words: list[str], said: str) -> None:
    done = cli("", "topic", "edit", "orders", *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_what_the_broker_will_not_have_is_told(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    for dry in ([], ["--dry-run"]):
        unknown = cli(broker.url, "topic", "edit", "orders", "--set", "retenton_hours=7", *dry)
        assert (unknown.code, unknown.out) == (2, "")
        assert "'retenton_hours' is not a setting of a topic\nhint: did you mean retention_hours?\n" in unknown.err
    bad = cli(broker.url, "topic", "edit", "orders", "--set", "max_message_bytes=1")
    assert bad.code == 2
    assert "max_message_bytes is 1, at least " in bad.err
    missing = cli(broker.url, "topic", "edit", "oders", "--set", "retention_hours=1")
    assert (missing.code, "hint: did you mean orders?" in missing.err) == (5, True)


LOSING = [
    ("retention_hours=24", {}),
    ("retention_bytes=1MiB", {}),
    ("cleanup=compact", {}),
    ("cleanup=compact,delete", {"cleanup": "compact"}),
]
KEEPING = [
    ("retention_hours=null", {}),
    ("retention_hours=200", {}),
    ("max_message_bytes=1KiB", {}),
    ("retention_hours=1", {"cleanup": "compact"}),
    ("cleanup=compact", {"cleanup": "compact,delete"}),
]


@pytest.mark.parametrize(("setting", "before"), LOSING)
def test_edit_that_loses_messages_needs_confirmation(broker: LocalBroker, setting: str, before: dict[str, Any]) -> None:
    create(broker.url, "empty", **before)
    create(broker.url, "orders", **before)
    publish(broker.url, "orders", "a", key="k")
    words = ("topic", "edit", "empty", "orders", "--set", setting)
    refused = cli(broker.url, *words)
    name = setting.partition("=")[0]
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == (
        f"error: confirmation required to change topics empty, orders and lose messages to {name} of orders\n"
        "hint: `--yes` confirms it\n"
    )
    assert cli(broker.url, *words, "--dry-run").code == 0
    assert (
        ask(broker.url, "GET", "/topics/empty").json["config"]
        == ask(broker.url, "GET", "/topics/orders").json["config"]
    )
    done = cli(broker.url, *words, "--yes", "-o", "json")
    assert [row["result"] for row in json.loads(done.out)] == ["changed", "changed"]


@pytest.mark.parametrize(("setting", "before"), KEEPING)
def test_edit_that_keeps_messages_needs_no_confirmation(
    broker: LocalBroker, setting: str, before: dict[str, Any]
) -> None:
    create(broker.url, "orders", **before)
    publish(broker.url, "orders", "a", key="k")
    assert cli(broker.url, "topic", "edit", "orders", "--set", setting).code == 0


def test_edit_that_expires_delayed_messages_needs_confirmation(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    words = ("topic", "edit", "orders", "--set", "delay_expiry_seconds=1m")
    assert cli(broker.url, *words).code == 0
    publish(broker.url, "orders", "a", delay="1h")
    assert cli(broker.url, "topic", "edit", "orders", "--set", "delay_expiry_seconds=2m").code == 0
    refused = cli(broker.url, *words)
    assert (refused.code, "lose messages to delay_expiry_seconds of orders\n" in refused.err) == (2, True)
    assert cli(broker.url, *words, "--yes").code == 0


# --- compact ---


def test_a_compaction_says_what_is_left(broker: LocalBroker) -> None:
    create(broker.url, "prices", 2, cleanup="compact")
    publish(broker.url, "prices", "a", "b", "c", key="k", partition=1)
    done = cli(broker.url, "topic", "compact", "prices", "-o", "json")
    (row,) = json.loads(done.out)
    assert (row["result"], row["messages_removed"], [one["partition"] for one in row["partitions"]]) == (
        "compacted", 2, [0, 1],
    )  # fmt: skip
    titles, line = cli(broker.url, "topic", "compact", "prices").out.splitlines()
    assert titles.split() == ["TOPIC", "RESULT", "BEFORE", "AFTER", "REMOVED"]
    assert line.split()[-1] == "0"
    assert cli(broker.url, "consume", "prices", "--format", "%v\n").out == "c\n"


def test_a_topic_that_is_not_compacted_is_told_how_it_becomes_one(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    refused = cli(broker.url, "topic", "compact", "orders")
    assert (refused.code, refused.out) == (2, "")
    assert "cause: request_invalid: topic 'orders' has no compaction: its cleanup is delete\n" in refused.err
    (command,) = re.findall(r"hint: `goqueue-cli (.*)`", refused.err)
    assert cli(broker.url, *command.split()).code == 0
    assert cli(broker.url, "topic", "compact", "orders").code == 0


@pytest.mark.parametrize("words", [("topic", "describe"), ("topic", "delete", "--yes"), ("consume",), ("publish",)])
def test_mistyped_topic_gets_a_suggestion(broker: LocalBroker, words: tuple[str, ...]) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, *words, "oders", given="x")
    assert (done.code, done.out) == (5, "")
    assert "cause: topic_not_found: there is no topic 'oders'\nhint: did you mean orders?\n" in done.err


def test_a_dry_run_says_how_much_would_go(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    publish(broker.url, "orders", "a", "b")
    done = cli(broker.url, "topic", "delete", "orders", "oders", "--dry-run", "-o", "json")
    would, missing = json.loads(done.out)
    assert (would["result"], would["total_messages"], would["total_size_bytes"] > 0) == ("would be deleted", 2, True)
    assert (done.code, missing["error"]["code"]) == (1, "topic_not_found")
    titles, row = cli(broker.url, "topic", "delete", "orders", "--dry-run").out.splitlines()
    assert titles.split() == ["TOPIC", "MESSAGES", "SIZE", "RESULT"]
    assert row.split()[:2] == ["orders", "2"]
    assert cli(broker.url, "topic", "list", "-o", "name").out == "orders\n"


def test_topic_delete_needs_confirmation(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    unasked = cli(broker.url, "topic", "delete", "orders", given="y\n")
    assert (unasked.code, unasked.out) == (2, "")
    assert "hint: `--yes` confirms it" in unasked.err
    refused = on_a_terminal(broker.url, "topic", "delete", "orders", typed="n\n")
    assert refused.code == 1
    assert refused.err == "delete topic orders with all messages? [y/N] nothing was changed\n"
    agreed = on_a_terminal(broker.url, "topic", "delete", "orders", typed="y\n")
    assert agreed.code == 0
    assert cli(broker.url, "topic", "list", "-o", "json").out == "[]\n"


def test_delayed_messages_go_with_their_topic_and_are_told(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    create(broker.url, "payments")
    publish(broker.url, "orders", "a", "b", delay="1h")
    assert ", 2 delayed, created " in cli(broker.url, "topic", "describe", "orders").out
    titles, *lines = cli(broker.url, "topic", "delete", "orders", "payments", "--dry-run").out.splitlines()
    assert titles.split() == ["TOPIC", "MESSAGES", "SIZE", "DELAYED", "RESULT"]
    assert [line.split()[3] for line in lines] == ["2", "0"]
    refused = on_a_terminal(broker.url, "topic", "delete", "orders", typed="n\n")
    assert refused.err == "delete topic orders with all messages and 2 delayed? [y/N] nothing was changed\n"
    done = cli(broker.url, "topic", "delete", "orders", "--yes", "--no-headers")
    assert (done.code, done.out) == (0, "orders  2  deleted\n")


def test_the_priorities_of_a_topic_are_added_up_over_its_partitions(broker: LocalBroker) -> None:
    create(broker.url, "t", partitions=2)
    for partition, priority in ((0, "critical"), (1, "critical"), (1, "normal")):
        publish(broker.url, "t", "v", partition=partition, priority=priority)
    done = cli(broker.url, "topic", "priorities", "t")
    assert (done.code, done.err) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in done.out.splitlines()}
    assert rows["t:"] == ["2", "partitions"]
    assert rows["critical"] == ["2", "0", "0", "2", "0", "-", "-"]
    assert rows["normal"][0] == "1"
    found = json.loads(cli(broker.url, "topic", "priorities", "t", "-o", "json").out)
    assert found[0]["partitions"]["1"]["critical"]["ready"] == 1


def test_priorities_of_a_group_that_is_not_there_are_refused(broker: LocalBroker) -> None:
    create(broker.url, "t")
    done = cli(broker.url, "topic", "priorities", "t", "--group", "missing")
    assert (done.code, done.out) == (5, "")
    assert "missing" in done.err


# --- scale ---


def test_topic_is_scaled_after_a_plan_and_a_confirmation(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", "a", key="k")
    planned = cli(broker.url, "topic", "scale", "orders", "--partitions", "4", "--dry-run", "--no-headers")
    assert (planned.code, planned.out.split()) == (0, ["orders", "2", "4", "2", "would", "be", "scaled"])
    unconfirmed = cli(broker.url, "topic", "scale", "orders", "--partitions", "4")
    assert (unconfirmed.code, "which cannot be undone" in unconfirmed.err) == (2, True)
    assert ask(broker.url, "GET", "/topics/orders").json["partitions"] == 2
    done = cli(broker.url, "topic", "scale", "orders", "--partitions", "4", "--yes", "-o", "json")
    (row,) = json.loads(done.out)
    assert (row["result"], row["partitions_added"]) == ("scaled", 2)
    assert ask(broker.url, "GET", "/topics/orders").json["partitions"] == 4


def test_number_that_moves_keys_is_refused_with_the_flag_that_takes_it(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", "a", key="k")
    refused = cli(broker.url, "topic", "scale", "orders", "--partitions", "3", "--yes")
    assert refused.code == 5
    assert "keys_would_move" in refused.err
    assert "hint: 4, 6 or 8 partitions keep the order of keys; `--accept-key-moves` takes 3 all the same" in refused.err
    done = cli(broker.url, "topic", "scale", "orders", "--partitions", "3", "--accept-key-moves", "--yes")
    assert done.code == 0
