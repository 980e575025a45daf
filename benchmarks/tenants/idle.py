"""The cost of tenants for a broker that has nothing to do."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement
from benchmarks.tenants.broker import TenantBroker, pair

MB = 1e6
TENANTS = 1_000
TOPICS = 10
WORKERS = 8


@measurement(
    f"{TENANTS:,} idle tenants with {TOPICS} topics each",
    Figure("% of a core", budget=at_most(1), less_is_better=True, is_total=True),
    Figure("% of a core", "the same topics without tenants", less_is_better=True, is_total=True),
    Figure("MB", "memory more than without tenants", less_is_better=True, is_total=True),
    repeats=1,
)
def idle(bench: Bench) -> Iterator[Sample]:
    """Both brokers are idle at the same time, for several periods of what they do regularly."""
    tenants, seconds = bench.size(TENANTS, TENANTS // 10), bench.size(60, 20)
    with pair(bench) as brokers:
        for broker in brokers:
            _fill(broker, tenants)
        time.sleep(bench.size(20, 2))
        while True:
            before = [broker.server.processor_seconds() for broker in brokers]
            time.sleep(seconds)
            spent = [one.server.processor_seconds() - former for one, former in zip(brokers, before, strict=True)]
            without, within = (100 * one / seconds for one in spent)
            yield within, without, (brokers[1].server.memory() - brokers[0].server.memory()) / MB


def _fill(broker: TenantBroker, tenants: int) -> None:
    def fill(number: int) -> None:
        tenant = f"team-{number:04}"
        if broker.has_tenants:
            broker.client.create_tenant(tenant)
        for topic in range(TOPICS):
            broker.create(f"{tenant}.topic-{topic}", 1)

    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in pool.map(fill, range(tenants)):
            pass
