"""Metrics of tenants, read from their meters at each scrape. The first tenants keep their names, the others share one.

What must stay true: a counter never falls, also when tenants are deleted that share the label of others.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from goqueue.observe.state_metrics import LABEL_VALUES_MAX, OTHER_LABEL, Samples

TENANT_METRICS: Final[tuple[tuple[str, Literal["counter", "gauge"], str, tuple[str, ...]], ...]] = (
    ("published_messages", "counter", "Messages that were stored in topics of a tenant, ever.", ()),
    ("published_bytes", "counter", "Bytes of these messages, as frames.", ()),
    ("consumed_messages", "counter", "Messages that were handed out to a tenant.", ()),
    ("consumed_bytes", "counter", "Bytes of these messages, as frames.", ()),
    (
        "busy_seconds",
        "counter",
        "Time of the event loop that requests of a tenant were charged since the broker started, partly estimated.",
        (),
    ),
    ("storage_bytes", "gauge", "Stored bytes of a tenant, with dead letters and delayed messages.", ()),
    ("memory_bytes", "gauge", "Bytes that large requests and answers of a tenant hold in memory.", ()),
    ("memory_refusals", "counter", "Requests and answers of a tenant for which its share of memory had no room.", ()),
    ("quota_percent", "gauge", "Share of a quota that is in use, in percent.", ("quota",)),
    ("quota_violations", "counter", "Refused requests and delayed polls of a tenant, by quota.", ("quota",)),
)
"""Name, kind, description and further labels of each metric; all have the label `tenant`."""
_GAUGES = ("storage_bytes", "memory_bytes")
_TOTALS = (
    "published_messages",
    "published_bytes",
    "consumed_messages",
    "consumed_bytes",
    "busy_seconds",
    "memory_refusals",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantMetricValues:
    """The numbers of one tenant."""

    tenant: str
    published_messages: int = 0
    published_bytes: int = 0
    consumed_messages: int = 0
    consumed_bytes: int = 0
    busy_seconds: float = 0.0
    memory_refusals: int = 0
    memory_bytes: int = 0
    storage_bytes: int = 0
    percents: Mapping[str, float] = field(default_factory=dict)
    """By quota, of those that are limited."""
    violations: Mapping[str, int] = field(default_factory=dict)
    """By quota, since the broker started."""


class TenantMetrics:
    """Turns the numbers of tenants into samples; remembers named tenants and what counters had before."""

    def __init__(self) -> None:
        self.numbers: Sequence[TenantMetricValues] = ()
        """Set before each scrape."""
        self._named: dict[str, None] = {}
        self._before: dict[tuple[str, ...], float] = {}
        self._counters: defaultdict[tuple[str, ...], float] = defaultdict(float)
        """By counter, label of the tenant and quota."""

    def collect(self) -> Iterator[tuple[str, Samples]]:
        self._name()
        self._count()
        names = {self._label(one.tenant) for one in self.numbers}
        for total in _TOTALS:
            samples = [((name,), self._counters[total, name]) for name in sorted(names)]
            yield f"goqueue_tenant_{total}", list(samples)
        for gauge in _GAUGES:
            sizes: Counter[str] = Counter()
            for one in self.numbers:
                sizes[self._label(one.tenant)] += getattr(one, gauge)
            yield f"goqueue_tenant_{gauge}", [((name,), size) for name, size in sizes.items()]
        yield (
            "goqueue_tenant_quota_percent",
            [
                ((one.tenant, quota), percent)
                for one in self.numbers
                if one.tenant in self._named
                for quota, percent in one.percents.items()
            ],
        )
        violations = {key[1:]: count for key, count in self._counters.items() if key[0] == "violations"}
        yield "goqueue_tenant_quota_violations", [(key, count) for key, count in violations.items() if key[0] in names]

    def _name(self) -> None:
        """Give free names to new tenants; forget tenants that are gone."""
        present = {one.tenant for one in self.numbers}
        for name in self._named.keys() - present:
            del self._named[name]
            for key in [key for key in self._counters if key[1] == name]:
                del self._counters[key]
        for name in sorted(present):
            if len(self._named) >= LABEL_VALUES_MAX:
                return
            self._named[name] = None

    def _label(self, name: str) -> str:
        return name if name in self._named else OTHER_LABEL

    def _count(self) -> None:
        """Add what has come since the last scrape."""
        counts: dict[tuple[str, ...], float] = {}
        for one in self.numbers:
            counts |= {(total, one.tenant): getattr(one, total) for total in _TOTALS}
            counts |= {("violations", one.tenant, quota): number for quota, number in one.violations.items()}
        for key, number in counts.items():
            counter, tenant, *rest = key
            self._counters[counter, self._label(tenant), *rest] += max(0, number - self._before.get(key, 0))
        self._before = counts
