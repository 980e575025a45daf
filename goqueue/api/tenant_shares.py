"""The share of the tenant of a request, found before the request is routed: by its head alone."""

from goqueue.api.gate import AccessGate, RequestGate
from goqueue.api.http.message import HttpRequest
from goqueue.api.http.tenant_connection import TenantShare
from goqueue.api.tenant_access import TENANT
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.errors import GoQueueError
from goqueue.runtime.fair_turn import FairTurn


class TenantShares:
    """Finds shares of memory and of the loop. It refuses nothing: the gate does when the request is complete."""

    def __init__(self, gate: RequestGate, meters: TenantMeters, turn: FairTurn) -> None:
        self._gate = gate
        self._meters = meters
        self._turn = turn
        self._known: dict[str, TenantShare] = {}
        meters.tenants.on_change.subscribe(self._known.clear)

    def __call__(self, request: HttpRequest) -> TenantShare | None:
        """Return the share of the tenant of a request; None if it has none."""
        tenant = self._tenant_of(request) if request.world is None else request.world.names.tenant
        return self._known.get(tenant) or self._find(tenant)

    def _find(self, tenant: str) -> TenantShare | None:
        meter = self._meters.of(tenant) if tenant else None
        if meter is None:
            return None
        share = self._known[tenant] = TenantShare(meter.memory, self._turn.of(tenant))
        return share

    def _tenant_of(self, request: HttpRequest) -> str:
        gate, named = self._gate, request.headers.get(TENANT, "")
        if not isinstance(gate, AccessGate):
            return named
        try:
            return gate.sender_of(request).tenant or named
        except GoQueueError:
            return ""
