"""The client's methods for the schema registry."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from goqueue.client.address import quote
from goqueue.client.api_request import ApiRequest, json_request, operation, with_query

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]


class SchemaReferenceInfo(msgspec.Struct, frozen=True):
    """A name in a schema that stands for a version of another subject."""

    name: str
    subject: str
    version: int


class SchemaInfo(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A version of a subject with its schema; a schema that was asked for by its id has no subject and version."""

    schema: str
    """The text."""
    schema_type: str = "AVRO"
    subject: str | None = None
    version: int | None = None
    id: int | None = None
    guid: str | None = None
    references: list[SchemaReferenceInfo] = []
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    deleted: bool = False
    """Soft-deleted."""


class RegisteredSchema(msgspec.Struct, frozen=True):
    id: int
    version: int
    guid: str = ""


class SchemaCompatibility(msgspec.Struct, frozen=True):
    """The result of a comparison: whether a schema may follow others, and if not why."""

    is_compatible: bool
    messages: list[str] = []


class SchemaConfig(msgspec.Struct, frozen=True, rename="camel"):
    compatibility_level: str
    normalize: bool | None = None


class SchemaSubjectInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A subject with its latest version, without the text; of one without versions it is the last deleted one."""

    subject: str
    version: int
    id: int
    schema_type: str
    references: int
    versions: int
    """Those that are not deleted; 0 if the subject is soft-deleted."""
    deleted_versions: int
    compatibility: str
    own_compatibility: bool
    """False: the level of all subjects applies."""
    mode: str


class SubjectVersionInfo(msgspec.Struct, frozen=True):
    subject: str
    version: int


class SchemaVersionInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a subject without its text."""

    version: int
    id: int
    schema_type: str
    deleted: bool
    size_bytes: int
    references: list[SchemaReferenceInfo]
    referenced_by: list[SubjectVersionInfo]


class SchemaSubjectDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A subject with all of its versions, soft-deleted ones included, the oldest first."""

    subject: str
    compatibility: str
    own_compatibility: bool
    mode: str
    versions: list[SchemaVersionInfo]


class RegistryStats(msgspec.Struct, frozen=True, kw_only=True):
    subjects: int
    versions: int
    deleted_versions: int
    schemas: int
    schemas_by_type: dict[str, int]
    max_id: int


class SchemaUse(msgspec.Struct, frozen=True):
    """A version of a subject that has a schema."""

    subject: str
    version: int


class SchemaAdmin:
    """Schemas, their compatibility levels, and the registry's modes. An empty subject stands for all of them."""

    @operation
    def subjects(self, prefix: str = "", *, deleted: bool = False) -> ApiRequest[list[str]]:
        """Return the names of subjects; with `deleted` also those that are soft-deleted."""
        return json_request("GET", with_query("/subjects", subjectPrefix=prefix, deleted=deleted), list[str])

    @operation
    def schema_subjects(
        self, prefix: str = "", *, deleted: bool = False, after: str = "", limit: int = 1000
    ) -> ApiRequest[list[SchemaSubjectInfo]]:
        """Return a page of subjects with their latest versions and rules, by name, without texts."""
        path = with_query("/schemas/summaries", prefix=prefix, deleted=deleted, after=after, limit=limit)
        return json_request("GET", path, list[SchemaSubjectInfo])

    @operation
    def schema_subject(self, subject: str) -> ApiRequest[SchemaSubjectDetails]:
        """Return all versions of a subject and what refers to them, without texts."""
        return json_request("GET", f"/schemas/summaries/{quote(subject)}", SchemaSubjectDetails)

    @operation
    def schemas(
        self, prefix: str = "", *, latest_only: bool = False, deleted: bool = False, offset: int = 0, limit: int = 1000
    ) -> ApiRequest[list[SchemaInfo]]:
        """Return a page of the versions of all subjects whose names begin with the prefix.

        It has at most 1,000 versions, and fewer where their texts are long; an empty one is behind the last.
        """
        path = with_query(
            "/schemas", subjectPrefix=prefix, latestOnly=latest_only, deleted=deleted, offset=offset, limit=limit
        )
        return json_request("GET", path, list[SchemaInfo])

    @operation
    def schema_versions(self, subject: str, *, deleted: bool = False) -> ApiRequest[list[int]]:
        """Return the numbers of a subject's versions."""
        return json_request("GET", with_query(f"/subjects/{quote(subject)}/versions", deleted=deleted), list[int])

    @operation
    def schema(
        self, subject: str, version: int | Literal["latest"] = "latest", *, deleted: bool = False
    ) -> ApiRequest[SchemaInfo]:
        """Return a version of a subject."""
        return json_request("GET", with_query(_version(subject, version), deleted=deleted), SchemaInfo)

    @operation
    def schema_by_id(self, number: int) -> ApiRequest[SchemaInfo]:
        """Return the schema with an id, as messages have it."""
        return json_request("GET", f"/schemas/ids/{number}", SchemaInfo)

    @operation
    def schema_uses(self, number: int, *, deleted: bool = False) -> ApiRequest[list[SchemaUse]]:
        """Return the versions of subjects that have the schema with an id."""
        return json_request("GET", with_query(f"/schemas/ids/{number}/versions", deleted=deleted), list[SchemaUse])

    @operation
    def register_schema(
        self,
        subject: str,
        schema: str,
        schema_type: SchemaType = "AVRO",
        *,
        references: Iterable[SchemaReferenceInfo] = (),
        metadata: Mapping[str, Any] | None = None,
        rule_set: Mapping[str, Any] | None = None,
        normalize: bool | None = None,
    ) -> ApiRequest[RegisteredSchema]:
        """Register a schema, and return its id and version; an equal one of the subject is returned as it is."""
        body = _body(schema, schema_type, references) | {"metadata": metadata, "ruleSet": rule_set}
        path = with_query(
            f"/subjects/{quote(subject)}/versions", normalize=None if normalize is None else str(normalize).lower()
        )
        return json_request("POST", path, RegisteredSchema, body)

    @operation
    def find_schema(
        self,
        subject: str,
        schema: str,
        schema_type: SchemaType = "AVRO",
        *,
        references: Iterable[SchemaReferenceInfo] = (),
    ) -> ApiRequest[SchemaInfo]:
        """Return the version of a subject that has this schema."""
        body = _body(schema, schema_type, references)
        return json_request("POST", f"/subjects/{quote(subject)}", SchemaInfo, body)

    @operation
    def test_schema(
        self,
        subject: str,
        schema: str,
        schema_type: SchemaType = "AVRO",
        *,
        version: int | Literal["latest"] | None = None,
        references: Iterable[SchemaReferenceInfo] = (),
    ) -> ApiRequest[SchemaCompatibility]:
        """Return whether a schema may be registered; with `version` compare it with that one only."""
        path = (
            f"/compatibility{f'/subjects/{quote(subject)}/versions' if version is None else _version(subject, version)}"
        )
        body = _body(schema, schema_type, references)
        return json_request("POST", with_query(path, verbose=True), SchemaCompatibility, body)

    @operation
    def delete_schema_subject(self, subject: str, *, permanent: bool = False) -> ApiRequest[list[int]]:
        """Delete all versions of a subject softly, or then permanently; return their numbers."""
        path = with_query(f"/subjects/{quote(subject)}", permanent=permanent)
        return json_request("DELETE", path, list[int], idempotent=False)

    @operation
    def delete_schema_version(
        self, subject: str, version: int | Literal["latest"], *, permanent: bool = False
    ) -> ApiRequest[int]:
        """Delete a version of a subject softly, or then permanently; return its number."""
        path = with_query(_version(subject, version), permanent=permanent)
        return json_request("DELETE", path, int, idempotent=False)

    @operation
    def schema_config(self, subject: str = "", *, or_global: bool = True) -> ApiRequest[SchemaConfig]:
        """Return the compatibility level of a subject, or the one that applies to it."""
        return json_request("GET", with_query(_of("/config", subject), defaultToGlobal=or_global), SchemaConfig)

    @operation
    def set_schema_config(
        self, subject: str = "", *, compatibility: str | None = None, normalize: bool | None = None
    ) -> ApiRequest[dict[str, Any]]:
        """Change the compatibility level of a subject, and whether it stores normalized texts. None: as it is."""
        body = {"compatibility": compatibility, "normalize": normalize}
        return json_request("PUT", _of("/config", subject), dict[str, Any], body)

    @operation
    def delete_schema_config(self, subject: str = "") -> ApiRequest[SchemaConfig]:
        """Delete the configuration of a subject, so that the global one applies; return what it was."""
        return json_request("DELETE", _of("/config", subject), SchemaConfig, idempotent=False)

    @operation
    def schema_mode(self, subject: str = "", *, or_global: bool = True) -> ApiRequest[str]:
        """Return the mode: READWRITE, READONLY, READONLY_OVERRIDE or IMPORT."""
        path = with_query(_of("/mode", subject), defaultToGlobal=or_global)
        return json_request("GET", path, str, field="mode")

    @operation
    def set_schema_mode(self, mode: str, subject: str = "", *, force: bool = False) -> ApiRequest[str]:
        """Change the mode. IMPORT needs an empty subject, unless `force` is given."""
        path = with_query(_of("/mode", subject), force=force)
        return json_request("PUT", path, str, {"mode": mode}, field="mode")

    @operation
    def delete_schema_mode(self, subject: str = "") -> ApiRequest[str]:
        """Delete the mode of a subject, so that the global one applies; return what it was."""
        return json_request("DELETE", _of("/mode", subject), str, field="mode", idempotent=False)

    @operation
    def schema_stats(self) -> ApiRequest[RegistryStats]:
        """Return how many subjects, versions and schemas there are."""
        return json_request("GET", "/schemas/stats", RegistryStats)


def _version(subject: str, version: int | str) -> str:
    return f"/subjects/{quote(subject)}/versions/{version}"


def _of(path: str, subject: str) -> str:
    return f"{path}/{quote(subject)}" if subject else path


def _body(schema: str, schema_type: str, references: Iterable[SchemaReferenceInfo]) -> dict[str, Any]:
    return {"schema": schema, "schemaType": schema_type, "references": list(references)}
