"""Generate documentation from the code: the command reference, the settings, completions and transaction states.

`make docs` runs it; tests assert that the generated files are current.
"""

import re
import runpy
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docs.monitoring import grafana_files, prometheus_files
from goqueue.broker.transactions import records
from goqueue.commands import registry as daemon
from goqueue.commands import settings_reference
from goqueue.console import command_tree
from goqueue.console.command_tree import Command, Program
from goqueue.console.completion import SHELLS, Shell, script
from goqueue_admin import registry as admin
from goqueue_cli import registry as cli

PROGRAMS: tuple[Program, ...] = (daemon.PROGRAM, cli.PROGRAM, admin.PROGRAM)

_NAMES: dict[Shell, str] = {"bash": "{}.bash", "zsh": "_{}", "fish": "{}.fish"}
"""The file names that each shell expects."""


ROOT = Path(__file__).resolve().parent.parent
_STATES = re.compile(r"(?<=<!-- states -->\n).*?(?=<!-- /states -->)", re.DOTALL)


def _transactions() -> str:
    """Insert the table of states into its page, as a diagram and as a list."""
    arrows = [f"    {one} --> {other}: {event}" for (one, event), other in records.TRANSITIONS.items()]
    diagram = ["```mermaid", "stateDiagram-v2", "    [*] --> empty: init", *arrows, "```"]
    meanings = [
        "| state | what it means |",
        "| --- | --- |",
        *(f"| `{one}` | {said} |" for one, said in records.MEANINGS.items()),
    ]
    page = (ROOT / "docs/transactions.md").read_text(encoding="utf-8")
    return _STATES.sub("\n".join(["", *diagram, "", *meanings, "", ""]), page)


# --- command reference ---

_WIDTH = 100
_COMMON_SHARE = 0.5
"""Options that this share of a program's commands have are listed once, for the program."""
_EXAMPLES = re.compile(r"^(?: {4}.*\n)+\n", re.MULTILINE)

_INTRODUCTION = """\
# Command reference

The `--help` text of every command without its examples, and without the options that most commands share: those are
listed once for each program. `make docs` writes this page. See also [cli.md](cli.md), [contexts.md](contexts.md) and
the exit codes in [errors.md](errors.md). Commands marked `danger` delete, move or change something that cannot simply
be undone.
"""


def _reference() -> str:
    """Return a page of Markdown with every command of every program."""
    return "\n".join([_INTRODUCTION, *(part for program in PROGRAMS for part in _program(program))])


def _program(program: Program) -> Iterator[str]:
    root = command_tree.root_command(program)
    with root.make_context(program.name, [], resilient_parsing=True, terminal_width=_WIDTH) as context:
        helps = {command: _help(root, context, command.path) for command in sorted(program.commands)}
        common = _common_options(helps.values())
        yield f"## {program.name}\n\n{_block(_help_text(root, context))}"
        if common:
            yield "Common options:\n\n" + _block("".join(common))
        if program.aliases:
            pairs = sorted(program.aliases.items())
            yield "".join(f"`{program.name} {alias}` is `{program.name} {path}`.\n" for alias, path in pairs)
        for command, text in helps.items():
            yield _section(program, command, text, common)


def _section(program: Program, command: Command, text: str, common: list[str]) -> str:
    own = "".join(part for part in _parts(text) if part not in common)
    own = _EXAMPLES.sub("", own).removesuffix("Options:\n").rstrip() + "\n"
    mark = " `danger`" if command.effect == "danger" else ""
    return f"### {program.name} {command.path}{mark}\n\n{_block(own)}"


def _parts(text: str) -> list[str]:
    """Split a help text before each option, so that an option is one part with its continuation lines."""
    return re.split(r"(?m)^(?=  -)", text)


def _common_options(helps: Iterable[str]) -> list[str]:
    found = [set(_options(text)) for text in helps]
    counts = Counter(option for options in found for option in options)
    common = {option for option, count in counts.items() if count >= max(2, len(found) * _COMMON_SHARE)}
    for text in helps:  # in the order of the first command that has them all
        if common <= set(_options(text)):
            return [option for option in _options(text) if option in common]
    return sorted(common)


def _options(text: str) -> list[str]:
    return [part for part in _parts(text) if part.startswith("  -")]


def _help(group: Any, context: Any, path: str) -> str:
    """Return the help text of a path, at the page's width."""
    name, _, rest = path.partition(" ")
    command = group.get_command(context, name)
    with command.make_context(
        name, [], parent=context, resilient_parsing=True, terminal_width=_WIDTH, max_content_width=_WIDTH
    ) as inner:
        return _help(command, inner, rest) if rest else _help_text(command, inner)


def _help_text(command: Any, context: Any) -> str:
    return "".join(line.rstrip() + "\n" for line in command.get_help(context).splitlines())


def _block(text: str) -> str:
    return f"```text\n{text}```\n"


# --- files ---


def files() -> dict[str, str]:
    """Return the content of every generated file by its path."""
    renewed = runpy.run_path(str(ROOT / "docs/http_tables.py"))["renewed"]
    rpc_renewed = runpy.run_path(str(ROOT / "docs/rpc_tables.py"))["renewed"]
    scripts = {
        f"completions/{_NAMES[shell].format(program.name)}": script(program.name, shell)
        for program in PROGRAMS
        for shell in SHELLS
    }
    pages = {
        "docs/reference.md": _reference(),
        "docs/configuration.md": settings_reference.page(),
        "docs/http.md": renewed((ROOT / "docs/http.md").read_text(encoding="utf-8")),
        "docs/grpc.md": rpc_renewed((ROOT / "docs/grpc.md").read_text(encoding="utf-8")),
        "docs/transactions.md": _transactions(),
        "docs/monitoring.md": prometheus_files.renewed_page((ROOT / "docs/monitoring.md").read_text(encoding="utf-8")),
    }
    return pages | scripts | _monitoring()


def _monitoring() -> dict[str, str]:
    """Return the rules of Prometheus and the dashboards of Grafana."""
    return {
        "configs/prometheus/rules/goqueue.yml": prometheus_files.rules(),
        "configs/prometheus/tests/alerts.yml": prometheus_files.rule_tests(),
        **{f"configs/grafana/{name}": text for name, text in grafana_files.files().items()},
    }


def main() -> None:
    for name, text in files().items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
