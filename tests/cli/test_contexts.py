"""Contexts as `goqueue-cli` and `goqueue-admin` keep and use them."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from goqueue.console.contexts import Context, Contexts, save
from goqueue.testing.broker import LocalBroker
from tests.brokers import create
from tests.cli.programs import COMMAND, ROOT, Done, cli, environment, on_a_terminal
from tests.forked import Program


@pytest.fixture
def config(tmp_path: Path) -> str:
    return str(tmp_path / "goqueue" / "config.yaml")


@pytest.fixture
def production(broker: LocalBroker, config: str) -> str:
    """A file with a protected context of a broker that is there, which is the current one."""
    create(broker.url, "orders")
    return protecting(config, broker.url)


def protecting(config: str, server: str) -> str:
    context = Context(server=server, protected=True)
    save(Contexts(config, "production", {"production": context}))
    return config


def run(config: str, *words: str, given: str = "", **variables: str) -> Done:
    return cli(variables.pop("GOQUEUE_SERVER", ""), *words, given=given, GOQUEUE_CONFIG=config, **variables)


def admin(config: str, *words: str) -> Done:
    return cli("", *words, command=(sys.executable, "-m", "goqueue_admin.main"), GOQUEUE_CONFIG=config)


def test_contexts_are_created_listed_changed_and_deleted(config: str) -> None:
    assert run(config, "config", "list", "-o", "json").out == "[]\n"
    made = run(config, "config", "create", "local", "--server", "http://127.0.0.1:1")
    assert (made.code, made.out, made.err) == (0, "", "created context local, the current one\n")
    assert run(config, "config", "create", "other", "--timeout", "1m").err == "created context other\n"
    assert run(config, "config", "use", "other").err == "other is the current context\n"
    assert run(config, "config", "edit", "other", "--output", "json", "--unset", "timeout").code == 0
    assert yaml.safe_load(Path(config).read_text()) == {
        "current-context": "other",
        "contexts": {"local": {"server": "http://127.0.0.1:1"}, "other": {"output": "json"}},
    }
    (local, other) = json.loads(run(config, "config", "list", "-o", "json").out)
    assert (local["name"], local["current"], other["current"]) == ("local", False, True)
    assert admin(config, "config", "list", "--no-headers").out.splitlines()[0].split() == [
        "local",
        "http://127.0.0.1:1",
        "no",
    ]
    gone = run(config, "config", "delete", "other", "--yes", "--no-headers")
    assert (gone.code, gone.out) == (0, "other  deleted\n")
    assert "there is no current context now" in gone.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["config", "use", "prodction"], "there is no context 'prodction'\nhint: did you mean production?"),
        (["config", "describe", "wombat"], "there is no context 'wombat'\nhint: there are production"),
        (["config", "delete", "prod", "--yes"], "there is no context 'prod'\nhint: did you mean production?"),
        (["-c", "prod", "topic", "list"], "there is no context 'prod'\nhint: did you mean production?"),
        (["topic", "list", "-c", "prod"], "there is no context 'prod'\nhint: did you mean production?"),
        (["config", "create", "production"], "context production exists already\nhint: `config edit production`"),
        (["config", "create", "a b"], "'a b' is not a valid name of a context"),
        (["config", "create", "x", "-s", "ht!tp"], "cause: request_invalid: 'ht!tp' is not the address of a broker"),
        (["config", "edit", "production", "-s", "a..b"], "no host has such a name\nhint: its parts, between the dots"),
        (["config", "create", "x", "--timeout", "soon"], "--timeout: 'soon' is not a duration"),
        (["config", "create", "x", "--output", "jsn"], "--output: there is no 'jsn'\nhint: did you mean json?"),
        (["config", "create", "x", "--api-key", "a b"], "cause: request_invalid: the API key is invalid"),
        (["config", "create", "x", "--server", ""], "--server is empty or not printable"),
        (["config", "edit", "production"], "no setting to change"),
        (["config", "edit", "production", "--unset", "timeot"], "--unset: a context has no 'timeot'\nhint: did you"),
        (["config", "edit", "production", "--unset", "timeout", "--timeout", "1m"], "timeout is both set and unset"),
        (["config", "lst"], "there is no command 'lst'\nhint: did you mean `goqueue-cli config list`?"),
    ],
)
def test_invalid_config_command_is_refused_with_a_hint(config: str, words: list[str], said: str) -> None:
    before = Path(protecting(config, "http://127.0.0.1:1")).read_text()
    done = run(config, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert Path(config).read_text() == before


def test_config_view_shows_the_origin_of_each_option(production: str) -> None:
    shown = json.loads(run(production, "config", "view", "-o", "json", "--timeout", "7s", GOQUEUE_API_KEY="k").out)
    origins = {row["name"]: (row["origin"], row["from"]) for row in shown}
    assert origins == {
        "file": ("environment", "GOQUEUE_CONFIG"),
        "context": ("context", f"current-context in {production}"),
        "server": ("context", "server of context production"),
        "api-key": ("environment", "GOQUEUE_API_KEY"),
        "ca-file": ("default", "default"),
        "client-cert": ("default", "default"),
        "client-key": ("default", "default"),
        "tenant": ("default", "default"),
        "timeout": ("flag", "--timeout"),
        "output": ("flag", "--output"),
        "protected": ("context", "context production"),
    }
    assert "ORIGIN" in run(production, "config", "view", "--show-origin").out
    assert "ORIGIN" not in admin(production, "config", "view").out


def test_api_key_is_never_shown(config: str) -> None:
    assert run(config, "config", "create", "a", "--api-key-file", "-", given="s3cret\n").code == 0
    assert "s3cret" in Path(config).read_text()
    told = ""
    for words in (
        ["view", "--show-origin"],
        ["view", "-o", "json"],
        ["describe", "a", "-o", "yaml"],
        ["list", "-o", "wide"],
    ):
        done = run(config, "config", *words)
        told += done.out + done.err
    told += run(config, "topic", "list", "--api-key", "s3cret word", "--debug", "-s", "http://127.0.0.1:1").err
    assert "s3cret" not in told
    assert "********" in told


def test_api_key_is_refused_by_a_broker_without_keys(broker: LocalBroker) -> None:
    done = cli(broker.url, "topic", "list", "--api-key", "s3cret")
    assert done.code == 2
    assert f"the broker at {broker.url} has no API keys: it would ignore the one of --api-key" in done.err
    assert "has no API keys" in cli(broker.url, "topic", "list", "--api-key-file", "-", given="s3cret\n").err
    assert "stdin has no API key" in cli(broker.url, "topic", "list", "--api-key-file", "-").err


def test_context_of_a_flag_takes_precedence_over_a_variable(production: str) -> None:
    assert run(production, "topic", "list", "-o", "name").out == "orders\n"
    elsewhere = "http://127.0.0.1:1"
    assert run(production, "topic", "list", GOQUEUE_SERVER=elsewhere).code == 3
    named = run(production, "-c", "production", "topic", "list", "-o", "name", GOQUEUE_SERVER=elsewhere)
    assert named.out == "orders\n"


def test_invalid_context_file_is_reported_by_line_and_kept(config: str) -> None:
    Path(config).parent.mkdir()
    Path(config).write_text("contexts:\n  production:\n    protcted: true\n")
    for words in (["topic", "list"], ["config", "create", "x"], ["config", "list"]):
        done = run(config, *words)
        assert done.code == 2
        assert f"error: {config}:3:5: contexts.production.protcted: is not a key of a context\n" in done.err
        assert "hint: did you mean protected?" in done.err
    assert "protcted" in Path(config).read_text()


# --- danger ---


def test_protected_context_needs_confirm_with_the_name(production: str) -> None:
    for words in ([], ["--yes"]):
        refused = run(production, "topic", "delete", "orders", *words, given="y\n")
        assert refused.code == 2
        assert "and context production is protected\nhint: `--confirm orders` confirms it\n" in refused.err
    wrong = run(production, "topic", "delete", "orders", "--confirm", "order")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--confirm is 'order', and this is about orders" in wrong.err
    assert run(production, "topic", "list", "-o", "name").out == "orders\n"
    assert (
        run(production, "topic", "delete", "orders", "--confirm", "orders", "--no-headers").out == "orders  deleted\n"
    )


def test_protected_context_asks_for_the_name_on_a_terminal(production: str) -> None:
    refused = on_a_terminal("", "topic", "delete", "orders", "--yes", typed="y\n", GOQUEUE_CONFIG=production)
    assert refused.code == 1
    assert refused.err == (
        "context production is protected; to delete topic orders with all messages, type orders: nothing was changed\n"
    )
    agreed = on_a_terminal("", "topic", "delete", "orders", typed="orders\n", GOQUEUE_CONFIG=production)
    assert agreed.code == 0
    assert run(production, "topic", "list", "-o", "json").out == "[]\n"


def test_several_names_are_confirmed_together(production: str, broker: LocalBroker) -> None:
    create(broker.url, "payments")
    half = run(production, "topic", "delete", "orders", "payments", "--confirm", "orders")
    assert half.code == 2
    assert "hint: `--confirm 'orders payments'` confirms it" in half.err
    assert run(production, "topic", "delete", "orders", "payments", "--confirm", "payments,orders").code == 0


def test_question_without_answer_changes_nothing(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    done = on_a_terminal(broker.url, "topic", "delete", "orders", typed="\x04")
    assert (done.code, done.err) == (1, "delete topic orders with all messages? [y/N] nothing was changed\n")


def test_interrupted_question_changes_nothing(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    master, slave = pty.openpty()
    with Program(
        [*COMMAND, "topic", "delete", "orders"], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url),
        stdin=slave, stdout=slave, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        question = "delete topic orders with all messages? [y/N] "
        assert process.stderr.read(len(question)) == question
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "\ninterrupted\n"
    os.close(master)
    os.close(slave)
    assert process.returncode == 130
    assert cli(broker.url, "topic", "list", "-o", "name").out == "orders\n"
