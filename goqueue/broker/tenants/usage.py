"""Usage of tenants: measured every few seconds, and recorded in the log `__usage` each minute and at each full hour.

Published messages are those that were stored in the topics of a tenant, dead-letter topics excepted. They are counted
from the logs, so a crash changes nothing. Deliveries, refusals and peaks are counted in memory: a crash loses those
since the last record, so a tenant is never charged for more than it got.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX
from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.append_meter import AppendMeter
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.broker.tenants.naming import tenant_of
from goqueue.broker.tenants.usage_records import (
    HOUR_NS,
    HOURS_KEPT,
    TenantTotals,
    TopicUsage,
    TopicUsageGone,
    UsageExpired,
    UsageHour,
    UsageRecord,
    UsageState,
    decode_usage_record,
    encode_usage_record,
)
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.storage.disk import Disk
from goqueue.storage.log import LogStage
from goqueue.storage.writer import AppendCallback


@dataclass(slots=True)
class TopicCount:
    """Messages that were published to one topic: counted before, and by the meters of its partitions since."""

    topic: Topic
    tenant: str
    before: TopicUsage | None
    meters: list[AppendMeter] = field(default_factory=list)

    def usage(self) -> TopicUsage:
        messages, size = (0, 0) if self.before is None else (self.before.messages, self.before.size)
        return TopicUsage(
            topic=self.topic.name,
            tenant=self.tenant,
            created_ns=self.topic.created_ns,
            ends=tuple(meter.end for meter in self.meters),
            messages=messages + sum(meter.messages for meter in self.meters),
            size=size + sum(meter.size for meter in self.meters),
        )


@dataclass(slots=True)
class Occupancy:
    """Storage, topics and partitions of a tenant at a moment."""

    storage_bytes: int = 0
    topics: int = 0
    partitions: int = 0


@dataclass(slots=True)
class _LastSample:
    """The counters of a tenant when it was last sampled."""

    meter: TenantMeter
    at_ns: int
    messages: int = 0
    size: int = 0
    consumed_messages: int = 0
    consumed_bytes: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    warned: Counter[str] = field(default_factory=Counter)
    mark: tuple[object, ...] = ()
    """Equal as long as nothing changes."""


_IDLE: Final = dict.fromkeys(
    (kinds.PUBLISH_RATE, kinds.PUBLISH_BYTES_RATE, kinds.CONSUME_RATE, kinds.CONSUME_BYTES_RATE), 0.0
)


class UsageRecorder:
    """Counts and records the usage of all tenants. The runtime calls `sample` and `record` regularly."""

    def __init__(self, partition: Partition, disk: Disk, meters: TenantMeters, topics: Mapping[str, Topic]) -> None:
        self.state = UsageState()
        self.journal: Journal[UsageRecord] = Journal(
            partition, disk, self.state, encode_usage_record, decode_usage_record
        )
        self.meters = meters
        meters.tenants.on_change.subscribe(self._look_again)
        self._all_topics = topics
        self._topics: dict[str, TopicCount] = {}
        self._fresh: dict[Partition, AppendMeter] = {}
        """Meters of partitions that were opened before their topic was seen."""
        self.hours: dict[str, UsageHour] = {}
        """The hour of each tenant that is not over yet."""
        self._last: dict[str, _LastSample] = {}
        self._busy: set[AppendMeter] = set()
        """Meters with something new."""
        self._published: dict[str, list[int]] = {}
        """The messages and bytes that were ever published, by tenant."""
        self.must_record = False
        """Set when a record should not wait: after a crash, the messages before it would count."""
        self._is_open = False
        self._must_look = True
        """Set when there may be topics that are not counted yet."""
        self.rates: dict[str, dict[str, float]] = {}
        """Of the last seconds, by tenant and kind of quota."""
        self._changed: set[str] = set()
        """Tenants whose usage differs from what is recorded."""
        self._changed_topics: set[str] = set()

    # --- start ---

    def open(self, hour: int) -> None:
        """Replay the records, and count what the logs have beyond them."""
        self.journal.open()
        for name, usage in list(self.state.topics.items()):
            topic = self._all_topics.get(name)
            if topic is None or topic.created_ns != usage.created_ns:
                self._fold(usage)
        self.hours = {name: replace(one) for name, one in self.state.hours.items()}
        for total in self.state.totals.values():
            self._add(total.tenant, total.messages, total.size)
        for usage in self.state.topics.values():
            self._add(usage.tenant, usage.messages, usage.size)
        self._find_topics()
        self._settle()
        self._close_hours(hour)
        self._is_open = True

    def follow_partition(self, partition: Partition) -> None:
        """Count a partition that was opened, from its first message on."""
        self._must_look = True
        if _is_counted(partition.topic) and tenant_of(partition.topic) in self.meters.tenants.state.tenants:
            self._fresh[partition] = AppendMeter(partition, partition.log.next_offset, self._busy)

    def _look_again(self) -> None:
        """Look for topics of a new tenant that were there before."""
        self._must_look = True

    def _find_topics(self) -> None:
        """Begin to count new topics, and new partitions of known ones."""
        if not self._must_look and not self._fresh:  # a partition is opened before its topic is there
            return
        self._must_look = False
        tenants = self.meters.tenants.state.tenants
        for name, topic in self._all_topics.items():
            count = self._topics.get(name)
            if count is not None and count.topic is topic and len(count.meters) == len(topic.partitions):
                continue
            tenant = tenants.get(tenant_of(name))
            if tenant is None or not _is_counted(name):
                continue
            if count is None:
                before = self.state.topics.get(name)
                count = self._topics[name] = TopicCount(topic, tenant.id, before)
            for number in range(len(count.meters), len(topic.partitions)):
                partition = topic.partition(number)
                count.meters.append(self._meter_of(partition, count.before))
            self._changed.add(tenant.id)
            self._changed_topics.add(name)

    def _meter_of(self, partition: Partition, before: TopicUsage | None) -> AppendMeter:
        """Return the meter of a partition: from where it was recorded, or from its beginning.

        One that is not new while the broker runs became the tenant's with all it had, which was not published by it.
        """
        meter = self._fresh.pop(partition, None)
        if meter is not None:
            return meter
        if before is not None:
            known = before.ends
            return AppendMeter(partition, known[partition.number] if partition.number < len(known) else 0, self._busy)
        self.must_record |= self._is_open
        return AppendMeter(partition, partition.log.next_offset if self._is_open else 0, self._busy)

    # --- sample ---

    def sample(self, hour: int, now_ns: int, occupied: Mapping[str, Occupancy]) -> None:
        """Count what has come since the last sample. `now_ns` is monotonic, `hour` counts from the epoch."""
        self._settle()
        for name, count in list(self._topics.items()):
            if self._all_topics.get(name) is not count.topic:
                for meter in count.meters:
                    meter.stop()
                del self._topics[name]
                self._fold(count.usage())
                self._must_look = True  # it may have been created again
        self._find_topics()
        self._settle()
        self._fold_unseen()
        for last in list(self._last.values()):
            if self.meters.of(last.meter.tenant) is not last.meter:
                self._end_tenant(last, now_ns)
        self._close_hours(hour)
        for one in self.meters.all():
            self._sample_tenant(one, hour, now_ns, occupied.get(one.tenant, Occupancy()))

    def _fold_unseen(self) -> None:
        """Add topics that were created and deleted between two samples."""
        for partition, meter in list(self._fresh.items()):
            if partition.log.stage > LogStage.OPEN:
                meter.stop()
                del self._fresh[partition]
                ends = (meter.end,)
                name, tenant = partition.topic, tenant_of(partition.topic)
                given = {"messages": meter.messages, "size": meter.size}
                self._fold(TopicUsage(topic=name, tenant=tenant, created_ns=0, ends=ends, **given))

    def _sample_tenant(self, meter: TenantMeter, hour: int, now_ns: int, occupied: Occupancy) -> None:
        meter.note_storage(occupied.storage_bytes)
        total, last = self.published(meter.tenant), self._last.get(meter.tenant)
        open_hour = self.hours.get(meter.tenant) or self._first_hour(meter.tenant, hour)
        violations = meter.violations
        mark = (
            *(total, meter.consumed_messages, meter.consumed_bytes, meter.connections, open_hour.hour),
            *(occupied.storage_bytes, occupied.topics, occupied.partitions),
            *(sum(violations.refused.values()), sum(violations.warned.values())),
        )
        if last is None:
            last = self._last[meter.tenant] = _LastSample(meter, now_ns, *total)
        elif last.mark == mark:  # as of most tenants at most times
            last.at_ns, self.rates[meter.tenant] = now_ns, _IDLE
            return
        former = replace(open_hour)
        seconds = max((now_ns - last.at_ns) / NANOSECONDS, 1.0)
        amounts = {
            kinds.PUBLISH_RATE: total[0] - last.messages,
            kinds.PUBLISH_BYTES_RATE: total[1] - last.size,
            kinds.CONSUME_RATE: meter.consumed_messages - last.consumed_messages,
            kinds.CONSUME_BYTES_RATE: meter.consumed_bytes - last.consumed_bytes,
        }
        rates = self.rates[meter.tenant] = {kind: round(amount / seconds, 1) for kind, amount in amounts.items()}
        peaks = {kind: max(open_hour.peaks.get(kind, 0), rate) for kind, rate in rates.items()}
        open_hour.peaks = {kind: peak for kind, peak in peaks.items() if peak}
        open_hour.published_messages = total[0] - open_hour.messages_before
        open_hour.published_bytes = total[1] - open_hour.size_before
        open_hour.consumed_messages += amounts[kinds.CONSUME_RATE]
        open_hour.consumed_bytes += amounts[kinds.CONSUME_BYTES_RATE]
        open_hour.storage_bytes = occupied.storage_bytes
        open_hour.storage_peak = max(open_hour.storage_peak, occupied.storage_bytes)
        open_hour.topics, open_hour.partitions = occupied.topics, occupied.partitions
        open_hour.connections_peak = max(open_hour.connections_peak, meter.take_connections_peak())
        open_hour.refused = _sum(open_hour.refused, violations.refused - last.refused)
        open_hour.warned = _sum(open_hour.warned, violations.warned - last.warned)
        self._last[meter.tenant] = _LastSample(
            meter,
            now_ns,
            *total,
            meter.consumed_messages,
            meter.consumed_bytes,
            violations.refused.copy(),
            violations.warned.copy(),
            mark,
        )
        if open_hour != former:
            self._changed.add(meter.tenant)

    def _end_tenant(self, last: _LastSample, now_ns: int) -> None:
        """Count what a deleted tenant got at last. Another one with its id begins with a meter of its own."""
        tenant = last.meter.tenant
        if (open_hour := self.hours.get(tenant)) is not None:
            self._sample_tenant(last.meter, open_hour.hour, now_ns, Occupancy())
        self._last.pop(tenant, None)
        self.rates.pop(tenant, None)

    def _first_hour(self, tenant: str, hour: int) -> UsageHour:
        """Begin an hour of a tenant that has none; there may have been a tenant with its id before."""
        found = self.hours[tenant] = UsageHour(tenant=tenant, hour=hour)
        if (known := self.state.hours.get(tenant)) is not None:
            found = self.hours[tenant] = _following(known, hour)
        return found

    def _settle(self) -> None:
        """Add what has become durable to the totals."""
        for meter in list(self._busy):
            messages, size = meter.take()
            topic = meter.partition.topic
            self._add(tenant_of(topic), messages, size)
            self._changed_topics.add(topic)

    def _add(self, tenant: str, messages: int, size: int) -> None:
        found = self._published.setdefault(tenant, [0, 0])
        found[0] += messages
        found[1] += size

    def published(self, tenant: str) -> tuple[int, int]:
        """Return the messages and bytes that a tenant has ever published, as of the last sample."""
        messages, size = self._published.get(tenant, (0, 0))
        return messages, size

    # --- record ---

    def record(self, done: AppendCallback) -> None:
        """Record what has changed. `done` is called when it is durable, or with the error; then it is tried again."""
        self.must_record = False
        changed, self._changed = self._changed, set()
        topics, self._changed_topics = self._changed_topics, set()
        records: list[UsageRecord] = [self._topics[name].usage() for name in sorted(topics) if name in self._topics]
        records += [replace(self.hours[name]) for name in sorted(changed) if name in self.hours]

        def recorded(error: GoQueueError | None) -> None:
            if error is not None:
                self._changed |= changed
                self._changed_topics |= topics
            done(error)

        self._append(records, recorded)

    def _append(self, records: Iterable[UsageRecord], done: AppendCallback) -> None:
        obstacle = self.journal.log.obstacle
        if obstacle is not None:
            done(obstacle)
            return
        try:
            self.journal.record(list(records), done)
        except GoQueueError as error:
            done(error)

    def _close_hours(self, hour: int) -> None:
        """Record the hours that are over, and begin the next. A clock that goes back does not open an hour again."""
        over = [one for one in self.hours.values() if one.hour < hour]
        if not over:
            return
        records: list[UsageRecord] = []
        for one in over:
            messages, size = self.published(one.tenant)
            one.published_messages, one.published_bytes = messages - one.messages_before, size - one.size_before
            records.append(replace(one))
            tenant = self.meters.tenants.state.tenants.get(one.tenant)
            if tenant is not None:
                if tenant.created_ns // HOUR_NS <= one.hour - HOURS_KEPT:
                    records.append(UsageExpired(one.tenant, one.hour - HOURS_KEPT))
                self.hours[one.tenant] = _following(one, hour)
            else:
                del self.hours[one.tenant]
        self._append(records, lambda _: None)

    def _fold(self, usage: TopicUsage) -> None:
        """Add what was published to a deleted topic to the totals of its tenant."""
        former = self.state.totals.get(usage.tenant, TenantTotals(tenant=usage.tenant))
        total = TenantTotals(
            tenant=usage.tenant,
            messages=former.messages + usage.messages,
            size=former.size + usage.size,
            folded=usage.topic,
        )
        self._append([total, TopicUsageGone(usage.topic)], lambda _: None)
        self._changed.add(usage.tenant)


def _following(former: UsageHour, hour: int) -> UsageHour:
    """Return an hour that begins with what the one before ended with."""
    return UsageHour(
        tenant=former.tenant,
        hour=hour,
        messages_before=former.messages_before + former.published_messages,
        size_before=former.size_before + former.published_bytes,
        consumed_messages_before=former.consumed_messages_before + former.consumed_messages,
        consumed_bytes_before=former.consumed_bytes_before + former.consumed_bytes,
        storage_bytes=former.storage_bytes,
        storage_peak=former.storage_bytes,
        topics=former.topics,
        partitions=former.partitions,
    )


def _is_counted(topic: str) -> bool:
    """Return whether messages in a topic were published to it: dead letters were moved there by the broker."""
    return not topic.endswith(DEAD_LETTER_SUFFIX)


def _sum(known: dict[str, int], added: Counter[str]) -> dict[str, int]:
    return {kind: known.get(kind, 0) + added[kind] for kind in sorted({*known, *added})} if added else known
