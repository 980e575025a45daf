"""The commands of the programs, as the palette offers them: to be copied, with what they can cost."""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from shlex import quote
from typing import NamedTuple

from goqueue.console.command import Program

REGISTRIES = ("goqueue_cli.registry", "goqueue_admin.registry")
"""Named and not imported, as the commands in them are: each program stands for itself."""


class Entry(NamedTuple):
    """A command, and what it is for."""

    text: str
    help: str
    effect: str


@cache
def _programs() -> tuple[Program, ...]:
    return tuple(import_module(name).PROGRAM for name in REGISTRIES)


def entries(*, read_only: bool) -> Iterator[Entry]:
    """All commands; where nothing may be changed, those that only read."""
    for program in _programs():
        for command in program.commands:
            if command.path != "dashboard" and (command.effect == "read" or not read_only):
                words = command.help if command.effect == "read" else f"{command.help} ({command.effect})"
                yield Entry(f"{program.name} {command.path}", f"Copy: {words}", command.effect)


def line(*words: str, server: str = "") -> str:
    """A command as it is typed, with everything quoted that a shell would take apart."""
    place = ["--server", server] if server else []
    return " ".join(quote(word) for word in (*words, *place))
