"""Generated files are current: the command reference and the completion scripts."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FILES: dict[str, str] = runpy.run_path(str(ROOT / "docs/generate.py"))["files"]()


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_that_is_made_is_current(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == FILES[name], "renew it: make docs"


def test_no_completion_is_there_for_a_program_that_is_not() -> None:
    there = {f"completions/{path.name}" for path in (ROOT / "completions").iterdir()}
    assert there == {name for name in FILES if name.startswith("completions/")}


def test_the_reference_is_no_wider_than_a_page() -> None:
    block = False
    for line in FILES["docs/reference.md"].splitlines():
        block ^= line.startswith("```")
        assert not block or len(line) <= 100, line
