"""Collects the metrics of groups and transactions, and copies and renders all metrics."""

import asyncio
from collections import Counter

from goqueue.broker.broker import Broker
from goqueue.broker.delay.queries import summarize_delays
from goqueue.broker.groups.records import Group
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.quota_use import TenantUse
from goqueue.broker.transactions.records import OPEN
from goqueue.broker.transactions.refusals import REASONS
from goqueue.clock import NANOSECONDS
from goqueue.observe.metrics import Metrics, Scrape
from goqueue.observe.scrub_metrics import ScrubMetricValues
from goqueue.observe.state_metrics import (
    GroupMetricsInput,
    GroupMetricValues,
    GroupStateLabel,
    TransactionMetricsInput,
)
from goqueue.observe.tenant_metrics import TenantMetricValues
from goqueue.runtime.deferred import Turn
from goqueue.runtime.event_loop import TimeSlices
from goqueue.runtime.fair_turn import FairTurn
from goqueue.runtime.group_survey import CursorLag, GroupSnapshot, walk_groups
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.scrub_runner import ScrubRunner
from goqueue.runtime.usage_runner import UsageRunner
from goqueue.storage.frame import PRIORITIES


class MetricsScraper:
    """Renders one scrape after the other, so that counters never decrease."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        self._runtime = runtime
        self._metrics = metrics
        self._lock = asyncio.Lock()
        self.usage: UsageRunner | None = None
        """Set if the broker has tenants."""

    async def text(self, accept: str) -> tuple[bytes, str]:
        """Return the current metrics and their content type."""
        scrape = await self.scrape()
        return await asyncio.get_running_loop().run_in_executor(None, scrape.render, accept)

    async def scrape(self) -> Scrape:
        """Copy the current metrics."""
        runtime, metrics = self._runtime, self._metrics
        async with self._lock:
            metrics.groups.numbers = await collect_group_metrics(runtime.broker)
            metrics.transactions = await collect_transaction_metrics(runtime.broker)
            if self.usage is not None:
                metrics.tenants.numbers = tenant_metrics(self.usage, runtime.turn)
            metrics.delayed_pending = runtime.broker.delay_scheduler.pending()
            metrics.delayed_overdue_seconds = await collect_overdue_seconds(runtime)
            metrics.delayed_outcomes = dict(runtime.broker.delay_scheduler.outcomes)
            totals = zip(PRIORITIES, runtime.broker.groups.totals.deliveries.totals, strict=True)
            metrics.priorities = {name: (one.messages, one.leases, one.waited_seconds) for name, one in totals}
            metrics.in_flight_bytes = runtime.in_flight_bytes
            metrics.tail_bytes = runtime.store.resources.tails.held_bytes
            metrics.sync_failures = runtime.store.failures
            metrics.stalls, metrics.stalled_seconds = runtime.stall_detector.stalls, runtime.stall_detector.seconds
            tracer = runtime.tracer
            metrics.trace_records, metrics.trace_file_bytes = dict(tracer.ring.counts), tracer.files.size
            metrics.trace_records_sampled_out, metrics.trace_records_dropped = tracer.ring.sampled_out, tracer.dropped
            checker = runtime.broker.schemas.checker
            metrics.schema_checked_messages, metrics.schema_refused_messages = checker.checked, dict(checker.refused)
            metrics.scrub = scrub_metrics(runtime.scrub)
            metrics.logs_refused = len(runtime.store.refused)
            metrics.logs_fenced = sum(log.fence is not None for log in list(runtime.store.logs.values()))
            metrics.in_flight_limit_bytes = runtime.settings.in_flight_bytes
            return metrics.scrape()


def scrub_metrics(scrub: ScrubRunner) -> ScrubMetricValues:
    progress, damages = scrub.progress, sum(len(one) for one in scrub.damages.values())
    ratio = progress.done / progress.total if progress.total else 0.0
    return ScrubMetricValues(progress.passes, progress.read_bytes, progress.ended_ns / NANOSECONDS, ratio, damages)


def tenant_metrics(usage: UsageRunner, turn: Turn) -> list[TenantMetricValues]:
    """Return the numbers of all tenants; those of their usage are as of the last sample."""
    return [_tenant_metrics(one, usage.meters.of(one.tenant), turn) for one in usage.uses()]


def _tenant_metrics(use: TenantUse, meter: TenantMeter | None, turn: Turn) -> TenantMetricValues:
    return TenantMetricValues(
        tenant=use.tenant,
        published_messages=use.published_messages,
        published_bytes=use.published_bytes,
        consumed_messages=use.consumed_messages,
        consumed_bytes=use.consumed_bytes,
        busy_seconds=turn.busy_ns(use.tenant) / NANOSECONDS if isinstance(turn, FairTurn) else 0.0,
        memory_refusals=0 if meter is None else meter.memory.refusals,
        memory_bytes=0 if meter is None else meter.memory.held_bytes,
        storage_bytes=use.storage_bytes,
        percents={one.quota: one.percent for one in use.quotas if one.percent is not None},
        violations={one.quota: one.violations for one in use.quotas if one.violations},
    )


async def collect_group_metrics(broker: Broker) -> GroupMetricsInput:
    groups = {one.group.group: _group_metrics(broker, one) async for one in walk_groups(broker, TimeSlices())}
    counts, totals = broker.groups.totals.settled, broker.groups.totals.rebalances
    return GroupMetricsInput(
        groups,
        {
            "acked": counts.acks,
            "nacked": counts.nacks,
            "rejected": counts.rejects,
            "released": counts.releases,
            "expired": counts.expiries,
            "dead_lettered": counts.dead_letters,
            "dropped": counts.drops,
        },
        dict(totals.by_reason),
        totals.timeouts,
    )


def _group_metrics(broker: Broker, found: GroupSnapshot) -> GroupMetricValues:
    lag: Counter[str] = Counter()
    lags = broker.groups.of(found.group.group).lags
    for one in found.cursors:
        if one.topic is not None:
            lag[one.topic.name] += one.left
    return GroupMetricValues(
        _state(broker, found.group),
        len(found.group.members),
        sum(one.cursor.leased for one in found.cursors),
        dict(lag),
        {(*one.cursor.ref, one.cursor.topic_ns): lost for one in found.cursors if (lost := _lost(one))},
        sum(lags.settled_total(found.group.group, one.cursor.ref) for one in found.cursors),
    )


def _lost(one: CursorLag) -> int:
    """Return recorded losses, and those that the group's next poll will record, because it may not poll for long."""
    cursor = one.cursor
    if one.topic is None:
        return cursor.lost
    return cursor.lost + cursor.lost_before(one.topic.partition(cursor.partition).earliest)


def _state(broker: Broker, group: Group) -> GroupStateLabel:
    if not group.members:
        return "empty"
    membership = broker.groups.of(group.group).membership
    is_settled = group.phase != "pending_revoke" and membership.is_assignment_delivered(group)
    return "stable" if is_settled else "rebalancing"


async def collect_overdue_seconds(runtime: Runtime) -> float:
    """Return how long ago the oldest pending delayed message was due, 0 if none is overdue."""
    slices, now_ns = TimeSlices(), runtime.clock.now_ns()
    oldest_ns = now_ns
    for delivery in runtime.broker.delay_scheduler.led():
        await slices.rest()
        delays = delivery.delays
        is_waiting = delivery.next_ns is None or delivery.next_ns > now_ns
        if is_waiting and not delays.delivering:  # most schedules have nothing due, and may be long
            continue
        found = await runtime.perform(summarize_delays([delays], now_ns))
        if found.next_due_ns is not None:
            oldest_ns = min(oldest_ns, found.next_due_ns)
    return (now_ns - oldest_ns) / NANOSECONDS


async def collect_transaction_metrics(broker: Broker) -> TransactionMetricsInput:
    transactions, slices = broker.transactions, TimeSlices()
    now_ns = transactions.clock.now_ns()
    states, oldest_ns = {str(state): 0 for state in sorted(OPEN)}, now_ns
    for record in transactions.open_ones():
        states[record.state] += 1
        oldest_ns = min(oldest_ns, record.began_ns)
    held_back: dict[tuple[str, str], int] = {}
    for _, partition in broker.partitions():
        await slices.rest()
        if count := partition.held_back:
            held_back[partition.topic, str(partition.number)] = count
    counts = transactions.counts
    return TransactionMetricsInput(
        states,
        (now_ns - oldest_ns) / NANOSECONDS,
        counts.committed,
        {reason: counts.aborted.get(reason, 0) for reason in REASONS},
        held_back,
    )
