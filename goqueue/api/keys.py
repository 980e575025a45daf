"""API keys: create, list, describe, rotate, revoke."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from goqueue.api.access import refuse_without_authentication
from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Duration, Time
from goqueue.api.problems import invalid
from goqueue.api.tenants import tenants_of
from goqueue.clock import NANOSECONDS
from goqueue.limits import CERTIFICATE_NAME_CHARACTERS_MAX, KEY_NAME_CHARACTERS_MAX, KEY_ROLES_MAX
from goqueue.quantities import format_time
from goqueue.security.records import KeyRecord

_YEARS = 10 * 365 * 86_400
Name = Annotated[str, Meta(min_length=1, max_length=KEY_NAME_CHARACTERS_MAX, description="Of A-Z a-z 0-9 . _ -")]

CertificateName = Annotated[str, Meta(min_length=1, max_length=CERTIFICATE_NAME_CHARACTERS_MAX)]


class KeyLifetime(Duration, most=_YEARS):
    noun = "a lifetime"


class Grace(Duration, most=_YEARS):
    noun = "a grace period"


class CreateKeyRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    name: Name
    roles: Annotated[list[str], Meta(max_length=KEY_ROLES_MAX, description="Built-in or custom roles.")] = []
    expires_in: Annotated[KeyLifetime | None, Meta(description="Default: it does not expire.")] = None
    expires_at: Time | None = None
    certificate: Annotated[
        CertificateName | None,
        Meta(
            description="A subject alternative name (`URI:`, `email:` or `DNS:`): client certificates with it stand for"
            " this key, which has no secret.",
        ),
    ] = None
    tenant: Annotated[
        str | None, Meta(description="The tenant that it belongs to. Default: none, it is a key of the operators.")
    ] = None


class RotateKeyRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    grace: Annotated[Grace | None, Meta(description="How long the former secret stays valid. Default: not at all.")] = (
        None
    )


class ApiKeyJson(Struct, kw_only=True):
    id: str
    name: str
    roles: list[str]
    created_at: str
    created_by: Annotated[str, Meta(description="The principal; empty if it was made on the command line.")]
    expires_at: str | None
    expired: bool
    rotated_at: str | None
    former_valid_until: Annotated[str | None, Meta(description="The secret before the rotation, while it is valid.")]
    certificate: Annotated[str | None, Meta(description="The name of client certificates that stand for it.")]
    tenant: Annotated[str | None, Meta(description="The tenant that it belongs to; null for a key of the operators.")]
    last_used_at: Annotated[str | None, Meta(description="Within an hour.")]


class NewKeyResponse(ApiKeyJson, kw_only=True):
    key: Annotated[
        str | None, Meta(description="Shown this once: the broker keeps only its digest. Null with a certificate.")
    ]


class KeyListResponse(Struct):
    keys: list[ApiKeyJson]


class RevokeKeyResponse(Struct):
    revoked: bool
    id: str
    name: str


async def list_keys(call: ApiCall) -> KeyListResponse:
    keys = list(call.runtime.broker.security.state.keys.values())
    if call.access.tenant:
        keys = [one for one in keys if one.tenant == call.access.tenant]
    return KeyListResponse([ApiKeyJson(**_fields(call, one)) for one in sorted(keys, key=lambda key: key.name)])


async def describe(call: ApiCall) -> ApiKeyJson:
    return ApiKeyJson(**_fields(call, call.runtime.broker.security.key(call.parameters["key"])))


async def create(call: ApiCall, body: CreateKeyRequest) -> NewKeyResponse:
    refuse_without_authentication(call.access)
    if body.expires_in is not None and body.expires_at is not None:
        raise invalid("expires_at", "cannot be combined with expires_in", "leave out one of them")
    expires_ns = None if body.expires_at is None else int(body.expires_at)
    if body.expires_in is not None:
        expires_ns = call.runtime.clock.now_ns() + round(float(body.expires_in) * NANOSECONDS)
    tenant = body.tenant or call.access.tenant
    if tenant:
        tenants_of(call).tenant(tenant)
    work = call.runtime.broker.security.create_key(
        body.name, body.roles, expires_ns, call.access.name, body.certificate, tenant
    )
    record, text = await call.runtime.decide(work)
    return NewKeyResponse(**_fields(call, record), key=text)


async def rotate(call: ApiCall, body: RotateKeyRequest) -> NewKeyResponse:
    refuse_without_authentication(call.access)
    grace = 0.0 if body.grace is None else float(body.grace)
    record, text = await call.runtime.decide(call.runtime.broker.security.rotate_key(call.parameters["key"], grace))
    return NewKeyResponse(**_fields(call, record), key=text)


async def revoke(call: ApiCall) -> RevokeKeyResponse:
    refuse_without_authentication(call.access)
    gone = await call.runtime.decide(call.runtime.broker.security.revoke_key(call.parameters["key"]))
    return RevokeKeyResponse(True, gone.id, gone.name)


def _fields(call: ApiCall, key: KeyRecord) -> dict[str, Any]:
    now_ns = call.runtime.clock.now_ns()
    is_former_valid = key.former_digest is not None and key.former_until_ns > now_ns
    return {
        "id": key.id,
        "name": key.name,
        "roles": list(key.roles),
        "created_at": format_time(key.created_ns),
        "created_by": key.created_by,
        "expires_at": _time(key.expires_ns),
        "expired": key.expires_ns is not None and key.expires_ns <= now_ns,
        "rotated_at": _time(key.rotated_ns),
        "former_valid_until": format_time(key.former_until_ns) if is_former_valid else None,
        "certificate": key.certificate,
        "tenant": key.tenant or None,
        "last_used_at": _time(key.used_ns),
    }


def _time(time_ns: int | None) -> str | None:
    return None if time_ns is None else format_time(time_ns)
