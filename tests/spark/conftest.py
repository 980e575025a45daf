"""One small Spark for all tests of a process, started as commands start it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from goqueue.spark.launch.machine import Machine
from goqueue.spark.session import Cluster, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    with started(Cluster("local[2]"), "tests", Machine(memory="768m")) as session:
        yield session
