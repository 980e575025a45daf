"""`goqueue-cli undo`: what it lists, restores, and refuses."""

import json
from typing import Any

from goqueue.client import Client
from goqueue.testing.broker import LocalBroker
from tests.brokers import ask, create, publish
from tests.cli.letterbox import failed, settle
from tests.cli.programs import cli, on_a_terminal, protecting


def three_read(broker: LocalBroker) -> None:
    create(broker.url, "orders", 2)
    publish(broker.url, "orders", *"abc", partition=0)
    settle(broker.url, lambda message: message.ack())


def reset(broker: LocalBroker, to: str = "earliest") -> int:
    """Reset the group as a colleague does, and return the id of the operation."""
    with Client(broker.url) as client:
        number: int = client.reset_offsets("billing", "orders", to)["operation"]
        return number


def offsets(broker: LocalBroker) -> Any:
    return ask(broker.url, "GET", "/groups/billing/offsets").json["offsets"]


def test_list_shows_changes_of_everyone_the_newest_first(broker: LocalBroker) -> None:
    nothing = cli(broker.url, "undo")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no changes are recorded\n")
    assert cli(broker.url, "undo", "-o", "json").out == "[]\n"
    three_read(broker)
    number = reset(broker)
    shown = cli(broker.url, "undo").out.splitlines()
    assert shown[0].split() == ["ID", "AGE", "KIND", "SUBJECT", "SUMMARY", "BY", "UNDO"]
    assert shown[1].split()[0] == str(number)
    assert "reset to earliest in orders, 2 partitions" in shown[1]
    assert shown[1].endswith("yes")
    assert "topic_created" in shown[2]
    (row,) = json.loads(cli(broker.url, "undo", "--subject", "billing", "-o", "json").out)
    assert (row["kind"], row["undoable"], row["undone_by"]) == ("group_reset", True, None)
    assert cli(broker.url, "undo", "--kind", "redrive").err == "no such changes are recorded\n"


def test_dry_run_shows_what_would_be_restored(broker: LocalBroker) -> None:
    three_read(broker)
    number = reset(broker)
    done = cli(broker.url, "undo", str(number), "--dry-run")
    assert done.code == 0
    assert [line.split() for line in done.out.splitlines()] == [
        ["CHANGED", "BEFORE", "AFTER"],
        ["orders/0", "0", "3"],
        ["orders/1", "0", "0"],
    ]
    assert done.err == f"that would undo operation {number} on billing: reset to earliest in orders, 2 partitions\n"
    assert offsets(broker)["orders"]["0"] == 0


def test_undo_asks_with_its_plan_and_names_what_undoes_it(broker: LocalBroker) -> None:
    three_read(broker)
    number = reset(broker)
    kept = on_a_terminal(broker.url, "undo", str(number), typed="n\n")
    assert kept.code == 1
    assert kept.err.startswith("  orders/0: 0 -> 3\n  orders/1: 0 -> 0\n")
    assert "nothing was changed" in kept.err
    done = on_a_terminal(broker.url, "undo", str(number), typed="y\n")
    assert done.code == 0
    assert f"`goqueue-cli undo {number + 1}` undoes this\n" in done.err
    assert offsets(broker)["orders"]["0"] == 3
    assert "by " in cli(broker.url, "undo", "--subject", "billing").out


def test_several_operations_are_undone_the_newest_first(broker: LocalBroker) -> None:
    three_read(broker)
    first, second = reset(broker), reset(broker, "latest")
    done = cli(broker.url, "undo", str(first), str(second), "--yes")
    assert (done.code, offsets(broker)["orders"]["0"]) == (0, 3)


def test_harm_needs_force_and_the_hint_is_the_command(broker: LocalBroker) -> None:
    three_read(broker)
    first = reset(broker)
    reset(broker, "latest")
    done = cli(broker.url, "undo", str(first), "--yes")
    assert done.code == 5
    assert "cause: operation_outdated: operation 3 has changed the same offsets of group billing since\n" in done.err
    assert f"hint: `goqueue-cli undo {first} --force` undoes it all the same\n" in done.err
    assert cli(broker.url, "undo", str(first), "--yes", "--force").code == 0


def test_protected_context_needs_the_name_of_the_group(broker: LocalBroker, home: str) -> None:
    three_read(broker)
    number = reset(broker)
    config = protecting(home, broker.url)
    refused = cli("", "undo", str(number), "--yes", GOQUEUE_CONFIG=config)
    assert refused.code == 2
    assert "hint: `--confirm billing` confirms it\n" in refused.err
    assert cli("", "undo", str(number), "--confirm", "billing", GOQUEUE_CONFIG=config).code == 0


def test_what_cannot_be_undone_is_shown_with_the_reason(broker: LocalBroker) -> None:
    failed(broker.url)
    done = cli(broker.url, "dlq", "redrive", "orders", "--yes")
    (number,) = [row["id"] for row in json.loads(cli(broker.url, "undo", "--kind", "redrive", "-o", "json").out)]
    assert f"`goqueue-cli undo {number}` shows what was moved where\n" in done.err
    shown = cli(broker.url, "undo", str(number), "--dry-run")
    assert (shown.code, shown.out.splitlines()[1].split()) == (0, ["orders.dlq/0", "orders/0", "0-2", "3"])
    assert f"operation {number} cannot be undone: they are new messages at the end" in shown.err
    assert cli(broker.url, "undo", str(number), "--yes").code == 1
    unknown = cli(broker.url, "undo", "77", "--yes")
    assert unknown.code == 5
    assert "cause: operation_not_found: there is no operation 77\n" in unknown.err


def test_commands_name_the_operation_that_undoes_them(broker: LocalBroker) -> None:
    three_read(broker)
    for words in (
        ["group", "edit", "billing", "--set", "max_retries=5"],
        ["group", "delete", "billing", "--yes"],
        ["topic", "edit", "orders", "--set", "retention_hours=24", "--yes"],
    ):
        done = cli(broker.url, *words)
        (said,) = [line for line in done.err.splitlines() if line.endswith("undoes it")]
        assert cli(broker.url, *said.split("`")[1].split()[1:], "--yes").code == 0
    assert offsets(broker) == {"orders": {"0": 3, "1": 0}}
    assert ask(broker.url, "GET", "/topics/orders").json["config"]["retention_hours"] == 168
    assert ask(broker.url, "GET", "/groups/billing").json["settings"] == {}
