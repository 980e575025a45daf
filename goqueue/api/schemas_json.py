"""Requests and answers of the schema registry, with the names of Confluent's."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from goqueue.broker.schemas.records import ReferenceRecord, SchemaContent, VersionRecord, guid_of
from goqueue.schemas.limits import SCHEMA_ID_MAX

_Number = Annotated[int, Meta(ge=-1, le=SCHEMA_ID_MAX)]
_Limit = Annotated[int, Meta(ge=-1, le=SCHEMA_ID_MAX, description="-1: all.")]
_Normalize = Annotated[bool | None, Meta(description="Store the normalized text. Default: the configuration's.")]
_Deleted = Annotated[bool, Meta(description="Show soft-deleted ones as well.")]


class ReferenceJson(Struct, forbid_unknown_fields=True):
    """A name in a schema that stands for another schema."""

    name: str
    subject: str
    version: Annotated[_Number, Meta(description="-1: the latest, which is stored as a number.")]


class SchemaRuleJson(Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel", kw_only=True):
    """A rule of a data contract. It is stored, and never run by the broker."""

    name: str | None = None
    doc: str | None = None
    kind: str | None = None
    mode: str | None = None
    type: str | None = None
    tags: list[str] | None = None
    params: dict[str, str | None] | None = None
    expr: str | None = None
    on_success: str | None = None
    on_failure: str | None = None
    disabled: bool | None = None


class RuleSetJson(Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel", kw_only=True):
    """Rules of a data contract."""

    migration_rules: list[SchemaRuleJson] | None = None
    domain_rules: list[SchemaRuleJson] | None = None
    encoding_rules: list[SchemaRuleJson] | None = None
    enable_at: str | None = None


class MetadataJson(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Notes about a schema, for people and programs. They are part of the schema's identity."""

    tags: dict[str, list[str]] | None = None
    properties: dict[str, str] | None = None
    sensitive: list[str] | None = None


class SchemaRequest(Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel", kw_only=True):
    """A schema to register, to look up or to compare."""

    schema: Annotated[str, Meta(description="Its text.")] = ""
    schema_type: Annotated[str | None, Meta(description="AVRO (default), JSON or PROTOBUF.")] = None
    references: list[ReferenceJson] | None = None
    metadata: MetadataJson | None = None
    rule_set: RuleSetJson | None = None
    id: Annotated[_Number | None, Meta(description="Only in the mode IMPORT.")] = None
    version: Annotated[_Number | None, Meta(description="Only in the mode IMPORT.")] = None
    subject: Annotated[str | None, Meta(description="Not used: the path has it.")] = None
    deleted: Annotated[bool | None, Meta(description="Not used.")] = None

    def content(self) -> SchemaContent:
        return SchemaContent(
            kind=self.schema_type or "AVRO",
            text=self.schema,
            references=tuple(ReferenceRecord(one.name, one.subject, one.version) for one in self.references or ()),
            metadata=_plain(self.metadata),
            rule_set=_plain(self.rule_set),
        )


def _plain(value: Struct | None) -> dict[str, Any] | None:
    return None if value is None else msgspec.to_builtins(value)


class SchemaJson(Struct, omit_defaults=True, rename="camel", kw_only=True):
    """A version of a subject, or a schema by its id."""

    subject: str | None = None
    version: int | None = None
    id: int | None = None
    guid: Annotated[str | None, Meta(description="The same for equal schemas in any registry of GoQueue.")] = None
    schema_type: Annotated[str | None, Meta(description="Left out for AVRO.")] = None
    references: list[ReferenceJson] | None = None
    metadata: MetadataJson | None = None
    rule_set: RuleSetJson | None = None
    schema: str
    deleted: Annotated[bool, Meta(description="Soft-deleted.")] = False
    max_id: Annotated[int | None, Meta(description="With `fetchMaxId`: the highest id.")] = None


def schema_json(
    record: VersionRecord, *, text: str | None = None, by_id: bool = False, max_id: int | None = None
) -> SchemaJson:
    """Return a version; with `text` in place of its own."""
    content = record.content
    return SchemaJson(
        subject=None if by_id else record.subject,
        version=None if by_id else record.version,
        id=None if by_id else record.id,
        guid=guid_of(record.digest),
        schema_type=None if content.kind == "AVRO" else content.kind,
        references=[ReferenceJson(one.name, one.subject, one.version) for one in content.references] or None,
        metadata=None if content.metadata is None else msgspec.convert(content.metadata, MetadataJson),
        rule_set=None if content.rule_set is None else msgspec.convert(content.rule_set, RuleSetJson),
        schema=content.text if text is None else text,
        deleted=False if by_id else record.deleted,
        max_id=max_id,
    )


class RegisteredJson(Struct):
    id: int
    version: int
    guid: str


class SubjectVersionJson(Struct):
    subject: str
    version: int


class ContextIdJson(Struct):
    context: str
    id: int


class CompatibilityJson(Struct, omit_defaults=True):
    is_compatible: bool
    messages: Annotated[list[str] | None, Meta(description="With `verbose`: the reasons.")] = None


class ConfigRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    compatibility: Annotated[str | None, Meta(description="A compatibility level, such as BACKWARD.")] = None
    normalize: bool | None = None


class ConfigChangedJson(Struct, omit_defaults=True):
    compatibility: str | None = None
    normalize: bool | None = None


class ConfigJson(Struct, omit_defaults=True, rename="camel"):
    compatibility_level: str
    normalize: bool | None = None


class ModeRequest(Struct, forbid_unknown_fields=True):
    mode: Annotated[str, Meta(description="READWRITE, READONLY, READONLY_OVERRIDE or IMPORT.")]


class ModeJson(Struct):
    mode: str


class RegistryStatsJson(Struct, kw_only=True):
    subjects: int
    versions: int
    deleted_versions: Annotated[int, Meta(description="Soft-deleted ones.")]
    schemas: Annotated[int, Meta(description="Different ids.")]
    schemas_by_type: dict[str, int]
    max_id: int


# --- queries ---

_Format = Annotated[
    str, Meta(description="serialized: Protobuf as base64 of a FileDescriptorProto. Others are passed over.")
]


class RegisterQuery(Struct, forbid_unknown_fields=True):
    normalize: _Normalize = None


class LookUpQuery(Struct, forbid_unknown_fields=True):
    normalize: _Normalize = None
    deleted: _Deleted = False
    format: _Format = ""


class SubjectsQuery(Struct, forbid_unknown_fields=True, rename="camel"):
    subject_prefix: str = ""
    deleted: _Deleted = False
    deleted_only: bool = False
    offset: _Limit = 0
    limit: _Limit = -1


class SchemasQuery(SubjectsQuery, forbid_unknown_fields=True, rename="camel"):
    latest_only: Annotated[bool, Meta(description="Only the latest version of each subject.")] = False


class VersionsQuery(Struct, forbid_unknown_fields=True, rename="camel"):
    deleted: _Deleted = False
    deleted_only: bool = False
    offset: _Limit = 0
    limit: _Limit = -1


class VersionQuery(Struct, forbid_unknown_fields=True):
    deleted: _Deleted = False
    format: _Format = ""


class ContextsQuery(Struct, forbid_unknown_fields=True, rename="camel"):
    context_prefix: str = ""
    offset: _Limit = 0
    limit: _Limit = -1


class MetadataQuery(VersionQuery, forbid_unknown_fields=True):
    key: Annotated[list[str], Meta(description="A property of the metadata; may be repeated.")] = []
    value: Annotated[list[str], Meta(description="The value of each `key`, in the same order.")] = []


class GuidQuery(Struct, forbid_unknown_fields=True):
    format: _Format = ""


class DeleteQuery(Struct, forbid_unknown_fields=True):
    permanent: Annotated[bool, Meta(description="Delete what was soft-deleted before.")] = False


class SchemaIdQuery(Struct, forbid_unknown_fields=True, rename="camel"):
    fetch_max_id: bool = False
    format: _Format = ""
    subject: Annotated[str, Meta(description="Only if a version of this subject has the id.")] = ""


class SchemaUsesQuery(Struct, forbid_unknown_fields=True):
    deleted: _Deleted = False
    subject: str = ""


class CompatibilityQuery(Struct, forbid_unknown_fields=True):
    verbose: bool = False
    normalize: _Normalize = None


class ConfigQuery(Struct, forbid_unknown_fields=True, rename="camel"):
    default_to_global: Annotated[bool, Meta(description="What applies, if the subject has none of its own.")] = False


class ModeQuery(Struct, forbid_unknown_fields=True):
    force: Annotated[bool, Meta(description="Allow IMPORT although there are schemas.")] = False
