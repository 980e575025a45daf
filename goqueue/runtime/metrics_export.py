"""Exports metrics: copies them at an interval, encodes the copy on a thread, and hands it to the exporters.

Each exporter keeps one waiting snapshot. A newer one replaces it, because its counters say more.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from goqueue.config.metrics_settings import MetricsConfig
from goqueue.limits import EXPORT_QUEUE_SNAPSHOTS, EXPORT_STOP_SECONDS
from goqueue.observe.export_counts import ExportCounts
from goqueue.observe.metrics import Scrape
from goqueue.observe.metrics_protobuf import encode_metrics
from goqueue.runtime.exporter import Exporter, stop_exporters
from goqueue.runtime.metrics_scraper import MetricsScraper
from goqueue.runtime.otlp_sender import SERVICE, OtlpSender, compress, read_headers, service_resource

_log = logging.getLogger("goqueue.metrics")


class MetricsExport:
    """The exporters of a running broker's metrics."""

    def __init__(
        self,
        scraper: MetricsScraper,
        settings: MetricsConfig,
        instance: str,
        now_ns: Callable[[], int],
        start_ns: int,
    ) -> None:
        """`instance` names this broker among others; at `start_ns` the counters were 0."""
        headers = read_headers(settings.export_headers_file)
        self._scraper = scraper
        self._interval = settings.export_interval
        self._resource = service_resource(instance)
        self._now_ns = now_ns
        self._start_ns = start_ns
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._exporters = [
            Exporter(
                str(target),
                CollectorMetricsTarget(OtlpSender(target.address, settings.export_timeout, headers)),
                subject="metrics",
                queue_max=EXPORT_QUEUE_SNAPSHOTS,
                batch_max=EXPORT_QUEUE_SNAPSHOTS,
                interval=0.0,
                sends_newest=True,
            )
            for target in settings.export_targets
        ]
        self.counts: Mapping[str, ExportCounts] = {one.name: one.counts for one in self._exporters}
        """By target."""
        for one in self._exporters:
            one.start()
        self._task = self._loop.create_task(self._run())

    async def stop(self) -> None:
        """Export the last numbers, within a moment."""
        self._stopping.set()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._task, EXPORT_STOP_SECONDS)
        await self._loop.run_in_executor(None, stop_exporters, self._exporters)

    async def _run(self) -> None:
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), self._interval)
            await self._export()

    async def _export(self) -> None:
        try:
            scrape = await self._scraper.scrape()
            await self._loop.run_in_executor(None, self._offer, scrape, self._now_ns())
        except Exception:  # an error here must stop neither the exports nor the end of the broker
            for one in self._exporters:
                one.counts.dropped += 1
            _log.exception("a snapshot of the metrics could not be exported")

    def _offer(self, scrape: Scrape, time_ns: int) -> None:
        time_ns = max(time_ns, self._start_ns)  # the clock may have been set back
        request = encode_metrics(scrape, self._resource, SERVICE, start_ns=self._start_ns, time_ns=time_ns)
        body = compress(request)
        for one in self._exporters:
            one.offer([body])


class CollectorMetricsTarget:
    """A collector that takes metrics by OTLP over HTTP."""

    def __init__(self, sender: OtlpSender) -> None:
        self._sender = sender

    def send(self, batch: Sequence[bytes]) -> tuple[int, str]:
        """Send encoded snapshots; one of which the collector refuses some data points counts as refused."""
        reasons = []
        for body in batch:
            refused = self._sender.send(body)
            if refused is not None and refused.rejected:
                reasons.append(f"{refused.rejected} data points: {refused.message}")
        return len(reasons), "; ".join(reasons)

    def close(self) -> None:
        self._sender.close()
