"""What a program consists of, as rows that are read without importing any of its commands."""

from collections.abc import Mapping
from typing import Literal, NamedTuple


class Command(NamedTuple):
    """`target` is `module:function`; `effect` says what a careless use can cost."""

    path: str
    target: str
    help: str
    effect: Literal["read", "write", "danger"]


class Program(NamedTuple):
    """A whole program. `root` is the `module:function` whose parameters are the flags before any command.

    `groups` has the help of each first word of several commands, whose first line stands in lists; `aliases` has
    further names of commands.
    """

    name: str
    root: str
    commands: tuple[Command, ...]
    groups: Mapping[str, str]
    aliases: Mapping[str, str]
