"""An open load: messages are sent at fixed times, whatever happened to earlier ones, and received by a reader.

Message n is due `n / rate` seconds after the first, and carries that time. Its latency counts from then until it is
received, so that a pause of the broker counts for every message that was due during it.
"""

import secrets
import threading
import time
from collections.abc import Callable

from goqueue.client import Producer, Reader
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue_cli.bench.latencies import Latencies

MARK_BYTES = 28
"""A message begins with the mark of the run and the time at which it was due."""

_AHEAD_SECONDS = 0.2  # so that the first message is on time as well


class OpenLoad:
    """A sender and a receiver, each with a thread; times are nanoseconds of one monotonic clock."""

    def __init__(self, topic: str, size: int, rate: float, *, warm_up: float, duration: float) -> None:
        self._topic = topic
        self._mark = secrets.token_hex(4).encode()
        self._padding = b"x" * (size - MARK_BYTES)
        self._interval = NANOSECONDS / rate
        self._warm = round(warm_up * rate)
        self.messages = max(1, round(duration * rate))
        """Messages after the warm-up."""
        self._start = 0
        self._stopped = False
        self._all_here = threading.Event()
        self._awaited = self._warm + self.messages
        self.failure: GoQueueError | None = None
        self.arrived = Latencies()
        self.late = Latencies()
        """The delay of sending, which this program causes itself."""

    @property
    def lost(self) -> int:
        """The number of messages after the warm-up that were not received."""
        return self.messages - self.arrived.count

    @property
    def sent(self) -> int:
        return self.late.count

    def run(self, producer: Producer, reader: Reader, patience: float, show: Callable[[int], None]) -> None:
        """Run until all messages were received, or at most `patience` seconds after the last one is due."""
        self._start = time.monotonic_ns() + int(_AHEAD_SECONDS * NANOSECONDS)
        end = self._moment(self._awaited) / NANOSECONDS + patience
        threads = [
            threading.Thread(target=self._guarded, args=(work,), daemon=True)
            for work in (lambda: self._receive(reader), lambda: self._send(producer))
        ]
        for thread in threads:
            thread.start()
        try:
            while not self._all_here.wait(0.2) and self.failure is None and time.monotonic() < end:
                show(self.sent)
        finally:
            self._stopped = True

    def _moment(self, number: int) -> int:
        """Return the time at which a message is due."""
        return self._start + int(number * self._interval)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except GoQueueError as error:
            if not self._stopped:
                self.failure = error

    def _send(self, producer: Producer) -> None:
        for number in range(self._awaited):
            moment = self._moment(number)
            now = time.monotonic_ns()
            while now < moment:
                if self._stopped:
                    return
                time.sleep((moment - now) / NANOSECONDS)
                now = time.monotonic_ns()
            producer.send(self._topic, b"%b%020d%b" % (self._mark, moment, self._padding))
            if number >= self._warm:
                self.late.add(now - moment)
        producer.flush()

    def _receive(self, reader: Reader) -> None:
        counted_from = self._moment(self._warm)
        left = self._awaited
        for batch in reader.batches():
            now = time.monotonic_ns()
            for message in batch:
                value = message.value or b""
                if not value.startswith(self._mark):
                    continue
                moment = int(value[len(self._mark) : MARK_BYTES])
                left -= 1
                if moment >= counted_from:
                    self.arrived.add(now - moment)
            if left <= 0:
                self._all_here.set()
                return
            if self._stopped:
                return
