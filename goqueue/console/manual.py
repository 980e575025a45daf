"""The reference of the commands, written from the registries and from what each command says of itself."""

from collections.abc import Iterable, Iterator
from typing import Any

from goqueue.console import groups
from goqueue.console.command import Command, Program

_WIDTH = 100


def page(programs: Iterable[Program]) -> str:
    """A page of Markdown with every command of every program."""
    found = list(programs)
    parts = [_INTRODUCTION, *(_summary(program) for program in found)]
    parts += [part for program in found for part in _program(program)]
    return "\n".join(parts)


_INTRODUCTION = """\
# Reference of the commands

What `--help` says, of every command. `make docs` writes this page; [cli.md](cli.md) tells how the commands are
used together, [contexts.md](contexts.md) how a broker is chosen, and [errors.md](errors.md) what exit codes mean.

A command that is marked `read` changes nothing, `write` adds to what is there, and `danger` can cost something:
lists of commands mark it with `!`.
"""


def _summary(program: Program) -> str:
    rows = "".join(map(_row, [program.name] * len(program.commands), sorted(program.commands)))
    aliases = "".join(
        f"`{program.name} {alias}` is `{program.name} {path}`.\n" for alias, path in sorted(program.aliases.items())
    )
    title = f"## {program.name}\n\n| Command | | Effect |\n| --- | --- | --- |\n"
    return "".join((title, rows, f"\n{aliases}" if aliases else ""))


def _row(program: str, command: Command) -> str:
    name = f"{program} {command.path}"
    return f"| [`{name}`](#{name.replace(' ', '-')}) | {command.help} | {command.effect} |\n"


def _program(program: Program) -> Iterator[str]:
    root = groups.root(program)
    with root.make_context(program.name, [], resilient_parsing=True, terminal_width=_WIDTH) as context:
        yield f"## The flags of {program.name}\n\n{_block(root, context)}"
        for command in sorted(program.commands):
            yield f"### {program.name} {command.path}\n\n{_help(root, context, command.path)}"


def _help(group: Any, context: Any, path: str) -> str:
    """What `--help` of a path says, at a width that no terminal chooses."""
    name, _, rest = path.partition(" ")
    command = group.get_command(context, name)
    with command.make_context(
        name, [], parent=context, resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH
    ) as inner:
        return _help(command, inner, rest) if rest else _block(command, inner)


def _block(command: Any, context: Any) -> str:
    lines = (line.rstrip() for line in command.get_help(context).splitlines())
    return "```text\n{}\n```\n".format("\n".join(lines))
