"""Usage of tenants: measured every few seconds, and recorded in the log `__usage` each minute and at each full hour.

Published messages are those that were stored in the topics of a tenant, dead-letter topics excepted; consumed ones were
given to its groups, or read without a group. Published messages and those of groups are counted from the logs, so a
crash changes nothing. Reads without a group, refusals and peaks are counted in memory: a crash loses those since the
last record, so a tenant is never charged for more than it got.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import Promise, Work
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.deliveries import Delivery, DeliveryCounter
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.broker.tenants.published import PublishedCounter
from goqueue.broker.tenants.usage_history import DAY_HOURS, expire_hours
from goqueue.broker.tenants.usage_records import (
    HOURS_KEPT,
    GroupLogsCounted,
    UsageHour,
    UsageRecord,
    UsageState,
    decode_usage_record,
    encode_usage_record,
)
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.storage.disk import Disk
from goqueue.storage.writer import AppendCallback


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
    read_messages: int = 0
    read_bytes: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    warned: Counter[str] = field(default_factory=Counter)
    mark: tuple[object, ...] = ()
    """Equal as long as nothing changes."""


_NOTHING: Final = Occupancy()
_FIRST_SAMPLE_NS: Final = 10 * NANOSECONDS
"""The time that a tenant had before its first sample: at most that between two samples."""
_IDLE: Final = dict.fromkeys(
    (kinds.PUBLISH_RATE, kinds.PUBLISH_BYTES_RATE, kinds.CONSUME_RATE, kinds.CONSUME_BYTES_RATE), 0.0
)


class UsageRecorder:
    """Counts and records the usage of all tenants. The runtime calls `sample` and `record` regularly."""

    def __init__(
        self, partition: Partition, disk: Disk, meters: TenantMeters, topics: Mapping[str, Topic], groups: GroupShards
    ) -> None:
        self.state = UsageState()
        self.journal: Journal[UsageRecord] = Journal(
            partition, disk, self.state, encode_usage_record, decode_usage_record
        )
        self.meters = meters
        tenants = meters.tenants.state
        self._groups = groups
        self._published = PublishedCounter(
            self.state,
            topics,
            tenants,
            self._append,
            self._first_unrecorded,
            is_replicated=groups.settings.is_replicated,
        )
        self._deliveries = DeliveryCounter(groups, lambda name: name in tenants.tenants)
        self._delivered: dict[str, tuple[int, int]] = {}
        """Messages and bytes that the groups of each tenant were given since the start, as of the last sample."""
        self._delivered_ends: tuple[int, ...] = ()
        """The ends of the group logs up to which the hours have all deliveries."""
        self.hours: dict[str, UsageHour] = {}
        """The hour of each tenant that is not over yet."""
        self._over: dict[tuple[str, int], UsageHour] = {}
        """Hours that are over and not recorded yet."""
        self._hour = 0
        self._last: dict[str, _LastSample] = {}
        self._new: dict[str, tuple[int, int]] = {}
        """Messages and bytes at the creation of tenants that were not sampled since."""
        self.rates: dict[str, dict[str, float]] = {}
        """Rates of the last seconds, by tenant and kind of quota."""
        self._changed: set[str] = set()
        """Tenants whose usage differs from what is recorded."""
        self._is_refused = False
        """True after a record that the disk has refused: then nothing is kept from being removed."""

    @property
    def first_hour(self) -> int:
        """The first hour that reports may show: earlier ones are removed."""
        return self._hour - HOURS_KEPT

    @property
    def must_record(self) -> bool:
        """True when a record should not wait."""
        return self._published.must_record or bool(self._over)

    # --- start ---

    def open(self, hour: int) -> None:
        """Replay the records, and count what the logs have beyond them."""
        self.journal.open()
        self._hour = hour
        tenants = self.meters.tenants.state.tenants
        self.hours = {name: replace(one) for name, one in self.state.hours.items() if name in tenants}
        self._published.open()
        for delivery in self._deliveries.open(self.state.group_ends):
            self._count_again(delivery)
        self._delivered_ends = self._deliveries.ends()
        new = sorted(tenants.keys() - self.state.hours.keys())
        begun = [self.hours.get(name) or self._first_hour(name) for name in new]
        for one in self.hours.values():
            one.group_ends = self._delivered_ends
        if begun or not self.state.group_ends:  # a tenant that is deleted before its first record is known by this one
            counted = GroupLogsCounted(self.state.group_ends or self._delivered_ends)
            self._append([*map(replace, begun), counted], lambda _: None)
        for name in self.state.hours.keys() - tenants.keys():  # deleted after their last record
            self._complete(replace(self.hours.pop(name, self.state.hours[name])))
        self._close_hours(hour)
        for number, partition in enumerate(() if self._groups.settings.is_replicated else self._groups.partitions):
            partition.needed_from = partial(self._first_uncounted, number)
        self.meters.tenants.on_change.subscribe(self._follow_tenants)

    def _count_again(self, delivery: Delivery) -> None:
        """Add a delivery that the records of its tenant do not have."""
        tenant, known = delivery.tenant, self.state.hours.get(delivery.tenant)
        if known is None and tenant not in self.meters.tenants.state.tenants:
            return
        if known is not None and known.group_ends and delivery.offset < known.group_ends[delivery.log]:
            return
        if tenant not in self.hours and known is not None:
            self.hours[tenant] = replace(known)  # of a deleted tenant
        found = self.hours.get(tenant) or self._first_hour(tenant)
        found.consumed_messages += delivery.messages
        found.consumed_bytes += delivery.size
        self._changed.add(tenant)

    def _complete(self, hour: UsageHour) -> None:
        """Record the last hour of a deleted tenant again if the logs have more."""
        messages, size = self.published(hour.tenant)
        hour.published_messages, hour.published_bytes = messages - hour.messages_before, size - hour.size_before
        if hour != self.state.hours[hour.tenant]:
            hour.group_ends = self._delivered_ends
            self._over[hour.tenant, hour.hour] = hour

    def follow_partition(self, partition: Partition) -> None:
        """Count a partition that was opened, from its first message on."""
        self._published.follow_partition(partition)

    def _follow_tenants(self) -> None:
        """Begin the hour of a new tenant: what came before it, in topics and groups that it was given, is not its."""
        self._published.look_again()
        for name in self.meters.tenants.state.tenants.keys() - self.hours.keys():
            begun = self._first_hour(name)
            begun.group_ends = self._deliveries.ends()
            self._new[name] = self.published(name)
            # The hours before it come first: after a crash none of them would be counted again.
            over = [replace(one) for (tenant, _), one in self._over.items() if tenant == name]
            self._append([*over, replace(begun)], lambda _: None)

    # --- what is not recorded yet ---

    def _first_unrecorded(self, partition: Partition) -> int | None:
        """Return the first offset of a partition that no record counts; it is not removed before."""
        if self._is_refused or self.journal.log.obstacle is not None:
            return None
        found = self._durable.topics.get(partition.topic)
        return found.ends[partition.number] if found is not None and partition.number < len(found.ends) else 0

    def _first_uncounted(self, number: int) -> int | None:
        """Return the same of a group log."""
        if self._is_refused or self.journal.log.obstacle is not None:
            return None
        ends = self._durable.group_ends
        return ends[number] if number < len(ends) else 0

    @property
    def _durable(self) -> UsageState:
        durable = self.journal.durable
        assert isinstance(durable, UsageState)
        return durable

    def before_deletion(self, topic: str) -> Work[None]:
        """Record the messages of a topic before they are deleted."""
        usage = self._published.usage_of(topic)
        if usage is not None:
            recorded: Promise[GoQueueError | None] = Promise()
            self._append([usage], recorded)
            with suppress(GoQueueError):  # it can be deleted also when the disk is full
                yield from recorded.kept()

    # --- sample ---

    def sample(self, hour: int, now_ns: int, occupied: Mapping[str, Occupancy] | None) -> None:
        """Count what has come since the last sample. `now_ns` is monotonic, `hour` counts from the epoch.

        Without `occupied` it was not measured, and is as before.
        """
        self._hour = max(hour, self._hour)
        self._published.collect()
        self._delivered_ends = self._deliveries.ends()
        for last in list(self._last.values()):
            if self.meters.of(last.meter.tenant) is not last.meter:
                self._end_tenant(last, now_ns)
        self._close_hours(hour)
        for one in self.meters.all():
            self._sample_tenant(one, now_ns, None if occupied is None else occupied.get(one.tenant, _NOTHING))
        self._new.clear()

    def _sample_tenant(self, meter: TenantMeter, now_ns: int, measured: Occupancy | None) -> None:
        if measured is not None:
            meter.note_storage(measured.storage_bytes)
        total, last = self.published(meter.tenant), self._last.get(meter.tenant)
        delivered = self._deliveries.count(meter.tenant)
        open_hour = self.hours.get(meter.tenant) or self._first_hour(meter.tenant)
        occupied, violations = open_hour if measured is None else measured, meter.violations
        mark = (
            *(total, delivered, meter.consumed_messages, meter.consumed_bytes, meter.connections, open_hour.hour),
            *(occupied.storage_bytes, occupied.topics, occupied.partitions),
            *(sum(violations.refused.values()), sum(violations.warned.values())),
        )
        if last is None:
            before = self._new.get(meter.tenant, total)
            last = self._last[meter.tenant] = _LastSample(meter, now_ns - _FIRST_SAMPLE_NS, *before)
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
        given, self._delivered[meter.tenant] = self._delivered.get(meter.tenant, (0, 0)), delivered
        open_hour.consumed_messages += meter.read_messages - last.read_messages + delivered[0] - given[0]
        open_hour.consumed_bytes += meter.read_bytes - last.read_bytes + delivered[1] - given[1]
        open_hour.group_ends = self._delivered_ends
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
            meter.read_messages,
            meter.read_bytes,
            violations.refused.copy(),
            violations.warned.copy(),
            mark,
        )
        if open_hour != former:
            self._changed.add(meter.tenant)

    def _end_tenant(self, last: _LastSample, now_ns: int) -> None:
        """Count what a deleted tenant got at last. Another one with its id begins with a meter of its own."""
        tenant = last.meter.tenant
        if tenant in self.hours:
            self._sample_tenant(last.meter, now_ns, Occupancy())
        self._last.pop(tenant, None)
        self.rates.pop(tenant, None)

    def _first_hour(self, tenant: str) -> UsageHour:
        """Begin the hour of a tenant that has none; there may have been a tenant with its id before."""
        begun, known = UsageHour(tenant=tenant, hour=self._hour), self.state.hours.get(tenant)
        for (name, hour), one in self._over.items():
            if name == tenant and (known is None or hour >= known.hour):
                known = one
        if known is not None:  # it was deleted in this hour, or before
            begun = replace(known) if known.hour >= self._hour else _following(known, self._hour)
            self._over.pop((tenant, begun.hour), None)
        self.hours[tenant] = begun
        return begun

    def _close_hours(self, hour: int) -> None:
        """End the hours that are over, and begin the next. A clock that goes back does not open an hour again."""
        for one in [one for one in self.hours.values() if one.hour < hour]:
            messages, size = self.published(one.tenant)
            one.published_messages, one.published_bytes = messages - one.messages_before, size - one.size_before
            self._over[one.tenant, one.hour] = one
            if one.tenant in self.meters.tenants.state.tenants:
                self.hours[one.tenant] = _following(one, hour)
            else:
                del self.hours[one.tenant]

    def published(self, tenant: str) -> tuple[int, int]:
        """Return the messages and bytes that a tenant has ever published, as of the last sample."""
        return self._published.total(tenant)

    # --- record ---

    def record(self, done: AppendCallback) -> None:
        """Record what has changed. `done` is called when it is durable, or with the error; then it is tried again."""
        published = self._published
        changed, self._changed = self._changed | published.changed_tenants, set()
        topics, published.changed_topics = published.changed_topics, set()
        published.changed_tenants, published.must_record = set(), False
        over = dict(self._over)
        records: list[UsageRecord] = [*map(replace, over.values()), *published.usages(topics)]
        records += [replace(self.hours[name]) for name in sorted(changed) if name in self.hours]
        if self._delivered_ends != self.state.group_ends:  # after the hours: all deliveries before it are in them
            records.append(GroupLogsCounted(self._delivered_ends))

        def recorded(error: GoQueueError | None) -> None:
            self._is_refused = error is not None
            if error is not None:
                self._changed |= changed
                published.changed_topics |= topics
            else:
                self._over = {key: one for key, one in self._over.items() if key not in over}
            done(error)

        self._append(records, recorded)

    def _append(self, records: Sequence[UsageRecord], done: AppendCallback) -> None:
        obstacle = self.journal.log.obstacle
        if obstacle is not None:
            done(obstacle)
            return
        try:
            self.journal.record(records, done)
        except GoQueueError as error:
            done(error)

    def expire_hours(self) -> Work[None]:
        """Remove the hours that are too old. Call it often: it reads the log once a day."""
        below, last = self.first_hour, self.state.hours
        if below // DAY_HOURS <= self.state.hours_below // DAY_HOURS:
            return
        # The last hour of a tenant says how much was used before it, so another one is recorded first.
        following = [replace(one) for name, one in self.hours.items() if name in last and last[name].hour < below]
        yield from self.journal.recorded(following, lambda: None)
        yield from expire_hours(self.journal, self.state, below)


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
        group_ends=former.group_ends,
    )


def _sum(known: dict[str, int], added: Counter[str]) -> dict[str, int]:
    return {kind: known.get(kind, 0) + added[kind] for kind in sorted({*known, *added})} if added else known
