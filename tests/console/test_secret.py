"""Secrets: read when they are needed, and never shown."""

from pathlib import Path

import pytest

from goqueue.console.options import Secret
from goqueue.errors import PathInvalid


def test_a_secret_is_not_in_its_own_picture() -> None:
    assert "s3cret" not in f"{Secret('s3cret')!r} {Secret('s3cret').shown}"
    assert Secret("s3cret").read() == "s3cret"


def test_a_file_is_read_once_without_the_end_of_its_line(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("s3cret\n")
    secret = Secret(file=str(file))
    assert secret.shown == str(file)
    assert secret.read() == "s3cret"
    file.unlink()
    assert secret.read() == "s3cret"


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_a_file_without_a_key_is_told_by_its_name(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PathInvalid, match=str(file)) as refusal:
        Secret(file=str(file)).read()
    assert ("goqueue key create" in (refusal.value.hint or "")) == (content in {b"", b"\n"})
