"""Answers who scrapes the metrics."""

import asyncio

from goqueue.observe.metrics import Metrics
from goqueue.runtime.group_numbers import group_numbers
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.transaction_numbers import transaction_numbers
from goqueue.storage.frame import PRIORITIES


class Scraper:
    """One scrape after the other: counters would fall, were older numbers told behind newer ones."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        self._runtime = runtime
        self._metrics = metrics
        self._lock = asyncio.Lock()

    async def text(self, accept: str) -> tuple[bytes, str]:
        """All numbers of now, and the content type."""
        runtime, metrics = self._runtime, self._metrics
        async with self._lock:
            metrics.groups.numbers = await group_numbers(runtime.broker)
            metrics.transactions = await transaction_numbers(runtime.broker)
            metrics.delayed_pending = runtime.broker.office.pending()
            metrics.delayed_outcomes = dict(runtime.broker.office.outcomes)
            totals = zip(PRIORITIES, runtime.broker.coordinator.polls.served.totals, strict=True)
            metrics.priorities = {name: (one.messages, one.leases, one.waited_seconds) for name, one in totals}
            metrics.in_flight_bytes = runtime.in_flight_bytes
            metrics.tail_bytes = runtime.store.resources.tails.held_bytes
            metrics.sync_failures = runtime.store.failures
            metrics.stalls, metrics.stalled_seconds = runtime.stall_watch.stalls, runtime.stall_watch.seconds
            metrics.logs_refused = len(runtime.store.refused)
            scrape = metrics.scrape()
        return await asyncio.get_running_loop().run_in_executor(None, scrape.render, accept)

    def __repr__(self) -> str:
        return f"<Scraper of {self._runtime!r}>"
