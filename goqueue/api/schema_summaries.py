"""Subjects of the schema registry without the texts of their schemas, for lists that are asked for again and again."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.schemas_json import ReferenceJson, SubjectVersionJson
from goqueue.broker.schemas.limits import SCHEMAS_PAGE_MAX
from goqueue.broker.schemas.queries import RegistryQueries
from goqueue.broker.schemas.records import VersionRecord


class SubjectSummaryJson(Struct, kw_only=True):
    subject: str
    version: Annotated[int, Meta(description="The latest version; of a subject without any, the last deleted one.")]
    id: int
    schema_type: str
    references: Annotated[int, Meta(description="Those of that version.")]
    versions: Annotated[int, Meta(description="Those that are not deleted. 0: the subject is soft-deleted.")]
    deleted_versions: int
    compatibility: str
    own_compatibility: Annotated[bool, Meta(description="False: the level of all subjects.")]
    mode: str


class VersionSummaryJson(Struct, kw_only=True):
    version: int
    id: int
    schema_type: str
    deleted: bool
    size_bytes: Annotated[int, Meta(description="Of the text.")]
    references: list[ReferenceJson]
    referenced_by: list[SubjectVersionJson]


class SubjectHistoryJson(Struct, kw_only=True):
    subject: str
    compatibility: str
    own_compatibility: bool
    mode: str
    versions: Annotated[list[VersionSummaryJson], Meta(description="The oldest first, soft-deleted ones included.")]


class SummariesQuery(Struct, forbid_unknown_fields=True):
    prefix: str = ""
    deleted: Annotated[bool, Meta(description="Show soft-deleted subjects as well.")] = False
    after: Annotated[str, Meta(description="Only subjects behind this name.")] = ""
    limit: Annotated[int, Meta(ge=1, le=SCHEMAS_PAGE_MAX)] = SCHEMAS_PAGE_MAX


async def list_summaries(call: ApiCall, query: SummariesQuery) -> list[SubjectSummaryJson]:
    return list(islice(_summaries(call, query), query.limit))


def _summaries(call: ApiCall, query: SummariesQuery) -> Iterator[SubjectSummaryJson]:
    queries, may = call.runtime.broker.schemas.queries, call.access.may
    subjects = queries.state.subjects
    for name in sorted(name for name in subjects if name > query.after and name.startswith(query.prefix)):
        live = sum(not one.deleted for one in subjects[name].values())
        if (live or query.deleted) and may("describe", "subject", name):
            yield _summary(queries, name, live)


def _summary(queries: RegistryQueries, subject: str, live: int) -> SubjectSummaryJson:
    versions = queries.state.subjects[subject].values()
    latest = max((one for one in versions if not (live and one.deleted)), key=lambda one: one.version)
    return SubjectSummaryJson(
        subject=subject,
        version=latest.version,
        id=latest.id,
        schema_type=latest.content.kind,
        references=len(latest.content.references),
        versions=live,
        deleted_versions=len(versions) - live,
        **_rules(queries, subject),
    )


def _rules(queries: RegistryQueries, subject: str) -> dict[str, Any]:
    own = queries.state.configs.get(subject)
    return {
        "compatibility": queries.level(subject),
        "own_compatibility": own is not None and own.level is not None,
        "mode": queries.mode_in_force(subject),
    }


async def describe_subject(call: ApiCall) -> SubjectHistoryJson:
    queries, subject = call.runtime.broker.schemas.queries, call.parameters["subject"]
    versions = [_version_summary(call, queries, one) for one in queries.versions(subject, "all")]
    return SubjectHistoryJson(subject=subject, versions=versions, **_rules(queries, subject))


def _version_summary(call: ApiCall, queries: RegistryQueries, record: VersionRecord) -> VersionSummaryJson:
    """Describe a version. Other subjects are named only if they may be seen."""
    may = call.access.may
    users = queries.referrers(record.subject, record.version)
    return VersionSummaryJson(
        version=record.version,
        id=record.id,
        schema_type=record.content.kind,
        deleted=record.deleted,
        size_bytes=len(record.content.text.encode()),
        references=[
            ReferenceJson(one.name, one.subject, one.version)
            for one in record.content.references
            if may("describe", "subject", one.subject)
        ],
        referenced_by=[
            SubjectVersionJson(one.subject, one.version) for one in users if may("describe", "subject", one.subject)
        ],
    )
