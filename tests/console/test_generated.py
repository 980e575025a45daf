"""Generated files are current: the command reference and the completion scripts."""

import runpy
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


@cache
def files() -> dict[str, str]:
    made: dict[str, str] = runpy.run_path(str(ROOT / "docs/generate.py"))["files"]()
    return made


def test_files_that_are_made_are_current() -> None:
    for name, text in files().items():
        assert (ROOT / name).read_text(encoding="utf-8") == text, f"{name} is old: make docs"


def test_no_completion_is_there_for_a_program_that_is_not() -> None:
    there = {f"completions/{path.name}" for path in (ROOT / "completions").iterdir()}
    assert there == {name for name in files() if name.startswith("completions/")}


def test_the_reference_is_no_wider_than_a_page() -> None:
    block = False
    for line in files()["docs/reference.md"].splitlines():
        block ^= line.startswith("```")
        assert not block or len(line) <= 100, line
