"""The commands of a program: declared as rows, and loaded when they are used."""

import inspect
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from goqueue.console.failure import UsageInvalid
from goqueue.console.session import root_callback
from goqueue.limits import OFFSET_MAX
from goqueue.nearest import nearest


class Command(NamedTuple):
    """One command. `target` is `module:function`, relative to the package of the program if it begins with a dot."""

    path: str
    target: str
    help: str
    effect: Literal["read", "write", "danger"] = "read"
    """The most that a careless use can do."""


class Program(NamedTuple):
    """A whole program.

    `groups` has the help of each first word that several commands share; its first line stands in lists. `aliases` maps
    other names of commands to their paths.
    """

    name: str
    package: str
    help: str
    commands: tuple[Command, ...]
    groups: Mapping[str, str]
    aliases: Mapping[str, str]
    uses_broker: bool = True
    """True if the flags of a session are valid before the command."""


COMPLETION = Command(
    "completion", "goqueue.console.completion:completion", "Write the completion script of this program for a shell."
)

CONFIG = """Manage contexts: the brokers and how to connect to them.

\b
  PROGRAM config create local --server http://127.0.0.1:8080
  PROGRAM config use local
  PROGRAM config view --show-origin
"""

_CONFIG = "goqueue.console.config_commands"

CONFIG_COMMANDS = (
    Command("config create", f"{_CONFIG}:create", "Create a context.", "write"),
    Command("config delete", f"{_CONFIG}:delete", "Delete contexts and the keys in them.", "danger"),
    Command("config describe", f"{_CONFIG}:describe", "Show all settings of contexts."),
    Command("config edit", f"{_CONFIG}:edit", "Change a context.", "write"),
    Command("config list", f"{_CONFIG}:list_contexts", "List the contexts."),
    Command("config use", f"{_CONFIG}:use", "Select the current context.", "write"),
    Command("config view", f"{_CONFIG}:view", "Show the options in effect and their origin."),
)


_REGISTRIES = ("goqueue_cli.registry", "goqueue_admin.registry", "goqueue.commands.registry")
"""All programs: a command that is typed after the wrong one is named with the right one."""
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
_ANY_PROGRAM = "PROGRAM"
"""Stands for the name of the program in the help of commands that several programs have."""


class CommandGroup(TyperGroup):
    """The commands of a program below one path."""

    program: Program
    path = ""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        del ctx
        return list(self._rows())

    def get_command(self, ctx: typer.Context, cmd_name: str) -> TyperCommand | TyperGroup | None:  # type: ignore[override]
        del ctx
        path = self._path(cmd_name)
        if path in self.program.groups:
            return _group(self.program, cmd_name, path)
        command = next((command for command in self.program.commands if command.path == path), None)
        return _load(self.program, command, cmd_name) if command else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        if self._path(name).rpartition(" ")[2] not in self._rows() and not name.startswith("-"):
            raise UsageInvalid(f"there is no command {name!r}", hint=self._hint(ctx.command_path, args))
        return super().resolve_command(ctx, args)

    def _hint(self, path: str, words: list[str]) -> str:
        """Name the same command of another program, or the nearest one here."""
        if not self.path and (elsewhere := _command_elsewhere(self.program, words)):
            return f"did you mean `{elsewhere}`?"
        guess = nearest(words[0], [*self._rows(), *self._aliases()])
        return f"did you mean `{path} {guess}`?" if guess else f"`{path} --help` lists the commands"

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        rows, dangers = self._rows(), self._dangers()
        with formatter.section("Commands"):
            formatter.write_dl([(f"{name} !" if name in dangers else name, text) for name, text in rows.items()])
        if dangers:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text("! can lose data or stop consumers; see its --help.")

    def _dangers(self) -> set[str]:
        """Return the commands of this group that are marked as dangerous."""
        commands = {command.path: command.effect for command in self.program.commands}
        return {name for name in self._rows() if commands.get(self._path(name)) == "danger"}

    def _aliases(self) -> list[str]:
        prefix = f"{self.path} " if self.path else ""
        names = [alias.removeprefix(prefix) for alias in self.program.aliases if alias.startswith(prefix)]
        return [name for name in names if " " not in name]

    def _path(self, name: str) -> str:
        """Return the path of a word below this group."""
        path = f"{self.path} {name}".strip()
        return self.program.aliases.get(path, path)

    def _rows(self) -> dict[str, str]:
        """Return the next word of every path below this group, with its help."""
        prefix = f"{self.path} " if self.path else ""
        rows: dict[str, str] = {}
        for command in self.program.commands:
            if command.path.startswith(prefix):
                name = command.path.removeprefix(prefix).split(" ")[0]
                rows[name] = self.program.groups.get(prefix + name, command.help).partition("\n")[0]
        return dict(sorted(rows.items()))


def _command_elsewhere(program: Program, words: list[str]) -> str | None:
    """Return the command of another program that these words begin with, or its group."""
    others = [other for registry in _REGISTRIES if (other := import_module(registry).PROGRAM).name != program.name]
    for end in range(len(words), 0, -1):
        path = " ".join(words[:end])
        for other in others:
            if path in other.groups or path in other.aliases or any(one.path == path for one in other.commands):
                return f"{other.name} {path}"
    return None


class _Command(TyperCommand):
    """A command whose usage shows required arguments without braces, and whose help leaves out the largest offset."""

    def get_help(self, ctx: Any) -> str:
        return re.sub(rf"\b(\d+)<=x<={OFFSET_MAX}\b", r"x>=\1", super().get_help(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.removeprefix("{").removesuffix("}") for piece in super().collect_usage_pieces(ctx)]


def _group(program: Program, name: str, path: str) -> CommandGroup:
    group = CommandGroup(
        name=name,
        help=program.groups[path].replace(_ANY_PROGRAM, program.name),
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=_SETTINGS,
    )
    group.program, group.path = program, path
    return group


def _load(program: Program, command: Command, name: str) -> TyperCommand:
    module, _, function = command.target.partition(":")
    callback = getattr(import_module(module, program.package), function)
    text = (inspect.getdoc(callback) or command.help).replace(_ANY_PROGRAM, program.name)
    app = _app()
    app.command(name, cls=_Command, help=text, context_settings=_SETTINGS)(callback)
    loaded = typer.main.get_command(app)
    assert isinstance(loaded, TyperCommand)
    return loaded


def _app(**settings: Any) -> typer.Typer:
    """Create a Typer application with plain help: Rich would take 40 ms of a budget of 100."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


def root_command(program: Program) -> CommandGroup:
    app = _app(cls=CommandGroup, no_args_is_help=True, context_settings=_SETTINGS)
    app.callback()(root_callback(program.help, uses_broker=program.uses_broker))
    group = typer.main.get_group(app)
    assert isinstance(group, CommandGroup)
    group.program = program
    return group
