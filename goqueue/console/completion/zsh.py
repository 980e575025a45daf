"""The completion script for zsh: a function for each path, as its own `_arguments` wants them."""

import re
from collections.abc import Iterable, Iterator

from goqueue.console.completion.tree import DIRECTORIES, FILES, LIVE, Flag, Node, Place, Value

_HEAD = """\
#compdef {program}
# Completes {program} in zsh; `{program} completion zsh` writes it.

{function}_live() {{
    local -a found
    found=("${{(@f)$({program} __complete $1 "$PREFIX" "${{(@)line_words[2,-1]}}" 2>/dev/null)}}")
    [[ -n $found ]] && compadd -a found
}}
"""

_TAIL = """
{function}() {{
    local -a line_words=("${{words[@]}}")
    {function}__root "$@"
}}

if [[ $funcstack[1] == {function} ]]; then
    {function} "$@"
else
    compdef {function} {program}
fi
"""


def script(program: str, nodes: Iterable[Node]) -> str:
    function = f"_{program.replace('-', '_')}"
    parts = [_HEAD.format(program=program, function=function)]
    found = list(nodes)
    words = {node.paths[0]: [path.rpartition(" ")[2] for path in node.paths] for node in found}
    parts += ["\n".join(_function(function, node, words)) for node in found]
    return "\n".join(parts) + _TAIL.format(program=program, function=function)


def _function(function: str, node: Node, words: dict[str, list[str]]) -> Iterator[str]:
    yield f"{_name(function, node.paths[0])}() {{"
    flags = [spec for flag in node.flags for spec in _flag(function, flag)]
    if node.children:
        yield "    local curcontext=$curcontext state line"
        yield "    local -a commands=("
        yield from (f"        {_quoted(f'{name}:{help_}')}" for name, help_ in node.children)
        yield "    )"
        yield "    _arguments -C -S \\"
        yield from (f"        {spec} \\" for spec in flags)
        yield "        '1: :->command' '*:: :->rest'"
        yield "    case $state in"
        yield "        command) _describe command commands ;;"
        yield "        rest) case $line[1] in"
        for name, _ in node.children:
            path = f"{node.paths[0]} {name}".strip()
            yield f"            {'|'.join(words[path])}) {_name(function, path)} ;;"
        yield "        esac ;;"
        yield "    esac"
    else:
        yield "    _arguments -S \\"
        yield from (f"        {spec} \\" for spec in flags)
        yield from (f"        {_place(function, place)} \\" for place in node.places)
        yield "        && return 0"
    yield "}\n"


def _flag(function: str, flag: Flag) -> Iterator[str]:
    """A flag under each of its names, of which one excludes the others unless it may be repeated."""
    others = f"({' '.join(flag.names)})" if not flag.repeats else "*"
    for name in flag.names:
        text = f"{others}{name}"
        if flag.value is not None:
            text += "=" if name.startswith("--") else "+"
        text += f"[{_plain(flag.help)}]"
        if flag.value is not None:
            text += f":{_plain(flag.metavar.lower())}:{_action(function, flag.value)}"
        yield _quoted(text)


def _place(function: str, place: Place) -> str:
    return _quoted(f"{'*' if place.repeats else ''}:{_plain(place.metavar.lower())}:{_action(function, place.value)}")


def _action(function: str, value: Value) -> str:
    if value.choices:
        return f"({' '.join(value.choices)})"
    if value.kind in LIVE:
        return f" {function}_live {value.kind}"  # the space keeps it as it is written
    return {FILES: "_files", DIRECTORIES: "_files -/"}.get(value.kind, " ")


def _name(function: str, path: str) -> str:
    return f"{function}__{path.replace(' ', '__').replace('-', '_') or 'root'}"


def _plain(text: str) -> str:
    """Without what means something to `_arguments`."""
    return re.sub(r"[\[\]:\\]", " ", text).strip()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
