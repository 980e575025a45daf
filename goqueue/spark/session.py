"""A Spark session for one command: where it runs, how it starts, and that nothing of it stays.

pyspark is loaded while the JVM starts, so this module costs nothing until a session is asked for.
"""

import importlib.util
import logging
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goqueue.errors import SparkUnavailable
from goqueue.spark.failure import describe_failure, interruption, is_broken, is_foreign
from goqueue.spark.launch import archive
from goqueue.spark.launch.gateway import Gateway
from goqueue.spark.launch.java import INSTALL_HINT, find_java
from goqueue.spark.launch.machine import Machine, command, defaults, environment, write_files
from goqueue.spark.launch.scratch import scratch, sweep

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414 - for whoever only hands it on

_CANCEL_SECONDS = 2.0  # a JVM that does not take an order by then is ended with its jobs
_ABORT_SECONDS = 3.0  # for jobs that were cancelled to remove what they have begun to write
_STOP_SECONDS = 30.0  # for a cluster to be told, and what was recorded to be kept


@dataclass(frozen=True)
class Cluster:
    """Where Spark runs; by default on all cores of this machine, in a JVM that lives as long as the command."""

    master: str | None = None
    remote: str | None = None
    """A Spark Connect server, as `sc://host:port`: no JVM is started here."""
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def chosen_master(self) -> str:
        return self.master or self.conf.get("spark.master") or "local[*]"

    @property
    def is_local(self) -> bool:
        return self.remote is None and self.chosen_master.startswith("local")

    @property
    def stops_slowly(self) -> bool:
        """Whether somebody besides the JVM has to learn of the end: executors, or readers of the event log."""
        alone = self.chosen_master == "local" or self.chosen_master.startswith("local[")
        return not alone or self.conf.get("spark.eventLog.enabled") == "true"


@contextmanager
def session(cluster: Cluster, *, name: str, is_brief: bool = False, memory: str = "1g") -> "Iterator[SparkSession]":
    """A session in which `format("goqueue")` is known. Foreign exceptions leave it as errors of ours.

    `is_brief` halves the start, and makes work that passes rows through the JVM slower: it is for
    jobs whose tasks hand back a few rows each.
    """
    spark_home = _spark_home()
    if cluster.remote is not None:
        with _remote_session(cluster, cluster.remote, name) as spark:
            yield spark
        return
    classes = archive.archive_path(find_java(), spark_home)
    machine = Machine(is_brief=is_brief, memory=memory)
    if classes is not None and archive.is_ready(classes):
        machine = replace(machine, archive=classes, base=archive.base_of(classes))
    with started(cluster, name, machine) as spark:
        yield spark
    if classes is not None and machine.archive is None and cluster.is_local:
        archive.make_later(classes)


def _spark_home() -> str:
    """Where pyspark is, without loading it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SparkUnavailable("pyspark is not installed", hint=INSTALL_HINT)
    home = os.path.realpath(next(iter(found.submodule_search_locations)))
    if not os.path.isdir(os.path.join(home, "jars")):
        raise SparkUnavailable(f"{home} has no jars: this pyspark is a client alone", hint=INSTALL_HINT)
    return home


@contextmanager
def started(cluster: Cluster, name: str, machine: Machine) -> "Iterator[SparkSession]":
    """A session in a JVM of its own."""
    sweep()
    with ExitStack() as owned:
        owned.enter_context(_restored())
        owned.enter_context(_quiet())
        place = owned.enter_context(scratch())
        gateway, java_gateway = _launched(cluster, name, machine, place)
        running = _Running(gateway, cluster, patience=_STOP_SECONDS * 4 if machine.record else 0.0)
        try:
            with _translated(gateway):
                running.begin(java_gateway, defaults(place, is_local=cluster.is_local))
                if not (cluster.is_local and importlib.util.find_spec("pyspark_goqueue")):
                    _register(running.spark)
                yield running.spark
        except KeyboardInterrupt:
            running.cancel()
            raise
        except BaseException:
            running.patience = max(running.patience, _ABORT_SECONDS)
            raise
        finally:
            running.end()


def _launched(cluster: Cluster, name: str, machine: Machine, place: Path) -> tuple[Gateway, Any]:
    """The JVM and the way into it. One that fails with an archive is started again without, and the archive goes."""
    spark_home, java = _spark_home(), find_java()
    machine = replace(machine, memory=cluster.conf.get("spark.driver.memory", machine.memory))
    write_files(place, {**cluster.conf, "spark.master": cluster.chosen_master})
    gateway = Gateway(
        command(java.path, spark_home, machine, place, name),
        environment(spark_home, java.home, is_local=cluster.is_local),
        place,
    )
    try:
        java_gateway = gateway.connect()
    except BaseException as error:
        died = not gateway.is_running
        gateway.end(0)
        if machine.archive is None or not died or not isinstance(error, Exception):
            raise
    else:
        if machine.archive is not None and not gateway.maps(machine.archive):
            archive.discard(machine.archive)  # the JVM did not take it: the next session has a new one made
        return gateway, java_gateway
    archive.discard(machine.archive)
    return _launched(cluster, name, replace(machine, archive=None, base=None), place)


class _Running:
    """pyspark's objects around one JVM. They are the process's own, so there is one of these at a time."""

    spark: "SparkSession"

    def __init__(self, gateway: Gateway, cluster: Cluster, *, patience: float) -> None:
        self._gateway = gateway
        self._cluster = cluster
        self._context: Any = None
        self._java_gateway: Any = None
        self._work: Path | None = None
        self.patience = patience

    def begin(self, java_gateway: Any, unsaid: Mapping[str, str]) -> None:
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - see the top of this module
        from pyspark.sql import SparkSession  # noqa: PLC0415

        self._java_gateway = java_gateway
        SparkContext._gateway, SparkContext._jvm = java_gateway, java_gateway.jvm
        conf = SparkConf(_jvm=java_gateway.jvm)
        for setting, value in unsaid.items():
            conf.setIfMissing(setting, value)
        with _same_interrupt():  # pyspark's own asks the JVM on the connection that is in use
            self._context = SparkContext(conf=conf)
        self._context._accumulatorServer.handle_error = _say_nothing
        if self._cluster.is_local:
            self._context.pythonExec = conf.get("spark.pyspark.python") or sys.executable
            if self._cluster.chosen_master.startswith("local-cluster"):  # its executors write beside the jars
                self._work = Path(_spark_home(), "work", self._context.applicationId)
        self.spark = SparkSession(self._context)

    def cancel(self) -> None:
        """Say that the jobs end, and see to it. The thread that was interrupted may have left its connection in use."""
        self.patience = max(self.patience, _ABORT_SECONDS)
        if self._context is not None:
            with suppress(OSError, AttributeError):
                sys.stderr.write("interrupted: cancelling the running jobs\n")
                sys.stderr.flush()
            _within(_CANCEL_SECONDS, self._context.cancelAllJobs)

    def end(self) -> None:
        try:
            if self._context is not None:
                if self._cluster.stops_slowly:
                    self.patience = max(self.patience, _ABORT_SECONDS)
                    _within(_STOP_SECONDS, self._context._jsc.stop)
                _end_in_background(self._context._accumulatorServer)
            if self._java_gateway is not None:
                _within(_CANCEL_SECONDS, self._java_gateway.close)
        finally:
            try:
                self._gateway.end(self.patience)
            finally:
                _forget()
                if self._work is not None:
                    shutil.rmtree(self._work, ignore_errors=True)


def _forget() -> None:
    """What pyspark remembers of the JVM that has ended, so that the next session begins anew."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession, SQLContext  # noqa: PLC0415

    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None


def _say_nothing(*_: object) -> None:
    """The JVM's end breaks the connection on which it reports counters; that is no news."""


def _end_in_background(server: Any) -> None:
    """It looks twice a second whether it shall end, which nobody has to wait for."""
    threading.Thread(target=server.shutdown, name="end of the counters", daemon=True).start()


def _within(seconds: float, act: Any) -> None:
    """Have the JVM do something, which it may be past doing."""

    def attempt() -> None:
        with suppress(Exception):
            act()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)


def _register(spark: "SparkSession") -> None:
    """It takes a second. A Python that finds the format by itself does so when it is needed, which is not always."""
    from goqueue.spark import source  # noqa: PLC0415 - loads numpy and pyarrow

    source.register(spark)


@contextmanager
def _translated(gateway: Gateway | None = None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if (interrupt := interruption(error)) is not None:
            raise interrupt from None
        if not is_foreign(error):
            raise
        words = gateway.final_words() if gateway is not None and is_broken(error) else ""
        raise describe_failure(error, words) from error


@contextmanager
def _restored() -> Iterator[None]:
    """Whatever pyspark changes of this process is as it was afterwards: variables, the path of imports, ^C."""
    variables, path = dict(os.environ), list(sys.path)
    try:
        with _same_interrupt():
            yield
    finally:
        sys.path[:] = path
        for name in os.environ.keys() - variables.keys():
            if name.startswith(("PYSPARK_", "SPARK_")):
                del os.environ[name]


@contextmanager
def _same_interrupt() -> Iterator[None]:
    """What ^C does is the same afterwards; only the main thread may decide it."""
    in_main = threading.current_thread() is threading.main_thread()
    interrupt = signal.getsignal(signal.SIGINT) if in_main else None
    try:
        yield
    finally:
        if interrupt is not None:
            signal.signal(signal.SIGINT, interrupt)


@contextmanager
def _quiet() -> Iterator[None]:
    """py4j logs the traceback of every ^C and of every broken connection, on the root logger."""
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)  # where there is none, logging would add one that writes to stderr
    loggers = [root, logging.getLogger("py4j.java_gateway"), logging.getLogger("py4j.clientserver")]
    for logger in loggers:
        logger.addFilter(_is_news)
    try:
        yield
    finally:
        root.removeHandler(silent)
        for logger in loggers:
            logger.removeFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return not record.name.startswith("py4j") and "while sending command" not in record.getMessage()


@contextmanager
def _remote_session(cluster: Cluster, remote: str, name: str) -> "Iterator[SparkSession]":
    missing = [
        package for package in ("grpc", "grpc_status", "pandas", "pyarrow") if not importlib.util.find_spec(package)
    ]
    if missing:
        raise SparkUnavailable(
            f"{remote} is a Spark Connect server, for which these packages are missing: {', '.join(missing)}",
            hint="pip install 'pyspark[connect]'",
        )
    with _restored(), _translated():
        from pyspark.sql.connect.session import SparkSession as Remote  # noqa: PLC0415

        builder = Remote.builder.remote(remote).appName(name)
        for setting, value in {"spark.sql.session.timeZone": "UTC", **cluster.conf}.items():
            builder = builder.config(setting, value)
        spark: Any = builder.create()
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # it is what `pyspark.sql.functions` asks which session is meant
        try:
            _register(spark)
            yield spark
        except KeyboardInterrupt:
            _within(_CANCEL_SECONDS, spark.interruptAll)
            raise
        finally:
            _within(_CANCEL_SECONDS, spark.stop)
