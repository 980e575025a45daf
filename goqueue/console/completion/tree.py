"""A program as its completion sees it: paths, and the flags and places of each.

What a value is follows from how the help writes it: `TOPIC` is the name of a topic, `FILE` a file, `a|b` one
of these. `NAME` is a name of what the command is about, unless it creates it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from goqueue.console import contexts, figures, groups
from goqueue.console.command import Program

TOPICS, GROUPS, TRANSACTIONS, CONTEXTS = "topics", "groups", "transactions", "contexts"
FILES, DIRECTORIES = "files", "directories"
LIVE = (TOPICS, GROUPS, CONTEXTS)
"""What is asked for when somebody presses tab."""


@dataclass(frozen=True, slots=True)
class Value:
    """What may be written: a `kind` from above, or `choices`, or anything."""

    kind: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Flag:
    """`value` is None where the flag takes none."""

    names: tuple[str, ...]
    help: str
    value: Value | None
    metavar: str = ""
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """What stands at one place behind a command, or at all that are left."""

    metavar: str
    value: Value
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A command, or a group of them with its `children` by name. `paths` begin with the one to be proposed."""

    paths: tuple[str, ...]
    help: str
    flags: tuple[Flag, ...]
    places: tuple[Place, ...] = ()
    children: tuple[tuple[str, str], ...] = ()


_BY_METAVAR = {
    "TOPIC": TOPICS,
    "GROUP": GROUPS,
    "CONTEXT": CONTEXTS,
    "FILE": FILES,
    "PATH": FILES,
    "DIR": DIRECTORIES,
}
_BY_NOUN = {
    "topic": TOPICS,
    "delayed": TOPICS,
    "dlq": TOPICS,
    "group": GROUPS,
    "rebalance": GROUPS,
    "transaction": TRANSACTIONS,
}
_CREATES = {"create"}


def nodes(program: Program) -> list[Node]:
    """The root, and behind it every group and command in the order of their paths."""
    root = groups.root(program)
    with root.make_context(program.name, [], resilient_parsing=True) as context:
        return list(_nodes(program, root, context, ""))


def _nodes(program: Program, group: Any, context: Any, path: str) -> Iterator[Node]:
    below = [(name, group.get_command(context, name)) for name in sorted(group.list_commands(context))]
    children = tuple((name, one.get_short_help_str(200)) for name, one in below)
    flags = tuple(_flag(param) for param in group.get_params(context) if param.param_type_name == "option")
    yield Node(_paths(program, path), _first_line(group.help), flags, children=children)
    for name, command in below:
        inner = f"{path} {name}".strip()
        if hasattr(command, "list_commands"):
            yield from _nodes(program, command, context, inner)
        else:
            yield _leaf(program, command, context, inner)


def _leaf(program: Program, command: Any, context: Any, path: str) -> Node:
    params = command.get_params(context)
    return Node(
        _paths(program, path),
        _first_line(command.help),
        tuple(_flag(param) for param in params if param.param_type_name == "option"),
        tuple(_place(param, context, path) for param in params if param.param_type_name == "argument"),
    )


def _paths(program: Program, path: str) -> tuple[str, ...]:
    return (path, *(alias for alias, target in program.aliases.items() if target == path))


def _flag(param: Any) -> Flag:
    names = sorted((*param.opts, *param.secondary_opts), key=lambda name: name.startswith("--"))
    metavar = "" if param.is_flag else (param.metavar or "VALUE")
    value = None if param.is_flag or param.count else _flag_value(param, metavar)
    return Flag(tuple(names), _first_sentence(param.help or ""), value, metavar, bool(param.multiple))


def _flag_value(param: Any, metavar: str) -> Value:
    known = next((_BY_FLAG[name] for name in param.opts if name in _BY_FLAG), None)
    if known is not None and not hasattr(param.type, "choices"):
        return known
    return Value() if metavar == "NAME" else _value(param, metavar, "")


def _place(param: Any, context: Any, path: str) -> Place:
    metavar = re.sub(r"[\[\].]", "", param.make_metavar(ctx=context))
    return Place(metavar, _value(param, metavar, path), param.nargs != 1)


def _value(param: Any, metavar: str, path: str) -> Value:
    if choices := getattr(param.type, "choices", None):
        return Value(choices=tuple(map(str, choices)))
    if re.fullmatch(r"[a-z0-9-]+(\|[a-z0-9-]+)+", metavar):
        return Value(choices=tuple(metavar.split("|")))
    noun, _, verb = path.partition(" ")
    if metavar == "NAME" and verb not in _CREATES:
        return Value(_BY_NOUN.get(noun, ""))
    return Value("" if verb in _CREATES else _BY_METAVAR.get(metavar, ""))


_BY_FLAG = {
    "--context": Value(CONTEXTS),
    "--group": Value(GROUPS),
    "--from": Value(choices=("earliest", "latest")),
    "--to": Value(choices=("earliest", "latest", "now")),
    "--priority": Value(choices=figures.PRIORITIES),
    "--state": Value(choices=("pending", "delivered", "cancelled", "expired")),
    "--unset": Value(choices=contexts.KEYS),
}
"""What is worth proposing where the help says it in other words."""


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n")[0].strip()


def _first_sentence(text: str) -> str:
    return re.split(r"[.;:]\s|\.$| \(", text, maxsplit=1)[0].strip()
