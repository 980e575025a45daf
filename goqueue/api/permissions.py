"""The right that each endpoint needs when authentication is on. Every row of the table has an entry here."""

from dataclasses import dataclass, field

from goqueue.security.rules import CLUSTER, Action, ResourceKind


@dataclass(frozen=True, slots=True)
class Permission:
    """An action on a resource."""

    action: Action | None
    """None if any valid key may call it; with the kind None as well, a request needs no key."""
    kind: ResourceKind | None
    parameter: str | None = None
    """The path parameter that names the resource. None for the cluster, and if the handler finds the names elsewhere:
    it checks them itself with `ApiCall.access`.
    """
    is_open: bool = field(init=False)
    is_checked_by_handler: bool = field(init=False)
    """True if the names of the resources stand in the query or the body."""

    def __post_init__(self) -> None:  # once for each row, since every request asks
        object.__setattr__(self, "is_open", self.kind is None and self.action is None)
        by_handler = self.action is not None and self.parameter is None and self.kind != CLUSTER
        object.__setattr__(self, "is_checked_by_handler", by_handler)

    @property
    def changes_broker(self) -> bool:
        """True for the right to change something that is not a message."""
        return self.action in ("create", "delete", "alter") or (self.kind == CLUSTER and self.action == "write")

    def __str__(self) -> str:
        if self.is_open:
            return "open"
        return f"{self.kind}:{self.action}" if self.action is not None else f"{self.kind}:listed"


OPEN = Permission(None, None)
_TOPICS, _GROUPS, _IDS, _SUBJECTS = (
    Permission(None, kind) for kind in ("topic", "group", "transactional_id", "subject")
)
"""Any key: the answer has only what the key may describe."""


def _topic(action: Action) -> Permission:
    return Permission(action, "topic", "topic")


def _group(action: Action) -> Permission:
    return Permission(action, "group", "group")


def _subject(action: Action) -> Permission:
    return Permission(action, "subject", "subject")


def _cluster(action: Action) -> Permission:
    return Permission(action, "cluster")


_DELAYED = "/topics/{topic}/delayed/{partition}/{offset}"

PERMISSIONS: dict[str, Permission] = {
    **dict.fromkeys(
        ("GET /health", "GET /healthz", "GET /livez", "GET /readyz", "GET /version", "GET /openapi.json"), OPEN
    ),
    # Signed with the secret of the cluster, which the handlers check.
    **dict.fromkeys(
        ("POST /cluster/vote", "POST /cluster/heartbeat", "POST /cluster/join", "POST /cluster/leave"), OPEN
    ),
    # Broker-wide statistics name all topics and groups: who may describe the cluster sees these names.
    **dict.fromkeys(
        (
            "GET /stats", "GET /stats/history", "GET /doctor", "GET /metrics", "GET /transactions/stats",
            "GET /delay/stats", "GET /rebalance/stats", "GET /reliability/stats", "GET /priority/stats",
            "GET /admin/tls", "GET /traces/stats", "GET /admin/alerts", "GET /admin/backup",
            "GET /admin/backup/{backup}", "GET /admin/backup/{backup}/logs",
            "GET /cluster/state", "GET /cluster/health", "GET /cluster/partitions",
            "GET /cluster/partition/{topic}/{partition}/info", "GET /cluster/partition/{topic}/{partition}/recovery",
            "GET /admin/reassignment", "GET /admin/reassignment/{reassignment}", "POST /admin/reassignment/plan",
        ),
        _cluster("describe"),
    ),
    **dict.fromkeys(
        ("GET /logs", "GET /operations", "GET /operations/{operation}", "GET /admin/audit"), _cluster("read")
    ),
    **dict.fromkeys(
        (
            "POST /operations/{operation}/undo", "POST /admin/alerts/test", "POST /admin/alerts/silences",
            "DELETE /admin/alerts/silences/{silence}", "POST /admin/tls/reload",
            "POST /admin/backup", "DELETE /admin/backup/{backup}", "POST /admin/backup/{backup}/verify",
            "POST /cluster/isr", "POST /cluster/leader-election",
            "POST /admin/backup/prune", "POST /admin/backup/{backup}/restore",
        ),
        _cluster("write"),
    ),
    **dict.fromkeys(("GET /admin/tenants", "GET /admin/usage", "POST /admin/quotas/test"), _cluster("describe")),
    **dict.fromkeys(
        (
            "POST /admin/cluster/transfer", "POST /admin/cluster/voters/{node}/replace",
            "DELETE /admin/cluster/nodes/{node}", "POST /admin/cluster/nodes/{node}/drain",
            "POST /admin/cluster/nodes/{node}/undrain", "POST /admin/reassignment",
            "PATCH /admin/reassignment/{reassignment}", "DELETE /admin/reassignment/{reassignment}",
            "POST /admin/tenants", "PATCH /admin/tenants/{tenant}", "DELETE /admin/tenants/{tenant}",
            "POST /admin/tenants/{tenant}/suspend", "POST /admin/tenants/{tenant}/activate",
            "POST /admin/tenants/{tenant}/disable", "PUT /admin/tenants/{tenant}/quotas",
            "DELETE /admin/tenants/{tenant}/quotas",
        ),
        _cluster("alter"),
    ),
    # The keys of a tenant see these of their own; the handlers require `cluster:describe` of others.
    **dict.fromkeys(
        (
            "GET /admin/tenants/{tenant}", "GET /admin/tenants/{tenant}/topics", "GET /admin/tenants/{tenant}/groups",
            "GET /admin/tenants/{tenant}/stats", "GET /admin/tenants/{tenant}/quotas",
            "GET /admin/tenants/{tenant}/usage",
        ),
        Permission(None, "cluster"),
    ),
    "GET /topics": _TOPICS,
    "GET /cluster/metadata": _TOPICS,
    # A trace id may be of any topic: the handlers show only traces of topics that the key may read.
    **dict.fromkeys(("GET /traces", "GET /traces/search", "GET /traces/{trace}"), _TOPICS),
    "POST /topics": Permission("create", "topic"),
    **dict.fromkeys(
        (
            "GET /topics/{topic}", "GET /topics/{topic}/partitions", "GET /admin/topics/{topic}/scaling-status",
            "GET /topics/{topic}/partitions/{partition}/offset", "GET /topics/{topic}/delayed/timeline",
        ),
        _topic("describe"),
    ),
    "DELETE /topics/{topic}": _topic("delete"),
    **dict.fromkeys(
        (
            "PATCH /admin/topics/{topic}", "POST /admin/topics/{topic}/compact",
            "POST /admin/topics/{topic}/partitions", "POST /topics/{topic}/redrive",
        ),
        _topic("alter"),
    ),
    **dict.fromkeys(
        (
            "GET /topics/{topic}/messages", "GET /topics/{topic}/partitions/{partition}/messages",
            "GET /topics/{topic}/partitions/{partition}/segments", "GET /topics/{topic}/partitions/{partition}/aborted",
            "GET /topics/{topic}/partitions/{partition}/segments/{segment}/log",
            "GET /topics/{topic}/partitions/{partition}/segments/{segment}/index",
            "GET /topics/{topic}/delayed", "GET /topics/{topic}/delayed/{offset}", f"GET {_DELAYED}",
            "GET /topics/{topic}/dead-letters", "GET /topics/{topic}/dead-letters/errors",
            "GET /topics/{topic}/partitions/{partition}/messages/{offset}/trace",
        ),
        _topic("read"),
    ),
    **dict.fromkeys(
        (
            "POST /topics/{topic}/messages", f"DELETE {_DELAYED}", f"PATCH {_DELAYED}", f"POST {_DELAYED}/deliver",
            "POST /topics/{topic}/delayed/cancel", "POST /topics/{topic}/delayed/reschedule",
            "POST /topics/{topic}/delayed/deliver",
        ),
        _topic("write"),
    ),
    **dict.fromkeys(
        (
            "POST /producers/init", "POST /producers/{producer}/heartbeat", "POST /transactions/begin",
            "POST /transactions/publish", "POST /transactions/add-partition", "POST /transactions/offsets",
            "POST /transactions/acks", "POST /transactions/join", "POST /transactions/commit",
            "POST /transactions/abort",
        ),
        Permission("write", "transactional_id"),
    ),
    "GET /transactions": _IDS,
    "GET /transactions/{transactional_id}": Permission("describe", "transactional_id", "transactional_id"),
    "GET /groups": _GROUPS,
    **dict.fromkeys(
        (
            "GET /groups/{group}", "GET /groups/{group}/assignment", "GET /groups/{group}/offsets",
            "GET /groups/{group}/cooperative", "GET /groups/{group}/rebalance/stats",
        ),
        _group("describe"),
    ),
    "DELETE /groups/{group}": _group("delete"),
    **dict.fromkeys(("PATCH /groups/{group}", "POST /groups/{group}/offsets/reset"), _group("alter")),
    **dict.fromkeys(
        (
            "POST /groups/{group}/join", "POST /groups/{group}/join/cooperative", "POST /groups/{group}/heartbeat",
            "POST /groups/{group}/heartbeat/cooperative", "POST /groups/{group}/revoke", "POST /groups/{group}/leave",
            "POST /groups/{group}/leave/cooperative", "GET /groups/{group}/poll", "POST /groups/{group}/settle",
            "POST /groups/{group}/offsets",
        ),
        _group("read"),
    ),
    **dict.fromkeys(
        ("POST /messages/ack", "POST /messages/nack", "POST /messages/reject", "POST /messages/visibility"),
        Permission("read", "group"),
    ),
    # Ids name no subject: the handler looks at the subjects of their versions.
    **dict.fromkeys(
        (
            "GET /schemas", "GET /subjects", "GET /schemas/types", "GET /schemas/summaries", "GET /contexts",
            "GET /config", "GET /mode",
        ),
        _SUBJECTS,
    ),
    **dict.fromkeys(
        (
            "GET /schemas/ids/{id}", "GET /schemas/ids/{id}/schema", "GET /schemas/guids/{guid}",
            "GET /schemas/guids/{guid}/ids",
        ),
        Permission("read", "subject"),
    ),
    **dict.fromkeys(
        ("GET /schemas/ids/{id}/subjects", "GET /schemas/ids/{id}/versions"), Permission("describe", "subject")
    ),
    **dict.fromkeys(
        (
            "GET /subjects/{subject}/versions", "GET /schemas/summaries/{subject}", "GET /config/{subject}",
            "GET /mode/{subject}",
        ),
        _subject("describe"),
    ),
    **dict.fromkeys(
        (
            "POST /subjects/{subject}", "GET /subjects/{subject}/versions/{version}",
            "GET /subjects/{subject}/metadata",
            "GET /subjects/{subject}/versions/{version}/schema",
            "GET /subjects/{subject}/versions/{version}/referencedby",
            "POST /compatibility/subjects/{subject}/versions/{version}",
            "POST /compatibility/subjects/{subject}/versions",
        ),
        _subject("read"),
    ),
    "POST /subjects/{subject}/versions": _subject("create"),
    **dict.fromkeys(
        ("DELETE /subjects/{subject}", "DELETE /subjects/{subject}/versions/{version}"), _subject("delete")
    ),
    **dict.fromkeys(
        ("PUT /config/{subject}", "DELETE /config/{subject}", "PUT /mode/{subject}", "DELETE /mode/{subject}"),
        _subject("alter"),
    ),
    **dict.fromkeys(("PUT /config", "DELETE /config", "PUT /mode", "DELETE /mode"), _cluster("write")),
    "GET /schemas/stats": _cluster("describe"),
    **dict.fromkeys(
        (
            "GET /admin/keys", "POST /admin/keys", "GET /admin/keys/{key}", "DELETE /admin/keys/{key}",
            "POST /admin/keys/{key}/rotate", "GET /admin/roles", "POST /admin/roles", "DELETE /admin/roles/{role}",
            "GET /admin/acls", "POST /admin/acls", "DELETE /admin/acls/{rule}", "GET /admin/acls/test",
        ),
        _cluster("alter"),
    ),
}  # fmt: skip


def resource_of(permission: Permission, parameters: dict[str, str]) -> str:
    """Return the name of the resource that a path names."""
    return CLUSTER if permission.parameter is None else parameters[permission.parameter]
