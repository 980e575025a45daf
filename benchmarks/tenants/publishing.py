"""Publishes in a tenant with quotas, and the same without tenants."""

import statistics
from collections.abc import Iterator

from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement
from benchmarks.tenants.broker import RATES_HIGH, TENANT, TOPIC, pair
from benchmarks.tenants.load import Job, Target, measure

SINGLE_PERCENT_MAX = 2.0
BULK_PERCENT_MAX = 2.0
"""Nothing that can be measured: two equal brokers differ by as much."""
FIGURES = (
    Figure("us of processor a request", less_is_better=True),
    Figure("us of processor a request", "without tenants", less_is_better=True),
)
MORE = "more than without tenants"
_SINGLE = Figure("%", MORE, budget=at_most(SINGLE_PERCENT_MAX), less_is_better=True)
_BULK = Figure("%", MORE, budget=at_most(BULK_PERCENT_MAX), less_is_better=True)


@measurement("publish 1 each from 64 connections, in a tenant", *FIGURES, _SINGLE)
def single(bench: Bench) -> Iterator[Sample]:
    yield from _compared(bench, Job(TOPIC, 1, 64, bench.size(300, 150)))


@measurement("publish 1 each from 64 connections, with a key of a tenant", *FIGURES, _SINGLE)
def single_with_keys(bench: Bench) -> Iterator[Sample]:
    yield from _compared(bench, Job(TOPIC, 1, 64, bench.size(300, 150)), has_keys=True)


@measurement("publish 1,000 each as frames from 8 connections, in a tenant", *FIGURES, _BULK)
def bulk(bench: Bench) -> Iterator[Sample]:
    yield from _compared(bench, Job(TOPIC, 1_000, 8, bench.size(300, 150)))


def _compared(bench: Bench, job: Job, *, has_keys: bool = False) -> Iterator[Sample]:
    """Compare new pairs for each sample, in both orders: each process has its own memory layout, worth some percent."""
    while True:
        orders = bench.size(2, 1) * (False, True)
        ways = [_measured(bench, job, has_keys=has_keys, has_tenants_first=first) for first in orders]
        without, within, share = (statistics.mean(values) for values in zip(*ways, strict=True))
        yield within, without, 100 * (share - 1)


def _measured(bench: Bench, job: Job, *, has_keys: bool, has_tenants_first: bool) -> tuple[float, float, float]:
    """Return the processor time of requests without tenants and with, and by how much the second is greater."""
    with pair(bench, has_keys=has_keys, has_tenants_first=has_tenants_first) as brokers:
        for broker in brokers:
            name = f"{TENANT}.{TOPIC}" if broker.has_tenants else TOPIC
            if broker.has_tenants:
                broker.client.create_tenant(TENANT)
                broker.client.change_tenant_quotas(TENANT, RATES_HIGH)
            broker.create(name, 1)
        first, second, more = measure(job, [Target(one.port, one.server.pid, one.header()) for one in brokers])
    share = 1 + more / 100
    return (second, first, 1 / share) if has_tenants_first else (first, second, share)
