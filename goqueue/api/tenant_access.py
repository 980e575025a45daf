"""The boundary of tenants: requests in a tenant's world reach nothing else, whatever roles and rules say.

A key of a tenant is always in its world. A key of the operators, or any request without authentication, enters one with
the header `x-tenant`.
"""

from collections.abc import Iterable

from goqueue.api.access import Access, AccessOwner, KeyAccess, RefusalListener, missing
from goqueue.api.gate import AccessGate, RequestGate
from goqueue.api.http.message import HttpRequest
from goqueue.broker.tenants.administration import TenantAdministration
from goqueue.broker.tenants.naming import TenantNames
from goqueue.errors import BrokerStopping, GoQueueError, PermissionDenied
from goqueue.quantities import quoted
from goqueue.security.authorizer import Principal
from goqueue.security.rules import CLUSTER, Action, ResourceKind

TENANT = "x-tenant"


class TenantAccess(KeyAccess):
    """The rights of a request in the world of a tenant.

    The names of the tenant's own topics, groups, transactional ids and subjects pass the boundary, and the rules decide
    about them as they would otherwise.
    """

    __slots__ = ("_is_operator", "_tenants", "names")

    def __init__(
        self,
        gate: RefusalListener,
        owner: AccessOwner,
        request: HttpRequest,
        names: TenantNames,
        tenants: TenantAdministration,
        *,
        is_operator: bool,
    ) -> None:
        super().__init__(gate, owner, request)
        self.names = names
        self._tenants = tenants
        self._is_operator = is_operator

    @property
    def tenant(self) -> str:
        return self.names.tenant

    @property
    def is_operator(self) -> bool:
        return self._is_operator

    def may(self, action: Action, kind: ResourceKind, name: str = CLUSTER) -> bool:
        if kind == CLUSTER:
            return self._is_operator and super().may(action, kind, name)
        if not self.names.owns(name):
            return False
        try:
            self._tenants.admit(self.tenant, describes=action == "describe")
        except GoQueueError:
            return False
        return super().may(action, kind, name)

    def require(self, action: Action, kind: ResourceKind, name: str = CLUSTER) -> None:
        if kind == CLUSTER:
            if not self._is_operator:
                raise self._refused(_outside(self.name), action, kind, name)
        elif not self.names.owns(name):
            raise self._refused(missing(kind, name), action, kind, name)
        else:
            self._tenants.admit(self.tenant, describes=action == "describe")
        super().require(action, kind, name)

    def require_any(self, action: Action, kind: ResourceKind) -> None:
        self._tenants.admit(self.tenant, describes=action == "describe")
        super().require_any(action, kind)

    def described(self, kind: ResourceKind, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.may("describe", kind, name)]


def _outside(principal: str) -> PermissionDenied:
    return PermissionDenied(
        f"{quoted(principal)} belongs to a tenant, and this is about the broker as a whole",
        hint="ask an operator of the broker",
    )


class _Anyone:
    """The sender of a request where keys are not checked: it may do everything in the world that it names."""

    name = ""

    def may(self, action: Action, kind: ResourceKind, name: str) -> bool:  # noqa: ARG002 - all are allowed
        return True

    def may_any(self, action: Action, kind: ResourceKind) -> bool:  # noqa: ARG002 - as above
        return True


_ANYONE = _Anyone()


class TenantGate(RequestGate):
    """Without authentication: the header `x-tenant` selects a world, and everyone may send it."""

    def __init__(self) -> None:
        super().__init__()
        self._tenants: TenantAdministration | None = None

    def open_tenants(self, tenants: TenantAdministration) -> None:
        self._tenants = tenants
        tenants.on_change.subscribe(self.check_waiting)

    def authenticate(self, request: HttpRequest) -> Access:
        tenant = request.headers.get(TENANT)
        if tenant is None:
            return super().authenticate(request)
        if self._tenants is None:
            raise BrokerStopping("the broker is not ready", hint="try again", retry_after=1)
        self._tenants.admit(tenant, describes=True)
        return TenantAccess(self, _ANYONE, request, TenantNames(tenant), self._tenants, is_operator=True)


class TenantKeyGate(AccessGate):
    """With authentication: keys of tenants are in their worlds, and those of operators enter one by header."""

    def __init__(self) -> None:
        super().__init__()
        self._tenants: TenantAdministration

    def open_tenants(self, tenants: TenantAdministration) -> None:
        """Take the tenants. Call this before `open`."""
        self._tenants = tenants
        tenants.on_change.subscribe(self.check_waiting)

    def authenticate(self, request: HttpRequest) -> KeyAccess:
        owner, named = self.principal_of(request), request.headers.get(TENANT)
        if owner.tenant:
            return self._of_tenant(owner, request, named)
        access = KeyAccess(self, owner, request)
        if named is None:
            return access
        access.require("describe", "cluster")
        self._tenants.admit(named, describes=True)
        return TenantAccess(self, owner, request, TenantNames(named), self._tenants, is_operator=True)

    def _of_tenant(self, owner: Principal, request: HttpRequest, named: str | None) -> TenantAccess:
        if named not in (None, owner.tenant):
            raise PermissionDenied(
                f"{quoted(owner.name)} belongs to tenant {quoted(owner.tenant)}, not to {quoted(str(named)[:200])}",
                hint=f"leave out the header {TENANT}: a key of a tenant is always in its own world",
            )
        self._tenants.admit(owner.tenant, describes=True)
        return TenantAccess(self, owner, request, TenantNames(owner.tenant), self._tenants, is_operator=False)
