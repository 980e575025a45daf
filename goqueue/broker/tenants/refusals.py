"""Counts of refused requests of tenants that are not active, for the last minutes."""

from goqueue.clock import NANOSECONDS, Clock

_PERIOD_NS = 60 * NANOSECONDS


class TenantRefusals:
    """Counts refusals by tenant, in this minute and the one before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._period = 0
        self._now: dict[str, int] = {}
        self._before: dict[str, int] = {}

    def note(self, tenant: str) -> None:
        self._turn()
        self._now[tenant] = self._now.get(tenant, 0) + 1

    def recent(self, tenant: str) -> int:
        """Return how many requests of a tenant were refused in the last one to two minutes."""
        self._turn()
        return self._now.get(tenant, 0) + self._before.get(tenant, 0)

    def _turn(self) -> None:
        period = self._clock.monotonic_ns() // _PERIOD_NS
        if period != self._period:
            self._before = self._now if period == self._period + 1 else {}
            self._now, self._period = {}, period
