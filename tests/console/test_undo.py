"""Files that say how to take a change back."""

import stat
from pathlib import Path

import pytest

from goqueue.console.undo import read_undo, write_undo
from goqueue.errors import PathInvalid


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_what_is_written_is_read_again_by_its_owner_alone(home: Path) -> None:
    path = write_undo("group-reset", "billing", {"offsets": {"orders": {"0": 17}}})
    assert path.parent == home / ".goqueue" / "undo"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    document = read_undo(path)
    assert (document["kind"], document["name"]) == ("group-reset", "billing")
    assert document["offsets"] == {"orders": {"0": 17}}
    assert document["made_at"].endswith("Z")


def test_two_changes_at_once_have_a_file_each() -> None:
    paths = {write_undo("group-reset", "billing", {"number": number}) for number in range(5)}
    assert {read_undo(path)["number"] for path in paths} == set(range(5))


def test_a_name_cannot_lead_out_of_the_directory(home: Path) -> None:
    path = write_undo("group-reset", "../../etc/passwd", {})
    assert path.parent == home / ".goqueue" / "undo"
    assert read_undo(path)["name"] == "../../etc/passwd"


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '{"kind": 1, "name": "a", "made_at": "b"}'])
def test_what_undoes_nothing_is_refused(home: Path, text: str) -> None:
    (home / "other.json").write_text(text)
    with pytest.raises(PathInvalid, match="does not say how to undo"):
        read_undo(home / "other.json")


def test_a_file_that_is_not_there_and_a_home_that_cannot_be_written_are_told(home: Path) -> None:
    with pytest.raises(PathInvalid, match="cannot be read: No such file"):
        read_undo(home / "none.json")
    (home / ".goqueue").write_text("a file stands in the way")
    with pytest.raises(PathInvalid, match="cannot be written under"):
        write_undo("group-reset", "billing", {})
