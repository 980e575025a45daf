"""Counts what is published to the topics of tenants, from the logs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX
from goqueue.broker.tenants.append_meter import AppendMeter
from goqueue.broker.tenants.naming import tenant_of
from goqueue.broker.tenants.records import TenantState
from goqueue.broker.tenants.usage_records import TenantTotals, TopicUsage, TopicUsageGone, UsageRecord, UsageState
from goqueue.errors import GoQueueError
from goqueue.storage.log_stage import LogStage
from goqueue.storage.writer import AppendCallback

NeededFrom = Callable[[Partition], int | None]
"""Returns the first offset of a partition that is not recorded as counted, or None if nothing waits for a record."""


@dataclass(slots=True)
class TopicCount:
    """Messages that were published to one topic: counted before, and by the meters of its partitions since."""

    topic: Topic
    tenant: str
    before: TopicUsage | None
    meters: list[AppendMeter] = field(default_factory=list)
    past: tuple[int, int] = (0, 0)
    """Messages and bytes that were counted in replicas which are gone."""

    def has_all_partitions(self) -> bool:
        partitions = self.topic.partitions
        return len(self.meters) == len(partitions) and all(
            meter.partition is partition for meter, partition in zip(self.meters, partitions, strict=True)
        )

    def usage(self) -> TopicUsage:
        messages, size = (0, 0) if self.before is None else (self.before.messages, self.before.size)
        return TopicUsage(
            topic=self.topic.name,
            tenant=self.tenant,
            created_ns=self.topic.created_ns,
            ends=tuple(meter.end for meter in self.meters),
            messages=messages + self.past[0] + sum(meter.messages for meter in self.meters),
            size=size + self.past[1] + sum(meter.size for meter in self.meters),
        )


class PublishedCounter:
    """Messages and bytes that were ever published by each tenant, as far as they are durable."""

    def __init__(
        self,
        state: UsageState,
        topics: Mapping[str, Topic],
        tenants: TenantState,
        record: Callable[[Sequence[UsageRecord], AppendCallback], object],
        needed_from: NeededFrom,
        *,
        is_replicated: bool = False,
    ) -> None:
        """In a cluster (`is_replicated`) each node counts what it appends as a leader, and not what its logs have."""
        self._state = state
        self._all_topics = topics
        self._tenants = tenants
        self._record = record
        self._needed_from = needed_from
        self._is_replicated = is_replicated
        self._topics: dict[str, TopicCount] = {}
        self._fresh: dict[Partition, AppendMeter] = {}
        """Meters of partitions that were opened before their topic was seen."""
        self._busy: set[AppendMeter] = set()
        """Meters with something new."""
        self._gone: list[TopicUsage] = []
        """Counts of deleted topics that are not recorded among the totals of their tenants."""
        self._totals: dict[str, list[int]] = {}
        self._is_open = False
        self._must_look = True
        """Set when there may be topics that are not counted yet."""
        self.must_record = False
        """Set when a record should not wait: after a crash, the messages before it would count."""
        self.changed_topics: set[str] = set()
        """Topics whose count differs from what is recorded."""
        self.changed_tenants: set[str] = set()
        """Tenants with topics whose count began or ended."""

    def open(self) -> None:
        """Take the recorded counts, and count what the logs have beyond them."""
        for name, usage in list(self._state.topics.items()):
            topic = self._all_topics.get(name)
            if topic is None or topic.created_ns != usage.created_ns:
                self._gone.append(usage)
        self._fold_gone()
        for total in self._state.totals.values():
            self._add(total.tenant, total.messages, total.size)
        for usage in self._state.topics.values():
            self._add(usage.tenant, usage.messages, usage.size)
        self._find_topics()
        self._settle()
        self._is_open = True

    def total(self, tenant: str) -> tuple[int, int]:
        """Return the messages and bytes of a tenant, as of the last `collect`."""
        messages, size = self._totals.get(tenant, (0, 0))
        return messages, size

    def usages(self, names: set[str]) -> list[UsageRecord]:
        """Return the records of topics, as far as they are there."""
        return [self._topics[name].usage() for name in sorted(names) if name in self._topics]

    def usage_of(self, name: str) -> TopicUsage | None:
        """Return the record of a topic with all that is durable now."""
        self._end_deleted(name)
        self._fold_gone()
        self._find_topics()
        self._settle()
        count = self._topics.get(name)
        return None if count is None else count.usage()

    # --- follow ---

    def follow_partition(self, partition: Partition) -> None:
        """Count a partition that was opened, from its first message on."""
        self._must_look = True
        if _is_counted(partition.topic) and tenant_of(partition.topic) in self._tenants.tenants:
            self._fresh[partition] = self._new_meter(partition, partition.log.next_offset)

    def look_again(self) -> None:
        """Look for topics of a new tenant that were there before."""
        self._must_look = True

    def collect(self) -> None:
        """Add what has become durable, and follow created and deleted topics."""
        self._settle()
        for name in list(self._topics):
            self._end_deleted(name)
        self._fold_gone()
        self._find_topics()
        self._settle()
        self._end_unseen()
        self._fold_gone()

    def _find_topics(self) -> None:
        """Begin to count new topics, and new partitions of known ones."""
        if not self._must_look and not self._fresh:  # a partition is opened before its topic is there
            return
        self._must_look = False
        for name, topic in self._all_topics.items():
            count = self._topics.get(name)
            if count is not None and count.topic is topic and count.has_all_partitions():
                continue
            tenant = self._tenants.tenants.get(tenant_of(name))
            if tenant is None or not _is_counted(name):
                continue
            if count is None:
                before = self._state.topics.get(name)
                is_known = before is not None and before.created_ns == topic.created_ns
                count = self._topics[name] = TopicCount(topic, tenant.id, before if is_known else None)
            for number, partition in enumerate(topic.partitions):
                if number == len(count.meters):
                    count.meters.append(self._meter_of(partition, count.before))
                elif count.meters[number].partition is not partition:
                    self._end_meter(count, number)
                    count.meters[number] = self._meter_of(partition, None)
            self.changed_tenants.add(tenant.id)
            self.changed_topics.add(name)

    def _meter_of(self, partition: Partition, before: TopicUsage | None) -> AppendMeter:
        """Return the meter of a partition: from where it was recorded, or from its beginning.

        One that is not new while the broker runs became the tenant's with all it had, which was not published by it.
        """
        meter = self._fresh.pop(partition, None)
        if meter is not None:
            return meter
        if before is not None:
            known = before.ends
            return self._new_meter(partition, known[partition.number] if partition.number < len(known) else 0)
        self.must_record |= self._is_open
        return self._new_meter(partition, partition.log.next_offset if self._is_open else 0)

    def _end_meter(self, count: TopicCount, number: int) -> None:
        """End the count of a partition whose replica was replaced by another one."""
        former = count.meters[number]
        messages, size = former.take()
        former.stop()
        self._add(count.tenant, messages, size)
        count.past = count.past[0] + former.messages, count.past[1] + former.size

    def _new_meter(self, partition: Partition, first: int) -> AppendMeter:
        if self._is_replicated:
            return AppendMeter(partition, partition.log.next_offset, self._busy)
        partition.needed_from = lambda: self._needed_from(partition)
        return AppendMeter(partition, first, self._busy)

    def _settle(self) -> None:
        """Add what has become durable to the totals."""
        for meter in list(self._busy):
            messages, size = meter.take()
            topic = meter.partition.topic
            self._add(tenant_of(topic), messages, size)
            self.changed_topics.add(topic)

    def _add(self, tenant: str, messages: int, size: int) -> None:
        found = self._totals.setdefault(tenant, [0, 0])
        found[0] += messages
        found[1] += size

    # --- deleted topics ---

    def _end_deleted(self, name: str) -> None:
        """End the count of a topic if it was deleted."""
        count = self._topics.get(name)
        if count is not None and self._all_topics.get(name) is not count.topic:
            for meter in count.meters:
                meter.stop()
            del self._topics[name]
            self._gone.append(count.usage())
            self._must_look = True  # it may have been created again

    def _end_unseen(self) -> None:
        """End the counts of topics that were created and deleted between two looks."""
        for partition, meter in list(self._fresh.items()):
            if partition.log.stage > LogStage.OPEN:
                meter.stop()
                del self._fresh[partition]
                ends = (meter.end,)
                name, tenant = partition.topic, tenant_of(partition.topic)
                given = {"messages": meter.messages, "size": meter.size}
                self._gone.append(TopicUsage(topic=name, tenant=tenant, created_ns=0, ends=ends, **given))

    def _fold_gone(self) -> None:
        """Record what was published to deleted topics among the totals of their tenants."""
        gone, self._gone = self._gone, []
        for usage in gone:
            former = self._state.totals.get(usage.tenant, TenantTotals(tenant=usage.tenant))
            total = TenantTotals(
                tenant=usage.tenant,
                messages=former.messages + usage.messages,
                size=former.size + usage.size,
                folded=usage.topic,
            )
            self._record([total, TopicUsageGone(usage.topic)], partial(self._folded, usage))
            self.changed_tenants.add(usage.tenant)

    def _folded(self, usage: TopicUsage, error: GoQueueError | None) -> None:
        if error is not None:  # tried again
            self._gone.append(usage)


def _is_counted(topic: str) -> bool:
    """Return whether messages in a topic were published to it: dead letters were moved there by the broker."""
    return not topic.endswith(DEAD_LETTER_SUFFIX)
