"""Usage of tenants on a disk that crashes: it equals a recount of the logs, whatever happened before."""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.broker.tenants.records import TenantRecord
from goqueue.broker.tenants.usage import Occupancy, UsageRecorder
from goqueue.broker.tenants.usage_history import QuotaTest, add_up, find_beyond, read_hours
from goqueue.broker.tenants.usage_records import (
    HOUR_NS,
    TenantTotals,
    TopicUsage,
    TopicUsageGone,
    UsageExpired,
    UsageHour,
    UsageRecord,
    decode_usage_record,
    encode_usage_record,
)
from goqueue.clock import NANOSECONDS
from goqueue.storage import frame, scan
from tests.broker.brokers import KEEPS, Running, frames_of, offer_batch

TENANTS = ("acme", "beta")


class Life:
    """A broker with two tenants that is killed again and again."""

    def __init__(self) -> None:
        self.running = Running(has_tenants=True)
        self.gone: Counter[tuple[str, str]] = Counter()
        """Messages and bytes of deleted topics, counted in their logs."""
        assert self.running.broker.tenants is not None
        for tenant in TENANTS:
            run_work(self.running.broker.tenants.create(TenantRecord(id=tenant, name=tenant), ""), self.running.flush)
        self.open()

    def open(self) -> None:
        broker, clock = self.running.broker, self.running.clock
        assert broker.tenants is not None
        self.meters = TenantMeters(broker.tenants, {}, clock.monotonic_ns)
        self.recorder = UsageRecorder(broker.usage_log, self.running.disk, self.meters, broker.topics)
        self.recorder.open(clock.now_ns() // HOUR_NS)
        broker.on_partition_opened.subscribe(self.recorder.follow_partition)

    def crash(self, keep: str) -> None:
        self.running = self.running.crash(keep)  # type: ignore[arg-type] # one of KEEPS
        self.open()

    def topics(self) -> list[str]:
        return sorted(name for name in self.running.broker.topics if not name.startswith("__"))

    def sample(self) -> None:
        clock = self.running.clock
        self.recorder.sample(clock.now_ns() // HOUR_NS, clock.monotonic_ns(), {})

    def record(self, *, waits: bool) -> None:
        self.recorder.record(lambda _: None)
        if waits:
            self.running.flush()

    def delete(self, name: str) -> None:
        self.running.flush()
        self.gone += self.recount(name)
        self.running.delete(name)
        self.sample()
        self.record(waits=True)

    def recount(self, *names: str) -> Counter[tuple[str, str]]:
        found: Counter[tuple[str, str]] = Counter()
        for name in names:
            tenant = name.partition(".")[0]
            for partition in self.running.broker.topics[name].partitions if not name.endswith(".dlq") else ():
                for message, size in _frames(partition):
                    if not message.flags & frame.CONTROL:
                        found += Counter({(tenant, "messages"): 1, (tenant, "bytes"): size})
        return found

    def check(self) -> None:
        self.running.flush()
        self.sample()
        expected = self.gone + self.recount(*self.topics())
        for tenant in TENANTS:
            counted = self.recorder.published(tenant)
            assert counted == (expected[tenant, "messages"], expected[tenant, "bytes"]), tenant
            hours = self.hours(tenant)
            assert sum(hour.published_messages for hour in hours) == counted[0]
            assert sum(hour.published_bytes for hour in hours) == counted[1]

    def hours(self, tenant: str | None = None) -> list[UsageHour]:
        self.record(waits=True)
        return run_work(read_hours(self.recorder.journal.partition, self.recorder.hours, 0, 10**9, tenant))

    def step(self, chance: Random) -> None:
        topics = self.topics()
        always: list[Callable[[], object]] = [
            self.sample,
            lambda: self.crash(chance.choice(KEEPS)),
            lambda: self.pass_time(chance),
        ]
        always += [lambda: self.create(chance), lambda: self.record(waits=chance.random() < 0.5)]
        with_topics: list[Callable[[], object]] = [lambda: self.publish(chance)] * 4
        with_topics += [lambda: self.refuse(chance), lambda: self.mark(chance)]
        with_topics += [lambda: self.delete(chance.choice(topics))]
        chance.choice(always + with_topics if topics else always)()

    def create(self, chance: Random) -> None:
        name = f"{chance.choice(TENANTS)}.{chance.choice('abc')}{chance.choice(['', '.dlq'])}"
        if name not in self.topics():
            self.running.create(name, chance.randint(1, 2))

    def publish(self, chance: Random) -> None:
        offer_batch(self.partition(chance), frames_of([b"x" * chance.randint(0, 300)] * chance.randint(1, 5)))
        if chance.random() < 0.7:
            self.running.flush()

    def refuse(self, chance: Random) -> None:
        """Publish to a disk that refuses it: the offsets are given out again."""
        self.running.flush()
        partition = self.partition(chance)
        offer_batch(partition, frames_of([b"refused"] * 3))
        self.running.refuse_writes(f"*{partition.log.name}*")
        self.running.flush()
        self.running.flush()

    def mark(self, chance: Random) -> None:
        """Append a control record and a message at once."""
        content = frame.encode(b"x", b"k", flags=frame.CONTROL) + frame.encode(b"message")
        self.partition(chance).append(scan.check_batch(bytearray(content)), lambda _: None)

    def pass_time(self, chance: Random) -> None:
        self.running.clock.advance(chance.randint(600, 9000))
        self.running.clock.jump(chance.choice([0, 0, -9000, 9000]))
        self.sample()

    def partition(self, chance: Random) -> Partition:
        return chance.choice(self.running.broker.topics[chance.choice(self.topics())].partitions)


def _frames(partition: Partition) -> Iterator[tuple[frame.StoredMessage, int]]:
    offset = partition.log.first_offset
    while offset < partition.log.next_offset:
        read = partition.log.read(offset, 10_000)
        for buffer in read.buffers:
            for position in frame.walk(buffer):
                yield frame.decode(buffer, position), frame.measure(buffer, position)
        if read.next_offset == offset:
            return
        offset = read.next_offset


@settings(max_examples=25, deadline=None)
@given(chance=st.randoms(use_true_random=False), steps=st.integers(5, 60))
def test_published_usage_equals_a_recount_of_the_logs_after_any_crashes(chance: Random, steps: int) -> None:
    life = Life()
    for _ in range(steps):
        life.step(chance)
    life.check()
    life.crash("synced")
    life.check()


def test_topic_created_after_the_clock_was_set_back_is_counted_after_a_crash() -> None:
    life = Life()
    life.running.clock.jump(-9000)
    life.running.create("acme.t")
    life.running.publish(frames_of([b"x"] * 3), "acme.t")
    life.crash("synced")
    life.check()


def test_messages_that_a_topic_had_before_it_became_the_tenants_do_not_count() -> None:
    life = Life()
    life.running.create("new.t")
    life.running.publish(frames_of([b"x"] * 3), "new.t")
    assert life.running.broker.tenants is not None
    work = life.running.broker.tenants.create(TenantRecord(id="new", name="new"), "", adopt=True)
    run_work(work, life.running.flush)
    life.sample()
    assert life.recorder.must_record
    life.record(waits=True)
    life.running.publish(frames_of([b"x"]), "new.t")
    life.crash("synced")
    life.sample()
    assert life.recorder.published("new") == (1, 37)


def test_hours_are_closed_added_up_and_compared_with_limits() -> None:
    life = Life()
    clock = life.running.clock
    clock.advance((HOUR_NS - clock.now_ns() % HOUR_NS) / NANOSECONDS)
    first = clock.now_ns() // HOUR_NS
    life.running.create("acme.t")
    meter = life.meters.of("acme")
    assert meter is not None
    for hour in range(30):
        life.sample()
        for _ in range(hour):
            life.running.publish(frames_of([b"x"]), "acme.t")
        meter.count_consumed(2, 100)
        meter.violations.count("max_topics", clock.monotonic_ns())
        clock.advance(5)
        life.recorder.sample(first + hour, clock.monotonic_ns(), {"acme": Occupancy(1000 * hour, 1, 1)})
        if hour == 10:
            life.record(waits=True)
            life.crash("synced")  # within the hour
            meter = life.meters.of("acme")
            assert meter is not None
        clock.advance(3595)
    hours = life.hours("acme")
    assert [(one.hour - first, one.published_messages, one.consumed_messages) for one in hours] == [
        (hour, hour, 2) for hour in range(30)
    ]
    assert hours[-1].consumed_messages_before == 58
    (total,) = add_up(hours, "total", 0)
    assert (total.hours, total.published_messages, total.refused) == (30, sum(range(30)), {"max_topics": 30})
    assert (total.storage_bytes, total.storage_peak) == (29_000, 29_000)
    days = add_up(hours, "day", 0)
    assert sum(day.hours for day in days) == 30
    assert all(day.begin_ns % (24 * HOUR_NS) == 0 for day in days)
    (month,) = add_up(hours, "month", 0)
    assert (month.begin_ns, month.hours) == (1_698_796_800 * NANOSECONDS, 30)
    limits = {"publish_rate_limit": 5.0, "max_storage_bytes": 20_000.0, "max_topics": 1.0}
    rate, storage = sorted(find_beyond(hours, limits), key=lambda one: one.quota, reverse=True)
    assert (storage.hours, storage.peak, storage.first_ns) == (9, 29_000, (first + 21) * HOUR_NS)
    assert isinstance(rate, QuotaTest)
    assert (rate.quota, rate.peak) == ("publish_rate_limit", 5.8)


def test_consumption_stays_when_a_tenant_is_deleted_and_its_id_is_used_again() -> None:
    life = Life()
    tenants, clock, hour = life.running.broker.tenants, life.running.clock, life.running.clock.now_ns() // HOUR_NS
    assert tenants is not None
    for round_number in (1, 2):
        life.running.create("acme.t")
        meter = life.meters.of("acme")
        assert meter is not None
        for messages in (70, 30):
            meter.count_consumed(messages, 10 * messages)
            if messages == 70:
                life.recorder.sample(hour, clock.monotonic_ns(), {"acme": Occupancy(1000, 1, 1)})
        run_work(tenants.delete("acme", lambda _: None), life.running.flush)
        if round_number == 1:
            life.sample()
        run_work(tenants.create(TenantRecord(id="acme", name="acme"), ""), life.running.flush)
        life.sample()
        found = life.recorder.hours["acme"]
        assert (found.consumed_messages, found.consumed_bytes) == (100 * round_number, 1000 * round_number)
        assert (found.storage_bytes, found.topics, found.partitions) == (0, 0, 0)


@pytest.mark.parametrize(
    ("record", "text"),
    [
        (
            TopicUsage(topic="a.t", tenant="a", created_ns=1, ends=(2, 3), messages=5, size=200),
            '{"record":"topic","topic":"a.t","tenant":"a","created_ns":1,"ends":[2,3],"messages":5,"size":200}',
        ),
        (TopicUsageGone("a.t"), '{"record":"topic_gone","topic":"a.t"}'),
        (TenantTotals(tenant="a", messages=5, folded="a.t"),
         '{"record":"totals","tenant":"a","messages":5,"folded":"a.t"}'),
        (UsageHour(tenant="a", hour=7, published_messages=3, peaks={"publish_rate_limit": 1.5},
                   refused={"max_topics": 1}),
         '{"record":"hour","tenant":"a","hour":7,"published_messages":3,"peaks":{"publish_rate_limit":1.5},'
         '"refused":{"max_topics":1}}'),
        (UsageExpired("a", 7), '{"record":"hour_expired","tenant":"a","hour":7}'),
    ],
)  # fmt: skip
def test_record_is_encoded_as_documented(record: UsageRecord, text: str) -> None:
    stored = frame.decode(memoryview(encode_usage_record(record)))
    assert stored.value.decode() == text
    assert decode_usage_record(stored) == record
    assert bool(stored.flags & frame.TOMBSTONE) == isinstance(record, TopicUsageGone | UsageExpired)
