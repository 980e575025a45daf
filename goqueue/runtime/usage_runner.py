"""Measures the usage of tenants every few seconds, and records it each minute, at full hours and at the stop."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping

from goqueue.broker.core.partition import Partition
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.broker.tenants.naming import prefix_of, tenant_of
from goqueue.broker.tenants.quota_use import TenantUse, tenant_use
from goqueue.broker.tenants.usage import Occupancy, UsageRecorder
from goqueue.broker.tenants.usage_records import HOUR_NS
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.runtime.deferred import Deferred
from goqueue.runtime.event_loop import TimeSlices
from goqueue.runtime.runtime import Runtime

_log = logging.getLogger("goqueue.usage")

SAMPLE_SECONDS = 10.0
"""Storage is measured so often; what is accepted in between is added to it."""
RECORD_SECONDS = 60.0
_TOPICS_PER_SAMPLE = 4_000
"""With more topics their storage is measured less often, but as often as usage is recorded: most of them are idle."""
_AT_ONCE = 200  # topics between two looks at the clock: some tenths of a millisecond


class UsageRunner:
    """Owns the meters of tenants and the recorder of their usage, while the broker is open."""

    def __init__(self, runtime: Runtime, log: Partition, defaults: Mapping[str, float]) -> None:
        """`log` is the partition of the records; `defaults` are the quotas of tenants without their own."""
        broker = runtime.broker
        assert broker.tenants is not None, "the broker has tenants"
        memory_bytes_max = runtime.settings.tenant_memory_bytes
        self.meters = TenantMeters(broker.tenants, defaults, runtime.clock.monotonic_ns, memory_bytes_max)
        self.recorder = UsageRecorder(log, runtime.disk, self.meters, broker.topics, broker.groups)
        self._runtime = runtime
        self._recorded_ns = runtime.clock.monotonic_ns()
        self.recorder.open(self._hour())
        broker.on_partition_opened.subscribe(self.recorder.follow_partition)
        broker.before_deletion = self.recorder.before_deletion
        self._measured_ns = 0
        self._sampling = asyncio.Lock()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def _hour(self) -> int:
        return self._runtime.broker.retention.trusted_ns() // HOUR_NS

    async def _run(self) -> None:
        while True:
            try:
                await self._sample(measures=self._is_measuring_due())
                since_ns = self._runtime.clock.monotonic_ns() - self._recorded_ns
                if self.recorder.must_record or since_ns >= RECORD_SECONDS * NANOSECONDS:
                    await self.record()
                await self._runtime.decide(self.recorder.expire_hours())
            except GoQueueError as error:  # it is recorded later
                _log.warning("the usage of tenants could not be recorded: %s", error)
            until_hour = (HOUR_NS - self._runtime.clock.now_ns() % HOUR_NS) / NANOSECONDS
            await asyncio.sleep(min(SAMPLE_SECONDS, until_hour + 0.01))

    async def sample(self) -> None:
        """Measure the usage of all tenants now."""
        await self._sample(measures=True)

    def _is_measuring_due(self) -> bool:
        samples = min(len(self._runtime.broker.topics) // _TOPICS_PER_SAMPLE, RECORD_SECONDS // SAMPLE_SECONDS)
        since_ns = self._runtime.clock.monotonic_ns() - self._measured_ns
        return since_ns >= (samples - 0.5) * SAMPLE_SECONDS * NANOSECONDS

    async def _sample(self, *, measures: bool) -> None:
        async with self._sampling:
            occupied = await self._occupied() if measures else None
            self.recorder.sample(self._hour(), self._runtime.clock.monotonic_ns(), occupied)

    async def _occupied(self) -> dict[str, Occupancy]:
        """Return what each tenant has, measured in slices of the loop's time."""
        self._measured_ns = self._runtime.clock.monotonic_ns()
        slices, broker, found = TimeSlices(), self._runtime.broker, dict[str, Occupancy]()
        tenants = self.meters.tenants.state.tenants
        topics, deliveries = list(broker.topics.items()), list(broker.delay_scheduler.deliveries())
        for first in range(0, len(topics), _AT_ONCE):
            for name, topic in topics[first : first + _AT_ONCE]:
                if (tenant := tenant_of(name)) in tenants:
                    one = found.get(tenant) or found.setdefault(tenant, Occupancy())
                    one.topics += 1
                    one.partitions += len(topic.partitions)
                    one.storage_bytes += topic.led_size
            await slices.rest()
        for first in range(0, len(deliveries), _AT_ONCE):
            for delivery in deliveries[first : first + _AT_ONCE]:
                delayed, leadership = delivery.delays.delayed_log, delivery.delays.partition.leadership
                if leadership is not None and not leadership.is_leading:
                    continue
                if (one_of := found.get(tenant_of(delayed.topic))) is not None:
                    one_of.storage_bytes += delayed.log.size
            await slices.rest()
        return found

    def uses(self) -> list[TenantUse]:
        """Return the use of all tenants, as of the last sample."""
        broker, now_ns = self._runtime.broker, self._runtime.clock.monotonic_ns()
        groups = Counter(tenant_of(one.group) for one in broker.groups.groups())
        opened = Counter(tenant_of(one.id) for one in broker.transactions.open_ones())
        return [
            tenant_use(self.recorder, meter, groups[meter.tenant], opened[meter.tenant], now_ns)
            for meter in self.meters.all()
        ]

    def use_of(self, meter: TenantMeter) -> TenantUse:
        """Return the use of one tenant, as of the last sample."""
        broker, prefix = self._runtime.broker, prefix_of(meter.tenant)
        groups = sum(one.group.startswith(prefix) for one in broker.groups.groups())
        opened = sum(one.id.startswith(prefix) for one in broker.transactions.open_ones())
        return tenant_use(self.recorder, meter, groups, opened, self._runtime.clock.monotonic_ns())

    async def record(self) -> None:
        """Record what has changed, and wait until that is durable."""
        self._recorded_ns = self._runtime.clock.monotonic_ns()
        recorded: Deferred[None] = Deferred()
        self.recorder.record(recorded.resolve)
        await recorded

    async def settle(self) -> None:
        """Record all usage up to now; the log tells if that is refused."""
        try:
            await self.sample()
            await self.record()
        except GoQueueError as error:  # it is recorded later
            _log.warning("the usage of tenants could not be recorded: %s", error)

    async def stop(self) -> None:
        """Record the rest. No request may be in progress any more."""
        self._task.cancel()
        await asyncio.wait([self._task])
        await self.settle()
