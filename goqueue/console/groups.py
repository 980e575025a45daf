"""A program as Typer sees it: a tree of commands that are imported when they are used."""

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException

from goqueue.console.command import Command, Program
from goqueue.console.exits import USAGE
from goqueue.console.nearest import nearest

_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
_ANY_PROGRAM = "PROGRAM"
"""What stands for the name of the program in the help of commands that several have."""


class UsageInvalid(TyperException):
    """A command line that cannot be carried out, whatever the world is like."""

    exit_code = USAGE

    def __init__(self, sentence: str, *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.hint = hint


Version = Annotated[bool, typer.Option("--version", help="Print the version and exit.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error comes from; goes anywhere.")]


class Group(TyperGroup):
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
            guess = nearest(name, [*self._rows(), *self._aliases()])
            path = ctx.command_path
            hint = f"did you mean `{path} {guess}`?" if guess else f"`{path} --help` lists the commands"
            raise UsageInvalid(f"there is no command {name!r}", hint=hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        del ctx
        rows, dangers = self._rows(), self._dangers()
        with formatter.section("Commands"):
            formatter.write_dl([(f"{name} !" if name in dangers else name, text) for name, text in rows.items()])
        if dangers:
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text("! wants care: its --help says why.")

    def _dangers(self) -> set[str]:
        """The commands of this group itself that a careless use can cost something."""
        commands = {command.path: command.effect for command in self.program.commands}
        return {name for name in self._rows() if commands.get(self._path(name)) == "danger"}

    def _aliases(self) -> list[str]:
        prefix = f"{self.path} " if self.path else ""
        names = [alias.removeprefix(prefix) for alias in self.program.aliases if alias.startswith(prefix)]
        return [name for name in names if " " not in name]

    def _path(self, name: str) -> str:
        """The path that a word below this group stands for."""
        path = f"{self.path} {name}".strip()
        return self.program.aliases.get(path, path)

    def _rows(self) -> dict[str, str]:
        """The next word of every path below this group's, and what it is for."""
        prefix = f"{self.path} " if self.path else ""
        rows: dict[str, str] = {}
        for command in self.program.commands:
            if command.path.startswith(prefix):
                name = command.path.removeprefix(prefix).split(" ")[0]
                rows[name] = self.program.groups.get(prefix + name, command.help).partition("\n")[0]
        return dict(sorted(rows.items()))


class _Command(TyperCommand):
    """One command. Its usage shows what must be given bare: braces are no part of what is typed."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.removeprefix("{").removesuffix("}") for piece in super().collect_usage_pieces(ctx)]


def _group(program: Program, name: str, path: str) -> Group:
    group = Group(
        name=name,
        help=program.groups[path].replace(_ANY_PROGRAM, program.name),
        no_args_is_help=True,
        rich_markup_mode=None,
        context_settings=_SETTINGS,
    )
    group.program, group.path = program, path
    return group


def _load(program: Program, command: Command, name: str) -> TyperCommand:
    callback = _function(command.target)
    text = (inspect.getdoc(callback) or command.help).replace(_ANY_PROGRAM, program.name)
    app = _app()
    app.command(name, cls=_Command, help=text, context_settings=_SETTINGS)(callback)
    loaded = typer.main.get_command(app)
    assert isinstance(loaded, TyperCommand)
    return loaded


def _function(target: str) -> Callable[..., None]:
    module, _, name = target.partition(":")
    function: Callable[..., None] = getattr(import_module(module), name)
    return function


def _app(**settings: Any) -> typer.Typer:
    """Help in plain text: Rich would take 40 ms of a budget of 100, and boxes do not survive a pipe."""
    return typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, **settings)


def root(program: Program) -> TyperGroup:
    app = _app(cls=Group, no_args_is_help=True, context_settings=_SETTINGS)
    app.callback()(_function(program.root))
    group = typer.main.get_group(app)
    assert isinstance(group, Group)
    group.program = program
    return group
