"""The completion script for bash, which needs no other package.

Bash breaks words at `=` and `:` too, so `--output=js` arrives as three of them: they are put together first.
"""

from collections.abc import Iterable

from goqueue.console.completion.tree import DIRECTORIES, FILES, LIVE, Node, Value

_SCRIPT = """\
# Completes {program} in bash; `{program} completion bash` writes it.

{function}_at() {{
    children="" flags="" values="" places=""
    case $1 in
{cases}
    esac
}}

{function}_propose() {{
    local kind=$1 current=$2
    case $kind in
        {live}) mapfile -t COMPREPLY < <({program} __complete "$kind" "$current" "${{words[@]:1}}" 2>/dev/null) ;;
        {files}) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
        {directories}) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
        ?*) mapfile -t COMPREPLY < <(compgen -W "${{kind//|/ }}" -- "$current") ;;
    esac
}}

{function}() {{
    local path="" word="" kind="" flag="" number=0 index=0 only="" bare=""
    local rest=$COMP_LINE words=() children flags values places current
    COMPREPLY=()
    for ((index = 0; index <= COMP_CWORD; index++)); do
        word=${{COMP_WORDS[index]}}
        bare="${{rest#"${{rest%%[![:space:]]*}}"}}"
        if ((index)) && [[ $bare == "$rest" ]]; then
            words[${{#words[@]}} - 1]+=$word
        else
            words+=("$word")
        fi
        rest=${{bare#"$word"}}
    done
    current=${{words[${{#words[@]}} - 1]}}
    {function}_at ""
    for ((index = 1; index < ${{#words[@]}} - 1; index++)); do
        word=${{words[index]}}
        if [[ -z $only && $word == -- ]]; then
            only=yes
        elif [[ -z $only && $word == -?* ]]; then
            [[ " $values" == *" $word="* ]] || continue
            index=$((index + 1))
            ((index < ${{#words[@]}} - 1)) || flag=$word
        elif [[ -n $children && ( " $children " == *" $word "* || $word == @({aliases}) ) ]]; then
            path="${{path:+$path }}$word"
            {function}_at "$path"
        else
            number=$((number + 1))
        fi
    done
    if [[ -z $only && -z $flag && $current == --*=* && " $values" == *" ${{current%%=*}}="* ]]; then
        flag=${{current%%=*}} current=${{current#*=}}
    fi
    if [[ -n $flag ]]; then
        kind="${{values#* $flag=}}"
        {function}_propose "${{kind%% *}}" "$current"
    elif [[ -z $only && $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$current")
    elif [[ -n $children ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$children" -- "$current")
    else
        for kind in $places; do
            if ((number == 0)) || [[ $kind == *+ ]]; then
                {function}_propose "${{kind%+}}" "$current"
                return
            fi
            number=$((number - 1))
        done
    fi
}}

complete -F {function} {program}
"""


def script(program: str, nodes: Iterable[Node]) -> str:
    found = list(nodes)
    aliases = [alias.rpartition(" ")[2] for node in found for alias in node.paths[1:]]
    return _SCRIPT.format(
        program=program,
        function=f"_{program.replace('-', '_')}",
        cases="\n".join(map(_case, found)),
        aliases="|".join(sorted(aliases)) or '""',
        live="|".join(LIVE),
        files=FILES,
        directories=DIRECTORIES,
    )


def _case(node: Node) -> str:
    names = [name for flag in node.flags for name in flag.names]
    values = [f" {name}={_kind(flag.value)}" for flag in node.flags if flag.value for name in flag.names]
    places = [f"{_kind(place.value) or '-'}{'+' if place.repeats else ''}" for place in node.places]
    lines = {
        "children": " ".join(name for name, _ in node.children),
        "flags": " ".join(names),
        "values": "".join(values),
        "places": " ".join(places),
    }
    return "\n".join(
        (
            f"        {'|'.join(map(_quoted, node.paths))})",
            *(f"            {name}={_quoted(text)}" for name, text in lines.items() if text),
            "            ;;",
        )
    )


def _kind(value: Value) -> str:
    return "|".join(value.choices) or value.kind


def _quoted(text: str) -> str:
    return f"'{text}'"
