"""`goqueue-admin` as a whole: its help, how it fails, and what it does not load."""

import pytest

from goqueue_admin.registry import PROGRAM
from tests.admin.programs import admin

COMMANDS = [command.path for command in PROGRAM.commands]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["docter"], "error: there is no command 'docter'\nhint: did you mean `goqueue-admin doctor`?\n"),
        (["broker", "x"], "error: there is no command 'x'\nhint: `goqueue-admin broker --help` lists the commands\n"),
        (["doctor", "--severty", "note"], "error: no such option: --severty\nhint: did you mean --severity?\n"),
        (["doctor", "--severity", "x"], "error: --severity: there is no 'x'\nhint: write one of critical, "),
        (["rebalance", "describe", ""], "error: '' is not the name of a group\n"),
        (["audit", "--retention", "1"], "error: no such option: --retention\nhint: `goqueue-admin audit --help` shows"),
        (["tenant", "create", ""], "error: '' cannot be the name of a tenant\nhint: choose a name"),
        (
            ["alert", "silence", "", "--for", "1h"],
            "error: '' is not the name of a code\nhint: name one, as `goqueue-admin alert list` shows",
        ),
    ],
)  # fmt: skip
def test_what_is_typed_wrongly_is_told_with_what_was_meant(words: list[str], said: str) -> None:
    done = admin("", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(said)


def test_only_commands_of_these_topics_change_anything() -> None:
    ours = [command for command in PROGRAM.commands if not command.path.startswith("config ")]
    changing = {command.path.partition(" ")[0] for command in ours if command.effect != "read"}
    topics = "acl alert backup cluster key partition quota reassign role tenant tls"
    assert changing == set(topics.split())
