"""A Spark session for one command: where it runs, how it starts, and how all of it ends.

pyspark is loaded while the JVM starts, so importing this module costs nothing.
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
from goqueue.spark.launch.class_archive import archive_path, base_of, discard, is_ready, make_later
from goqueue.spark.launch.java import INSTALL_HINT, find_java
from goqueue.spark.launch.jvm import (
    Gateway,
    JvmSettings,
    command,
    defaults,
    environment,
    scratch_directory,
    write_files,
)
from goqueue.spark.reading.failure import describe_failure, interruption, is_connection_lost, is_spark_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession  # noqa: PLC0414 - re-exported for annotations

_CANCEL_SECONDS = 2.0  # a JVM that does not answer by then is killed with its jobs
_ABORT_SECONDS = 3.0  # for cancelled jobs to remove unfinished output
_STOP_SECONDS = 30.0  # for a cluster to be notified, and for a recording to be stored


@dataclass(frozen=True)
class Cluster:
    """The place where Spark runs; by default all cores of this machine, in a JVM that ends with the command."""

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
        """True where executors or the event log have to be notified of the end."""
        alone = self.chosen_master == "local" or self.chosen_master.startswith("local[")
        return not alone or self.conf.get("spark.eventLog.enabled") == "true"


@contextmanager
def session(cluster: Cluster, *, name: str, is_brief: bool = False, memory: str = "1g") -> "Iterator[SparkSession]":
    """Open a session in which `format("goqueue")` is known. Exceptions of Spark leave it as GoQueueError.

    `is_brief` halves the time to start, and makes work that passes rows through the JVM slower: it is for jobs whose
    tasks return a few rows each.
    """
    spark_home = _spark_home()
    if cluster.remote is not None:
        with _remote_session(cluster, cluster.remote, name) as spark:
            yield spark
        return
    classes = archive_path(find_java(), spark_home)
    settings = JvmSettings(is_brief=is_brief, memory=memory)
    if classes is not None and is_ready(classes):
        settings = replace(settings, archive=classes, base=base_of(classes))
    with start_session(cluster, name, settings) as spark:
        yield spark
    if classes is not None and settings.archive is None and cluster.is_local:
        make_later(classes)


def _spark_home() -> str:
    """Return where pyspark is installed, without loading it."""
    found = importlib.util.find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        raise SparkUnavailable("pyspark is not installed", hint=INSTALL_HINT)
    home = os.path.realpath(next(iter(found.submodule_search_locations)))
    if not os.path.isdir(os.path.join(home, "jars")):
        raise SparkUnavailable(f"{home} has no jars: this pyspark is a client alone", hint=INSTALL_HINT)
    return home


@contextmanager
def start_session(cluster: Cluster, name: str, settings: JvmSettings) -> "Iterator[SparkSession]":
    """Start a session in a new JVM."""
    with ExitStack() as owned:
        owned.enter_context(_restored())
        owned.enter_context(_quiet())
        scratch = owned.enter_context(scratch_directory())
        gateway, java_gateway = _launched(cluster, name, settings, scratch)
        running = _Running(gateway, cluster, patience=_STOP_SECONDS * 4 if settings.record else 0.0)
        try:
            with _translated(gateway):
                running.begin(java_gateway, defaults(scratch, is_local=cluster.is_local))
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


def _launched(cluster: Cluster, name: str, settings: JvmSettings, scratch: Path) -> tuple[Gateway, Any]:
    """Start the JVM and connect to it. If it fails with a class archive, remove that and start without."""
    spark_home, java = _spark_home(), find_java()
    settings = replace(settings, memory=cluster.conf.get("spark.driver.memory", settings.memory))
    write_files(scratch, {**cluster.conf, "spark.master": cluster.chosen_master})
    gateway = Gateway(
        command(java.path, spark_home, settings, scratch, name),
        environment(spark_home, java.home, is_local=cluster.is_local),
        scratch,
    )
    try:
        java_gateway = gateway.connect()
    except BaseException as error:
        died = not gateway.is_running
        gateway.end(0)
        if settings.archive is None or not died or not isinstance(error, Exception):
            raise
    else:
        if settings.archive is not None and not gateway.maps(settings.archive):
            discard(settings.archive)  # the JVM ignored it: the next session makes a new one
        return gateway, java_gateway
    discard(settings.archive)
    return _launched(cluster, name, replace(settings, archive=None, base=None), scratch)


class _Running:
    """pyspark's objects for one JVM. They belong to the process, so there is one of these at a time."""

    spark: "SparkSession"

    def __init__(self, gateway: Gateway, cluster: Cluster, *, patience: float) -> None:
        self._gateway = gateway
        self._cluster = cluster
        self._context: Any = None
        self._java_gateway: Any = None
        self._work: Path | None = None
        self.patience = patience

    def begin(self, java_gateway: Any, defaults: Mapping[str, str]) -> None:
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 - see the top of this module
        from pyspark.sql import SparkSession  # noqa: PLC0415

        self._java_gateway = java_gateway
        SparkContext._gateway, SparkContext._jvm = java_gateway, java_gateway.jvm
        conf = SparkConf(_jvm=java_gateway.jvm)
        for setting, value in defaults.items():
            conf.setIfMissing(setting, value)
        with _same_interrupt():  # pyspark's own handler uses a connection that is in use
            self._context = SparkContext(conf=conf)
        self._context._accumulatorServer.handle_error = _ignore_error
        if self._cluster.is_local:
            self._context.pythonExec = conf.get("spark.pyspark.python") or sys.executable
            if self._cluster.chosen_master.startswith("local-cluster"):  # its executors write beside the jars
                self._work = Path(_spark_home(), "work", self._context.applicationId)
        self.spark = SparkSession(self._context)

    def cancel(self) -> None:
        """Cancel the jobs. The interrupted thread may have left its connection in use, so another thread does it."""
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
    """Clear pyspark's references to the JVM, so that the next session starts a new one."""
    from pyspark import SparkContext  # noqa: PLC0415
    from pyspark.sql import SparkSession, SQLContext  # noqa: PLC0415

    SparkContext._active_spark_context = SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    SQLContext._instantiatedContext = None


def _ignore_error(*_: object) -> None:
    """Ignore that the JVM's end breaks the connection on which it reports counters."""


def _end_in_background(server: Any) -> None:
    """Shut the server down without waiting for the half second that it takes."""
    threading.Thread(target=server.shutdown, name="accumulator server shutdown", daemon=True).start()


def _within(seconds: float, act: Any) -> None:
    """Run `act` with a time limit, and ignore its errors: the JVM may have ended."""

    def attempt() -> None:
        with suppress(Exception):
            act()

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)


def _register(spark: "SparkSession") -> None:
    """Register the format, which takes 0.2 s; a Python that finds it by itself does so only when it is used."""
    from goqueue.spark import source  # noqa: PLC0415 - loads numpy and pyarrow

    source.register(spark)


@contextmanager
def _translated(gateway: Gateway | None = None) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if (interrupt := interruption(error)) is not None:
            raise interrupt from None
        if not is_spark_error(error):
            raise
        words = gateway.output_at_end() if gateway is not None and is_connection_lost(error) else ""
        raise describe_failure(error, words) from error


@contextmanager
def _restored() -> Iterator[None]:
    """Restore what pyspark changes in this process: environment variables, the import path, ^C."""
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
    """Restore the handler of ^C, which only the main thread may set."""
    in_main = threading.current_thread() is threading.main_thread()
    interrupt = signal.getsignal(signal.SIGINT) if in_main else None
    try:
        yield
    finally:
        if interrupt is not None:
            signal.signal(signal.SIGINT, interrupt)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the tracebacks that py4j logs on the root logger for every ^C and every broken connection."""
    root, silent = logging.getLogger(), logging.NullHandler()
    root.addHandler(silent)  # without a handler, logging would add one that writes to stderr
    loggers = [root, logging.getLogger("py4j.java_gateway"), logging.getLogger("py4j.clientserver")]
    for logger in loggers:
        logger.addFilter(_is_relevant)
    try:
        yield
    finally:
        root.removeHandler(silent)
        for logger in loggers:
            logger.removeFilter(_is_relevant)


def _is_relevant(record: logging.LogRecord) -> bool:
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
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # by it `pyspark.sql.functions` chooses the kind of session
        try:
            _register(spark)
            yield spark
        except KeyboardInterrupt:
            _within(_CANCEL_SECONDS, spark.interruptAll)
            raise
        finally:
            _within(_CANCEL_SECONDS, spark.stop)
