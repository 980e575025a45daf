"""The completion script for fish: a line for each flag, place and command, with the path where it counts."""

from collections.abc import Iterable, Iterator

from goqueue.console.completion.tree import DIRECTORIES, FILES, LIVE, Flag, Node, Value

_HEAD = """\
# Completes {program} in fish; `{program} completion fish` writes it.

# The commands so far, and how many other words there are behind them.
function {function}_path
    set -l taking {taking}
    set -l paths {paths}
    set -l path
    set -l number 0
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $word
            contains -- $word $taking; and set skip 1
        else if contains -- (string join ' ' $path $word) $paths
            set path $path $word
        else
            set number (math $number + 1)
        end
    end
    echo "$path"
    echo $number
end

function {function}_at
    set -l found ({function}_path)
    contains -- "$found[1]" $argv
end

function {function}_place
    set -l found ({function}_path)
    contains -- "$found[1]" $argv[3..-1]; and test $found[2] $argv[1] $argv[2]
end

function {function}_live
    set -l typed (commandline -ct | string replace -r '^--[^=]*=' '')
    {program} __complete $argv[1] "$typed" (commandline -opc)[2..-1] 2>/dev/null
end

complete -c {program} -f
"""


def script(program: str, nodes: Iterable[Node]) -> str:
    found = list(nodes)
    function = f"__{program.replace('-', '_')}"
    taking = sorted({name for node in found for flag in node.flags if flag.value for name in flag.names})
    paths = sorted(path for node in found for path in node.paths if path)
    head = _HEAD.format(
        program=program, function=function, taking=" ".join(taking), paths=" ".join(map(_quoted, paths))
    )
    lines = [line for node in found for line in _lines(program, function, node)]
    return head + "".join(f"{line}\n" for line in lines)


def _lines(program: str, function: str, node: Node) -> Iterator[str]:
    at = _quoted(f"{function}_at {' '.join(map(_inner, node.paths))}")
    start = f"complete -c {program} -n"
    for name, text in node.children:
        yield f"{start} {at} -a {name} -d {_quoted(text)}"
    for flag in node.flags:
        yield f"{start} {at} {_flag(function, flag)}"
    for number, place in enumerate(node.places):
        action = _action(function, place.value)
        if action:
            test = "-ge" if place.repeats else "-eq"
            where = _quoted(f"{function}_place {test} {number} {' '.join(map(_inner, node.paths))}")
            yield f"{start} {where} {action}"


def _flag(function: str, flag: Flag) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names]
    text = f"{' '.join(names)} -d {_quoted(flag.help)}"
    if flag.value is None:
        return text
    needs = "-r" if flag.value.kind == FILES else "-x"
    return f"{text} {needs} {_action(function, flag.value)}".rstrip()


def _action(function: str, value: Value) -> str:
    if value.choices:
        return f"-a {_quoted(' '.join(value.choices))}"
    if value.kind in LIVE:
        return f"-a {_quoted(f'({function}_live {value.kind})')}"
    return {FILES: "-F", DIRECTORIES: "-a '(__fish_complete_directories)'"}.get(value.kind, "")


def _inner(path: str) -> str:
    return f'"{path}"'


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
