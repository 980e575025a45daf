"""Tells about waits for quotas, so that a program that waits for one does not seem to hang."""

import threading
import time
from collections.abc import Callable

from goqueue.errors import GoQueueError, QuotaExceeded
from goqueue.quantities import format_count

TOLD_SECONDS = 2.0
"""Each wait that is longer is told. Of shorter ones that follow each other, the first is."""
PAUSE_SECONDS = 60.0
"""Short waits with a longer pause between them do not follow each other."""
Tell = Callable[[str], object]


class QuotaWaits:
    """The waits for quotas in this process. Requests that wait for the same quota at a time are told once."""

    def __init__(self, tell: Tell, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.tell = tell
        """Called with a sentence."""
        self._monotonic = monotonic
        self._ends: dict[str, float] = {}
        """By quota: when the last wait is over."""
        self._lock = threading.Lock()

    def note(self, quota: str, why: str, seconds: float) -> None:
        """Tell about a wait that begins, unless it continues one that was told."""
        now = self._monotonic()
        with self._lock:
            former_end = self._ends.get(quota)
            self._ends[quota] = max(now + seconds, former_end or 0.0)
        if former_end is not None and (
            now < former_end or (seconds < TOLD_SECONDS and now < former_end + PAUSE_SECONDS)
        ):
            return
        self.tell(f"waiting {_format_wait(seconds)}: {why}")


def _format_wait(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < TOLD_SECONDS else format_count(round(seconds), "second")


def _log(sentence: str) -> None:
    import logging  # noqa: PLC0415 - commands start sooner without it

    logging.getLogger("goqueue.client").warning("%s", sentence)


WAITS = QuotaWaits(_log)
"""Those of all clients: each tells the log `goqueue.client`; a command may replace `tell`."""


def note_refusal(error: GoQueueError, seconds: float) -> None:
    """Tell about the wait after a refusal, if that was because of a quota."""
    if isinstance(error, QuotaExceeded):
        WAITS.note(str(error.details.get("quota", "")), error.sentence, seconds)


def note_delay(quota: str, seconds: float) -> None:
    """Tell about a quota that delays the next poll or read."""
    if seconds:
        WAITS.note(quota, f"over the quota {quota or 'of the tenant'}", seconds)


def note_read_delay(text: str) -> None:
    """Do the same for a header `x-goqueue-quota`."""
    quota, _, seconds = text.partition(" ")
    if seconds.replace(".", "", 1).isdecimal():
        note_delay(quota, float(seconds))
