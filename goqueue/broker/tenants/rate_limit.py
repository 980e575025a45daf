"""A rate of a tenant: the buckets of its quota and of its soft limit, and what is asked of them.

In a cluster each node has a share of the rate, so that all nodes together give what the quota says.
"""

from typing import Final

from goqueue.broker.tenants.bucket import TokenBucket
from goqueue.broker.tenants.quotas import QuotaKind
from goqueue.clock import NANOSECONDS

BURST_SECONDS: Final = 1.0
"""A bucket holds what its rate gives in this time."""


class RateLimit:
    """The bucket of a rate, and the bucket of its soft limit; at least one of them is there."""

    __slots__ = ("_asked", "_asked_ns", "_hard", "_soft", "hard", "kind", "share", "soft")

    def __init__(
        self, kind: QuotaKind, limit: float | None, soft: float | None, now_ns: int, share: float = 1.0
    ) -> None:
        self.kind = kind
        self.share = share
        """The part of the rate that this node gives."""
        self._hard, self._soft = limit, soft
        self.hard = None if limit is None else TokenBucket(limit * share, _burst(limit * share), now_ns)
        self.soft = None if soft is None else TokenBucket(soft * share, _burst(soft * share), now_ns)
        self._asked, self._asked_ns = 0.0, now_ns

    def take_share(self, share: float, now_ns: int) -> None:
        """Give another part of the rate from now on."""
        self.share = share
        for bucket, rate in ((self.hard, self._hard), (self.soft, self._soft)):
            if bucket is not None and rate is not None:
                bucket.change(rate * share, _burst(rate * share), now_ns)

    def demand(self, now_ns: int) -> float:
        """Return what was asked for per second since the last call, refused work included."""
        bucket = self.hard or self.soft
        assert bucket is not None, "one of them is there"
        asked, before, since_ns = bucket.asked, self._asked, now_ns - self._asked_ns
        self._asked, self._asked_ns = asked, now_ns
        return max(0.0, asked - before) * NANOSECONDS / max(since_ns, 1)


def _burst(rate: float) -> float:
    return max(1.0, rate * BURST_SECONDS)


def fill_seconds(limit: RateLimit | None, share: float, now_ns: int) -> float:
    """Return the time until a bucket has this share of what it holds, at least one token; 0 if it has it now."""
    bucket = None if limit is None else limit.hard
    return 0.0 if bucket is None else bucket.wait_seconds(now_ns, max(1.0, bucket.burst * share))
