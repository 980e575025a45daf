"""Roles and access rules: create, list, delete, and test what a principal may do."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from goqueue.api.access import refuse_without_authentication
from goqueue.api.endpoint import ApiCall
from goqueue.api.keys import Name
from goqueue.api.problems import invalid
from goqueue.errors import RuleNotFound
from goqueue.limits import (
    KEY_NAME_CHARACTERS_MAX,
    ROLE_RULES_MAX,
    ROLE_SUMMARY_CHARACTERS_MAX,
    TOPIC_NAME_CHARACTERS_MAX,
)
from goqueue.quantities import format_time, quoted
from goqueue.security.authorizer import Authorizer
from goqueue.security.records import AccessRuleRecord
from goqueue.security.roles import ROLES, SUMMARIES
from goqueue.security.rules import CLUSTER, Action, Effect, PatternType, ResourceKind, Rule

_NUMBER_DIGITS_MAX = 18
_Pattern = Annotated[
    str, Meta(min_length=1, max_length=TOPIC_NAME_CHARACTERS_MAX, description="A name, or a part of one, or a glob.")
]
_Actions = Annotated[list[Action], Meta(min_length=1, max_length=6)]
_Principal = Annotated[
    str, Meta(min_length=1, max_length=KEY_NAME_CHARACTERS_MAX + 10, description="key:NAME, role:NAME, or * for all.")
]


class RuleJson(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A rule of a role."""

    kind: ResourceKind
    actions: _Actions
    pattern: Annotated[_Pattern | None, Meta(description="Needed, except for the cluster.")] = None
    match: Annotated[PatternType, Meta(description="A glob has `*` for any characters and `?` for one.")] = "literal"
    effect: Annotated[Effect, Meta(description="deny wins over every allow.")] = "allow"


class CreateAccessRuleRequest(RuleJson, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    principal: _Principal


class AccessRuleJson(Struct, kw_only=True):
    id: int
    principal: str
    effect: Effect
    kind: ResourceKind
    match: PatternType
    pattern: str
    actions: list[Action]
    created_at: str
    created_by: str


class AccessRuleListResponse(Struct):
    acls: list[AccessRuleJson]


class DeleteAccessRuleResponse(Struct):
    deleted: bool
    id: int


class AccessTestQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    principal: _Principal
    action: Action
    kind: ResourceKind
    name: _Pattern = CLUSTER


class AccessTestResponse(Struct, kw_only=True):
    allowed: bool
    reason: Annotated[str, Meta(description="The rule that decided, in words.")]
    source: Annotated[str | None, Meta(description="`role NAME` or `rule ID`; null: nothing allows it.")]


class CreateRoleRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    name: Name
    rules: Annotated[list[RuleJson], Meta(min_length=1, max_length=ROLE_RULES_MAX)]
    summary: Annotated[str, Meta(max_length=ROLE_SUMMARY_CHARACTERS_MAX)] = ""


class RoleJson(Struct, kw_only=True):
    name: str
    summary: str
    builtin: bool
    rules: list[RuleJson]
    keys: Annotated[int, Meta(description="How many API keys have it.")]


class RoleListResponse(Struct):
    roles: list[RoleJson]


class DeleteRoleResponse(Struct):
    deleted: bool
    name: str


async def list_rules(call: ApiCall) -> AccessRuleListResponse:
    return AccessRuleListResponse([_rule_json(one) for one in call.runtime.broker.security.state.rules.values()])


async def create_rule(call: ApiCall, body: CreateAccessRuleRequest) -> AccessRuleJson:
    refuse_without_authentication(call.access)
    work = call.runtime.broker.security.create_rule(body.principal, _rule(body), call.access.name)
    return _rule_json(await call.runtime.decide(work))


async def delete_rule(call: ApiCall) -> DeleteAccessRuleResponse:
    refuse_without_authentication(call.access)
    text = call.parameters["rule"]
    if not (text.isascii() and text.isdecimal() and len(text) <= _NUMBER_DIGITS_MAX):
        raise RuleNotFound(f"{quoted(text[:100])} is not the id of a rule", hint="GET /admin/acls lists them")
    gone = await call.runtime.decide(call.runtime.broker.security.delete_rule(int(text)))
    return DeleteAccessRuleResponse(True, gone.id)


async def explain(call: ApiCall, query: AccessTestQuery) -> AccessTestResponse:
    security = call.runtime.broker.security
    authorizer = Authorizer(security.state, security.clock.now_ns)
    decision = authorizer.explain(query.principal, query.action, query.kind, query.name)
    source = None if decision.grant is None else decision.grant.source
    return AccessTestResponse(allowed=decision.is_allowed, reason=str(decision), source=source)


async def list_roles(call: ApiCall) -> RoleListResponse:
    state = call.runtime.broker.security.state
    built_in = [_role_json(call, name, SUMMARIES[name], rules, is_builtin=True) for name, rules in ROLES.items()]
    custom = sorted(state.roles.values(), key=lambda role: role.name)
    return RoleListResponse([*built_in, *(_role_json(call, one.name, one.summary, one.rules) for one in custom)])


async def create_role(call: ApiCall, body: CreateRoleRequest) -> RoleJson:
    refuse_without_authentication(call.access)
    rules = [_rule(one) for one in body.rules]
    work = call.runtime.broker.security.create_role(body.name, rules, body.summary, call.access.name)
    made = await call.runtime.decide(work)
    return _role_json(call, made.name, made.summary, made.rules)


async def delete_role(call: ApiCall) -> DeleteRoleResponse:
    refuse_without_authentication(call.access)
    gone = await call.runtime.decide(call.runtime.broker.security.delete_role(call.parameters["role"]))
    return DeleteRoleResponse(True, gone.name)


def _rule(body: RuleJson) -> Rule:
    if body.pattern is None and body.kind != CLUSTER:
        raise invalid(
            "pattern", f"is missing: a rule about a {body.kind} needs one", 'send "*" with match glob for all'
        )
    return Rule(
        kind=body.kind,
        pattern=body.pattern or CLUSTER,
        match=body.match,
        effect=body.effect,
        actions=tuple(sorted({*body.actions})),
    )


def _rule_json(record: AccessRuleRecord) -> AccessRuleJson:
    rule = record.rule
    return AccessRuleJson(
        id=record.id,
        principal=record.principal,
        effect=rule.effect,
        kind=rule.kind,
        match=rule.match,
        pattern=rule.pattern,
        actions=list(rule.actions),
        created_at=format_time(record.created_ns),
        created_by=record.created_by,
    )


def _role_json(call: ApiCall, name: str, summary: str, rules: Sequence[Rule], *, is_builtin: bool = False) -> RoleJson:
    shown = [
        RuleJson(kind=one.kind, actions=list(one.actions), pattern=one.pattern, match=one.match, effect=one.effect)
        for one in rules
    ]
    keys = sum(name in key.roles for key in call.runtime.broker.security.state.keys.values())
    return RoleJson(name=name, summary=summary, builtin=is_builtin, rules=shown, keys=keys)
