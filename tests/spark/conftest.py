"""One small Spark for all tests of a process, started as commands start it; the commands themselves start quickly."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.session import Cluster, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """Whoever changes something in it, such as a view, takes it back."""
    with session(Cluster("local[2]"), name="tests", is_brief=True, memory="768m") as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def quick_compiler() -> Iterator[None]:
    """No JVM of a test lives long enough for the thorough compiler, which takes half of the time of its start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
        yield
