"""The schema registry: subjects, versions, ids, compatibility, configuration and modes."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar, cast, get_args
from urllib.parse import unquote

from goqueue.api.endpoint import ApiCall
from goqueue.api.http.message import HttpResponse
from goqueue.api.problems import invalid
from goqueue.api.schemas_json import (
    CompatibilityJson,
    CompatibilityQuery,
    ConfigChangedJson,
    ConfigJson,
    ConfigQuery,
    ConfigRequest,
    ContextIdJson,
    ContextsQuery,
    DeleteQuery,
    GuidQuery,
    LookUpQuery,
    MetadataQuery,
    ModeJson,
    ModeQuery,
    ModeRequest,
    RegisteredJson,
    RegisterQuery,
    RegistryStatsJson,
    SchemaIdQuery,
    SchemaJson,
    SchemaRequest,
    SchemasQuery,
    SchemaUsesQuery,
    SubjectsQuery,
    SubjectVersionJson,
    VersionQuery,
    VersionsQuery,
    schema_json,
)
from goqueue.broker.schemas.contexts import context_of, is_in
from goqueue.broker.schemas.limits import SCHEMAS_PAGE_BYTES, SCHEMAS_PAGE_MAX
from goqueue.broker.schemas.queries import ANY_SUBJECT, LATEST, Mode, RegistryQueries, Shown, version_number
from goqueue.broker.schemas.records import ConfigRecord, VersionRecord, guid_of
from goqueue.broker.schemas.registry import SchemaRegistry
from goqueue.errors import PermissionDenied, RegistryValueInvalid, SchemaNotFound
from goqueue.quantities import quoted
from goqueue.schemas.compatibility import CompatibilityLevel
from goqueue.schemas.limits import SCHEMA_ID_MAX
from goqueue.schemas.schema_format import SchemaKind
from goqueue.security.rules import Action

T = TypeVar("T")

_MODES = get_args(Mode)
SERIALIZED = "serialized"


def _registry(call: ApiCall) -> SchemaRegistry:
    return call.runtime.broker.schemas


def _queries(call: ApiCall) -> RegistryQueries:
    return call.runtime.broker.schemas.queries


def _shown(*, deleted: bool, only: bool = False) -> Shown:
    return "deleted" if only else "all" if deleted else "live"


def _page(found: Sequence[T], offset: int, limit: int) -> list[T]:
    start = max(offset, 0)
    return list(found[start:] if limit < 0 else found[start : start + limit])


# --- subjects and versions ---


async def list_subjects(call: ApiCall, query: SubjectsQuery) -> list[str]:
    shown = _shown(deleted=query.deleted, only=query.deleted_only)
    prefix = query.subject_prefix.removeprefix(ANY_SUBJECT)
    found = call.access.described("subject", _queries(call).subjects(prefix, shown))
    return _page(found, query.offset, query.limit)


async def list_schemas(call: ApiCall, query: SchemasQuery) -> list[SchemaJson]:
    """Return a page: it ends early where its texts get too long, so that no answer blocks others."""
    most = SCHEMAS_PAGE_MAX if query.limit < 0 else min(query.limit, SCHEMAS_PAGE_MAX)
    page: list[SchemaJson] = []
    left = SCHEMAS_PAGE_BYTES
    for record in islice(_readable(call, query), max(query.offset, 0), None):
        if len(page) >= most or left <= 0:
            break
        page.append(schema_json(record))
        left -= len(record.content.text)
    return page


def _readable(call: ApiCall, query: SchemasQuery) -> Iterator[VersionRecord]:
    queries, shown = _queries(call), _shown(deleted=query.deleted, only=query.deleted_only)
    for subject in queries.subjects(query.subject_prefix.removeprefix(ANY_SUBJECT), shown):
        if call.access.may("read", "subject", subject):
            history = queries.history(subject, shown)
            yield from history[-1:] if query.latest_only else history


async def list_versions(call: ApiCall, query: VersionsQuery) -> list[int]:
    shown = _shown(deleted=query.deleted, only=query.deleted_only)
    found = [one.version for one in _queries(call).versions(call.parameters["subject"], shown)]
    return _page(found, query.offset, query.limit)


def _version(call: ApiCall, query: VersionQuery) -> VersionRecord:
    shown = _shown(deleted=query.deleted)
    return _queries(call).version(call.parameters["subject"], call.parameters["version"], shown)


async def describe_version(call: ApiCall, query: VersionQuery) -> SchemaJson:
    found = _version(call, query)
    return schema_json(found, text=await _formatted(call, found, query.format))


async def _formatted(call: ApiCall, record: VersionRecord, wanted: str) -> str | None:
    """Return the text in the format that the query asks for; None is the stored one."""
    if wanted != SERIALIZED or record.content.kind != SchemaKind.PROTOBUF:
        return None
    return await call.runtime.decide(_registry(call).encoded(record))


async def version_text(call: ApiCall, query: VersionQuery) -> HttpResponse:
    return await _text(call, _version(call, query), query.format)


async def _text(call: ApiCall, record: VersionRecord, wanted: str) -> HttpResponse:
    row = call.request.endpoint
    text = await _formatted(call, record, wanted)
    content = record.content.text if text is None else text
    return HttpResponse(200, content.encode(), row.dialect.answer_type(call.request))


async def version_referrers(call: ApiCall) -> list[int]:
    queries, found = _queries(call), _version(call, VersionQuery())
    users = queries.referrers(found.subject, found.version)
    return sorted({one.id for one in users if call.access.may("describe", "subject", one.subject)})


def _require_references(call: ApiCall, body: SchemaRequest) -> None:
    for one in body.references or ():
        call.access.require("read", "subject", one.subject)


def _given(number: int | None) -> int | None:
    return number if number is not None and number > 0 else None


async def register(call: ApiCall, query: RegisterQuery, body: SchemaRequest) -> RegisteredJson:
    _require_references(call, body)
    if body.id is not None and body.id > 0 and not call.access.is_operator:
        raise PermissionDenied(
            "a key of a tenant cannot choose the id of a schema: ids are those of the whole broker",
            hint="leave out the id, or ask an operator to import the schema",
        )
    work = _registry(call).register(
        call.parameters["subject"],
        body.content(),
        normalize=query.normalize,
        number=_given(body.id),
        version=_given(body.version),
    )
    record = await call.runtime.decide(work)
    return RegisteredJson(record.id, record.version, guid_of(record.digest))


async def look_up(call: ApiCall, query: LookUpQuery, body: SchemaRequest) -> SchemaJson:
    _require_references(call, body)
    shown = _shown(deleted=query.deleted)
    work = _registry(call).look_up(call.parameters["subject"], body.content(), normalize=query.normalize, shown=shown)
    found = await call.runtime.decide(work)
    return schema_json(found, text=await _formatted(call, found, query.format))


async def delete_subject(call: ApiCall, query: DeleteQuery) -> list[int]:
    work = _registry(call).delete_subject(call.parameters["subject"], permanent=query.permanent)
    return [one.version for one in await call.runtime.decide(work)]


async def delete_version(call: ApiCall, query: DeleteQuery) -> int:
    subject, version = call.parameters["subject"], call.parameters["version"]
    gone = await call.runtime.decide(_registry(call).delete_version(subject, version, permanent=query.permanent))
    return gone.version


# --- ids ---


def _uses(call: ApiCall, subject: str, action: Action) -> Iterator[VersionRecord]:
    """Yield the versions with the id in the path that the sender may see."""
    text, may = call.parameters["id"], call.access.may
    if text.isascii() and text.isdecimal() and len(text) <= len(str(SCHEMA_ID_MAX)):
        for one in _queries(call).state.users(int(text)):
            if is_in(one.subject, subject) and may(action, "subject", one.subject):
                yield one


async def describe_guid(call: ApiCall, query: GuidQuery) -> SchemaJson:
    found, *_ = _uses_of_guid(call)
    text = await _formatted(call, found, query.format) if query.format else None
    return schema_json(found, text=text, by_id=True)


async def guid_ids(call: ApiCall) -> list[ContextIdJson]:
    found = _uses_of_guid(call)
    return [ContextIdJson(context, found[0].id) for context in sorted({context_of(one.subject) for one in found})]


def _uses_of_guid(call: ApiCall) -> list[VersionRecord]:
    """Return the versions with the GUID in the path. What the sender may not see does not exist."""
    text, queries = call.parameters["guid"], _queries(call)
    users = queries.state.users(queries.id_of_guid(text.lower()) or 0)
    found = [one for one in users if call.access.may("read", "subject", one.subject)]
    if found:
        return found
    raise SchemaNotFound(f"Schema {text[:40]} not found", hint="no version of a subject has this GUID")


async def find_by_metadata(call: ApiCall, query: MetadataQuery) -> SchemaJson:
    """Return the latest version with these properties. Clients of Confluent's encode them twice."""
    subject, shown = call.parameters["subject"], _shown(deleted=query.deleted)
    if len(query.key) != len(query.value):
        problem = f"has {len(query.value)} values for {len(query.key)} keys"
        raise invalid("value", problem, "give each key a value")
    for decoded in (str, unquote):
        properties = dict(zip(map(decoded, query.key), map(decoded, query.value), strict=True))
        found = _queries(call).latest_with(subject, properties, shown)
        if found is not None:
            return schema_json(found, text=await _formatted(call, found, query.format))
    raise SchemaNotFound("Schema not found", hint=f"no version of {quoted(subject)} has these properties")


def _use(call: ApiCall, query: SchemaIdQuery) -> VersionRecord:
    """Return one of them. What the sender may not see does not exist."""
    for one in _uses(call, query.subject, "read"):
        return one
    raise _no_id(call)


def _no_id(call: ApiCall) -> SchemaNotFound:
    text = call.parameters["id"]
    return SchemaNotFound(f"Schema {text[:20]} not found", hint="no version of a subject has this id")


async def describe_id(call: ApiCall, query: SchemaIdQuery) -> SchemaJson:
    found = _use(call, query)
    max_id = _max_id(call) if query.fetch_max_id else None
    text = await _formatted(call, found, query.format) if query.format else None
    return schema_json(found, text=text, by_id=True, max_id=max_id)


def _max_id(call: ApiCall) -> int:
    """Return the highest id, in the world of a tenant that of its own schemas."""
    state = _queries(call).state
    if not call.access.tenant:
        return state.last_id
    own = (one for name, one in state.subjects.items() if call.access.reaches(name))
    return max((version.id for versions in own for version in versions.values()), default=0)


async def id_text(call: ApiCall, query: SchemaIdQuery) -> HttpResponse:
    return await _text(call, _use(call, query), query.format)


async def id_versions(call: ApiCall, query: SchemaUsesQuery) -> list[SubjectVersionJson]:
    found = list(_uses(call, query.subject, "describe"))
    if not found:
        raise _no_id(call)
    shown = [one for one in found if query.deleted or not one.deleted]
    return [SubjectVersionJson(*pair) for pair in sorted((one.subject, one.version) for one in shown)]


async def id_subjects(call: ApiCall, query: SchemaUsesQuery) -> list[str]:
    return sorted({one.subject for one in await id_versions(call, query)})


async def list_types(call: ApiCall) -> list[str]:  # noqa: ARG001
    return sorted(SchemaKind)


async def list_contexts(call: ApiCall, query: ContextsQuery) -> list[str]:
    queries = _queries(call)
    found = queries.contexts(call.access.described("subject", queries.subjects(":.", "all")))
    return _page([one for one in found if one.startswith(query.context_prefix)], query.offset, query.limit)


async def stats(call: ApiCall) -> RegistryStatsJson:
    return RegistryStatsJson(**_registry(call).stats())


# --- compatibility, configuration, modes ---


async def test_version(call: ApiCall, query: CompatibilityQuery, body: SchemaRequest) -> CompatibilityJson:
    return await _compatibility(call, query, body, call.parameters["version"])


async def test_subject(call: ApiCall, query: CompatibilityQuery, body: SchemaRequest) -> CompatibilityJson:
    return await _compatibility(call, query, body, None)


async def _compatibility(
    call: ApiCall, query: CompatibilityQuery, body: SchemaRequest, version: str | None
) -> CompatibilityJson:
    _require_references(call, body)
    if version is not None and version_number(version) is None:
        version = LATEST
    subject = call.parameters["subject"]
    work = _registry(call).test_compatibility(subject, version, body.content(), normalize=query.normalize)
    reasons = await call.runtime.decide(work)
    return CompatibilityJson(not reasons, reasons if query.verbose else None)


def _config_json(record: ConfigRecord) -> ConfigJson:
    return ConfigJson(record.level or "", record.normalize)


async def get_config(call: ApiCall, query: ConfigQuery) -> ConfigJson:
    subject = call.parameters.get("subject", "")
    return _config_json(_queries(call).config(subject, or_global=query.default_to_global))


async def put_config(call: ApiCall, body: ConfigRequest) -> ConfigChangedJson:
    level = None if body.compatibility is None else body.compatibility.upper()
    if level is not None and level not in set(CompatibilityLevel):
        raise RegistryValueInvalid(
            "Invalid compatibility level. Valid values are none, backward, forward, full, backward_transitive, "
            "forward_transitive, and full_transitive",
            hint=f"{quoted(level[:100])} was sent",
            field="compatibility",
        )
    work = _registry(call).set_config(call.parameters.get("subject", ""), level, normalize=body.normalize)
    await call.runtime.decide(work)
    return ConfigChangedJson(level, body.normalize)


async def delete_config(call: ApiCall) -> ConfigJson:
    work = _registry(call).delete_config(call.parameters.get("subject", ""))
    return _config_json(await call.runtime.decide(work))


async def get_mode(call: ApiCall, query: ConfigQuery) -> ModeJson:
    subject = call.parameters.get("subject", "")
    return ModeJson(_queries(call).mode(subject, or_global=query.default_to_global).mode)


async def put_mode(call: ApiCall, query: ModeQuery, body: ModeRequest) -> ModeJson:
    mode = body.mode.upper()
    if mode not in _MODES:
        raise RegistryValueInvalid(
            f"Invalid mode. Valid values are {', '.join(_MODES)}",
            hint=f"{quoted(mode[:100])} was sent",
            field="mode",
        )
    subject = call.parameters.get("subject", "")
    await call.runtime.decide(_registry(call).set_mode(subject, cast("Mode", mode), force=query.force))
    return ModeJson(mode)


async def delete_mode(call: ApiCall) -> ModeJson:
    record = await call.runtime.decide(_registry(call).delete_mode(call.parameters.get("subject", "")))
    return ModeJson(record.mode)
