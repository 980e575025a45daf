"""One JVM for all processes of a test run: each has a session of its own in it."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goqueue.spark import session as sessions
from goqueue.spark.launch import jvm
from goqueue.spark.session import Cluster, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.codegen.wholeStage": "false",  # to compile a query takes longer than to interpret it for a few rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.python.daemon.module": "tests.spark.loaded_daemon",
}


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
        with session(Cluster("local[2]", conf=SETTINGS), name="tests", is_brief=True, memory="1g") as spark:
            context: Any = spark.sparkContext
            parameters = context._gateway.gateway_parameters
            address.write_text(json.dumps([parameters.port, parameters.auth_token]))
            fcntl.flock(start, fcntl.LOCK_UN)
            yield spark
            fcntl.flock(start, fcntl.LOCK_EX)
            address.unlink()
            fcntl.flock(users, fcntl.LOCK_EX)


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
