"""Fixtures of all tests of commands."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the home directory of the programs, where undo files go."""
    monkeypatch.setenv("HOME", str(tmp_path))
    return str(tmp_path)
