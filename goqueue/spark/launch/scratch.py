"""The directory of one session: what Spark spills, its warehouse, its sockets, and the last words of the JVM.

It goes when the session ends. The lock in it ends with the process that made it, however that ends, so that the
next session can tell a directory that was left behind from one in use.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "goqueue-spark-"
_LOCK = "lock"
_YOUNG_SECONDS = 60  # before that a directory without its lock is one that is being made


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory of our own, and nothing left of it afterwards."""
    place = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        with (place / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def sweep() -> None:
    """Remove what sessions that were killed have left here."""
    for place in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if _abandoned(place):
                shutil.rmtree(place, ignore_errors=True)


def _abandoned(place: Path) -> bool:
    status = place.lstat()
    if status.st_uid != os.getuid() or time.time() - status.st_mtime < _YOUNG_SECONDS:
        return False
    try:
        with (place / _LOCK).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True
