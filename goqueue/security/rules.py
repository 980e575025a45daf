"""Rules: which actions on which resources are allowed or denied, and how a request is decided.

deny wins           a denying rule that matches decides, whatever allows it
default deny        what no rule allows is denied
describe follows    who may read, write, create, delete or alter something may also describe it
internal names      an allowing pattern matches names that begin with __ only if it begins with __ itself
"""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple, get_args

from msgspec import Meta, Struct

from goqueue.limits import TOPIC_NAME_CHARACTERS_MAX

Action = Literal["read", "write", "create", "delete", "describe", "alter"]
ResourceKind = Literal["topic", "group", "transactional_id", "subject", "cluster"]
Effect = Literal["allow", "deny"]
PatternType = Literal["literal", "prefix", "glob"]

ACTIONS: tuple[Action, ...] = get_args(Action)
KINDS: tuple[ResourceKind, ...] = get_args(ResourceKind)
CLUSTER = "cluster"
"""The name of the only resource of its kind."""
INTERNAL = "__"
_NAMED_INTERNALLY = frozenset({"topic", "group"})


class Rule(Struct, frozen=True, kw_only=True):
    """Allows or denies actions on the resources of a kind whose names match a pattern."""

    kind: ResourceKind
    pattern: Annotated[str, Meta(min_length=1, max_length=TOPIC_NAME_CHARACTERS_MAX)]
    actions: Annotated[tuple[Action, ...], Meta(min_length=1)]
    match: PatternType = "literal"
    effect: Effect = "allow"

    def concerns(self, action: Action, kind: ResourceKind, name: str) -> bool:
        """Return whether this rule says something about an action on a resource."""
        if self.kind != kind or not self._has(action):
            return False
        if self.effect == "allow" and not self._reaches(kind, name):
            return False
        return matches(self.match, self.pattern, name)

    def _has(self, action: Action) -> bool:
        return action in self.actions or (action == "describe" and self.effect == "allow")

    def _reaches(self, kind: ResourceKind, name: str) -> bool:
        return kind not in _NAMED_INTERNALLY or not name.startswith(INTERNAL) or self.pattern.startswith(INTERNAL)

    def __str__(self) -> str:
        pattern = self.pattern if self.match == "literal" else f"{self.match} {self.pattern}"
        return f"{self.effect} {', '.join(self.actions)} on {self.kind} {pattern}"


def matches(match: PatternType, pattern: str, name: str) -> bool:
    if match == "literal":
        return name == pattern
    if match == "prefix":
        return name.startswith(pattern)
    return _matches_glob(pattern, name)


def _matches_glob(pattern: str, name: str) -> bool:
    """Match `*` (any characters) and `?` (one) in at most len(pattern) * len(name) steps."""
    at = seen = 0
    star, resume = -1, 0
    while at < len(name):
        if seen < len(pattern) and pattern[seen] == "*":
            star, resume = seen, at
            seen += 1
        elif seen < len(pattern) and pattern[seen] in ("?", name[at]):
            at += 1
            seen += 1
        elif star >= 0:
            resume += 1
            at, seen = resume, star + 1
        else:
            return False
    return all(character == "*" for character in pattern[seen:])


class Grant(NamedTuple):
    """A rule of a principal, and where it has it from."""

    source: str
    """`role producer` or `rule 17`."""
    rule: Rule


class Decision(NamedTuple):
    is_allowed: bool
    grant: Grant | None
    """What decided; None if nothing allows it."""

    def __str__(self) -> str:
        if self.grant is None:
            return "no rule allows it"
        return f"{self.grant.source}: {self.grant.rule}"


def decide(grants: Iterable[Grant], action: Action, kind: ResourceKind, name: str) -> Decision:
    """Return whether an action is allowed, and because of what."""
    allowing: Grant | None = None
    for grant in grants:
        if grant.rule.concerns(action, kind, name):
            if grant.rule.effect == "deny":
                return Decision(False, grant)
            allowing = allowing or grant
    return Decision(allowing is not None, allowing)
