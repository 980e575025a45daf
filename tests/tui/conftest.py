"""Snapshots are kept as what they are: a browser shows them."""

import asyncio
import inspect
from inspect import iscoroutinefunction
from multiprocessing import forkserver
from typing import Any

import pytest
from pytest_textual_snapshot import SVGImageExtension  # type: ignore[import-untyped]
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

SVGImageExtension.file_extension = "svg"


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> None:
    """Start the server of forked programs while stderr is a file: the dashboard's stderr has no descriptor."""
    forkserver.ensure_running()


@pytest.fixture(scope="session", autouse=True)
def rules_parsed_once() -> None:
    """Keep the rules of style sheets: each app would parse the same texts for an eighth of its CPU time."""
    parse_rules = Stylesheet._parse_rules
    parsed = dict[Any, list[RuleSet]]()

    def parse_once(sheet: Stylesheet, *place: Any, **options: Any) -> list[RuleSet]:
        key = (place, *sorted(options.items()), *sheet._variables.items())
        if key not in parsed:
            parsed[key] = parse_rules(sheet, *place, **options)
        return parsed[key]

    Stylesheet._parse_rules = parse_once  # type: ignore[assignment, method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function."""
    if not iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
