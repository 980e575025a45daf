"""The rows of the schema registry. Each path of Confluent's also answers below `/schemas`."""

from typing import Any

from goqueue import errors
from goqueue.api import schema_summaries, schemas
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import UNWRITABLE
from goqueue.api.schemas_dialect import REGISTRY, REGISTRY_JSON
from goqueue.api.schemas_json import ContextIdJson, SchemaJson, SubjectVersionJson

_TEXT = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
_GUID = "d0c4a2a8-6c9e-8b5b-9f3e-2f6a1d5c7b90"
_SCHEMA = {"schema": _TEXT}
_BY_ID = {"guid": _GUID, "schema": _TEXT}
_VERSION = {"subject": "orders-value", "version": 1, "id": 1, "guid": _GUID, "schema": _TEXT}
_CONFIG, _MODE = {"compatibility": "FULL"}, {"mode": "READONLY"}
_NO_SUBJECT = (errors.SubjectNotFound,)
_NO_VERSION = (*_NO_SUBJECT, errors.SchemaVersionNotFound, errors.RegistryValueInvalid)
_READ_BACK = (errors.SchemaInvalid, errors.SchemasUnavailable)
_NO_ID = (errors.SchemaNotFound, *_READ_BACK)
_CHANGE = (errors.SchemaChangeRefused, errors.RegistryValueInvalid, *UNWRITABLE)
_DELETE = (errors.SchemaDeletionRefused, *_CHANGE)
_SETTING = (errors.SubjectSettingNotFound, *_NO_SUBJECT)


def _row(method: Any, path: str, handler: Any, summary: str, **further: Any) -> Endpoint:
    """Return a row that is also found below `/schemas`."""
    further["errors"] = tuple(dict.fromkeys((*further.get("errors", ()), errors.LogFenced)))
    return Endpoint(
        method, path, handler, summary, dialect=REGISTRY, answer_type=REGISTRY_JSON, aliases=(f"/schemas{path}",),
        **further,
    )  # fmt: skip


SCHEMA_ENDPOINTS = (
    _row(
        "GET", "/subjects", schemas.list_subjects, "List subjects with schemas", answer=list[str],
        answer_example=["orders-value"],
    ),
    _row(
        "GET", "/schemas", schemas.list_schemas, "List versions of all subjects with their schemas", may_be_large=True,
        answer=list[SchemaJson], answer_example=[_VERSION],
    ),
    _row(
        "GET", "/subjects/{subject}/versions", schemas.list_versions, "List the versions of a subject",
        answer=list[int], answer_example=[1, 2], errors=_NO_SUBJECT,
    ),
    _row(
        "POST", "/subjects/{subject}/versions", schemas.register, "Register a schema; answers with its id",
        example=_SCHEMA, answer_example={"id": 1, "version": 1, "guid": _GUID},
        errors=(errors.SchemaIncompatible, *_NO_SUBJECT, *_READ_BACK, *_CHANGE),
    ),
    _row(
        "POST", "/subjects/{subject}", schemas.look_up, "Look up the version of a subject that has a schema",
        example=_SCHEMA, answer_example=_VERSION, errors=(*_NO_SUBJECT, errors.SchemaNotFound, *_READ_BACK),
    ),
    _row(
        "DELETE", "/subjects/{subject}", schemas.delete_subject, "Delete all versions of a subject",
        answer=list[int], answer_example=[1, 2], errors=(*_NO_SUBJECT, *_DELETE),
    ),
    _row(
        "GET", "/subjects/{subject}/versions/{version}", schemas.describe_version,
        "A version of a subject, by its number or `latest`", answer_example=_VERSION,
        errors=(*_NO_VERSION, *_READ_BACK),
    ),
    _row(
        "GET", "/subjects/{subject}/metadata", schemas.find_by_metadata,
        "The latest version of a subject with these properties in its metadata", answer_example=_VERSION,
        errors=(*_NO_SUBJECT, errors.SchemaNotFound, *_READ_BACK),
    ),
    _row(
        "DELETE", "/subjects/{subject}/versions/{version}", schemas.delete_version, "Delete a version of a subject",
        answer=int, answer_example=1, errors=(*_NO_VERSION, *_DELETE),
    ),
    _row(
        "GET", "/subjects/{subject}/versions/{version}/schema", schemas.version_text, "The text of a version alone",
        errors=(*_NO_VERSION, *_READ_BACK),
    ),
    _row(
        "GET", "/subjects/{subject}/versions/{version}/referencedby", schemas.version_referrers,
        "The ids of schemas that refer to a version", answer=list[int], answer_example=[7], errors=_NO_VERSION,
    ),
    _row(
        "GET", "/schemas/ids/{id}", schemas.describe_id, "A schema by its id", is_hot=True, answer_example=_BY_ID,
        errors=_NO_ID,
    ),
    _row(
        "GET", "/schemas/guids/{guid}", schemas.describe_guid, "A schema by its GUID", answer_example=_BY_ID,
        errors=_NO_ID,
    ),
    _row(
        "GET", "/schemas/guids/{guid}/ids", schemas.guid_ids, "The id of a schema by its GUID",
        answer=list[ContextIdJson], answer_example=[{"context": ".", "id": 1}], errors=(errors.SchemaNotFound,),
    ),
    _row("GET", "/schemas/ids/{id}/schema", schemas.id_text, "The text of a schema alone", errors=_NO_ID),
    _row(
        "GET", "/schemas/ids/{id}/subjects", schemas.id_subjects, "The subjects that have a schema",
        answer=list[str], answer_example=["orders-value"], errors=(errors.SchemaNotFound,),
    ),
    _row(
        "GET", "/schemas/ids/{id}/versions", schemas.id_versions, "The versions that have a schema",
        answer=list[SubjectVersionJson], answer_example=[{"subject": "orders-value", "version": 1}],
        errors=(errors.SchemaNotFound,),
    ),
    _row(
        "GET", "/schemas/types", schemas.list_types, "List the formats of schemas", answer=list[str],
        answer_example=["AVRO", "JSON", "PROTOBUF"],
    ),
    _row("GET", "/contexts", schemas.list_contexts, "List contexts", answer=list[str], answer_example=[".", ".team"]),
    _row(
        "POST", "/compatibility/subjects/{subject}/versions/{version}", schemas.test_version,
        "Test whether a schema may follow a version", example=_SCHEMA, answer_example={"is_compatible": True},
        errors=(*_NO_VERSION, *_READ_BACK),
    ),
    _row(
        "POST", "/compatibility/subjects/{subject}/versions", schemas.test_subject,
        "Test whether a schema may be registered", example=_SCHEMA, answer_example={"is_compatible": True},
        errors=(*_NO_SUBJECT, *_READ_BACK),
    ),
    _row(
        "GET", "/config", schemas.get_config, "The compatibility level of all subjects",
        answer_example={"compatibilityLevel": "BACKWARD"},
    ),
    _row(
        "PUT", "/config", schemas.put_config, "Change the compatibility level of all subjects", example=_CONFIG,
        answer_example=_CONFIG, errors=_CHANGE,
    ),
    _row("DELETE", "/config", schemas.delete_config, "Reset the compatibility level of all subjects", errors=_CHANGE),
    _row(
        "GET", "/config/{subject}", schemas.get_config, "The compatibility level of a subject", errors=_SETTING,
        answer_example={"compatibilityLevel": "FULL"},
    ),
    _row(
        "PUT", "/config/{subject}", schemas.put_config, "Change the compatibility level of a subject",
        example=_CONFIG, answer_example=_CONFIG, errors=(*_NO_SUBJECT, *_CHANGE),
    ),
    _row(
        "DELETE", "/config/{subject}", schemas.delete_config, "Delete the compatibility level of a subject",
        errors=(*_SETTING, *_CHANGE),
    ),
    _row("GET", "/mode", schemas.get_mode, "The mode of all subjects", answer_example={"mode": "READWRITE"}),
    _row(
        "PUT", "/mode", schemas.put_mode, "Change the mode of all subjects", example=_MODE, answer_example=_MODE,
        errors=_CHANGE,
    ),
    _row("DELETE", "/mode", schemas.delete_mode, "Reset the mode of all subjects", errors=_CHANGE),
    _row("GET", "/mode/{subject}", schemas.get_mode, "The mode of a subject", errors=_SETTING, answer_example=_MODE),
    _row(
        "PUT", "/mode/{subject}", schemas.put_mode, "Change the mode of a subject", example=_MODE,
        answer_example=_MODE, errors=(*_NO_SUBJECT, *_CHANGE),
    ),
    _row(
        "DELETE", "/mode/{subject}", schemas.delete_mode, "Delete the mode of a subject", errors=(*_SETTING, *_CHANGE)
    ),
    Endpoint("GET", "/schemas/stats", schemas.stats, "Statistics of the schema registry"),
    Endpoint(
        "GET", "/schemas/summaries", schema_summaries.list_summaries, "List subjects with their rules, without texts",
        may_be_large=True, answer=list[schema_summaries.SubjectSummaryJson], errors=(errors.LogFenced,),
    ),
    Endpoint(
        "GET", "/schemas/summaries/{subject}", schema_summaries.describe_subject,
        "The versions of a subject and who refers to them, without texts",
        errors=(errors.SubjectNotFound, errors.LogFenced),
    ),
)  # fmt: skip
