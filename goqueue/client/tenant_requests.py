"""The client's methods for tenants."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from goqueue.client.address import quote
from goqueue.client.api_request import ApiRequest, json_request, operation

_UNSURE = "it may have been made: list the tenants before you send it again"


class TenantInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant: a team with topics, groups and schemas of its own."""

    id: str
    """Its names on the broker begin with this and a dot."""
    name: str
    display_name: str = ""
    description: str = ""
    metadata: dict[str, str] = {}
    status: str = "active"
    """active, suspended, disabled or deleting."""
    reason: str = ""
    """Why it has this status, as the operator has written."""
    quotas: dict[str, Any] = {}
    """Quotas of its own; the others are the broker's."""
    status_since: str = ""
    created_at: str = ""
    created_by: str = ""
    updated_at: str = ""


class TenantContents(msgspec.Struct, frozen=True, kw_only=True):
    """All that belongs to a tenant, by its own names: at most 1,000 of each kind, and the exact counts."""

    topics: list[str] = []
    topic_count: int = 0
    partitions: int = 0
    size_bytes: int = 0
    groups: list[str] = []
    group_count: int = 0
    members: int = 0
    keys: list[str] = []
    key_count: int = 0
    subjects: list[str] = []
    subject_count: int = 0
    transactional_ids: list[str] = []
    transactional_id_count: int = 0


class TenantStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of what belongs to a tenant."""

    id: str
    status: str
    topics: int
    partitions: int
    size_bytes: int
    groups: int
    members: int
    keys: int
    subjects: int
    transactional_ids: int
    percentages: dict[str, float] = {}
    """Of each limited quota that is in use."""
    violations: dict[str, int] = {}
    """Refused requests and delayed polls by quota, since the broker started."""


class TenantAdmin:
    """Tenants, while the broker has `tenants.enabled`."""

    @operation
    def tenants(self) -> ApiRequest[list[TenantInfo]]:
        """Return all tenants."""
        return json_request("GET", "/admin/tenants", list[TenantInfo], field="tenants")

    @operation
    def describe_tenant(self, tenant: str) -> ApiRequest[TenantInfo]:
        """Return a tenant. A key of the tenant may ask for its own."""
        return json_request("GET", _path(tenant), TenantInfo)

    @operation
    def create_tenant(
        self,
        name: str,
        *,
        tenant_id: str = "",
        display_name: str = "",
        description: str = "",
        metadata: Mapping[str, str] | None = None,
        quotas: Mapping[str, Any] | None = None,
        adopt: bool = False,
    ) -> ApiRequest[TenantInfo]:
        """Create a tenant. Its id is made from its name if none is given.

        With `adopt`, it gets all topics, groups and subjects whose names begin with its id and a dot.
        """
        body = {
            "id": tenant_id,
            "name": name,
            "display_name": display_name,
            "description": description,
            "metadata": dict(metadata or {}),
            "quotas": dict(quotas or {}),
            "adopt": adopt,
        }
        return json_request("POST", "/admin/tenants", TenantInfo, body, idempotent=False, unsure_hint=_UNSURE)

    @operation
    def update_tenant(
        self,
        tenant: str,
        *,
        name: str | None = None,
        display_name: str | None = None,
        description: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> ApiRequest[TenantInfo]:
        """Change fields of a tenant; None leaves one as it is."""
        given = {"name": name, "display_name": display_name, "description": description, "metadata": metadata}
        changes = {field: value for field, value in given.items() if value is not None}
        return json_request("PATCH", _path(tenant), TenantInfo, changes)

    @operation
    def set_tenant_status(
        self, tenant: str, action: Literal["suspend", "activate", "disable"], *, reason: str = ""
    ) -> ApiRequest[TenantInfo]:
        """Suspend, activate or disable a tenant. Those who are refused get the reason."""
        return json_request("POST", f"{_path(tenant)}/{action}", TenantInfo, {"reason": reason})

    @operation
    def tenant_contents(self, tenant: str) -> ApiRequest[TenantContents]:
        """Return what `delete_tenant` would delete."""
        return json_request("DELETE", f"{_path(tenant)}?dry_run=true", TenantContents, field="contents")

    @operation
    def delete_tenant(self, tenant: str) -> ApiRequest[TenantContents]:
        """Delete a tenant with all its topics, groups, keys and schemas, and return what that was."""
        return json_request("DELETE", _path(tenant), TenantContents, field="contents", idempotent=False)

    @operation
    def tenant_topics(self, tenant: str) -> ApiRequest[list[dict[str, Any]]]:
        """Return the topics of a tenant with partitions and size, by its own names."""
        return json_request("GET", f"{_path(tenant)}/topics", list[dict[str, Any]], field="topics")

    @operation
    def tenant_groups(self, tenant: str) -> ApiRequest[list[dict[str, Any]]]:
        """Return the groups of a tenant with the number of their members, by its own names."""
        return json_request("GET", f"{_path(tenant)}/groups", list[dict[str, Any]], field="groups")

    @operation
    def tenant_stats(self, tenant: str) -> ApiRequest[TenantStats]:
        """Return counts of what belongs to a tenant."""
        return json_request("GET", f"{_path(tenant)}/stats", TenantStats)


def _path(tenant: str) -> str:
    return f"/admin/tenants/{quote(tenant)}"
