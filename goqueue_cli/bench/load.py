"""Publishing at full speed or at a rate, by one or several producers, each with a thread and a connection."""

import threading
import time
from collections.abc import Callable, Iterator
from itertools import count as counting
from typing import Any

from goqueue.client import Client
from goqueue.errors import GoQueueError
from goqueue_cli.publishing.rate import paced
from goqueue_cli.publishing.sources import MessageChunk, Shared, limited
from goqueue_cli.publishing.stream import PublishProgress

_TIMES = 10  # how often the values are repeated in one call
_WAIT_SECONDS = 0.2  # between two updates of the status


class PublishLoad:
    """Publishes messages to a topic; `run` may be called several times, first for a warm-up."""

    def __init__(self, client: Client, topic: str, values: list[bytes], *, producers: int = 1, **options: Any) -> None:
        self._client = client
        self._topic = topic
        self._values = values
        self._producers = producers
        self._options = options
        self._stopped = threading.Event()
        self._sent = [0] * producers
        self._failure: GoQueueError | None = None

    def run(self, messages: int, rate: float | None = None) -> float:
        """Publish, and return the seconds until all messages were durable."""
        share, rest = divmod(messages, self._producers)
        self._sent = [0] * self._producers
        each = None if rate is None else rate / self._producers
        threads = [
            threading.Thread(target=self._publish, args=(place, share + (place < rest), each), daemon=True)
            for place in range(self._producers)
        ]
        progress = PublishProgress("published", lambda sent: sent / messages)
        start = time.perf_counter()
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_WAIT_SECONDS)
                    progress.show(sum(self._sent), sum(self._sent))
        finally:
            self._stopped.set()
            progress.clear()
        seconds = time.perf_counter() - start
        self._stopped.clear()
        if self._failure is not None:
            raise self._failure
        return seconds

    def _publish(self, place: int, messages: int, rate: float | None) -> None:
        try:
            with self._client.producer(**self._options) as producer:
                for chunk in limited(paced(self._chunks(), rate), messages):
                    if self._stopped.is_set():
                        return
                    producer.send_many(self._topic, chunk.values)
                    self._sent[place] += len(chunk.values)
        except GoQueueError as error:
            self._failure = error
            self._stopped.set()

    def _chunks(self) -> Iterator[MessageChunk]:
        chunk = MessageChunk(self._values * _TIMES, None, Shared())
        return (chunk for _ in counting())


def warm_up(messages: int, run: Callable[[int], float]) -> int:
    """Publish a twentieth more before the measurement, and return how many."""
    extra = max(1, min(messages // 20, 50_000))
    run(extra)
    return extra
