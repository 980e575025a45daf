"""Rules: which patterns match, what decides, and what roles allow."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.security.roles import ROLES, SUMMARIES
from goqueue.security.rules import ACTIONS, KINDS, Action, Decision, Effect, Grant, ResourceKind, Rule, decide, matches

_NAMES = st.text("ab._", min_size=1, max_size=6)
_PATTERNS = st.text("ab*?", min_size=1, max_size=6)
_RULES = st.builds(
    Rule,
    kind=st.sampled_from(("topic", "group")),
    pattern=_PATTERNS,
    match=st.sampled_from(("literal", "prefix", "glob")),
    effect=st.sampled_from(("allow", "deny")),
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=3).map(tuple),
)
_GRANTS = st.lists(_RULES.map(lambda rule: Grant("rule 1", rule)), max_size=8)


def _allow(
    kind: ResourceKind, pattern: str, *actions: Action, effect: Effect = "allow", match: str = "literal"
) -> Grant:
    return Grant("rule 1", Rule(kind=kind, pattern=pattern, actions=actions, effect=effect, match=match))  # type: ignore[arg-type]


@given(_PATTERNS, st.text("ab", max_size=10))
def test_glob_matches_like_the_regular_expression(pattern: str, name: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(one, re.escape(one)) for one in pattern)
    assert matches("glob", pattern, name) == (re.fullmatch(expression, name) is not None)


def test_glob_with_many_stars_takes_no_exponential_time() -> None:
    assert not matches("glob", "*a" * 100 + "b", "a" * 255)


@given(_GRANTS, st.sampled_from(ACTIONS), _NAMES)
def test_denying_rule_wins_in_any_order(grants: list[Grant], action: Action, name: str) -> None:
    found = decide(grants, action, "topic", name).is_allowed
    assert decide(grants[::-1], action, "topic", name).is_allowed == found
    denied = [*grants, _allow("topic", "*", *ACTIONS, effect="deny", match="glob")]
    assert not decide(denied, action, "topic", name).is_allowed


@given(_GRANTS, st.sampled_from(ACTIONS), _NAMES)
def test_decision_names_a_rule_that_concerns_the_request(grants: list[Grant], action: Action, name: str) -> None:
    decision = decide(grants, action, "topic", name)
    if decision.grant is not None:
        assert decision.grant.rule.concerns(action, "topic", name)
        assert decision.is_allowed == (decision.grant.rule.effect == "allow")
    else:
        assert not any(grant.rule.concerns(action, "topic", name) for grant in grants)


@given(_GRANTS, st.sampled_from(ACTIONS), _NAMES, _RULES)
def test_further_allowing_rule_takes_nothing_away(grants: list[Grant], action: Action, name: str, rule: Rule) -> None:
    before = decide(grants, action, "topic", name).is_allowed
    if rule.effect == "allow":
        assert decide([*grants, Grant("rule 2", rule)], action, "topic", name).is_allowed >= before
    else:
        assert decide([*grants, Grant("rule 2", rule)], action, "topic", name).is_allowed <= before


def test_nothing_is_allowed_without_rules() -> None:
    assert decide([], "describe", "topic", "orders") == Decision(False, None)


@pytest.mark.parametrize("action", ["read", "write", "create", "delete", "alter"])
def test_every_allowed_action_includes_describe(action: Action) -> None:
    assert decide([_allow("topic", "orders", action)], "describe", "topic", "orders").is_allowed


def test_denied_write_leaves_describe() -> None:
    grants = [_allow("topic", "orders", "read"), _allow("topic", "orders", "write", effect="deny")]
    assert decide(grants, "describe", "topic", "orders").is_allowed


@pytest.mark.parametrize("kind", ["topic", "group"])
@pytest.mark.parametrize(("pattern", "match"), [("*", "glob"), ("", "prefix"), ("_", "prefix"), ("?_*", "glob")])
def test_wildcards_do_not_reach_internal_names(kind: ResourceKind, pattern: str, match: str) -> None:
    grant = _allow(kind, pattern, "read", match=match)
    assert not decide([grant], "read", kind, "__audit").is_allowed


def test_rule_that_names_internal_topics_reaches_them() -> None:
    assert decide([_allow("topic", "__", "read", match="prefix")], "read", "topic", "__audit").is_allowed


def test_denying_wildcard_reaches_internal_names() -> None:
    grants = [_allow("topic", "__audit", "read"), _allow("topic", "*", "read", effect="deny", match="glob")]
    assert not decide(grants, "read", "topic", "__audit").is_allowed


def _may(role: str, action: Action, kind: ResourceKind, name: str = "orders") -> bool:
    return decide([Grant(role, rule) for rule in ROLES[role]], action, kind, "cluster" if kind == "cluster" else name)[
        0
    ]


def test_every_role_has_a_summary() -> None:
    assert ROLES.keys() == SUMMARIES.keys()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", ACTIONS)
def test_admin_may_do_everything(kind: ResourceKind, action: Action) -> None:
    assert _may("admin", action, kind)


@pytest.mark.parametrize("role", [role for role in ROLES if role != "admin"])
def test_only_admin_manages_keys(role: str) -> None:
    assert not _may(role, "alter", "cluster")


@pytest.mark.parametrize("role", [role for role in ROLES if role != "admin"])
@pytest.mark.parametrize("action", ACTIONS)
def test_internal_topics_are_closed_to_other_roles(role: str, action: Action) -> None:
    assert not _may(role, action, "topic", "__security")


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("operator", {"create", "delete", "describe", "alter"}),
        ("producer", {"write", "describe"}),
        ("consumer", {"read", "describe"}),
        ("readonly", {"read", "describe"}),
    ],
)
def test_role_has_exactly_its_actions_on_topics(role: str, allowed: set[str]) -> None:
    assert {action for action in ACTIONS if _may(role, action, "topic")} == allowed
