"""Shared by the measurements of one run: a large log, the same rows in other formats, and one Spark at a time."""

import atexit
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness.suite import Absent, Bench
from benchmarks.spark.stock import TOPIC, make_log
from goqueue.errors import SparkUnavailable
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.failure import describe_failure, is_spark_error
from goqueue.spark.reading.plan import EARLIEST, ReadBound, ReadPlan, TopicSelection, make_plan
from goqueue.spark.session import Cluster, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES, MESSAGES_QUICK = 16_000_000, 1_000_000


def messages(bench: Bench) -> int:
    return bench.size(MESSAGES, MESSAGES_QUICK)


def shared(bench: Bench, name: str, make: Callable[[Path], None]) -> Path:
    """A path in the scratch directory of the whole run. Who asks first makes it, and it goes when the run ends."""
    path = Path(bench.directory).parent / name
    if not path.exists():
        begun = path.with_name(f"{name}.begun")
        shutil.rmtree(begun, ignore_errors=True)
        make(begun)
        begun.rename(path)
    return path


def log(bench: Bench) -> DirectoryLogs:
    """The large log."""
    return DirectoryLogs.at(str(shared(bench, "orders", lambda path: make_log(path, messages(bench)))))


def plan_of(logs: DirectoryLogs, share: float = 1.0) -> ReadPlan:
    """Each partition up to this share of it."""
    plan = make_plan(logs, TopicSelection((TOPIC,)))
    ends = {one.ref: int(one.end * share) for one in plan.ranges}
    return make_plan(logs, TopicSelection((TOPIC,)), EARLIEST, ReadBound("latest", ends))


class _Stage:
    """The session that is open. What pyspark keeps of it is the process's own, so there is one at a time."""

    def __init__(self) -> None:
        self._owned = ExitStack()
        self._spark: SparkSession | None = None
        self._is_brief = False

    def spark(self, *, is_brief: bool) -> "SparkSession":
        if self._spark is None or self._is_brief != is_brief:
            self.end()
            try:
                self._spark = self._owned.enter_context(
                    session(Cluster(), name="goqueue benchmarks", is_brief=is_brief)
                )
            except SparkUnavailable as error:
                raise Absent(error.sentence) from None
            self._is_brief = is_brief
        return self._spark

    def end(self) -> None:
        self._spark = None
        self._owned.close()


_STAGE = _Stage()
atexit.register(_STAGE.end)


@contextmanager
def spark(*, is_brief: bool = False) -> "Iterator[SparkSession]":
    """As a command has it. It stays for the next measurement, unless this one fails."""
    try:
        yield _STAGE.spark(is_brief=is_brief)
    except GeneratorExit:
        raise
    except BaseException as error:
        try:
            if isinstance(error, Exception) and is_spark_error(error):
                raise describe_failure(error) from error
            raise
        finally:
            _STAGE.end()


@contextmanager
def fresh_spark() -> "Iterator[SparkSession]":
    """One in which nothing has happened yet, and that ends with the measurement."""
    _STAGE.end()
    try:
        with spark() as found:
            yield found
    finally:
        _STAGE.end()
