"""Write what is made from the commands: the reference, and the completions of the shells.

`make docs` runs it; tests assert that what it writes is current.
"""

from pathlib import Path

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


def files() -> dict[str, str]:
    """Every file by its path below the root of the repository."""
    scripts = {
        f"completions/{_NAMES[shell].format(program.name)}": script(program, shell)
        for program in PROGRAMS
        for shell in SHELLS
    }
    return {"docs/reference.md": manual.page(PROGRAMS), "docs/configuration.md": reference.page(), **scripts}


def main() -> None:
    root = Path(__file__).resolve().parent.parent
    for name, text in files().items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
