"""The work of a handler that is charged for, and does not begin; and publishes that share the charge of a turn."""

import asyncio
import inspect
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from goqueue.api.charging import CHARGES, _delayed
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.quotas import CONSUME_RATE, PUBLISH_BYTES_RATE, PUBLISH_RATE, STORAGE_BYTES, Quotas
from goqueue.errors import QuotaExceeded
from goqueue.runtime.deferred import Deferred
from tests.broker.tenants.test_bucket import NaiveBucket

_publish = CHARGES["POST /topics/{topic}/messages"]


def test_delayed_work_is_closed_when_its_client_leaves() -> None:
    async def read() -> None: ...

    async def leave() -> str:
        meter = TenantMeter("acme", Quotas({CONSUME_RATE: 1}), lambda: 0)
        meter.count_consumed(100, 100)
        work = read()
        delayed = _delayed(meter, 1, work)
        delayed.send(None)
        delayed.close()
        return inspect.getcoroutinestate(work)

    assert asyncio.run(leave()) == inspect.CORO_CLOSED


class Publisher:
    """Publishes in the world of a tenant, in turns of the loop."""

    def __init__(self, quotas: dict[str, float]) -> None:
        self.now_ns = 10**15
        self.meter = TenantMeter("acme", Quotas(quotas), lambda: self.now_ns)
        self._following: list[Any] = []

    def publish(self, size: int, messages: int = 1) -> bool:
        """Publish a batch that will be stored; return whether it was admitted."""
        work: Deferred[Any] = Deferred()
        work.resolve(SimpleNamespace(results=[SimpleNamespace(error=UNSET, duplicate=UNSET)]))
        call: Any = SimpleNamespace(
            body=SimpleNamespace(messages=[None] * messages),
            query=SimpleNamespace(begin=False),
            request=SimpleNamespace(size=size, weight=size),
            runtime=SimpleNamespace(turn=SimpleNamespace(follow=self._following.append)),
            charged_bytes=None,
        )
        charged: Any = _publish(call, self.meter, work)
        if charged is work:
            return True
        try:
            charged.send(None)
        except StopIteration:
            return True
        except QuotaExceeded:
            return False
        raise AssertionError("nothing waits here")

    def end_turn(self) -> None:
        while self._following:
            self._following.pop()()


_STEPS = st.lists(
    st.tuples(st.sampled_from(["one", "one", "one", "batch", "wait", "end of turn"]), st.integers(1, 400)), max_size=50
)


@given(rates=st.tuples(st.integers(1, 1000), st.integers(1, 100_000)), steps=_STEPS)
def test_publishes_of_a_turn_get_what_naive_buckets_give(rates: tuple[int, int], steps: list[tuple[str, int]]) -> None:
    publisher = Publisher({PUBLISH_RATE: rates[0], PUBLISH_BYTES_RATE: rates[1], STORAGE_BYTES: 10**9})
    naive = [NaiveBucket(rate, rate) for rate in rates]
    elapsed, stored, totals, before_last = Fraction(0), 0, [0, 0], [0, 0]
    for what, amount in steps:
        if what == "end of turn":
            publisher.end_turn()
        elif what == "wait":
            publisher.now_ns += amount * 1_000_000
            elapsed += Fraction(amount, 1000)
            for bucket in naive:
                bucket.steps.append(("time", Fraction(amount, 1000)))
        else:
            batch = (amount, 10 * amount) if what == "batch" else (1, amount)
            must_pass = all(bucket.level() > 1 + Fraction(1, 100_000) for bucket in naive)
            has_passed = publisher.publish(batch[1], batch[0])
            assert has_passed or not must_pass, "a publish is never refused that the quota allows"
            if has_passed:
                stored += batch[1]
                before_last, totals = totals, [total + one for total, one in zip(totals, batch, strict=True)]
                for bucket, one in zip(naive, batch, strict=True):
                    bucket.steps.append(("batch", Fraction(one)))
        for total, rate in zip(before_last, rates, strict=True):
            assert total < rate + rate * elapsed + Fraction(1, 1000), "more never passes than burst and rate give"
        assert publisher.meter.stored_bytes == stored, "what a turn has not used is not counted as stored"


def test_storage_quota_is_reached_exactly_by_publishes_of_one_turn() -> None:
    publisher = Publisher({PUBLISH_RATE: 1000, STORAGE_BYTES: 100})
    assert [publisher.publish(30) for _ in range(4)] == [True, True, True, False]
    assert publisher.publish(10)
    assert (publisher.meter.stored_bytes, publisher.meter.is_full) == (100, True)
    publisher.end_turn()
    assert not publisher.publish(1)


def test_lower_quota_counts_for_the_next_publish_of_the_same_turn() -> None:
    publisher = Publisher({PUBLISH_RATE: 1000})
    assert publisher.publish(30)
    publisher.meter.change(Quotas({PUBLISH_RATE: 1}))
    assert [publisher.publish(30) for _ in range(2)] == [True, False]
