"""Commands with several addresses of brokers."""

import json
from pathlib import Path

from goqueue.testing.broker import LocalBroker
from tests.brokers import create
from tests.cli.programs import cli

REFUSED = ("http://127.0.0.1:1", "http://127.0.0.1:2")


def test_command_uses_the_first_address_that_answers(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    done = cli(f"{REFUSED[0]},{broker.url}", "topic", "list", "-o", "name")
    assert (done.code, done.out, done.err) == (0, "orders\n", "")
    repeated = cli(REFUSED[0], "-s", REFUSED[1], "-s", broker.url, "topic", "list", "-o", "name")
    assert (repeated.code, repeated.out) == (0, "orders\n")


def test_command_names_all_addresses_that_do_not_answer() -> None:
    done = cli(",".join(REFUSED), "topic", "list")
    assert f"no broker answers at {REFUSED[0]}: Connection refused; {REFUSED[1]}: Connection refused" in done.err


def test_undo_names_all_addresses(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    servers = f"{broker.url},{REFUSED[0]}"
    done = cli(broker.url, "-s", servers, "topic", "alter", "orders", "--set", "retention_hours=7")
    assert f"--server {servers}" in done.err


def test_context_keeps_several_addresses(broker: LocalBroker, tmp_path: Path) -> None:
    config = str(tmp_path / "config.yaml")
    made = cli("", "config", "create", "cluster", "-s", REFUSED[0], "-s", broker.url, GOQUEUE_CONFIG=config)
    assert made.code == 0
    (context,) = json.loads(cli("", "config", "list", "-o", "json", GOQUEUE_CONFIG=config).out)
    assert context["server"] == f"{REFUSED[0]},{broker.url}"
    assert cli("", "topic", "list", GOQUEUE_CONFIG=config).code == 0
