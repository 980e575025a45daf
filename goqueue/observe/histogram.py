"""Histograms, and one whose buckets name a message.

An exemplar leads from a latency to the trace of a message that had it. Only the position of the message is kept while
messages are published; its trace id is derived from that when Prometheus asks.
"""

from bisect import bisect_left
from collections.abc import Sequence

from prometheus_client.samples import Exemplar, Timestamp

from goqueue.clock import NANOSECONDS
from goqueue.wire.trace_context import derived_trace_id

Bucket = tuple[str, float] | tuple[str, float, Exemplar]
"""The upper bound, the cumulative count, and an exemplar."""

_SECONDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)

MessagePosition = tuple[str, int, int, int]
"""The topic, partition, offset and append time of a message."""


class Histogram:
    """A histogram of durations. Bounds are inclusive upper bounds, as in Prometheus."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...] = _SECONDS) -> None:
        assert list(bounds) == sorted(set(bounds)), "bounds must increase"
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    def observe_many(self, counts: Sequence[int], seconds: float) -> None:
        """Add a number per bucket, and the sum of their durations."""
        self.counts = [known + more for known, more in zip(self.counts, counts, strict=True)]
        self.sum += seconds

    @property
    def count(self) -> int:
        return sum(self.counts)

    def exposed_buckets(self) -> list[Bucket]:
        """Return cumulative buckets, with exemplars where there are any."""
        return [*self.buckets()]

    def buckets(self) -> list[tuple[str, float]]:
        """Return cumulative buckets, as Prometheus expects them."""
        total, buckets = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets


class PublishHistogram(Histogram):
    """A histogram of publishes that keeps the last message of each bucket."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        super().__init__()
        self._last: list[tuple[float, MessagePosition | None]] = [(0.0, None)] * len(self.counts)

    def observe_batch(self, seconds: float, first: MessagePosition | None) -> None:
        """Count a publish. The first message is None if it has no position yet, as a delayed one."""
        place = bisect_left(self.bounds, seconds)
        self.counts[place] += 1
        self.sum += seconds
        if first is not None:
            self._last[place] = seconds, first

    def exposed_buckets(self) -> list[Bucket]:
        pairs = zip(self.buckets(), map(self._exemplar, range(len(self.counts))), strict=True)
        return [bucket if exemplar is None else (*bucket, exemplar) for bucket, exemplar in pairs]

    def _exemplar(self, place: int) -> Exemplar | None:
        seconds, first = self._last[place]
        if first is None:
            return None
        topic, partition, offset, time_ns = first
        trace = derived_trace_id(topic, partition, offset).hex()
        return Exemplar({"trace_id": trace}, seconds, Timestamp(*divmod(time_ns, NANOSECONDS)))
