"""Snapshots are kept as what they are: a browser shows them."""

import asyncio
import inspect
from inspect import iscoroutinefunction
from multiprocessing import forkserver

import pytest
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]

SVGImageExtension.file_extension = "svg"


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    """Start the server of forked programs while stderr is a file: the dashboard's stderr has no descriptor."""
    forkserver.ensure_running()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function."""
    if not iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
