"""The boundary of tenants: requests in a tenant's world reach nothing else, whatever roles and rules say.

A key of a tenant is always in its world. A key of the operators, or any request without authentication, enters one with
the header `x-tenant`.
"""

from collections.abc import Callable, Iterable

from goqueue.api.access import Access, AccessOwner, KeyAccess, RefusalListener, missing
from goqueue.api.gate import AccessGate, RequestGate, without_names
from goqueue.api.http.message import HttpRequest
from goqueue.api.permissions import Permission
from goqueue.api.tenant_names import PARAMETERS
from goqueue.api.tenant_world import TenantWorld
from goqueue.broker.security.administration import SecurityAdministration
from goqueue.broker.security.audit import AuditTrail
from goqueue.broker.tenants.administration import TenantAdministration
from goqueue.errors import BrokerStopping, GoQueueError, PermissionDenied
from goqueue.events import Signal
from goqueue.quantities import quoted
from goqueue.security.authorizer import Principal
from goqueue.security.rules import CLUSTER, Action, ResourceKind

TENANT = "x-tenant"


class TenantAccess(KeyAccess):
    """The rights of a request in the world of a tenant.

    The names of the tenant's own topics, groups, transactional ids and subjects pass the boundary, and the rules decide
    about them: for a key of the tenant by their short names, for one of the operators by the full ones.
    """

    __slots__ = ("_is_operator", "_tenants", "world")

    def __init__(
        self,
        gate: RefusalListener,
        owner: AccessOwner,
        request: HttpRequest,
        world: TenantWorld,
        tenants: TenantAdministration,
        *,
        is_operator: bool,
    ) -> None:
        self._gate, self._principal, self.request = gate, owner, request  # as the base class, in one call
        self.checked, self.is_refused, self.ended, self._cancel = [], False, None, None
        self.world = world
        self._tenants = tenants
        self._is_operator = is_operator

    @property
    def tenant(self) -> str:
        return self.world.names.tenant

    @property
    def is_operator(self) -> bool:
        return self._is_operator

    def reaches(self, name: str) -> bool:
        return self.world.names.owns(name)

    def local_name(self, name: str) -> str:
        return self.world.names.short(name)

    def may(self, action: Action, kind: ResourceKind, name: str = CLUSTER) -> bool:
        if kind == CLUSTER:
            return self._is_operator and self._principal.may(action, kind, name)
        world = self.world
        if not name.startswith(world.names.prefix):
            return False
        if not world.is_active and not self._tenants.may_make(self.tenant, describes=action == "describe"):
            return False
        return self._principal.may(action, kind, name if self._is_operator else world.names.short(name))

    def require(self, action: Action, kind: ResourceKind, name: str = CLUSTER) -> None:
        if kind == CLUSTER:
            if not self._is_operator:
                raise self._refused(_outside(self.name, self.tenant), action, kind, name)
            super().require(action, kind, name)
            return
        world = self.world
        if not name.startswith(world.names.prefix):
            raise self._refused(missing(kind, name), action, kind, name)
        if not world.is_active:
            self._tenants.admit(self.tenant, describes=action == "describe")
        decided = name if self._is_operator else world.names.short(name)
        if not self._principal.may(action, kind, decided):
            raise self._refused(self._refusal(action, kind, decided), action, kind, name)
        self.checked.append((action, kind, name))

    def require_any(self, action: Action, kind: ResourceKind) -> None:
        self._tenants.admit(self.tenant, describes=action == "describe")
        super().require_any(action, kind)

    def described(self, kind: ResourceKind, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.may("describe", kind, name)]

    def for_others(self) -> "Callable[[HttpRequest], TenantAccess]":
        """Return what gives further requests of the same sender the same rights."""
        gate, owner, world, tenants, is_operator = (
            self._gate, self._principal, self.world, self._tenants, self._is_operator,
        )  # fmt: skip
        if not isinstance(owner, Principal):
            shared = SharedTenantAccess(gate, owner, _NO_REQUEST, world, tenants, is_operator=is_operator)
            return lambda _: shared

        def give(request: HttpRequest) -> TenantAccess:
            owner.is_used = True
            return TenantAccess(gate, owner, request, world, tenants, is_operator=is_operator)

        return give


class SharedTenantAccess(TenantAccess):
    """The rights of all requests in a world whose senders are not known, and which nothing looks at again."""

    __slots__ = ()

    def require(self, action: Action, kind: ResourceKind, name: str = CLUSTER) -> None:
        super().require(action, kind, name)
        self.checked.clear()


def _outside(principal: str, tenant: str) -> PermissionDenied:
    return PermissionDenied(
        f"{quoted(principal)} belongs to a tenant, and this is about the broker as a whole",
        hint="ask an operator of the broker",
        tenant=tenant,
    )


class TenantWorlds:
    """Enters requests into the worlds of tenants."""

    def __init__(self, tenants: TenantAdministration) -> None:
        self.tenants = tenants
        self.known: dict[str, TenantWorld] = {}
        """By tenant."""
        tenants.on_change.subscribe(self._forget)

    def _forget(self) -> None:
        """Let requests that are under way look at the status of their tenant again."""
        for world in self.known.values():
            world.is_active = False
        self.known.clear()

    def enter(
        self, gate: RefusalListener, owner: AccessOwner, request: HttpRequest, tenant: str, *, is_operator: bool
    ) -> TenantAccess:
        """Return the rights of a request in the world of a tenant. Raises the error of one that is not active."""
        world = self.known.get(tenant)
        if world is None:
            found = self.tenants.admit(tenant, describes=True)
            world = self.known[tenant] = TenantWorld(tenant, is_active=found.status == "active")
        request.world = world
        return TenantAccess(gate, owner, request, world, self.tenants, is_operator=is_operator)


def _translate_path(access: Access, permission: Permission, parameters: dict[str, str]) -> None:
    """Replace the names in the path of a request in a world by the full ones."""
    if isinstance(access, TenantAccess) and permission.kind != CLUSTER:
        full = access.world.full_in_path
        for name, text in parameters.items():
            if name in PARAMETERS:
                parameters[name] = full(name, text)


class _Anyone:
    """The sender of a request where keys are not checked: it may do everything in the world that it names."""

    name = ""

    def may(self, action: Action, kind: ResourceKind, name: str) -> bool:  # noqa: ARG002 - all are allowed
        return True

    def may_any(self, action: Action, kind: ResourceKind) -> bool:  # noqa: ARG002 - as above
        return True


_ANYONE = _Anyone()
_NO_REQUEST = HttpRequest("", "", "", {}, bytearray(), "", "", 0)


class TenantGate(RequestGate):
    """Without authentication: the header `x-tenant` selects a world, and everyone may send it."""

    def __init__(self) -> None:
        super().__init__()
        self._worlds: TenantWorlds | None = None
        self.on_forget: Signal[[]] = Signal()
        """Called when requests that were admitted might be refused now."""

    def open_tenants(self, tenants: TenantAdministration) -> None:
        self._worlds = TenantWorlds(tenants)
        tenants.on_change.subscribe(self.on_forget.emit)
        tenants.on_change.subscribe(self.check_waiting)

    def authenticate(self, request: HttpRequest) -> Access:
        tenant = request.headers.get(TENANT)
        if tenant is None:
            return super().authenticate(request)
        if self._worlds is None:
            raise BrokerStopping("the broker is not ready", hint="try again", retry_after=1)
        return self._worlds.enter(self, _ANYONE, request, tenant, is_operator=True)

    def check(self, access: Access, permission: Permission, parameters: dict[str, str]) -> None:
        _translate_path(access, permission, parameters)
        super().check(access, permission, parameters)

    def shown(self, error: GoQueueError, request: HttpRequest) -> GoQueueError:
        return error if request.world is None else request.world.shown(without_names(error))


class TenantKeyGate(AccessGate):
    """With authentication: keys of tenants are in their worlds, and those of operators enter one by header."""

    def __init__(self) -> None:
        super().__init__()
        self._worlds: TenantWorlds
        self.on_forget: Signal[[]] = Signal()
        """Called when requests that were admitted might be refused now."""

    def open_tenants(self, tenants: TenantAdministration) -> None:
        """Take the tenants. Call this before `open`."""
        self._worlds = TenantWorlds(tenants)
        tenants.on_change.subscribe(self.on_forget.emit)
        tenants.on_change.subscribe(self.check_waiting)

    def open(self, administration: SecurityAdministration, trail: AuditTrail, *, has_tenants: bool = False) -> None:
        super().open(administration, trail, has_tenants=has_tenants)
        self.authorizer.on_forget.subscribe(self.on_forget.emit)

    def authenticate(self, request: HttpRequest) -> KeyAccess:
        return self._access_of(self.principal_of(request), request)

    def _access_of(self, owner: Principal, request: HttpRequest) -> KeyAccess:
        named = request.headers.get(TENANT)
        if owner.tenant:
            if named is not None and named != owner.tenant:
                raise _foreign(owner, named)
            return self._worlds.enter(self, owner, request, owner.tenant, is_operator=False)
        access = KeyAccess(self, owner, request)
        if named is None:
            return access
        access.require("describe", "cluster")
        return self._worlds.enter(self, owner, request, named, is_operator=True)

    def check(self, access: Access, permission: Permission, parameters: dict[str, str]) -> None:
        _translate_path(access, permission, parameters)
        super().check(access, permission, parameters)

    def shown(self, error: GoQueueError, request: HttpRequest) -> GoQueueError:
        found = super().shown(error, request)
        return found if request.world is None else request.world.shown(found)


def _foreign(owner: Principal, named: str) -> PermissionDenied:
    return PermissionDenied(
        f"{quoted(owner.name)} belongs to tenant {quoted(owner.tenant)}, not to {quoted(named[:200])}",
        hint=f"leave out the header {TENANT}: a key of a tenant is always in its own world",
    )
