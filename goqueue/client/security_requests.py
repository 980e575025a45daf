"""The client's methods for API keys, roles and access rules."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from goqueue.client.address import quote
from goqueue.client.api_request import ApiRequest, json_request, operation, with_query

ResourceKind = Literal["topic", "group", "transactional_id", "subject", "cluster"]
_UNSURE_KEY = "the key may exist, and its secret is lost: revoke or rotate it"
_UNSURE = "it may have been made: list them before you send it again"


class ApiKeyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An API key."""

    id: str
    name: str
    roles: list[str]
    created_at: str
    created_by: str = ""
    """The principal that made it; empty if it was made on the command line."""
    expires_at: str | None = None
    expired: bool = False
    rotated_at: str | None = None
    former_valid_until: str | None = None
    """Until when the secret before the last rotation is valid, while it is."""
    certificate: str | None = None
    """The name of client certificates that stand for it; it has no secret then."""
    tenant: str | None = None
    """The tenant that it belongs to; None for a key of the operators."""
    last_used_at: str | None = None
    """Within an hour."""
    key: str | None = None
    """The key itself, only in the answer that makes it."""

    def __repr__(self) -> str:
        return f"<ApiKeyInfo {self.name} {self.id}>"  # a log line must not get the key


class RoleInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    summary: str = ""
    builtin: bool = False
    rules: list[dict[str, Any]]
    keys: int = 0
    """How many API keys have it."""


class AccessRuleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of one principal: `key:NAME`, `role:NAME`, or `*` for all keys."""

    id: int
    principal: str
    effect: str
    kind: str
    match: str
    pattern: str
    actions: list[str]
    created_at: str = ""
    created_by: str = ""


class AccessDecision(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to what a principal may do, and the rule that decided."""

    allowed: bool
    reason: str
    source: str | None = None


class AuditPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the audit trail."""

    records: list[msgspec.Raw]
    """JSON objects, as bytes of the log: the chain of hashes is over these bytes."""
    next_offset: int
    earliest: int
    latest: int
    node: str | None = None
    """The node of a cluster whose trail this is; each has its own."""


class SecurityAdmin:
    """API keys, roles and access rules. They need a key with the role admin."""

    @operation
    def api_keys(self) -> ApiRequest[list[ApiKeyInfo]]:
        """Return all API keys, without their secrets."""
        return json_request("GET", "/admin/keys", list[ApiKeyInfo], field="keys")

    @operation
    def create_api_key(
        self,
        name: str,
        roles: Iterable[str] = (),
        *,
        expires_in: str | float | None = None,
        certificate: str | None = None,
        tenant: str | None = None,
    ) -> ApiRequest[ApiKeyInfo]:
        """Create an API key; the answer has it as `key`, this once. `expires_in` is a duration such as "90d".

        With a `certificate`, such as "DNS:billing.example", client certificates with that subject alternative name
        stand for the key, which has no secret. The key of a `tenant` reaches nothing else.
        """
        body = {"name": name, "roles": list(roles), "expires_in": expires_in, "certificate": certificate}
        if tenant is not None:
            body["tenant"] = tenant
        return json_request("POST", "/admin/keys", ApiKeyInfo, body, idempotent=False, unsure_hint=_UNSURE_KEY)

    @operation
    def revoke_api_key(self, name: str) -> ApiRequest[dict[str, Any]]:
        """Revoke an API key by its name or id. It counts at once, also for requests that wait."""
        return json_request("DELETE", f"/admin/keys/{quote(name)}", dict[str, Any], idempotent=False)

    @operation
    def rotate_api_key(self, name: str, *, grace: str | float | None = None) -> ApiRequest[ApiKeyInfo]:
        """Give an API key another secret, which the answer has; the former one stays valid for `grace`."""
        path = f"/admin/keys/{quote(name)}/rotate"
        return json_request("POST", path, ApiKeyInfo, {"grace": grace}, idempotent=False, unsure_hint=_UNSURE_KEY)

    @operation
    def roles(self) -> ApiRequest[list[RoleInfo]]:
        """Return the built-in and the custom roles, with their rules."""
        return json_request("GET", "/admin/roles", list[RoleInfo], field="roles")

    @operation
    def create_role(self, name: str, rules: Iterable[Mapping[str, Any]], summary: str = "") -> ApiRequest[RoleInfo]:
        """Create a role from rules such as `{"kind": "topic", "pattern": "orders", "actions": ["read"]}`."""
        body = {"name": name, "rules": [dict(rule) for rule in rules], "summary": summary}
        return json_request("POST", "/admin/roles", RoleInfo, body, idempotent=False, unsure_hint=_UNSURE)

    @operation
    def delete_role(self, name: str) -> ApiRequest[dict[str, Any]]:
        """Delete a role that no key and no rule has."""
        return json_request("DELETE", f"/admin/roles/{quote(name)}", dict[str, Any], idempotent=False)

    @operation
    def access_rules(self) -> ApiRequest[list[AccessRuleInfo]]:
        """Return the access rules, in the order in which they were made."""
        return json_request("GET", "/admin/acls", list[AccessRuleInfo], field="acls")

    @operation
    def create_access_rule(
        self,
        principal: str,
        kind: ResourceKind,
        actions: Iterable[str],
        pattern: str = "cluster",
        *,
        match: Literal["literal", "prefix", "glob"] = "literal",
        effect: Literal["allow", "deny"] = "allow",
    ) -> ApiRequest[AccessRuleInfo]:
        """Allow or deny a principal actions on resources of a kind. A rule that denies wins over all that allow."""
        body = {
            "principal": principal,
            "kind": kind,
            "pattern": pattern,
            "match": match,
            "actions": list(actions),
            "effect": effect,
        }
        return json_request("POST", "/admin/acls", AccessRuleInfo, body, idempotent=False, unsure_hint=_UNSURE)

    @operation
    def delete_access_rule(self, number: int) -> ApiRequest[dict[str, Any]]:
        """Delete an access rule."""
        return json_request("DELETE", f"/admin/acls/{number}", dict[str, Any], idempotent=False)

    @operation
    def test_access(
        self, principal: str, action: str, kind: ResourceKind, name: str = "cluster"
    ) -> ApiRequest[AccessDecision]:
        """Return whether a principal may do something, and because of which rule."""
        path = with_query("/admin/acls/test", principal=principal, action=action, kind=kind, name=name)
        return json_request("GET", path, AccessDecision)

    @operation
    def audit(self, offset: int | None = None, limit: int = 1000) -> ApiRequest[AuditPage]:
        """Return records of the audit trail, the oldest first, from an offset on."""
        return json_request("GET", with_query("/admin/audit", offset=offset, limit=limit), AuditPage)

    @operation
    def certificate(self) -> ApiRequest[dict[str, Any]]:
        """Return the TLS certificate of the broker: `enabled`, and its `certificate` with names, expiry and error."""
        return json_request("GET", "/admin/tls", dict[str, Any])

    @operation
    def reload_certificate(self) -> ApiRequest[dict[str, Any]]:
        """Let the broker load its TLS certificate again. A broken one is not used, and raises CertificateInvalid."""
        return json_request("POST", "/admin/tls/reload", dict[str, Any])
