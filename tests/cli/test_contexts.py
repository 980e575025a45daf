"""Contexts as `goqueue-cli` and `goqueue-admin` keep and use them."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from goqueue.console.context_file import save
from goqueue.console.contexts import Context, Contexts
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker, create
from tests.cli.programs import COMMAND, ROOT, Done, cli, environment, on_a_terminal

__all__ = ["broker"]


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
    done = subprocess.run(
        [sys.executable, "-m", "goqueue_admin.main", *words], cwd=ROOT, env=environment(GOQUEUE_CONFIG=config),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return Done(done.returncode, done.stdout, done.stderr)


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
    assert "no context is the current one now" in gone.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["config", "use", "prodction"], "there is no context 'prodction'\nhint: did you mean production?"),
        (["config", "describe", "wombat"], "there is no context 'wombat'\nhint: there are production"),
        (["config", "delete", "prod", "--yes"], "there is no context 'prod'\nhint: did you mean production?"),
        (["-c", "prod", "topic", "list"], "there is no context 'prod'\nhint: did you mean production?"),
        (["topic", "list", "-c", "prod"], "there is no context 'prod'\nhint: did you mean production?"),
        (["config", "create", "production"], "there is a context production already\nhint: `config edit production`"),
        (["config", "create", "a b"], "'a b' cannot be the name of a context"),
        (["config", "create", "x", "-s", "ht!tp"], "cause: request_invalid: 'ht!tp' is not the address of a broker"),
        (["config", "edit", "production", "-s", "a..b"], "no host has such a name\nhint: its parts, between the dots"),
        (["config", "create", "x", "--timeout", "soon"], "--timeout: 'soon' is not a duration"),
        (["config", "create", "x", "--output", "jsn"], "--output: there is no 'jsn'\nhint: did you mean json?"),
        (["config", "create", "x", "--api-key", "a b"], "cause: request_invalid: the API key is not one"),
        (["config", "create", "x", "--server", ""], "--server has nothing that can be kept"),
        (["config", "edit", "production"], "nothing says what to change"),
        (["config", "edit", "production", "--unset", "timeot"], "--unset: a context has no 'timeot'\nhint: did you"),
        (["config", "edit", "production", "--unset", "timeout", "--timeout", "1m"], "timeout is set and unset at once"),
        (["config", "lst"], "there is no command 'lst'\nhint: did you mean `goqueue-cli config list`?"),
    ],
)
def test_what_is_mistyped_is_told_with_what_was_meant(config: str, words: list[str], said: str) -> None:
    before = Path(protecting(config, "http://127.0.0.1:1")).read_text()
    done = run(config, *words)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
    assert Path(config).read_text() == before


def test_the_view_says_where_each_value_comes_from(production: str) -> None:
    shown = json.loads(run(production, "config", "view", "-o", "json", "--timeout", "7s", GOQUEUE_API_KEY="k").out)
    origins = {row["name"]: (row["origin"], row["from"]) for row in shown}
    assert origins == {
        "file": ("environment", "GOQUEUE_CONFIG"),
        "context": ("context", f"current-context in {production}"),
        "server": ("context", "server of context production"),
        "api-key": ("environment", "GOQUEUE_API_KEY"),
        "timeout": ("flag", "--timeout"),
        "output": ("flag", "--output"),
        "protected": ("context", "context production"),
    }
    assert "ORIGIN" in run(production, "config", "view", "--show-origin").out
    assert "ORIGIN" not in admin(production, "config", "view").out


def test_a_key_is_never_shown(config: str) -> None:
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


def test_a_key_on_stdin_is_its_first_line_and_the_rest_is_data(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    done = cli(broker.url, "publish", "orders", "--api-key-file", "-", given="s3cret\nfirst\nsecond\n")
    assert done.code == 0, done.err
    assert cli(broker.url, "consume", "orders").out == "first\nsecond\n"
    assert "stdin has no API key" in cli(broker.url, "topic", "list", "--api-key-file", "-").err


def test_a_context_names_the_broker_and_one_that_a_flag_names_is_stronger_than_a_variable(production: str) -> None:
    assert run(production, "topic", "list", "-o", "name").out == "orders\n"
    elsewhere = "http://127.0.0.1:1"
    assert run(production, "topic", "list", GOQUEUE_SERVER=elsewhere).code == 3
    named = run(production, "-c", "production", "topic", "list", "-o", "name", GOQUEUE_SERVER=elsewhere)
    assert named.out == "orders\n"


def test_a_file_that_is_wrong_is_told_with_its_line_and_is_left_alone(config: str) -> None:
    Path(config).parent.mkdir()
    Path(config).write_text("contexts:\n  production:\n    protcted: true\n")
    for words in (["topic", "list"], ["config", "create", "x"], ["config", "list"]):
        done = run(config, *words)
        assert done.code == 2
        assert f"error: {config}:3:5: contexts.production.protcted: is no key of a context\n" in done.err
        assert "hint: did you mean protected?" in done.err
    assert "protcted" in Path(config).read_text()


# --- danger ---


def test_a_protected_context_wants_the_name(production: str) -> None:
    for words in ([], ["--yes"]):
        refused = run(production, "topic", "delete", "orders", *words, given="y\n")
        assert refused.code == 2
        assert "and context production is protected\nhint: `--confirm orders` does it without asking\n" in refused.err
    wrong = run(production, "topic", "delete", "orders", "--confirm", "order")
    assert (wrong.code, wrong.out) == (2, "")
    assert "--confirm is 'order', and this is about orders" in wrong.err
    assert run(production, "topic", "list", "-o", "name").out == "orders\n"
    assert (
        run(production, "topic", "delete", "orders", "--confirm", "orders", "--no-headers").out == "orders  deleted\n"
    )


def test_a_protected_context_asks_for_the_name_on_a_terminal(production: str) -> None:
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
    assert "hint: `--confirm 'orders payments'` does it without asking" in half.err
    assert run(production, "topic", "delete", "orders", "payments", "--confirm", "payments,orders").code == 0


def test_a_question_without_an_answer_changes_nothing(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    done = on_a_terminal(broker.url, "topic", "delete", "orders", typed="\x04")
    assert (done.code, done.err) == (1, "delete topic orders with all messages? [y/N] nothing was changed\n")


def test_an_interrupted_question_changes_nothing(broker: LocalBroker) -> None:
    create(broker.url, "orders")
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, "topic", "delete", "orders"], cwd=ROOT, env=environment(GOQUEUE_SERVER=broker.url),
        stdin=slave, stdout=slave, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        question = "delete topic orders with all messages? [y/N] "
        assert process.stderr.read(len(question)) == question
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "\ninterrupted\n"
    os.close(master)
    os.close(slave)
    assert process.returncode == 130
    assert cli(broker.url, "topic", "list", "-o", "name").out == "orders\n"


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    page = (ROOT / "docs/contexts.md").read_text()
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=environment(GOQUEUE_CONFIG=str(tmp_path / "config.yaml"), PATH=path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search("^timeout +1m +timeout of context production$", done.stdout, re.MULTILINE)
    assert (tmp_path / "goqueue-cli.bash").stat().st_size > 0
