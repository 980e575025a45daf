"""Tenants: create, list, describe, update, suspend, activate, disable, delete, and what belongs to one."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from goqueue.api.endpoint import ApiCall
from goqueue.broker.tenants.administration import TenantAdministration
from goqueue.broker.tenants.limits import (
    PLAN_NAMES_MAX,
    TENANT_ID_CHARACTERS_MAX,
    TENANT_METADATA_CHARACTERS_MAX,
    TENANT_METADATA_MAX,
    TENANT_NAME_CHARACTERS_MAX,
    TENANT_TEXT_CHARACTERS_MAX,
)
from goqueue.broker.tenants.naming import TenantNames
from goqueue.broker.tenants.quotas import VALUE_MAX, check_recorded
from goqueue.broker.tenants.records import TenantAction, TenantRecord, TenantStatus
from goqueue.broker.tenants.removal import TenantContents
from goqueue.errors import PermissionDenied, TenantsOff
from goqueue.quantities import format_time

_NAME = Annotated[str, Meta(min_length=1, max_length=TENANT_NAME_CHARACTERS_MAX)]
_Text = Annotated[str, Meta(max_length=TENANT_TEXT_CHARACTERS_MAX)]
_Entry = Annotated[str, Meta(max_length=TENANT_METADATA_CHARACTERS_MAX)]
_Metadata = Annotated[dict[_Entry, _Entry], Meta(max_length=TENANT_METADATA_MAX, description="Texts of your own.")]

_Value = Annotated[int, Meta(ge=0, le=VALUE_MAX)]
_Quotas = Annotated[
    dict[str, _Value | str | dict[str, _Value] | None],
    Meta(description="Quotas of its own, as `PUT /admin/tenants/{tenant}/quotas` takes them."),
]


class CreateTenantRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    id: Annotated[
        str,
        Meta(
            max_length=TENANT_ID_CHARACTERS_MAX,
            description="What stands before its names on the broker: a-z 0-9 _ -. Default: made from the name.",
        ),
    ] = ""
    name: _NAME
    display_name: _Text = ""
    description: _Text = ""
    metadata: _Metadata = {}
    quotas: _Quotas = {}
    adopt: Annotated[
        bool, Meta(description="Give it all topics, groups and subjects whose names begin with its id and a dot.")
    ] = False


class UpdateTenantRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The fields to change; the others stay as they are."""

    name: _NAME | UnsetType = UNSET
    display_name: _Text | UnsetType = UNSET
    description: _Text | UnsetType = UNSET
    metadata: _Metadata | UnsetType = UNSET
    quotas: _Quotas | UnsetType = UNSET


class TenantStatusRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    reason: Annotated[_Text, Meta(description="Shown to those who are refused.")] = ""


class DeleteTenantQuery(Struct, forbid_unknown_fields=True):
    dry_run: Annotated[bool, Meta(description="Only tell what would be deleted.")] = False


class TenantJson(Struct, kw_only=True):
    id: str
    name: str
    display_name: str
    description: str
    metadata: dict[str, str]
    status: TenantStatus
    reason: str
    quotas: _Quotas
    status_since: str
    created_at: str
    created_by: Annotated[str, Meta(description="The principal; empty without authentication.")]
    updated_at: str


class TenantListResponse(Struct):
    tenants: list[TenantJson]


class TenantContentsJson(Struct, kw_only=True):
    """All that belongs to a tenant, by its own names; at most 1,000 of each kind."""

    topics: list[str]
    topic_count: int
    partitions: int
    size_bytes: int
    groups: list[str]
    group_count: int
    members: int
    keys: list[str]
    key_count: int
    subjects: list[str]
    subject_count: int
    transactional_ids: list[str]
    transactional_id_count: int


class DeleteTenantResponse(Struct):
    deleted: Annotated[bool, Meta(description="False for a dry run.")]
    id: str
    contents: TenantContentsJson


class TenantTopicJson(Struct):
    name: str
    partitions: int
    size_bytes: int


class TenantTopicsResponse(Struct):
    topics: list[TenantTopicJson]


class TenantGroupJson(Struct):
    name: str
    members: int


class TenantGroupsResponse(Struct):
    groups: list[TenantGroupJson]


class TenantStatsResponse(Struct, kw_only=True):
    id: str
    status: TenantStatus
    topics: int
    partitions: int
    size_bytes: int
    groups: int
    members: int
    keys: int
    subjects: int
    transactional_ids: int
    percentages: Annotated[dict[str, float], Meta(description="Of each limited quota that is in use.")]
    violations: Annotated[dict[str, int], Meta(description="Refused requests and delayed polls since the start.")]


def tenants_of(call: ApiCall) -> TenantAdministration:
    """Return the tenants of the broker. Raises TenantsOff."""
    tenants = call.runtime.broker.tenants
    if tenants is None:
        raise TenantsOff("multi-tenancy not enabled", hint="start the broker with tenants.enabled: true")
    return tenants


def own_tenant(call: ApiCall) -> TenantRecord:
    """Return the tenant in the path. A key of a tenant may look at its own, others need to describe the cluster."""
    tenants, name = tenants_of(call), call.parameters["tenant"]
    if call.access.is_operator:
        call.access.require("describe", "cluster")
    elif name != call.access.tenant:
        raise PermissionDenied("a key of a tenant may describe only this tenant", hint=f"it is {call.access.tenant}")
    return tenants.tenant(name)


async def list_tenants(call: ApiCall) -> TenantListResponse:
    rows = sorted(tenants_of(call).state.tenants.values(), key=lambda one: one.id)
    return TenantListResponse([_row(one) for one in rows])


async def create(call: ApiCall, body: CreateTenantRequest) -> TenantJson:
    fields = structs.asdict(body)
    adopt, tenants = fields.pop("adopt"), tenants_of(call)
    fields["quotas"] = check_recorded(fields["quotas"])
    work = tenants.create(TenantRecord(**fields), call.access.name, adopt=adopt)
    return _row(await call.runtime.decide(work))


async def describe(call: ApiCall) -> TenantJson:
    return _row(own_tenant(call))


async def update(call: ApiCall, body: UpdateTenantRequest) -> TenantJson:
    changes = {name: value for name, value in structs.asdict(body).items() if value is not UNSET}
    tenants, tenant = tenants_of(call), call.parameters["tenant"]
    if "quotas" in changes:  # the others stay
        check_recorded(changes["quotas"])
        changes["quotas"] = check_recorded({**tenants.tenant(tenant).quotas, **changes["quotas"]})
    return _row(await call.runtime.decide(tenants.update(tenant, changes)))


async def suspend(call: ApiCall, body: TenantStatusRequest) -> TenantJson:
    return await _set_status(call, "suspend", body)


async def activate(call: ApiCall, body: TenantStatusRequest) -> TenantJson:
    return await _set_status(call, "activate", body)


async def disable(call: ApiCall, body: TenantStatusRequest) -> TenantJson:
    return await _set_status(call, "disable", body)


async def _set_status(call: ApiCall, action: TenantAction, body: TenantStatusRequest) -> TenantJson:
    return _row(await call.runtime.decide(tenants_of(call).set_status(call.parameters["tenant"], action, body.reason)))


async def delete(call: ApiCall, query: DeleteTenantQuery) -> DeleteTenantResponse:
    tenants, tenant = tenants_of(call), call.parameters["tenant"]
    found = await _whole(call, tenant)
    if not query.dry_run:
        await call.runtime.decide(tenants.delete(tenant, call.app.metrics.forget_topic))
    return DeleteTenantResponse(not query.dry_run, tenant, _contents(tenant, found))


async def _whole(call: ApiCall, tenant: str) -> TenantContents:
    """Return what belongs to a tenant, in a cluster at all nodes."""
    own, others = tenants_of(call).contents(tenant), call.app.contents
    return own if others is None else await others.whole(tenant, own)


async def topics(call: ApiCall) -> TenantTopicsResponse:
    names, broker = TenantNames(own_tenant(call).id), call.runtime.broker
    found = sorted((name, topic) for name, topic in broker.topics.items() if names.owns(name))
    return TenantTopicsResponse(
        [TenantTopicJson(names.short(name), len(topic.partitions), topic.size) for name, topic in found]
    )


async def groups(call: ApiCall) -> TenantGroupsResponse:
    tenant, others = own_tenant(call).id, call.app.contents
    names = TenantNames(tenant)
    found = {group.group: len(group.members) for group in call.runtime.broker.groups.groups()}
    for answer in [] if others is None else await others.ask_others(tenant):
        found |= answer.groups
    rows = sorted((names.short(group), members) for group, members in found.items() if names.owns(group))
    return TenantGroupsResponse([TenantGroupJson(*row) for row in rows])


async def stats(call: ApiCall) -> TenantStatsResponse:
    tenant = own_tenant(call)
    contents, usage = await _whole(call, tenant.id), call.app.usage
    assert usage is not None, "a broker with tenants measures their usage"
    meter = usage.meters.of(tenant.id)
    assert meter is not None, "a tenant has a meter"
    use = usage.use_of(meter)
    return TenantStatsResponse(
        id=tenant.id,
        status=tenant.status,
        topics=len(contents.topics),
        partitions=contents.partitions,
        size_bytes=contents.size_bytes,
        groups=len(contents.groups),
        members=contents.members,
        keys=len(contents.keys),
        subjects=len(contents.subjects),
        transactional_ids=len(contents.transactional_ids),
        percentages={one.quota: one.percent for one in use.quotas if one.percent is not None},
        violations={one.quota: one.violations for one in use.quotas if one.violations},
    )


def _contents(tenant: str, found: TenantContents) -> TenantContentsJson:
    names = TenantNames(tenant)

    def shown(kind: list[str]) -> list[str]:
        return [names.short(one) for one in kind[:PLAN_NAMES_MAX]]

    return TenantContentsJson(
        topics=shown(found.topics),
        topic_count=len(found.topics),
        partitions=found.partitions,
        size_bytes=found.size_bytes,
        groups=shown(found.groups),
        group_count=len(found.groups),
        members=found.members,
        keys=found.keys[:PLAN_NAMES_MAX],
        key_count=len(found.keys),
        subjects=shown(found.subjects),
        subject_count=len(found.subjects),
        transactional_ids=shown(found.transactional_ids),
        transactional_id_count=len(found.transactional_ids),
    )


def _row(tenant: TenantRecord) -> TenantJson:
    fields: dict[str, Any] = {name: getattr(tenant, name) for name in TenantJson.__struct_fields__[:8]}
    return TenantJson(
        **fields,
        status_since=format_time(tenant.status_ns),
        created_at=format_time(tenant.created_ns),
        created_by=tenant.created_by,
        updated_at=format_time(tenant.changed_ns),
    )
