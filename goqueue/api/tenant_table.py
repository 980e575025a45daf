"""The rows of tenants."""

from goqueue import errors
from goqueue.api import tenants
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import UNWRITABLE

_ROW = {
    "id": "team-a", "name": "Team A", "display_name": "", "description": "Orders and refunds",
    "metadata": {"cost-center": "4711"}, "status": "active", "reason": "", "status_since": "2026-03-01T12:00:00Z",
    "created_at": "2026-03-01T12:00:00Z", "created_by": "key:bootstrap", "updated_at": "2026-03-01T12:00:00Z",
}  # fmt: skip
_OFF = (errors.TenantsOff,)
_NO_TENANT = (*_OFF, errors.TenantNotFound)
_CHANGE = (*_NO_TENANT, errors.TenantBeingDeleted, *UNWRITABLE)
_ONE = "/admin/tenants/{tenant}"

TENANT_ENDPOINTS = (
    Endpoint("GET", "/admin/tenants", tenants.list_tenants, "List tenants", errors=_OFF),
    Endpoint(
        "POST", "/admin/tenants", tenants.create, "Create a tenant", status=201,
        errors=(*_OFF, errors.TenantExists, *UNWRITABLE),
        example={"name": "Team A", "description": "Orders and refunds", "metadata": {"cost-center": "4711"}},
        answer_example=_ROW,
    ),
    Endpoint("GET", _ONE, tenants.describe, "Describe a tenant", errors=_NO_TENANT, answer_example=_ROW),
    Endpoint(
        "PATCH", _ONE, tenants.update, "Change the name, description or metadata of a tenant", errors=_CHANGE,
        example={"description": "Orders"}, answer_example=_ROW,
    ),
    Endpoint(
        "DELETE", _ONE, tenants.delete,
        "Delete a tenant with its topics, groups, keys and schemas, or show what that would delete", errors=_CHANGE,
    ),
    Endpoint(
        "POST", f"{_ONE}/suspend", tenants.suspend, "Suspend a tenant: its requests that do more than describe are"
        " refused", errors=_CHANGE, example={"reason": "unpaid"}, answer_example=_ROW | {"status": "suspended"},
    ),
    Endpoint(
        "POST", f"{_ONE}/activate", tenants.activate, "Activate a suspended or disabled tenant", errors=_CHANGE,
        example={}, answer_example=_ROW,
    ),
    Endpoint(
        "POST", f"{_ONE}/disable", tenants.disable, "Disable a tenant: all its requests are refused", errors=_CHANGE,
        example={"reason": "left"}, answer_example=_ROW | {"status": "disabled"},
    ),
    Endpoint("GET", f"{_ONE}/topics", tenants.topics, "List the topics of a tenant", errors=_NO_TENANT),
    Endpoint("GET", f"{_ONE}/groups", tenants.groups, "List the groups of a tenant", errors=_NO_TENANT),
    Endpoint("GET", f"{_ONE}/stats", tenants.stats, "Count what belongs to a tenant", errors=_NO_TENANT),
)  # fmt: skip
