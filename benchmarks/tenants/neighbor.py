"""The answers of one tenant beside another one that publishes as much as its quota allows, and a hundred times that."""

from collections.abc import Iterator

from benchmarks.broker.contract import running
from benchmarks.broker.latency import percentiles
from benchmarks.broker.paced import times_paced
from benchmarks.broker.request import publish_request
from benchmarks.harness.suite import Bench, Figure, Sample, at_most, measurement
from benchmarks.tenants.broker import TOPIC, TenantBroker
from benchmarks.tenants.noise import noise

QUOTA = 200
"""Messages a second of the noisy tenant."""
TIMES = 100
CONNECTIONS = 64
RATE = 200
"""Messages a second of the neighbor."""
ROUNDS = 4
"""In each sample: whatever else slows the machine down is in all of the figures."""
NOISY, QUIET = "noisy", "quiet"
_MOVED = at_most(1.5)


@measurement(
    f"publish 1 each at {RATE}/s beside a tenant at {TIMES} times its quota of {QUOTA}/s",
    Figure("times as long", "99 of 100, as beside one at its quota", budget=_MOVED, less_is_better=True),
    Figure("times as long", "99 of 100, as alone", budget=_MOVED, less_is_better=True),
    Figure("ms", "99 of 100 within", less_is_better=True),
    Figure("ms", "99 of 100 within, beside one at its quota", less_is_better=True),
    Figure("ms", "99 of 100 within, alone", less_is_better=True),
    Figure("ms", "half within", less_is_better=True),
    Figure("ms", "half within, beside one at its quota", less_is_better=True),
    Figure("ms", "half within, alone", less_is_better=True),
    Figure("answers/s", "of the noisy tenant"),
    Figure("messages/s", "stored of the noisy tenant"),
)
def neighbor(bench: Bench) -> Iterator[Sample]:
    broker, seconds = TenantBroker(has_tenants=True), bench.size(3, 1)
    with running(broker, bench.room()):
        for tenant in (NOISY, QUIET):
            broker.client.create_tenant(tenant)
            broker.create(f"{tenant}.{TOPIC}", 1)
        broker.client.change_tenant_quotas(NOISY, {"publish_rate_limit": QUOTA})
        request = publish_request(TOPIC, 1, f"x-tenant: {QUIET}")
        times_paced(broker.port, request, RATE, 1)
        while True:
            times: tuple[list[float], ...] = ([], [], [])
            answers = stored = 0
            for _ in range(ROUNDS):
                times[0].extend(times_paced(broker.port, request, RATE, seconds))
                for number, rate in enumerate((QUOTA, QUOTA * TIMES), 1):
                    with noise(broker.port, TOPIC, rate, CONNECTIONS, f"x-tenant: {NOISY}") as counts:
                        times[number].extend(times_paced(broker.port, request, RATE, seconds))
                answers, stored = answers + counts[0], stored + counts[1]
            (half, most), (half_at, most_at), (half_beyond, most_beyond) = map(percentiles, times)
            yield (
                most_beyond / most_at, most_beyond / most, most_beyond, most_at, most, half_beyond, half_at, half,
                answers / (ROUNDS * seconds), stored / (ROUNDS * seconds),
            )  # fmt: skip
