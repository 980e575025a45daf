"""One small Spark for all tests, and commands that run in the process of a test with it."""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.spark import session as sessions
from goqueue.spark.launch import class_archive
from goqueue.spark.launch.java import find_java
from tests.spark.programs import Finished, Inspect, run_program
from tests.spark.shared_jvm import shared_session
from tests.spark.traffic import Traffic, traffic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def _no_class_archive() -> Iterator[None]:
    """Use the class archive of this environment if it has one: to make one takes longer than it saves in one run."""
    path = class_archive.archive_path(find_java(), sessions._spark_home())
    with pytest.MonkeyPatch.context() as patch:
        if path is None or not class_archive.is_ready(path):
            patch.setenv("XDG_CACHE_HOME", f"{os.devnull}/none")
        yield


@pytest.fixture(scope="module", autouse=True)
def no_class_archive_is_made() -> Iterator[None]:
    with _no_class_archive():
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A session for all tests; a test that changes something in it, such as a view, changes it back."""
    base = tmp_path_factory.getbasetemp()
    with ExitStack() as stack:
        with _no_class_archive():
            session = shared_session(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)
            running = stack.enter_context(session)
        yield running


@pytest.fixture(scope="module", autouse=True)
def quick_compiler() -> Iterator[None]:
    """Start other JVMs without the thorough compiler: they end before it would pay."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
        yield


@pytest.fixture(scope="session")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    """A data directory that a broker has worked in. It is only read."""
    return traffic(tmp_path_factory.mktemp("worked") / "data")


@pytest.fixture
def inspect(monkeypatch: pytest.MonkeyPatch) -> Inspect:
    """Run `goqueue spark-inspect` in this process, for calls that end before Spark is needed."""
    monkeypatch.setattr(sessions, "session", _refuse)
    return _run_inspect


@pytest.fixture
def inspect_spark(spark: "SparkSession", monkeypatch: pytest.MonkeyPatch) -> Inspect:
    """Run `goqueue spark-inspect` in this process, with the Spark of the tests."""

    @contextmanager
    def shared(*_: Any, **__: Any) -> "Iterator[SparkSession]":
        yield spark

    monkeypatch.setattr(sessions, "session", shared)
    return _run_inspect


def _refuse(*_: Any, **__: Any) -> None:
    raise AssertionError("Spark was started")


def _run_inspect(*words: str, stdin: str = "") -> Finished:
    return run_program("spark-inspect", *words, stdin=stdin)
