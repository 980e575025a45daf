"""Usage of tenants on a disk that crashes: it equals a recount of the logs, whatever happened before."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.core.work import Work, run_work
from goqueue.broker.groups.records import LeasesGranted, decode_group_record
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.broker.tenants.records import TenantRecord
from goqueue.broker.tenants.usage import Occupancy, UsageRecorder
from goqueue.broker.tenants.usage_history import QuotaTest, add_up, find_beyond, period_start_ns, read_hours
from goqueue.broker.tenants.usage_records import (
    HOUR_NS,
    GroupLogsCounted,
    HoursExpired,
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
from goqueue.storage.log import LogSettings
from tests.broker.brokers import KEEPS, Running, begin, frames_of, offer_batch
from tests.broker.groupwork import GATHERED, Team

TENANTS = ("acme", "beta")


class Life:
    """A broker with two tenants that is killed again and again."""

    def __init__(self) -> None:
        self.running = Running(has_tenants=True)
        self.gone: Counter[tuple[str, str]] = Counter()
        """Messages and bytes that were deleted, counted in their logs."""
        self.leases: dict[tuple[int, int], LeasesGranted] = {}
        """Deliveries to groups that were durable, by group log and offset."""
        self.lives = 0
        assert self.running.broker.tenants is not None
        for tenant in TENANTS:
            run_work(self.running.broker.tenants.create(TenantRecord(id=tenant, name=tenant), ""), self.running.flush)
        self.open()
        self.running.flush()

    def open(self) -> None:
        broker, clock = self.running.broker, self.running.clock
        assert broker.tenants is not None
        self.meters = TenantMeters(broker.tenants, {}, clock.monotonic_ns)
        self.recorder = UsageRecorder(broker.usage_log, self.running.disk, self.meters, broker.topics, broker.groups)
        self.recorder.open(clock.now_ns() // HOUR_NS)
        broker.on_partition_opened.subscribe(self.recorder.follow_partition)
        broker.before_deletion = self.recorder.before_deletion
        for coordinator in broker.groups:
            group_log = coordinator.store.group_log
            group_log._bytes_max, group_log.log.settings = 1024, LogSettings(1024)
        self.note_leases()

    def crash(self, keep: str) -> None:
        self.running, self.lives = self.running.crash(keep), self.lives + 1  # type: ignore[arg-type] # one of KEEPS
        self.open()

    def note_leases(self) -> None:
        """Note the leases in the group logs, as long as they are there."""
        for partition in self.running.broker.groups.partitions:
            for message, _ in _frames(partition):
                if isinstance(record := decode_group_record(message), LeasesGranted):
                    self.leases[partition.number, message.offset] = record

    def rewrite_group_logs(self) -> None:
        self.running.flush()
        self.note_leases()
        run_work(self.running.broker.groups.rewrite_logs(), self.running.flush)

    def topics(self) -> list[str]:
        return sorted(name for name in self.running.broker.topics if not name.startswith("__"))

    def sample(self) -> None:
        clock = self.running.clock
        self.recorder.sample(clock.now_ns() // HOUR_NS, clock.monotonic_ns(), {})

    def record(self, *, waits: bool) -> None:
        self.recorder.record(lambda _: None)
        if waits:
            self.running.flush()

    def delete(self, name: str, keep: str | None = None) -> None:
        """Delete a topic, and crash before that is durable if it is said what to keep then."""
        self.running.flush()
        counted = self.recount(name)
        run_work(self.running.broker.before_deletion(name), self.running.flush)
        self.running.ask_to_delete(name)
        if keep is None:
            self.running.flush()
        else:
            self.crash(keep)
        if name not in self.topics():
            self.gone += counted

    def make_again(self, tenant: str, *, crashes: bool) -> None:
        """Delete a tenant, and create another one with its id."""
        assert self.running.broker.tenants is not None
        self.running.flush()
        self.note_leases()
        self.gone += self.recount(*(name for name in self.topics() if name.startswith(tenant)))
        run_work(self.running.broker.tenants.delete(tenant), lambda: Team(self.running).due(GATHERED))
        if crashes:
            self.crash("synced")
        assert self.running.broker.tenants is not None
        run_work(self.running.broker.tenants.create(TenantRecord(id=tenant, name=tenant), ""), self.running.flush)
        self.running.flush()

    def expire(self, name: str) -> None:
        """Let retention remove what it may."""
        self.running.flush()
        counted = self.recount(name)
        self.running.roll(name)
        self.running.maintain(TopicSettings(retention_bytes=0), name)
        self.gone += counted - self.recount(name)

    def poll(self, chance: Random) -> None:
        """Give a new member of a group some messages; sometimes without waiting until that is durable."""
        tenant = chance.choice(TENANTS)
        topics = [name for name in self.topics() if name.startswith(tenant) and not name.endswith(".dlq")]
        if topics:
            team = Team(self.running, f"{tenant}.{chance.choice('gh')}", life=self.lives)
            member = team.join(topics=topics)
            work = team.polling(member, chance.randint(1, 5))
            if chance.random() < 0.7:
                run_work(work, self.running.flush)
            else:
                begin_or_end(work)

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
        self.note_leases()
        self.sample()
        expected = self.gone + self.recount(*self.topics())
        for tenant in TENANTS:
            counted = self.recorder.published(tenant)
            assert counted == (expected[tenant, "messages"], expected[tenant, "bytes"]), tenant
            hours = self.hours(tenant)
            assert sum(hour.published_messages for hour in hours) == counted[0]
            assert sum(hour.published_bytes for hour in hours) == counted[1]
            leases = [one for one in self.leases.values() if one.group.startswith(tenant)]
            assert sum(hour.consumed_messages for hour in hours) == sum(one.messages for one in leases), tenant
            assert sum(hour.consumed_bytes for hour in hours) == sum(one.size for one in leases), tenant

    def hours(self, tenant: str | None = None) -> list[UsageHour]:
        self.record(waits=True)
        return run_work(read_hours(self.recorder.journal.partition, self.recorder.hours, 0, 10**9, tenant))

    def step(self, chance: Random) -> None:
        topics = self.topics()
        always: list[Callable[[], object]] = [
            self.sample,
            lambda: self.crash(chance.choice(KEEPS)),
            lambda: self.pass_time(chance),
            self.rewrite_group_logs,
            lambda: self.make_again(chance.choice(TENANTS), crashes=chance.random() < 0.5),
        ]
        always += [lambda: self.create(chance), lambda: self.record(waits=chance.random() < 0.5)]
        with_topics: list[Callable[[], object]] = [lambda: self.publish(chance)] * 4
        with_topics += [lambda: self.refuse(chance), lambda: self.mark(chance)]
        with_topics += [lambda: self.delete(chance.choice(topics), chance.choice([None, None, *KEEPS]))]
        with_topics += [lambda: self.expire(chance.choice(topics))] + [lambda: self.poll(chance)] * 4
        chance.choice(always + with_topics if topics else always)()

    def create(self, chance: Random) -> None:
        name = f"{chance.choice(TENANTS)}.{chance.choice('abc')}{chance.choice(['', '.dlq'])}"
        if name not in self.topics():
            self.running.clock.advance(0.001)  # topics are told apart by when they were created
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
        """Append a control record, and a message after it."""
        for content in (frame.encode(b"x", b"k", flags=frame.CONTROL), frame.encode(b"message")):
            self.partition(chance).append(scan.check_batch(bytearray(content)), lambda _: None)

    def pass_time(self, chance: Random) -> None:
        self.running.clock.advance(chance.randint(600, 9000))
        self.running.clock.jump(chance.choice([0, 0, -9000, 9000]))
        self.sample()

    def partition(self, chance: Random) -> Partition:
        return chance.choice(self.running.broker.topics[chance.choice(self.topics())].partitions)


def begin_or_end(work: Work[Any]) -> None:
    """Do the work up to where it waits for something to be durable."""
    with suppress(StopIteration):
        begin(work)


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
        meter.count_read(2, 100)
        meter.violations.count("max_topics", clock.monotonic_ns())
        clock.advance(5)
        life.recorder.sample(first + hour, clock.monotonic_ns(), {"acme": Occupancy(1000 * hour, 1, 1)})
        if hour == 10:
            life.record(waits=True)
            life.crash("synced")  # within the hour
            meter = life.meters.of("acme")
            assert meter is not None
        clock.advance(3595)
    hours = [one for one in life.hours("acme") if one.hour >= first]
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


def test_rates_of_a_tenant_count_from_its_creation() -> None:
    life = Life()
    assert life.running.broker.tenants is not None
    life.sample()
    run_work(life.running.broker.tenants.create(TenantRecord(id="new", name="new"), ""), life.running.flush)
    life.running.create("new.t")
    life.running.publish(frames_of([b"x"] * 30), "new.t")
    life.running.clock.advance(5)
    life.sample()
    assert life.recorder.hours["new"].peaks["publish_rate_limit"] == 3, "30 messages in at most ten seconds"
    life.crash("synced")
    life.sample()
    assert life.recorder.rates["new"]["publish_rate_limit"] == 0, "what was stored before the start is no rate"


def test_period_begins_with_its_hour_day_or_month() -> None:
    hour = 1_792_584_000 // 3600  # 2026-10-21T12:00Z
    begins = {step: period_start_ns(hour, step) // NANOSECONDS for step in ("hour", "day", "month", "total")}
    assert begins == {"hour": hour * 3600, "day": 1_792_540_800, "month": 1_790_812_800, "total": hour * 3600}


def test_consumption_stays_when_a_tenant_is_deleted_and_its_id_is_used_again() -> None:
    life = Life()
    tenants, clock, hour = life.running.broker.tenants, life.running.clock, life.running.clock.now_ns() // HOUR_NS
    assert tenants is not None
    for round_number in (1, 2):
        life.running.create("acme.t")
        meter = life.meters.of("acme")
        assert meter is not None
        for messages in (70, 30):
            meter.count_read(messages, 10 * messages)
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


def test_usage_of_an_hour_stays_when_its_tenant_is_deleted_and_made_again_after_a_crash() -> None:
    life = Life()
    for round_number in (1, 2):
        tenants = life.running.broker.tenants
        assert tenants is not None
        life.running.create("acme.t")
        life.running.publish(frames_of([b"x"] * 3), "acme.t")
        run_work(tenants.delete("acme"), life.running.flush)
        life.crash("synced")
        tenants = life.running.broker.tenants
        assert tenants is not None
        run_work(tenants.create(TenantRecord(id="acme", name="acme"), ""), life.running.flush)
        life.sample()
        assert sum(one.published_messages for one in life.hours("acme")) == 3 * round_number


@pytest.mark.parametrize("hours", [0, 2])
def test_usage_that_was_never_recorded_stays_when_its_tenant_is_made_again_between_two_crashes(hours: int) -> None:
    life = Life()
    life.running.create("acme.t")
    life.running.publish(frames_of([b"x"] * 3), "acme.t")
    team = Team(life.running, "acme.g")
    team.ask_poll(team.join(topics=["acme.t"]))
    life.running.clock.advance(3600 * hours)
    life.make_again("acme", crashes=True)
    life.crash("synced")
    life.check()
    assert sum(one.consumed_messages for one in life.hours("acme")) == 3


def test_hours_expire_after_thirteen_months_also_of_a_deleted_tenant_whatever_the_clock_does() -> None:
    life = Life()
    clock, first, tenants = life.running.clock, life.running.clock.now_ns() // HOUR_NS, life.running.broker.tenants
    assert tenants is not None

    def pass_days(*jumps: float) -> None:
        for days in jumps:
            clock.jump(days * 86_400)
            life.sample()
            life.record(waits=True)
            run_work(life.recorder.expire_hours(), life.running.flush)

    life.running.create("beta.t")
    life.running.publish(frames_of([b"x"] * 3), "beta.t")
    pass_days(0, 1, 1)
    run_work(tenants.delete("beta"), life.running.flush)
    pass_days(1, -2, 1, 391)
    assert min(one.hour for one in life.hours()) == first, "two days are left until then"
    pass_days(7)
    for _ in range(2):
        shown = run_work(read_hours(life.recorder.journal.partition, {}, life.recorder.first_hour, 10**9))
        assert {one.tenant for one in shown} == {"acme"}
        latest = {message.key or b"": message.flags for message, _ in _frames(life.running.broker.usage_log)}
        kept = [key.split(b":") for key, flags in latest.items() if key[:5] == b"hour:" and not flags & frame.TOMBSTONE]
        old = [tenant for _, tenant, hour in kept if int(hour) < life.recorder.first_hour]
        assert old == [b"beta"], "its last hour says what a new tenant with its id goes on from"
        size = life.recorder.journal.log.next_offset
        run_work(life.recorder.expire_hours(), life.running.flush)
        assert life.recorder.journal.log.next_offset == size, "nothing more to do on this day"
        life.crash("synced")
    assert life.running.broker.tenants is not None
    run_work(life.running.broker.tenants.create(TenantRecord(id="beta", name="b"), ""), life.running.flush)
    life.sample()
    assert life.recorder.hours["beta"].messages_before == life.recorder.published("beta")[0] == 3


def test_damaged_records_are_reported_and_what_is_in_the_logs_is_counted_again() -> None:
    life = Life()
    life.running.create("acme.t")
    for messages in (3, 4):
        life.running.publish(frames_of([b"x"] * messages), "acme.t")
        life.sample()
        life.record(waits=True)
    assert list(life.running.broker.lost_records()) == []
    disk = life.running.disk
    (path,) = (one for one in disk.paths() if "__usage" in one and one.endswith(".log"))
    content = disk.read_file(path)
    last = list(frame.walk(memoryview(content)))[-4]
    for one in (path, path.replace(".log", ".copy")):
        disk.overwrite(one, last + 40, bytes(byte ^ 0xA5 for byte in content[last + 40 : last + 42]))
    life.crash("everything")
    (lost,) = life.running.broker.lost_records()
    assert (lost.log, lost.count) == ("__usage/0", 1)
    life.check()
    assert life.recorder.published("acme")[0] == 7


def test_logs_are_kept_until_they_are_counted_unless_the_disk_refuses_the_count() -> None:
    life = Life()
    life.running.create("acme.t")
    life.sample()
    life.record(waits=True)
    life.running.publish(frames_of([b"x"] * 3), "acme.t")
    life.expire("acme.t")
    partition = life.running.partition("acme.t")
    assert partition.earliest == 0
    life.running.refuse_writes("*__usage*")
    life.sample()
    life.record(waits=True)
    assert partition.removable_end == 3, "a full disk needs the space"
    life.record(waits=True)
    life.expire("acme.t")
    assert partition.earliest == 3
    life.crash("synced")
    assert life.recorder.published("acme")[0] == 3


def test_hours_that_the_disk_refused_are_recorded_later() -> None:
    life = Life()
    clock, meter = life.running.clock, life.meters.of("acme")
    assert meter is not None
    for hour in range(3):
        meter.violations.count("max_topics", clock.monotonic_ns())
        life.running.refuse_writes("*__usage*")
        life.sample()
        life.record(waits=True)
        clock.advance(3600 if hour else 0)
    life.sample()
    assert life.recorder.must_record
    assert len({one.hour for one in life.hours("acme")}) == 3
    assert not life.recorder.must_record


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
        (HoursExpired(7), '{"record":"hours_expired","below":7}'),
        (GroupLogsCounted((7, 0)), '{"record":"group_logs","ends":[7,0]}'),
    ],
)  # fmt: skip
def test_record_is_encoded_as_documented(record: UsageRecord, text: str) -> None:
    stored = frame.decode(memoryview(encode_usage_record(record)))
    assert stored.value.decode() == text
    assert decode_usage_record(stored) == record
    assert bool(stored.flags & frame.TOMBSTONE) == isinstance(record, TopicUsageGone | UsageExpired)
