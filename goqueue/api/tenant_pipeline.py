"""Requests of a broker with tenants: a request like an earlier one of its sender is not routed and admitted again."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from goqueue.api.endpoint import ApiCall, ApiContext, Endpoint
from goqueue.api.http.message import HttpRequest, HttpResponse
from goqueue.api.http.origin_guard import OriginGuard
from goqueue.api.pipeline import RequestPipeline
from goqueue.api.tenant_access import TENANT, TenantAccess, TenantGate, TenantKeyGate
from goqueue.api.tenant_world import TenantWorld
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.errors import GoQueueError
from goqueue.runtime.deferred import HandlerRun, HandlerTurn

_ADMITTED_MAX = 16_384
_CHARACTERS_MAX = 512  # of a path and of headers that say who sends

RequestKey = tuple[str, str, str | None, str | None, str | None]
"""Method, path, tenant and key of a request, as they were sent."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The row, the world and the rights of a request that was admitted."""

    row: Endpoint
    parameters: dict[str, str]
    """With full names. No handler changes them."""
    world: TenantWorld
    meter: TenantMeter
    owners: Mapping[str, TenantMeter | None]
    """The tenants of connections."""
    turn: HandlerTurn
    access_of: Callable[[HttpRequest], TenantAccess]


class TenantPipeline(RequestPipeline):
    """Answers requests, those of tenants in their worlds."""

    def __init__(self, endpoints: Sequence[Endpoint], context: ApiContext, guard: OriginGuard) -> None:
        super().__init__(endpoints, context, guard)
        assert isinstance(context.gate, TenantGate | TenantKeyGate), "a broker with tenants has such a gate"
        self._admitted: dict[RequestKey, Admission] = {}
        """Requests that were admitted since a key, a rule or a tenant changed."""
        context.gate.on_forget.subscribe(self._admitted.clear)

    def __call__(
        self, request: HttpRequest, route: tuple[Endpoint, dict[str, str]] | None = None
    ) -> HttpResponse | Awaitable[HttpResponse]:
        headers = request.headers
        sent = request.method, request.path, headers.get(TENANT), headers.get("x-api-key"), headers.get("authorization")
        found = self._admitted.get(sent)
        if found is None or route is not None:
            return super().__call__(request, route)
        try:
            preflight = self._guard.admit(request)
            if preflight is not None:
                return preflight
            row, meter = found.row, found.meter
            request.endpoint, request.world = row, found.world
            if found.owners.get(request.peer, meter) is not meter:
                self._meters.admit_connection(meter, request.peer)
        except GoQueueError as error:
            return self._refusal(request, error)
        call = ApiCall(self._context, request, found.parameters, None, None, found.access_of(request), meter)
        return HandlerRun(self._answer(row, call), found.turn)

    @property
    def _meters(self) -> TenantMeters:
        meters = self._context.meters
        assert meters is not None, "a broker with tenants has meters"
        return meters

    def _enter(self, row: Endpoint, call: ApiCall) -> HandlerTurn:
        """Count a request in the world of its tenant, and return what runs its handler."""
        request, access, meters = call.request, call.access, self._meters
        assert isinstance(access, TenantAccess), "a request in a world has such rights"
        world = access.world
        meter, turn = meters.of(access.tenant), self._context.runtime.turn.of(access.tenant)
        assert meter is not None, "the tenant of a world exists"
        call.meter = meter
        meters.admit_connection(meter, request.peer)
        if row.is_hot and world.is_active and not row.is_guarded:
            self._note(request, Admission(row, call.parameters, world, meter, meters.owners, turn, access.for_others()))
        return turn

    def _note(self, request: HttpRequest, admission: Admission) -> None:
        """Keep an admission for further requests. A certificate without a key is not part of what they send."""
        headers = request.headers
        key, authorization = headers.get("x-api-key"), headers.get("authorization")
        if request.certificate is not None and key is None and authorization is None:
            return
        sent = request.method, request.path, headers.get(TENANT), key, authorization
        if sum(len(one) for one in sent if one is not None) > _CHARACTERS_MAX:
            return
        if len(self._admitted) >= _ADMITTED_MAX:
            self._admitted.clear()
        self._admitted[sent] = admission
