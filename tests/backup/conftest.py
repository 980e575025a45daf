"""Fixtures of backups."""

from collections.abc import Iterator

import pytest

from tests.backup.object_store import CREDENTIALS, MotoServer


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoServer]:
    """An object store for all tests of a process: each has a bucket of its own."""
    with MotoServer() as server:
        yield server


@pytest.fixture
def store(moto: MotoServer, monkeypatch: pytest.MonkeyPatch) -> MotoServer:
    """The object store, with credentials in the environment."""
    for name, text in CREDENTIALS.items():
        monkeypatch.setenv(name, text)
    return moto
