"""Has the history take its numbers, once a second.

What costs more than a look at some counters, the lag of all groups and the room on the disk, is surveyed in a task
of its own, in slices, and the less often the longer it takes; between two surveys the numbers of the last one stand.
"""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

from goqueue.broker.broker import Broker
from goqueue.broker.name import is_internal
from goqueue.broker.view import View
from goqueue.broker.work import Work
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import SAMPLE_SECONDS, SURVEY_SHARE
from goqueue.observe.history import History, Reading, counted
from goqueue.observe.metrics import Metrics
from goqueue.runtime.group_numbers import offsets_left
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.slices import Slices
from goqueue.storage.disk import Space

_log = logging.getLogger("goqueue.sampler")


class Sampler:
    """`start` it when the broker is open, and `stop` it before that closes."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        self.history = History(self._read)
        self._runtime = runtime
        self._metrics = metrics
        self._lag = 0
        self._space: Space | None = None
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None
        self._survey: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.history.sample()
        self._arm(self._loop.time() + SAMPLE_SECONDS)
        self._survey = self._loop.create_task(self._keep_surveying())

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._survey is not None:
            self._survey.cancel()
            await asyncio.wait([self._survey])

    def _arm(self, due: float) -> None:
        due = max(due, self._loop.time())  # where the loop was late, nothing is made up for
        self._timer = self._loop.call_at(due, self._sample, due)

    def _sample(self, due: float) -> None:
        self._arm(due + SAMPLE_SECONDS)
        self.history.sample()

    def _read(self) -> Reading:
        runtime, metrics = self._runtime, self._metrics
        counts = runtime.broker.coordinator.settlement.counts
        return Reading(
            monotonic=runtime.clock.monotonic_ns() / NANOSECONDS,
            now_ns=runtime.clock.now_ns(),
            topics={name: counted(one) for name, one in metrics.named_topics.items()},
            unnamed=metrics.unnamed(),
            settled=counts.acks + counts.nacks + counts.rejects,
            requests=sum(one.seconds.count for _, _, one in metrics.endpoints()),
            bounds=metrics.publish_seconds.bounds,
            publish_counts=tuple(metrics.publish_seconds.counts),
            flush_counts=tuple(metrics.flush_seconds.counts),
            loop_lag_seconds=metrics.take_lag_peak(),
            total_lag=self._lag,
            disk_used_bytes=0 if self._space is None else self._space.total_bytes - self._space.free_bytes,
        )

    # --- what takes longer ---

    async def _keep_surveying(self) -> None:
        while True:
            began = self._loop.time()
            try:
                self._lag = await self._total_lag()
                with suppress(GoQueueError):  # a disk that does not say so now may do it later
                    self._space = await self._runtime.perform(_space(self._runtime))
            except Exception:
                _log.exception("the lag of groups could not be summed up")
            await asyncio.sleep(max(SAMPLE_SECONDS, (self._loop.time() - began) / SURVEY_SHARE))

    async def _total_lag(self) -> int:
        """In offsets, of all groups but those of the broker itself."""
        slices, total = Slices(), 0
        for left in _lags(self._runtime.broker):
            total += left
            await slices.rest()
        return total


def _space(runtime: Runtime) -> Work[Space]:
    space: Space = yield partial(runtime.disk.space, runtime.store.path)
    return space


def _lags(broker: Broker) -> Iterator[int]:
    """Of every place of every group; while somebody rests in between, groups and topics may come and go."""
    ledger = broker.coordinator.ledger
    for name, isolation in [(one.group, one.isolation) for one in ledger.groups() if not is_internal(one.group)]:
        for (topic, number), cursor in list(ledger.cursors(name).items()):
            found = broker.topics.get(topic)
            if found is not None and number < len(found.partitions):
                yield offsets_left(cursor, View(found.partitions[number], isolation))
