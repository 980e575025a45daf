"""One JVM for all processes of a test run: each has a session of its own in it."""

import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goqueue.spark import session as sessions
from goqueue.spark.launch import jvm
from goqueue.spark.session import Cluster, session
from tests.spark import forked_pythons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",  # to compile a query takes longer than to interpret it for a few rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
ROOT = Path(__file__).resolve().parents[2]
SERVE_FORKS = """
import sys
from tests.spark import forked_pythons, loaded_daemon
loaded_daemon.load()
forked_pythons.serve(int(sys.argv[1]))
"""


@contextmanager
def shared_session(place: Path) -> "Iterator[SparkSession]":
    """Open a session in the JVM whose address is in this directory.

    The first process starts it, and ends it after all others have left.
    """
    address = place / "spark-gateway"
    with (place / "spark-start").open("wb") as start, (place / "spark-users").open("wb") as users:
        fcntl.flock(start, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        if address.exists():
            fcntl.flock(start, fcntl.LOCK_UN)
            with _attached(*json.loads(address.read_text())) as spark:
                yield spark
            return
        conf = {**SETTINGS, "spark.python.daemon.module": forked_pythons.__name__}
        with (
            _forked_pythons(place),
            session(Cluster("local[2]", conf=conf), name="tests", is_brief=True, memory="1g") as spark,
        ):
            context: Any = spark.sparkContext
            parameters = context._gateway.gateway_parameters
            address.write_text(json.dumps([parameters.port, parameters.auth_token]))
            fcntl.flock(start, fcntl.LOCK_UN)
            yield spark
            fcntl.flock(start, fcntl.LOCK_EX)
            address.unlink()
            fcntl.flock(users, fcntl.LOCK_EX)


@contextmanager
def _forked_pythons(place: Path) -> Iterator[None]:
    """Have the JVM of this process start Pythons that are forked from one."""
    address, python = place / "forks", place / "forked-python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {forked_pythons.__file__} "$@"\n')
    python.chmod(0o755)

    def environment(spark_home: str, java_home: str, *, is_local: bool) -> dict[str, str]:
        chosen = {"PYSPARK_DRIVER_PYTHON": str(python), forked_pythons.ADDRESS: str(address)}
        return {**jvm.environment(spark_home, java_home, is_local=is_local), **chosen}

    with forked_pythons.listening(str(address)) as listening, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "environment", environment)
        server = subprocess.Popen(
            [sys.executable, "-c", SERVE_FORKS, str(listening.fileno())],
            stdin=subprocess.PIPE,
            env=jvm.environment("", "", is_local=True),
            pass_fds=[listening.fileno()],
        )
        with server:  # which ends with its input
            yield


@contextmanager
def _attached(port: int, secret: str) -> "Iterator[SparkSession]":
    """Open a session in a JVM that another process has started."""
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - loaded by tests with Spark only
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    with sessions._restored(), sessions._quiet():
        with jvm._gateway_environment(port, secret):
            gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
        SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
        running = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
        java_context = gateway.jvm.JavaSparkContext.fromSparkContext(running)
        context: Any = SparkContext(conf=SparkConf(_jconf=java_context.getConf()), jsc=java_context)
        context.pythonExec = context._conf.get("spark.pyspark.python")
        classic = getattr(gateway.jvm, "org.apache.spark.sql.classic.SparkSession")
        try:
            yield SparkSession(context, classic.getDefaultSession().get().newSession())
        finally:
            context._accumulatorServer.shutdown()
            gateway.close()
            sessions._forget()
