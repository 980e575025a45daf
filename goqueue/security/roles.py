"""The built-in roles. They cannot be changed; custom roles stand beside them."""

from collections.abc import Mapping

from goqueue.security.rules import ACTIONS, CLUSTER, KINDS, Action, ResourceKind, Rule

ADMIN = "admin"


def _all(kind: ResourceKind, *actions: Action) -> Rule:
    if kind == "cluster":
        return Rule(kind=kind, pattern=CLUSTER, actions=actions)
    return Rule(kind=kind, pattern="*", match="glob", actions=actions)


ROLES: Mapping[str, tuple[Rule, ...]] = {
    ADMIN: (
        *(_all(kind, *ACTIONS) for kind in KINDS),
        Rule(kind="topic", pattern="__", match="prefix", actions=("read", "describe")),
        Rule(kind="group", pattern="__", match="prefix", actions=("describe",)),
    ),
    "operator": (
        _all("topic", "create", "delete", "describe", "alter"),
        _all("group", "delete", "describe", "alter"),
        _all("transactional_id", "delete", "describe", "alter"),
        _all("subject", "read", "create", "delete", "describe", "alter"),
        _all("cluster", "read", "write", "describe"),
    ),
    "producer": (
        _all("topic", "write", "describe"),
        _all("transactional_id", "write", "describe"),
        _all("subject", "read", "describe"),
    ),
    "consumer": (
        _all("topic", "read", "describe"),
        _all("group", "read", "describe"),
        _all("subject", "read", "describe"),
    ),
    "readonly": (
        _all("topic", "read", "describe"),
        _all("group", "describe"),
        _all("transactional_id", "describe"),
        _all("subject", "read", "describe"),
        _all("cluster", "describe"),
    ),
}

SUMMARIES: Mapping[str, str] = {
    ADMIN: "Everything, keys, roles and rules included.",
    "operator": "Manages topics, groups and transactions, and sees the broker's state; no messages, no keys.",
    "producer": "Publishes to all topics, also in transactions.",
    "consumer": "Reads all topics, alone or in groups.",
    "readonly": "Reads all topics and sees the broker's state, and changes nothing.",
}
