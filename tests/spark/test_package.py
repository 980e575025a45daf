"""The package for executors: its files, always the same bytes, and the printed commands."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from goqueue.errors import PathInvalid
from goqueue.spark.package import pack

ROOT = Path(__file__).resolve().parents[2]


def test_a_zip_has_this_project_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    first, second = pack(str(tmp_path / "a.zip")), pack(str(tmp_path / "b.zip"))
    assert Path(first.path).read_bytes() == Path(second.path).read_bytes()
    assert first.python is None
    names = zipfile.ZipFile(first.path).namelist()
    assert {"goqueue/__init__.py", "goqueue/spark/source.py", "pyspark_goqueue.py"} <= set(names)
    assert all(name.endswith(".py") for name in names)


def test_the_zip_alone_is_enough_to_find_the_data_source(tmp_path: Path) -> None:
    packed = pack(str(tmp_path / "a.zip"))
    program = f"""
import sys
sys.path[:] = [one for one in sys.path if one != {str(ROOT)!r}]
sys.path.insert(0, {packed.path!r})
import pyspark_goqueue
print(pyspark_goqueue.DefaultSource.name(), sys.modules["goqueue.spark.source"].__file__)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ended.stdout.split() == ["goqueue", f"{packed.path}/goqueue/spark/source.py"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a.tar", "ends neither in .zip nor in .tar.gz"),
        ("none/a.zip", "is no directory"),
        ("taken.zip", "cannot be written: Is a directory"),
    ],
)
def test_a_path_that_cannot_be_written_is_named_and_nothing_stays(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "taken.zip").mkdir()
    with pytest.raises(PathInvalid, match=told):
        pack(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == ["taken.zip"]


def test_the_command_prints_the_lines_that_use_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "goqueue", "spark-inspect", "package"]
    lines = subprocess.run([*command, "g.zip"], cwd=tmp_path, capture_output=True, text=True, check=True)
    place = tmp_path / "g.zip"
    assert lines.stdout.splitlines() == [
        f"goqueue spark-inspect summary DIR --master spark://HOST:7077 --conf 'spark.submit.pyFiles={place}'",
        f"spark-submit --conf 'spark.submit.pyFiles={place}' JOB.py",
    ]
    ended = subprocess.run([*command, "g.zip", "-o", "json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    (row,) = json.loads(ended.stdout)
    assert row["settings"] == {"spark.submit.pyFiles": str(place)}
    assert row["bytes"] == place.stat().st_size
