"""The meter of one tenant: charges work against its quotas before it is done, and counts what was refused.

Nothing here waits or is recorded. A charge is taken when work is admitted, for a whole batch, and given back when the
work fails. Deliveries are counted when they are handed out: the next poll waits until the bucket has recovered.
"""

from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.bucket import TokenBucket
from goqueue.broker.tenants.memory import TenantMemory
from goqueue.broker.tenants.publish_grant import PublishGrant
from goqueue.broker.tenants.quota_errors import rate_exceeded, storage_full, too_many
from goqueue.broker.tenants.quotas import KINDS, Quotas
from goqueue.broker.tenants.rate_limit import RateLimit, fill_seconds
from goqueue.broker.tenants.violations import QuotaViolations
from goqueue.errors import QuotaExceeded, QuotaReached
from goqueue.limits import IN_FLIGHT_BYTES, TENANT_MEMORY_PERCENT
from goqueue.quantities import quoted

MEMORY_BYTES_MAX: Final = IN_FLIGHT_BYTES * TENANT_MEMORY_PERCENT // 100
_FREED_SHARE: Final = 0.95
"""Publishes are accepted again when storage has shrunk to this share of its quota: not at each deleted segment."""
REFUSALS_PER_SECOND: Final = 50
"""More refusals of a tenant are answered late, so that clients that do not wait cost others nothing."""
REFUSAL_DELAY_SECONDS_MAX: Final = 1.0
_DELAYED_BYTES_MAX: Final = 1024 * 1024
"""Bytes of requests whose refusals are delayed: they stay in memory that all tenants share."""
_WORTH_SHARE: Final = 0.1
"""A delayed poll or read waits for this share of a bucket: not for each single message."""


class TenantMeter:
    """The use of quotas by one tenant. `change` it when they change."""

    def __init__(
        self,
        tenant: str,
        quotas: Quotas,
        monotonic_ns: Callable[[], int],
        memory_bytes_max: int = MEMORY_BYTES_MAX,
        share: float = 1.0,
    ) -> None:
        """The `share` is that of this node in all rates, until another one is known."""
        self.tenant = tenant
        self.memory = TenantMemory(tenant, memory_bytes_max)
        self.violations = QuotaViolations()
        self._monotonic_ns = monotonic_ns
        self._rates: dict[str, RateLimit] = {}
        self._share = share
        self._shares: Mapping[str, float] = {}
        self._elsewhere: Mapping[str, float] = {}
        self._refusals = TokenBucket(REFUSALS_PER_SECOND, REFUSALS_PER_SECOND, monotonic_ns())
        self.delayed_bytes = 0
        """Of requests whose refusals are delayed."""
        self.in_flight_bytes = 0
        self.waiting = 0
        """Polls and reads that wait for messages."""
        self.connections = 0
        self._connections_peak = 0
        self.consumed_messages = 0
        self.consumed_bytes = 0
        """Handed out since the broker started."""
        self.read_messages = 0
        self.read_bytes = 0
        """The part of it that was read without a group: of groups, the logs tell."""
        self._stored_bytes = 0
        self._accepted_bytes = 0
        """Accepted since the storage was measured."""
        self._is_full = False
        self.grant = PublishGrant()
        self._may_grant = False
        self._storage_max: float | None = None
        self.quotas = quotas
        self.change(quotas)

    def change(self, quotas: Quotas) -> None:
        """Take other quotas. A bucket whose rate stays the same keeps its level."""
        self.end_grant()
        former, now_ns = self._rates, self._monotonic_ns()
        before, self.quotas, self._rates = self.quotas, quotas, {}
        for name, kind in KINDS.items():
            limit, soft = quotas.limits.get(name), quotas.soft.get(name)
            if not kind.is_rate or (limit is None and soft is None):
                continue
            is_same = name in former and (limit, soft) == (before.limits.get(name), before.soft.get(name))
            share = self._shares.get(name, self._share)
            self._rates[name] = former[name] if is_same else RateLimit(kind, limit, soft, now_ns, share)
        self._set_storage_max()
        self._in_flight_max = quotas.limits.get(kinds.IN_FLIGHT_BYTES)
        self._publish = (self._rates.get(kinds.PUBLISH_RATE), self._rates.get(kinds.PUBLISH_BYTES_RATE))
        self._consume = (self._rates.get(kinds.CONSUME_RATE), self._rates.get(kinds.CONSUME_BYTES_RATE))
        self.limits_consume = any(one is not None and one.hard is not None for one in self._consume)
        """True if what polls and reads hand out is limited."""
        self._is_publish_limited = self._publish != (None, None)
        self.counts_publishes = self._publish[0] is not None
        """True if the number of published messages is limited."""
        self.bounds_in_flight = self._in_flight_max is not None or self.has_limit(kinds.IN_FLIGHT_BYTES)
        """True if a publish has to be finished also when it was stored."""
        self.message_bytes_unchecked = quotas.limits.get(kinds.MESSAGE_BYTES, inf)
        """A request of at most this size has no message that is too large."""
        self.bounds_delays = self.has_limit(kinds.DELAY_HOURS)
        self.checks_messages = self.has_limit(kinds.MESSAGE_BYTES) or self.bounds_delays
        """True if sizes or delays of single messages are bounded."""
        self.limits_publish = (
            self._is_publish_limited
            or self.checks_messages
            or self.bounds_in_flight
            or self._storage_max is not None
            or self.has_limit(kinds.OPEN_TRANSACTIONS)
        )
        """True if a publish may be refused or counted because of a quota."""
        has_soft = any(one is not None and one.soft is not None for one in self._publish)
        self._may_grant = self.limits_publish and not (has_soft or self.bounds_in_flight or self.bounds_delays)
        self.grant.change(*(None if one is None else one.hard for one in self._publish))
        self.note_storage(self._stored_bytes + self._accepted_bytes)

    # --- other nodes ---

    def take_shares(self, shares: Mapping[str, float], elsewhere: Mapping[str, float]) -> None:
        """Give these parts of the rates; `elsewhere` is what other nodes have of amounts."""
        self.end_grant()
        self._shares, self._elsewhere, now_ns = dict(shares), dict(elsewhere), self._monotonic_ns()
        for name in shares.keys() & self._rates.keys():
            self._rates[name].take_share(shares[name], now_ns)
        self._set_storage_max()
        self.note_storage(self._stored_bytes + self._accepted_bytes)

    def _set_storage_max(self) -> None:
        limit = self.quotas.limits.get(kinds.STORAGE_BYTES)
        self._storage_max = None if limit is None else max(0.0, limit - self.elsewhere(kinds.STORAGE_BYTES))

    def elsewhere(self, kind: str) -> float:
        """Return what other nodes of a cluster have of an amount."""
        return self._elsewhere.get(kind, 0.0)

    def shares(self) -> dict[str, float]:
        """Return the parts of the rates that are in force here."""
        return {name: one.share for name, one in self._rates.items()}

    def demands(self) -> dict[str, float]:
        """Return what was asked for per second, of each rate, since the last call."""
        now_ns = self._monotonic_ns()
        return {name: one.demand(now_ns) for name, one in self._rates.items()}

    # --- publish ---

    def charge_publish(self, messages: int, size: int) -> None:
        """Charge a batch before it is appended, or raise QuotaExceeded and charge nothing."""
        if self.grant.messages or self.grant.size:
            self.end_grant()
        storage_max, stored = self._storage_max, self._stored_bytes + self._accepted_bytes + size
        if storage_max is not None and (stored > storage_max or self._is_full):
            raise self._full(size)
        if self._in_flight_max is not None:
            held = self.in_flight_bytes
            if held and held + size > self._in_flight_max:
                raise self._too_many(kinds.IN_FLIGHT_BYTES, held)
        if self._is_publish_limited:
            self._take_publish(messages, size)
        if self.bounds_in_flight:
            self.in_flight_bytes += size
        if storage_max is not None:
            self._accepted_bytes += size
            if stored >= storage_max:
                self._is_full = True

    def begin_grant(self, size: int) -> bool:
        """Charge single publishes until `end_grant`, at least one of this size, in advance; False if it cannot."""
        if not self._may_grant or self._is_full:
            return False
        self.end_grant()
        size_max, storage_max = self.message_bytes_unchecked, self._storage_max
        if storage_max is not None:
            size_max = min(size_max, storage_max - self._stored_bytes - self._accepted_bytes - 1)
        if size > size_max:
            return False
        self.grant.begin(size, size_max, self._monotonic_ns())
        if storage_max is not None:
            self._accepted_bytes += self.grant.size
        return self.grant.messages > 0

    def end_grant(self) -> None:
        """Give back what the publishes of a turn did not need."""
        if self.grant.messages or self.grant.size:
            left = self.grant.end()
            self._accepted_bytes -= 0 if self._storage_max is None else left

    def _take_publish(self, messages: int, size: int) -> None:
        now_ns = self._monotonic_ns()
        by_count, by_size = self._publish
        if by_count is not None:
            if by_count.soft is not None:
                self._warn(by_count, messages, now_ns)
            if by_count.hard is not None and not by_count.hard.take(messages, now_ns):
                raise self._over(by_count, now_ns)
        if by_size is not None:
            if by_size.soft is not None:
                self._warn(by_size, size, now_ns)
            if by_size.hard is not None and not by_size.hard.take(size, now_ns):
                if by_count is not None and by_count.hard is not None:
                    by_count.hard.give_back(messages)
                raise self._over(by_size, now_ns)

    def finish_publish(self, messages: int, size: int, stored: float) -> None:
        """End a charge, and give back the share that was not stored, or had been stored before."""
        if self.bounds_in_flight:
            self.in_flight_bytes = max(0, self.in_flight_bytes - size)  # the bound may be newer than the publish
        if stored != 1:
            self.give_back(messages * (1 - stored), size * (1 - stored))

    def give_back(self, messages: float, size: float) -> None:
        """Give back what was charged for messages that were not stored."""
        if self._storage_max is not None:
            self._accepted_bytes -= round(size)
        for limit, amount in zip(self._publish, (messages, size), strict=True):
            if limit is not None and limit.hard is not None:
                limit.hard.give_back(amount)

    # --- consume ---

    def consume_wait_seconds(self) -> float:
        """Return how long a poll or read has to wait before it may hand out messages."""
        if self._consume == (None, None):
            return 0.0
        now_ns = self._monotonic_ns()
        return max((fill_seconds(one, _WORTH_SHARE, now_ns) for one in self._consume), default=0.0)

    def count_delay(self) -> None:
        """Count a poll or read that is delayed."""
        now_ns = self._monotonic_ns()
        for one in self._consume:
            if one is not None and fill_seconds(one, _WORTH_SHARE, now_ns):
                self.violations.note_delay(one.kind.name, now_ns)

    def consumable(self, messages: int, size: int) -> tuple[int, int]:
        """Return how many messages and bytes a poll may hand out at once: no more than the buckets hold."""
        now_ns, wanted = self._monotonic_ns(), [messages, size]
        for number, limit in enumerate(self._consume):
            if limit is not None and limit.hard is not None:
                wanted[number] = max(1, min(wanted[number], int(limit.hard.level(now_ns))))
        return wanted[0], wanted[1]

    def count_consumed(self, messages: int, size: int) -> None:
        """Charge messages that were handed out."""
        self.consumed_messages += messages
        self.consumed_bytes += size
        if self._consume == (None, None):
            return
        now_ns = self._monotonic_ns()
        for limit, amount in zip(self._consume, (messages, size), strict=True):
            if limit is not None:
                if limit.hard is not None:
                    limit.hard.spend(amount, now_ns)
                self._warn(limit, amount, now_ns)

    def count_read(self, messages: int, size: int) -> None:
        """Charge messages that were read without a group."""
        self.read_messages += messages
        self.read_bytes += size
        self.count_consumed(messages, size)

    def hold_consumed(self, messages: int, size: int) -> None:
        """Take what may be handed out from the buckets, while an answer is made."""
        now_ns = self._monotonic_ns()
        for limit, amount in zip(self._consume, (messages, size), strict=True):
            if limit is not None and limit.hard is not None:
                limit.hard.spend(amount, now_ns)

    def release_consumed(self, messages: int, size: int) -> None:
        """Give back what was held: what was handed out is charged by `count_consumed`."""
        for limit, amount in zip(self._consume, (messages, size), strict=True):
            if limit is not None and limit.hard is not None:
                limit.hard.give_back(amount)

    def refuse_read(self, seconds: float) -> QuotaExceeded:
        """Return the error of a read that cannot be delayed any longer."""
        now_ns = self._monotonic_ns()
        limit = self._rates[self.slowest_consume()]
        self.violations.count(limit.kind.name, now_ns)
        return self._exceeded(limit, seconds)

    def next_delay(self) -> tuple[str, float] | None:
        """Return the quota that delays the next poll or read, and for how many seconds; None if none does."""
        seconds = self.consume_wait_seconds() if self.limits_consume else 0.0
        return (self.slowest_consume(), round(seconds, 3)) if seconds else None

    def slowest_consume(self) -> str:
        """Return the quota that delays polls and reads the most."""
        limits = [one for one in self._consume if one is not None and one.hard is not None]
        now_ns = self._monotonic_ns()
        return max(limits, key=lambda one: fill_seconds(one, _WORTH_SHARE, now_ns)).kind.name

    # --- other operations ---

    def has_limit(self, kind: str) -> bool:
        """Return whether a kind has a quota or a soft limit."""
        return kind in self.quotas.limits or kind in self.quotas.soft

    def charge(self, kind: str) -> None:
        """Charge one operation of a rate, or raise QuotaExceeded."""
        limit = self._rates.get(kind)
        if limit is not None:
            self._take(limit, 1)

    def admit(self, kind: str, used: int, added: int = 1) -> None:
        """Raise QuotaReached if this much more would be beyond a quota; what is created later may fit again."""
        limit, soft = self.quotas.limits.get(kind), self.quotas.soft.get(kind)
        used += round(self.elsewhere(kind))
        if soft is not None and used + added > soft:
            self.violations.warned[kind] += 1
        if limit is None or used + added <= limit:
            return
        self.violations.count(kind, self._monotonic_ns())
        row = KINDS[kind]
        if row.measure == "bound":
            what = f"{row.format(used + added)} is more than tenant {quoted(self.tenant)} may have as {row.noun}"
            hint = f"ask for at most {row.format(limit)}"
        else:
            what = f"tenant {quoted(self.tenant)} has {row.format(used)} of at most {row.format(limit)} {row.noun}"
            hint = "delete some first"
        raise QuotaReached(
            f"{what}: quota {kind}",
            hint=f"{hint}, or ask an operator to raise it: goqueue-admin quota set {self.tenant} {kind}=VALUE",
            quota=kind,
            limit=limit,
            remaining=max(0, limit - used) if row.measure != "bound" else limit,
        )

    def admit_waiting(self) -> None:
        """Raise QuotaExceeded if as many polls and reads wait as may."""
        self._admit_now(kinds.LONG_POLLS, self.waiting)

    def admit_connection(self) -> None:
        self._admit_now(kinds.CONNECTIONS, self.connections)

    def open_connection(self) -> None:
        self.connections += 1
        self._connections_peak = max(self._connections_peak, self.connections)

    def take_connections_peak(self) -> int:
        """Return the most connections since the last time."""
        peak, self._connections_peak = self._connections_peak, self.connections
        return peak

    def admit_transaction(self, open_transactions: int) -> None:
        self._admit_now(kinds.OPEN_TRANSACTIONS, open_transactions)

    def _admit_now(self, kind: str, used: int) -> None:
        limit, soft = self.quotas.limits.get(kind), self.quotas.soft.get(kind)
        used += round(self.elsewhere(kind))
        if soft is not None and used >= soft:
            self.violations.warned[kind] += 1
        if limit is not None and used >= limit:
            raise self._too_many(kind, used)

    # --- storage ---

    @property
    def stored_bytes(self) -> int:
        """As it was measured, and what was accepted since; in a cluster also what other nodes have."""
        own = self._stored_bytes + self._accepted_bytes - (0 if self._storage_max is None else self.grant.size)
        return own + round(self.elsewhere(kinds.STORAGE_BYTES))

    @property
    def led_bytes(self) -> int:
        """The part of them that is here."""
        return self._stored_bytes + self._accepted_bytes

    @property
    def is_full(self) -> bool:
        """True while publishes are refused until storage has shrunk."""
        return self._is_full

    def note_storage(self, size: int) -> None:
        """Take a measurement of all logs of the tenant, those of delayed messages and dead letters included."""
        self.end_grant()
        self._stored_bytes, self._accepted_bytes = size, 0  # a log counts what is being written
        if self._storage_max is None:
            self._is_full = False
        elif size >= self._storage_max:
            self._is_full = True
        elif size <= self._storage_max * _FREED_SHARE:
            self._is_full = False
        soft = self.quotas.soft.get(kinds.STORAGE_BYTES)
        if soft is not None and size > soft:
            self.violations.warned[kinds.STORAGE_BYTES] += 1

    # --- refusals ---

    def refusal_delay(self, size: int) -> float:
        """Return how long to keep the answer of a refused request with a body of this size."""
        now_ns, refusals = self._monotonic_ns(), self._refusals
        if refusals.take(1, now_ns) or self.delayed_bytes + size > _DELAYED_BYTES_MAX:
            return 0.0
        if refusals.level(now_ns) > -REFUSALS_PER_SECOND * REFUSAL_DELAY_SECONDS_MAX:
            refusals.spend(1, now_ns)  # each one waits behind those before it
        return min(refusals.wait_seconds(now_ns), REFUSAL_DELAY_SECONDS_MAX)

    def _take(self, limit: RateLimit, amount: int) -> None:
        now_ns = self._monotonic_ns()
        self._warn(limit, amount, now_ns)
        if limit.hard is not None and not limit.hard.take(amount, now_ns):
            raise self._over(limit, now_ns)

    def _warn(self, limit: RateLimit, amount: int, now_ns: int) -> None:
        if limit.soft is not None and not limit.soft.take(amount, now_ns):
            self.violations.warned[limit.kind.name] += 1

    def _over(self, limit: RateLimit, now_ns: int) -> QuotaExceeded:
        """Count a refusal by a rate, and return its error."""
        self.violations.count(limit.kind.name, now_ns)
        return self._exceeded(limit, 0.0 if limit.hard is None else limit.hard.wait_seconds(now_ns))

    def _exceeded(self, limit: RateLimit, seconds: float) -> QuotaExceeded:
        return rate_exceeded(self.tenant, limit.kind, self.quotas.limits.get(limit.kind.name, 0.0), round(seconds, 3))

    def _full(self, size: int) -> QuotaExceeded:
        limit, kind = self.quotas.limits.get(kinds.STORAGE_BYTES, 0), KINDS[kinds.STORAGE_BYTES]
        room = max(0, min(limit - size, limit * _FREED_SHARE if self._is_full else limit))
        self.violations.count(kind.name, self._monotonic_ns())
        return storage_full(self.tenant, kind, limit, self.stored_bytes, size, room)

    def _too_many(self, name: str, used: int) -> QuotaExceeded:
        self.violations.count(name, self._monotonic_ns())
        return too_many(self.tenant, KINDS[name], self.quotas.limits[name], used)
