"""Token buckets against a naive one: what passes is never more than the quota, and never less by more than a batch."""

from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.bucket import TokenBucket
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.quotas import KINDS, UNLIMITED, Quotas, check_quota, check_recorded
from goqueue.clock import NANOSECONDS
from goqueue.errors import QuotaExceeded, QuotaReached, RequestInvalid


@dataclass
class NaiveBucket:
    """Adds up all grants and all time anew at each question, in exact fractions."""

    rate: int
    burst: int
    steps: list[tuple[str, Fraction]] = field(default_factory=list)

    def level(self) -> Fraction:
        level = Fraction(self.burst)
        for what, amount in self.steps:
            level = min(Fraction(self.burst), level + amount * self.rate) if what == "time" else level - amount
        return level

    def take(self, amount: int) -> bool:
        if self.level() < 1:
            return False
        self.steps.append(("batch", Fraction(amount)))
        return True


_Steps = st.lists(
    st.tuples(st.sampled_from(["take", "wait", "jump back"]), st.integers(1, 400)), min_size=1, max_size=60
)


@given(rate=st.integers(1, 1000), burst=st.integers(1, 1000), steps=_Steps)
def test_bucket_grants_what_a_naive_bucket_grants(rate: int, burst: int, steps: list[tuple[str, int]]) -> None:
    now_ns, naive = 10**15, NaiveBucket(rate, burst)
    bucket = TokenBucket(rate, burst, now_ns)
    elapsed, before_last, taken = Fraction(0), 0, 0
    for what, amount in steps:
        if what == "jump back":  # nothing is given for time that the clock takes back, and later time counts again
            now_ns -= amount * 1_000_000
            bucket.level(now_ns)
        elif what == "wait":
            now_ns += amount * 1_000_000
            bucket.level(now_ns)
            elapsed += Fraction(amount, 1000)
            naive.steps.append(("time", Fraction(amount, 1000)))
        else:
            level = naive.level()
            if abs(level - 1) < Fraction(1, 100_000):  # where a float may be on either side
                continue
            granted = bucket.take(amount, now_ns)
            assert granted == naive.take(amount)
            if granted:
                before_last, taken = taken, taken + amount
        assert before_last < burst + rate * elapsed + Fraction(1, 1000)


@given(rate=st.integers(1, 1000), batch=st.integers(1, 5000), seconds=st.integers(1, 50))
def test_caller_that_waits_as_told_gets_its_rate_up_to_one_batch(rate: int, batch: int, seconds: int) -> None:
    start_ns = now_ns = 10**12
    bucket, taken = TokenBucket(rate, rate, now_ns), 0
    while (now_ns - start_ns) <= seconds * NANOSECONDS:
        if bucket.take(batch, now_ns):
            taken += batch
        else:
            now_ns += round(bucket.wait_seconds(now_ns) * NANOSECONDS) + 1
    # A wait is at least a millisecond, so very small batches may lose the rest of it each time.
    lost = rate * 0.001 * (taken / batch)
    assert rate + rate * seconds - batch - lost <= taken <= rate + rate * ((now_ns - start_ns) / NANOSECONDS) + batch


def test_clock_that_jumps_ahead_fills_the_bucket_once() -> None:
    bucket = TokenBucket(10, 10, 0)
    assert bucket.take(1000, 0)
    year_ns = 365 * 86_400 * NANOSECONDS
    assert (bucket.level(0), bucket.level(year_ns), bucket.level(0), bucket.level(1)) == (-990, 10, 10, 10)


class Clock:
    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def test_refused_publish_charges_nothing_and_names_its_quota() -> None:
    clock = Clock()
    quotas = Quotas(
        {kinds.PUBLISH_RATE: 10, kinds.PUBLISH_BYTES_RATE: 1000, kinds.IN_FLIGHT_BYTES: 5000}, {kinds.PUBLISH_RATE: 5}
    )
    meter = TenantMeter("acme", quotas, clock)
    meter.charge_publish(8, 3000)  # one overdraft of bytes
    with pytest.raises(QuotaExceeded) as refused:
        meter.charge_publish(1, 1)
    details = refused.value.details
    assert (details["quota"], details["limit"], details["retry_after"]) == (kinds.PUBLISH_BYTES_RATE, 1000, 2.001)
    assert "acme" in str(refused.value)
    assert meter.in_flight_bytes == 3000
    meter.finish_publish(8, 3000, 0.0)
    meter.charge_publish(10, 1)  # both were given back, also by the refusal
    assert (meter.in_flight_bytes, meter.violations.refused) == (1, {kinds.PUBLISH_BYTES_RATE: 1})
    assert meter.violations.warned[kinds.PUBLISH_RATE] == 2
    violations, kind = meter.violations, kinds.PUBLISH_BYTES_RATE
    clock.now_ns += 59 * NANOSECONDS
    assert violations.throttled_seconds(kind, clock.now_ns) == 0, "there was one refusal, and silence since"
    violations.count(kind, clock.now_ns)
    clock.now_ns += 59 * NANOSECONDS
    assert violations.throttled_seconds(kind, clock.now_ns) == 59
    clock.now_ns += 2 * NANOSECONDS
    assert violations.throttled_seconds(kind, clock.now_ns) == 0, "it is over after a minute"


def test_full_storage_takes_publishes_again_only_below_95_percent() -> None:
    meter = TenantMeter("acme", Quotas({kinds.STORAGE_BYTES: 1000}), Clock())
    meter.charge_publish(1, 999)
    meter.finish_publish(1, 999, 1.0)
    with pytest.raises(QuotaExceeded, match="max_storage_bytes"):
        meter.charge_publish(1, 500)  # it does not fit
    meter.charge_publish(1, 1)
    with pytest.raises(QuotaExceeded, match="max_storage_bytes"):
        meter.charge_publish(1, 1)
    for size, is_full in ((999, True), (951, True), (950, False), (999, False), (1000, True)):
        meter.note_storage(size)
        assert meter.is_full is is_full, size
    meter.change(Quotas({kinds.STORAGE_BYTES: 5000}))
    meter.charge_publish(1, 1)
    meter.change(Quotas())
    meter.charge_publish(1, 10**9)


def test_polls_wait_until_the_bucket_has_recovered() -> None:
    clock = Clock()
    meter = TenantMeter("acme", Quotas({kinds.CONSUME_RATE: 100}), clock)
    assert (meter.consume_wait_seconds(), meter.consumable(1000, 10**6)) == (0.0, (100, 10**6))
    meter.count_consumed(150, 5000)
    assert meter.consume_wait_seconds() == 0.6  # until a tenth of the bucket is there
    clock.now_ns += NANOSECONDS
    assert (meter.consume_wait_seconds(), meter.consumable(1000, 10**6)) == (0.0, (50, 10**6))
    assert (meter.consumed_messages, meter.consumed_bytes) == (150, 5000)


def test_count_beyond_a_quota_is_refused_and_beyond_a_soft_limit_counted() -> None:
    meter = TenantMeter("acme", Quotas({kinds.TOPICS: 3, kinds.CONNECTIONS: 1}, {kinds.TOPICS: 1}), Clock())
    meter.admit(kinds.TOPICS, 0)
    meter.admit(kinds.TOPICS, 2)
    with pytest.raises(QuotaReached, match="max_topics") as refused:
        meter.admit(kinds.TOPICS, 3)
    assert (refused.value.details["limit"], refused.value.details["remaining"]) == (3, 0)
    meter.admit_connection()
    meter.connections = 1
    with pytest.raises(QuotaExceeded, match="max_connections"):
        meter.admit_connection()
    assert meter.violations.warned[kinds.TOPICS] == 2


def test_other_quotas_keep_the_level_of_a_bucket() -> None:
    meter = TenantMeter("acme", Quotas({kinds.PUBLISH_RATE: 10}), Clock())
    meter.charge_publish(20, 1)
    meter.change(Quotas({kinds.PUBLISH_RATE: 10, kinds.TOPICS: 1}))
    with pytest.raises(QuotaExceeded):
        meter.charge_publish(1, 1)
    meter.change(Quotas({kinds.PUBLISH_RATE: 20}))
    meter.charge_publish(1, 1)


def test_values_of_quotas_are_checked_and_combined_with_defaults() -> None:
    recorded = check_recorded(
        {kinds.TOPICS: 5, kinds.GROUPS: UNLIMITED, "soft_limits": {kinds.TOPICS: 4}, kinds.CONNECTIONS: None}
    )
    found = Quotas.of({kinds.TOPICS: 100, kinds.GROUPS: 7, kinds.PUBLISH_RATE: 9}, recorded)
    assert found == Quotas({kinds.TOPICS: 5, kinds.PUBLISH_RATE: 9}, {kinds.TOPICS: 4})
    for kind in KINDS.values():
        for value in (-1, True, "many", 1.5, 2**60, *([0] if kind.least else [])):
            with pytest.raises(RequestInvalid, match=kind.name):
                check_quota(kind.name, value)
    with pytest.raises(RequestInvalid) as unknown:
        check_recorded({"max_topic": 1})
    assert unknown.value.hint == "did you mean max_topics?"


def test_answers_of_very_many_refusals_are_delayed_by_at_most_a_second() -> None:
    clock = Clock()
    meter = TenantMeter("acme", Quotas(), clock)
    delays = [meter.refusal_delay(100) for _ in range(200)]
    assert delays[:50] == [0.0] * 50
    assert 0 < delays[50] < delays[60] < delays[199] == 1.0
    clock.now_ns += 3 * NANOSECONDS
    assert meter.refusal_delay(100) == 0.0
    for _ in range(100):
        meter.refusal_delay(100)
    meter.delayed_bytes = 1024 * 1024  # more would fill memory that tenants share
    assert meter.refusal_delay(100) == 0.0
