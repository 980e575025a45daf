"""The thread beside a consumer: heartbeats, extensions, and whatever the application was too busy to send.

While nothing is leased it sleeps from one heartbeat to the next. It makes no callbacks and changes no assignment: it
raises the consumer's attention, and the consuming thread acts between two messages.
"""

import threading
import time
from collections.abc import Callable

from goqueue.client.consuming import TICK_SECONDS
from goqueue.client.retry import Backoff
from goqueue.errors import TransientError


class Companion:
    """Calls `beat` when a heartbeat is due, and `tick` all the time while it says so."""

    def __init__(
        self, beat: Callable[[], float], tick: Callable[[], bool], failed: Callable[[BaseException], None]
    ) -> None:
        self._beat = beat
        self._tick = tick
        self._failed = failed
        self._bell = threading.Event()
        self._asleep = False
        self._stopping = False
        self._backoff = Backoff()
        self._beat_at = 0.0
        self._thread = threading.Thread(target=self._run, name="goqueue-consumer", daemon=True)

    def start(self, first_beat: float) -> None:
        self._beat_at = time.monotonic() + first_beat
        self._thread.start()

    def wake(self) -> None:
        """Something was leased; costs next to nothing while it is awake anyway."""
        if self._asleep:
            self._asleep = False
            self._bell.set()

    def stop(self, timeout: float) -> bool:
        """Whether it has ended within that time."""
        self._stopping = True
        self._bell.set()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._round()
        except BaseException as error:
            self._failed(error)
            raise

    def _round(self) -> None:
        # Before looking: what is leased after the look finds it asleep and rings.
        self._asleep = True
        if time.monotonic() >= self._beat_at:
            self._beat_now()
        delay = self._beat_at - time.monotonic()
        if self._tick():
            self._asleep = False
            delay = min(delay, TICK_SECONDS)
        if delay > 0 and not self._stopping:
            self._bell.wait(delay)
        self._bell.clear()

    def _beat_now(self) -> None:
        try:
            delay = self._beat()
            self._backoff.attempts = 0
        except TransientError as error:
            # Without end: whoever waits for messages is told when the broker stays away.
            delay = self._backoff.next(error)
        self._beat_at = time.monotonic() + delay
