"""The shares of the nodes of a cluster in the rates of tenants: what the leader of the tenants' log gives out.

What must stay true: the shares that are in force add up to one at most. So a node gets more only when others have said
that they give less; a node that is not heard keeps what it had, until it is no member any more. A node that has
heard nothing has an equal share. What a node may exceed a rate by is the burst of its bucket.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct

from goqueue.clock import NANOSECONDS

FLOOR = 0.05
"""The least share of a node, so that its first clients need not wait; half of the rate for all floors at most."""
WARM_SECONDS = 3.0
"""Until a new leader gives more than is in force: it has to hear of all nodes first."""
_NOTABLE = 0.01
"""A share that differs by less stays as it is."""


class TenantUseReport(Struct, frozen=True, array_like=True):
    """The part of a node in the quotas of one tenant."""

    tenant: str
    shares: dict[str, float]
    """The shares that are in force there, by rate."""
    demands: dict[str, float]
    """What was asked for, per second."""
    amounts: dict[str, float]
    """What it has of amounts, such as connections."""


class TenantShare(Struct, frozen=True, array_like=True):
    """The answer to a node about one tenant."""

    tenant: str
    shares: dict[str, float]
    elsewhere: dict[str, float]
    """What the other nodes have."""


class ShareBook:
    """The reports of all nodes, and what they were told. It begins empty at each new leader."""

    def __init__(self, now_ns: int) -> None:
        self._since_ns = now_ns
        self._heard: set[str] = set()
        self._reports: dict[str, dict[str, TenantUseReport]] = {}
        """By tenant and node."""
        self._told: dict[str, dict[str, dict[str, float]]] = {}
        """What may be in force, by tenant, node and rate."""
        self._changed: dict[str, set[str]] = {}
        """The tenants that each node has to hear of."""

    def report(self, node: str, rows: Collection[TenantUseReport]) -> None:
        """Take what has changed at a node since its last report."""
        self._heard.add(node)
        for row in rows:
            self._reports.setdefault(row.tenant, {})[node] = row
            self._told.setdefault(row.tenant, {})[node] = dict(row.shares)
            for one in {*self._heard, node}:
                self._changed.setdefault(one, set()).add(row.tenant)

    def forget(self, tenants: Collection[str]) -> None:
        """Drop all tenants but these."""
        for tenant in self._reports.keys() - set(tenants):
            del self._reports[tenant]
            self._told.pop(tenant, None)

    def answer(self, node: str, members: Collection[str], now_ns: int) -> list[TenantShare]:
        """Return what a node has to hear. `members` may use their shares: they are not fenced."""
        is_warm = self._heard >= set(members) or now_ns - self._since_ns >= WARM_SECONDS * NANOSECONDS
        changed, self._changed[node] = self._changed.get(node, set()), set()
        return [
            self._answer(node, tenant, sorted({*members, node}), is_warm=is_warm)
            for tenant in sorted(changed)
            if tenant in self._reports
        ]

    def _answer(self, node: str, tenant: str, members: list[str], *, is_warm: bool) -> TenantShare:
        reports = {one: found for one, found in self._reports[tenant].items() if one in members}
        told = self._told[tenant].setdefault(node, {})
        rates = {rate for one in reports.values() for rate in one.demands}
        shares: dict[str, float] = {}
        for rate in rates:
            demands = {one: found.demands.get(rate, 0.0) for one, found in reports.items()}
            target, present = _target(node, demands, members), told.get(rate, 1 / len(members))
            others = sum(self._in_force(tenant, one, rate, len(members)) for one in members if one != node)
            share = min(target, 1 - others) if is_warm else min(target, present)
            if share < target - _NOTABLE:  # there is more to come
                self._changed[node].add(tenant)
            if share > present + _NOTABLE or share < present - _NOTABLE:
                shares[rate] = max(share, min(present, target))
            else:
                shares[rate] = present
            told[rate] = max(shares[rate], present)  # until the node says that it gives less
        elsewhere: dict[str, float] = {}
        for one, found in reports.items():
            for amount, used in found.amounts.items() if one != node else ():
                elsewhere[amount] = elsewhere.get(amount, 0.0) + used
        return TenantShare(tenant, shares, elsewhere)

    def _in_force(self, tenant: str, node: str, rate: str, members: int) -> float:
        return self._told[tenant].get(node, {}).get(rate, 1 / members)


def _target(node: str, demands: Mapping[str, float], members: list[str]) -> float:
    """Return the share that a node would have if all others gave theirs away at once."""
    count, total = len(members), sum(demands.values())
    if not total:
        return 1 / count
    floor = min(FLOOR, 0.5 / count)
    return floor + (1 - floor * count) * demands.get(node, 0.0) / total
