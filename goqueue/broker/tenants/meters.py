"""The meters of all tenants."""

from collections.abc import Callable, Mapping

from goqueue.broker.tenants.administration import TenantAdministration
from goqueue.broker.tenants.meter import MEMORY_BYTES_MAX, TenantMeter
from goqueue.broker.tenants.quotas import Quotas


class TenantMeters:
    """One meter for each tenant, from its first request on, with the quotas that are recorded for it."""

    def __init__(
        self,
        tenants: TenantAdministration,
        defaults: Mapping[str, float],
        monotonic_ns: Callable[[], int],
        memory_bytes_max: int = MEMORY_BYTES_MAX,
    ) -> None:
        """`defaults` are the quotas of tenants that have none of their own; the memory is that of each tenant."""
        self.tenants = tenants
        self.defaults = dict(defaults)
        self._monotonic_ns = monotonic_ns
        self._memory_bytes_max = memory_bytes_max
        self._meters: dict[str, TenantMeter] = {}
        self.share = 1.0
        """The share of this node in the rates of tenants that it has heard nothing about."""
        self.owners: dict[str, TenantMeter | None] = {}
        """Open connections, by address of the client, and the tenants that use them."""
        tenants.on_change.subscribe(self._follow)

    def of(self, tenant: str) -> TenantMeter | None:
        """Return the meter of a tenant; None for a request outside of all tenants."""
        meter = self._meters.get(tenant)
        if meter is None and tenant in self.tenants.state.tenants:
            meter = TenantMeter(tenant, self.quotas(tenant), self._monotonic_ns, self._memory_bytes_max, self.share)
            self._meters[tenant] = meter
        return meter

    # --- connections ---

    def open_connection(self, peer: str) -> None:
        """Note a connection; it counts for a tenant from the first request in its world on."""
        if peer:  # clients of a Unix socket have no address to tell them apart
            self.owners[peer] = None

    def admit_connection(self, meter: TenantMeter, peer: str) -> None:
        """Count a connection for the tenant of a request, unless it does already. Raises QuotaExceeded."""
        owner = self.owners.get(peer, meter)
        if owner is meter:
            return
        meter.admit_connection()
        if owner is not None:  # an operator who turns to another tenant
            owner.connections -= 1
        meter.open_connection()
        self.owners[peer] = meter

    def close_connection(self, peer: str) -> None:
        owner = self.owners.pop(peer, None)
        if owner is not None:
            owner.connections -= 1

    # --- quotas ---

    def quotas(self, tenant: str) -> Quotas:
        """Return the quotas that count for a tenant."""
        return Quotas.of(self.defaults, self.tenants.tenant(tenant).quotas)

    def active(self) -> list[TenantMeter]:
        """Return the meters of tenants that have made requests here."""
        return list(self._meters.values())

    def all(self) -> list[TenantMeter]:
        """Return the meters of all tenants."""
        return [meter for name in self.tenants.state.tenants if (meter := self.of(name)) is not None]

    def _follow(self) -> None:
        """Take changed quotas, and drop the meters of deleted tenants."""
        for name, meter in list(self._meters.items()):
            if name not in self.tenants.state.tenants:
                del self._meters[name]
            elif (quotas := self.quotas(name)) != meter.quotas:
                meter.change(quotas)
