"""Write what is made from the code: the reference, the completions of the shells, the states of a transaction.

`make docs` runs it; tests assert that what it writes is current.
"""

import re
from pathlib import Path

from goqueue.broker.transactions import states
from goqueue.commands import reference
from goqueue.commands import registry as daemon
from goqueue.console import manual
from goqueue.console.command import Program
from goqueue.console.completion.command import SHELLS, Shell, script
from goqueue_admin import registry as admin
from goqueue_cli import registry as cli

PROGRAMS: tuple[Program, ...] = (daemon.PROGRAM, cli.PROGRAM, admin.PROGRAM)

_NAMES: dict[Shell, str] = {"bash": "{}.bash", "zsh": "_{}", "fish": "{}.fish"}
"""As each shell looks for them."""


ROOT = Path(__file__).resolve().parent.parent
_STATES = re.compile(r"(?<=<!-- states -->\n).*?(?=<!-- /states -->)", re.DOTALL)


def _transactions() -> str:
    """The page about them, with the table of states as a diagram."""
    arrows = [f"    {one} --> {other}: {event}" for (one, event), other in states.TABLE.items()]
    diagram = ["```mermaid", "stateDiagram-v2", "    [*] --> empty: init", *arrows, "```"]
    meanings = [
        "| state | what it means |",
        "| --- | --- |",
        *(f"| `{one}` | {said} |" for one, said in states.MEANINGS.items()),
    ]
    page = (ROOT / "docs/transactions.md").read_text(encoding="utf-8")
    return _STATES.sub("\n".join(["", *diagram, "", *meanings, "", ""]), page)


def files() -> dict[str, str]:
    """Every file by its path below the root of the repository."""
    scripts = {
        f"completions/{_NAMES[shell].format(program.name)}": script(program, shell)
        for program in PROGRAMS
        for shell in SHELLS
    }
    pages = {
        "docs/reference.md": manual.page(PROGRAMS),
        "docs/configuration.md": reference.page(),
        "docs/transactions.md": _transactions(),
    }
    return pages | scripts


def main() -> None:
    for name, text in files().items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
