"""Samples the history once a second, and keeps it across restarts.

The lag of all groups and the free space cost more: they are measured in a task of their own, in slices, and less
often the longer that takes.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from goqueue.broker.core.work import Work
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import LAG_SURVEY_CPU_SHARE, SAMPLE_SECONDS, SIZE_SURVEY_CPU_SHARE
from goqueue.observe.history import History, HistorySample, sample_topic
from goqueue.observe.history_row import GroupPoint, group_key, most_behind
from goqueue.observe.metrics import Metrics
from goqueue.runtime.group_survey import GroupProgress, group_progress
from goqueue.runtime.history_file import HistoryFile
from goqueue.runtime.runtime import Runtime
from goqueue.storage.disk import DiskSpace

_log = logging.getLogger("goqueue.sampler")


class HistorySampler:
    """Samples the history while the broker is open."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        self.history = History(self._read)
        self._runtime = runtime
        self._metrics = metrics
        self._groups: Mapping[bytes, GroupPoint] = {}
        self._lag = 0
        self._stored_bytes = 0
        self._sizes_due = 0.0
        self._space: DiskSpace | None = None
        self._loop: asyncio.AbstractEventLoop
        self._timer: asyncio.TimerHandle | None = None
        self._survey: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._file: HistoryFile

    def start(self) -> None:
        """Start when the data directory is open."""
        self._loop = asyncio.get_running_loop()
        self._file = HistoryFile(self._runtime.disk, self._runtime.store.path, self._runtime.store.is_in_place)
        self._file.load(self.history.rings, self._runtime.clock.now_ns())
        self.history.sample()
        self._arm(self._loop.time() + SAMPLE_SECONDS)
        self._survey = self._loop.create_task(self._keep_surveying())

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._survey is not None:
            self._survey.cancel()
            await asyncio.wait([self._survey])
            if self._saving is not None:
                await self._saving
            self.history.sample()
            self.history.rings.complete()
            await self._save()

    def _arm(self, due: float) -> None:
        due = max(due, self._loop.time())  # missed samples are not repeated
        self._timer = self._loop.call_at(due, self._sample, due)

    def _sample(self, due: float) -> None:
        self._arm(due + SAMPLE_SECONDS)
        self.history.sample()
        if self.history.rings.has_changes and (self._saving is None or self._saving.done()):
            self._saving = self._loop.create_task(self._save())

    async def _save(self) -> None:
        try:
            await self._runtime.perform(self._file.save(self.history.rings))
        except Exception:
            _log.exception("the history could not be written")

    def _read(self) -> HistorySample:
        runtime, metrics = self._runtime, self._metrics
        counts = runtime.broker.groups.totals.settled
        return HistorySample(
            monotonic=runtime.clock.monotonic_ns() / NANOSECONDS,
            now_ns=runtime.clock.now_ns(),
            topics={name: sample_topic(one) for name, one in metrics.named_topics.items()},
            unnamed=metrics.unnamed(),
            settled=counts.acks + counts.nacks + counts.rejects,
            requests=sum(one.seconds.count for _, _, one in metrics.endpoints()),
            bounds=metrics.publish_seconds.bounds,
            publish_counts=tuple(metrics.publish_seconds.counts),
            flush_counts=tuple(metrics.flush_seconds.counts),
            loop_lag_seconds=metrics.take_loop_lag_peak(),
            total_lag=self._lag,
            disk_used_bytes=0 if self._space is None else self._space.used_bytes,
            stored_bytes=self._stored_bytes,
            in_flight_bytes=runtime.in_flight_bytes,
            connections=metrics.connections_open,
            groups=self._groups,
        )

    # --- what takes longer ---

    async def _keep_surveying(self) -> None:
        before, then = dict[str, GroupProgress](), self._loop.time()
        while True:
            began = self._loop.time()
            try:
                groups = await group_progress(self._runtime.broker)
                self._groups = _group_points(before, groups, began - then)
                self._lag = sum(one.lag for one in groups.values())
                before, then = groups, began
                self._add_up_sizes()
                with suppress(GoQueueError):  # retried in the next round
                    self._space = await self._runtime.perform(_space(self._runtime))
                    self._metrics.disk_space = self._space.free_bytes, self._space.total_bytes
            except Exception:
                _log.exception("the total lag could not be measured")
            await asyncio.sleep(max(SAMPLE_SECONDS, (self._loop.time() - began) / LAG_SURVEY_CPU_SHARE))

    def _add_up_sizes(self) -> None:
        began = time.perf_counter()
        if began >= self._sizes_due:
            self._stored_bytes = sum([log.size for log in self._runtime.store.logs.values()])
            self._sizes_due = began + (time.perf_counter() - began) / SIZE_SURVEY_CPU_SHARE


def _space(runtime: Runtime) -> Work[DiskSpace]:
    space: DiskSpace = yield partial(runtime.disk.space, runtime.store.path)
    return space


def _group_points(
    before: Mapping[str, GroupProgress], groups: Mapping[str, GroupProgress], seconds: float
) -> Mapping[bytes, GroupPoint]:
    points = {}
    for name, now in groups.items():
        settled = max(0, now.settled - (before[name].settled if name in before else 0))
        points[name] = GroupPoint(float(now.lag), settled / max(seconds, SAMPLE_SECONDS))
    return {group_key(name): point for name, point in most_behind(points).items()}
