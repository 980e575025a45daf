"""Shell completion: a short script for each shell, which asks the program for the words that fit.

`PROGRAM __complete LINE` prints one word per line, with a tab and its help behind it. A single line `:files` or
`:directories` leaves the proposals to the shell. A failure prints nothing: completion must not disturb a shell.
"""

import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from goqueue.console import command_tree, contexts, terminal
from goqueue.console.command_tree import Program
from goqueue.console.completion_names import (
    BACKUPS,
    CONTEXTS,
    GROUPS,
    OPERATIONS,
    SUBJECTS,
    TENANTS,
    TOPICS,
    TRANSACTIONS,
    VERSIONS,
    names,
)
from goqueue.console.consumer_groups import DELIVERY_SETTINGS
from goqueue.console.formatting import PRIORITIES
from goqueue.console.quotas import QUOTAS
from goqueue.console.topic_settings import completed_settings

if TYPE_CHECKING:
    pass

Proposal = tuple[str, str]
"""A word and its help."""

Kind = str | Sequence[Proposal]
"""The kind of a word, such as the name of a topic, or all words that it can be."""

FILES, DIRECTORIES, ANYTHING = ":files", ":directories", ""

Shell = Literal["bash", "zsh", "fish"]
SHELLS: tuple[Shell, ...] = get_args(Shell)

_BASH = """\
# Completes {program} in bash; `{program} completion bash` writes this file.

{function}() {{
    local found current=${{COMP_WORDS[COMP_CWORD]#=}}
    mapfile -t found < <({program} __complete "${{COMP_LINE:0:COMP_POINT}}" 2>/dev/null)
    case ${{found[0]}} in
        :files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        :directories) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        *) COMPREPLY=("${{found[@]%%$'\\t'*}}") ;;
    esac
}}

complete -F {function} {program}
"""

_ZSH = """\
#compdef {program}
# Completes {program} in zsh; `{program} completion zsh` writes this file.

{function}() {{
    local line="${{(j: :)words[1,CURRENT-1]}} $PREFIX"
    local -a found values shown
    [[ $PREFIX == --*=* ]] && compset -P '--*='
    found=("${{(@f)$({program} __complete "$line" 2>/dev/null)}}")
    case $found[1] in
        :files) _files ;;
        :directories) _files -/ ;;
        ?*)
            values=("${{(@)found%%$'\\t'*}}")
            shown=("${{(@)found/$'\\t'/  -- }}")
            compadd -l -d shown -a values
            ;;
    esac
}}

if [[ $funcstack[1] == {function} ]]; then
    {function} "$@"
else
    compdef {function} {program}
fi
"""

_FISH = """\
# Completes {program} in fish; `{program} completion fish` writes this file.

function {function}
    set -l token (commandline -ct)
    set -l prefix (string match -r -- '^--[^=]*=' $token)
    set -l found ({program} __complete (commandline -cp | string collect) 2>/dev/null)
    switch "$found[1]"
        case :files
            __fish_complete_path (string replace -r -- '^--[^=]*=' '' $token)
        case :directories
            __fish_complete_directories (string replace -r -- '^--[^=]*=' '' $token)
        case '?*'
            printf '%s\\n' "$prefix"$found
    end
end

complete -c {program} -f -a '({function})'
"""

_SCRIPTS: dict[Shell, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(
    context: typer.Context, shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")]
) -> None:
    """Write the completion script of this program for a shell.

    \b
      PROGRAM completion bash \\
        > ~/.local/share/bash-completion/completions/PROGRAM
      PROGRAM completion zsh > "${fpath[1]}/_PROGRAM"
      PROGRAM completion fish \\
        > ~/.config/fish/completions/PROGRAM.fish

    A new shell then completes commands, flags and values, and the names of topics, groups and contexts. To try it
    in this shell: `source <(PROGRAM completion bash)`, or `PROGRAM completion fish | source`.
    """
    root: Any = context.find_root().command
    terminal.write(script(root.program.name, shell))


def script(program: str, shell: Shell) -> str:
    return _SCRIPTS[shell].format(program=program, function=f"_{program.replace('-', '_')}")


def answer(registry: str, line: str) -> None:
    """Print the words that fit at the end of `line`."""
    try:
        found = proposals(import_module(registry).PROGRAM, line, os.environ)
    except Exception:
        return
    if sys.stdout is not None:
        sys.stdout.write("".join(f"{word}\t{text}\n" if text else f"{word}\n" for word, text in found))
        sys.stdout.flush()


def proposals(program: Program, line: str, environment: Mapping[str, str]) -> Sequence[Proposal]:
    """Return the words that fit at the end of `line`, each with its help or an empty text."""
    _, *words, current = _split(line)
    root = command_tree.root_command(program)
    with root.make_context(program.name, [], resilient_parsing=True) as context:
        position = _Position(program, root, context)
        for word in words:
            position.advance(word)
        flag, equals, value = current.partition("=")
        if equals and position.takes_value(flag):
            position.pending, current = position.option(flag), value
        kind = position.kind(current)
    if isinstance(kind, str):
        if kind in {FILES, DIRECTORIES}:
            return [(kind, "")]
        return [(name, "") for name in names(kind, current, words, environment)]
    return [proposal for proposal in kind if proposal[0].startswith(current)]


def _split(line: str) -> list[str]:
    """Split a line as a shell does, and close an open quote; the last word is the one at the cursor."""
    for end in ("", "'", '"'):
        try:
            words = shlex.split(line + end)
        except ValueError:
            continue
        return [*words, ""] if not end and line[-1:].isspace() else words
    return []


class _Position:
    """The place in a command line behind the words so far."""

    def __init__(self, program: Program, root: Any, context: Any) -> None:
        self.pending: Any = None
        """The flag whose value comes next."""
        self._program = program
        self._context = context
        self._command = root
        self._path = ""
        self._arguments: list[str] = []
        self._only_arguments = False

    def advance(self, word: str) -> None:
        if self.pending is not None:
            self.pending = None
        elif not self._only_arguments and word == "--":
            self._only_arguments = True
        elif not self._only_arguments and word.startswith("-") and word != "-":
            self.pending = self.option(word) if self.takes_value(word) else None
        elif self._is_group and (command := self._command.get_command(self._context, word)):
            path = f"{self._path} {word}".strip()
            self._command, self._path = command, self._program.aliases.get(path, path)
        else:
            self._arguments.append(word)

    @property
    def _is_group(self) -> bool:
        return hasattr(self._command, "list_commands")

    def _parameters(self, kind: str) -> list[Any]:
        return [one for one in self._command.get_params(self._context) if one.param_type_name == kind]

    def option(self, name: str) -> Any:
        return next((one for one in self._parameters("option") if name in (*one.opts, *one.secondary_opts)), None)

    def takes_value(self, name: str) -> bool:
        option = None if self._only_arguments or self.pending is not None else self.option(name)
        return option is not None and not option.is_flag and not option.count

    def kind(self, current: str) -> Kind:
        """Return the kind of the next word, which begins with `current`."""
        if self.pending is not None:
            return self._value_kind(self.pending)
        if current.startswith("-") and not self._only_arguments:
            options = self._parameters("option")
            return [(name, _summary(one.help)) for one in options for name in (*one.opts, *one.secondary_opts)]
        if self._is_group:
            names = sorted(self._command.list_commands(self._context))
            found = [(name, self._command.get_command(self._context, name)) for name in names]
            return [(name, command.get_short_help_str(200)) for name, command in found]
        arguments = self._parameters("argument")
        place = min(len(self._arguments), len(arguments) - 1)
        if place < 0 or (len(self._arguments) > place and arguments[place].nargs == 1):
            return ()
        metavar = re.sub(r"[\[\].]", "", arguments[place].make_metavar(ctx=self._context))
        if self._path == "schema diff" and metavar in {"FROM", "TO"}:
            return self._versions()
        return _kind(arguments[place], metavar, self._path)

    def _value_kind(self, flag: Any) -> Kind:
        """Return the kind of the value of a flag."""
        if "--set" in flag.opts and self._path.startswith("group "):
            return _words(f"{name}=" for name in DELIVERY_SETTINGS)
        if "--set" in flag.opts and self._path.startswith("topic "):
            return _words(completed_settings())
        if "--version" in flag.opts and self._path.startswith("schema "):
            return self._versions()
        return _flag_kind(flag)

    def _versions(self) -> Kind:
        return f"{VERSIONS}/{self._arguments[0]}" if self._arguments else ANYTHING


_BY_METAVAR: dict[str, Kind] = {
    "TOPIC": TOPICS,
    "GROUP": GROUPS,
    "CONTEXT": CONTEXTS,
    "SUBJECT": SUBJECTS,
    "SUBJECT|ID|FILE": SUBJECTS,
    "TENANT": TENANTS,
    "EARLIER": BACKUPS,
    "LATER": BACKUPS,
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
    "undo": OPERATIONS,
    "backup": BACKUPS,
    "restore": BACKUPS,
}


def _words(texts: Iterable[str]) -> Sequence[Proposal]:
    return [(text, "") for text in texts]


_BY_METAVAR["QUOTA=VALUE"] = _words(f"{name}=" for name in QUOTAS)
_BY_FLAG: dict[str, Kind] = {
    "--context": CONTEXTS,
    "--group": GROUPS,
    "--tenant": TENANTS,
    "--from": _words(("earliest", "latest")),
    "--to": _words(("earliest", "latest", "now")),
    "--priority": _words(PRIORITIES),
    "--state": _words(("pending", "delivered", "cancelled", "expired")),
    "--unset": _words(contexts.KEYS),
}
"""Flags whose metavar does not give the kind of their value."""


def _flag_kind(option: Any) -> Kind:
    if not hasattr(option.type, "choices"):
        for name in option.opts:
            if name in _BY_FLAG:
                return _BY_FLAG[name]
    metavar = option.metavar or "VALUE"
    return ANYTHING if metavar == "NAME" else _kind(option, metavar, "")


def _kind(parameter: Any, metavar: str, path: str) -> Kind:
    """Derive the kind of a value from the metavar; NAME or ID is one of the command's noun, unless it creates one."""
    if choices := getattr(parameter.type, "choices", None):
        return _words(map(str, choices))
    if re.fullmatch(r"[a-z0-9-]+(\|[a-z0-9-]+)+", metavar):
        return _words(metavar.split("|"))
    noun, _, verb = path.partition(" ")
    if verb == "create":
        return ANYTHING
    return _BY_NOUN.get(noun, ANYTHING) if metavar in {"NAME", "ID"} else _BY_METAVAR.get(metavar, ANYTHING)


def _summary(text: str | None) -> str:
    return re.split(r"[.;:]\s|\.$| \(", text or "", maxsplit=1)[0].strip()
