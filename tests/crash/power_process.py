"""`goqueue` as a process whose disk keeps a journal: `python -m tests.crash.power_process DATA JOURNAL serve ...`.

Its wall clock is ahead by the nanoseconds in the file `{journal}.clock`.
"""

import mmap
import os
import struct
import sys
import time
from functools import partial
from unittest.mock import patch

from goqueue import daemon
from goqueue.commands.main import main
from tests.crash.journaling_disk import JournalingDisk

AHEAD = struct.Struct("q")


class ShiftedClock:
    """The machine's clocks, of which others shift the wall clock."""

    def __init__(self, path: str) -> None:
        with open(path, "a+b") as file:
            if os.fstat(file.fileno()).st_size < AHEAD.size:
                file.write(AHEAD.pack(0))
                file.flush()
            self._ahead = mmap.mmap(file.fileno(), AHEAD.size, access=mmap.ACCESS_READ)

    def now_ns(self) -> int:
        (ahead_ns,) = AHEAD.unpack(self._ahead)
        return time.time_ns() + int(ahead_ns)

    def monotonic_ns(self) -> int:
        return time.monotonic_ns()


if __name__ == "__main__":
    _, root, journal, *words = sys.argv
    with (
        patch.object(daemon, "SystemDisk", partial(JournalingDisk, root, journal)),
        patch.object(daemon, "SystemClock", partial(ShiftedClock, f"{journal}.clock")),
    ):
        sys.exit(main(words))
