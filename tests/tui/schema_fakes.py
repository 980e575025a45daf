"""A schema registry whose answers never change."""

import json
from typing import Any

from goqueue.client import (
    SchemaCompatibility,
    SchemaConfig,
    SchemaInfo,
    SchemaReferenceInfo,
    SchemaSubjectDetails,
    SchemaSubjectInfo,
)
from goqueue.client.schema_requests import SchemaVersionInfo, SubjectVersionInfo
from goqueue.errors import SchemasUnavailable
from tests.tui.group_fakes import GroupClient


def record(*fields: tuple[str, Any]) -> str:
    told = [{"name": name, "type": kind} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Order", "namespace": "shop", "fields": told})


TEXTS = {
    1: record(("id", "long"), ("customer", "string")),
    2: record(("id", "long"), ("customer", "string"), ("total", "double"), ("lines", "shop.Lines")),
    3: record(("id", "string"), ("total", "double"), ("note", ["null", "string"]), ("lines", "shop.Lines")),
}
LINES = SchemaReferenceInfo("shop.Lines", "lines-value", 2)
REASONS = [
    "the new schema cannot read data of version 2: #/id: the writer has long, which the reader cannot read as string",
    "the new schema cannot read data of version 2: #/note: the writer does not have this field, and the reader has "
    "no default for it",
    "the schema of version 2 cannot read new data: #/customer: the writer does not have this field, and the reader "
    "has no default for it",
]


def subject(name: str, number: int, kind: str = "AVRO", versions: int = 1, **more: Any) -> SchemaSubjectInfo:
    told: dict[str, Any] = {"references": 0, "deleted_versions": 0, "compatibility": "BACKWARD"}
    told |= {"own_compatibility": False, "mode": "READWRITE", "version": max(versions, 1)} | more
    return SchemaSubjectInfo(subject=name, id=number, schema_type=kind, versions=versions, **told)


SUBJECTS = [
    subject("com.example.shipping.TrackingEvent", 41, "PROTOBUF", 12, compatibility="FULL", own_compatibility=True),
    subject("invoices-key", 3, "JSON"),
    subject("invoices-value", 22, "JSON", 4, mode="READONLY"),
    subject("lines-value", 2, versions=2),
    subject("orders-value", 17, versions=2, version=3, deleted_versions=1, references=1, compatibility="FULL",
            own_compatibility=True),
    subject("returns-value", 1_204, versions=3, compatibility="NONE", own_compatibility=True),
]  # fmt: skip
GONE = subject("vouchers-value", 8, versions=0, deleted_versions=2, version=2)


def version(number: int, *, deleted: bool = False) -> SchemaVersionInfo:
    return SchemaVersionInfo(
        version=number,
        id=14 + number,
        schema_type="AVRO",
        deleted=deleted,
        size_bytes=len(TEXTS[number]),
        references=[LINES] if number > 1 else [],
        referenced_by=[SubjectVersionInfo("shipments-value", 4)] if number == 2 else [],
    )


class SchemaClient(GroupClient):
    """A client of a broker with schemas."""

    def __init__(self) -> None:
        super().__init__()
        history = SchemaSubjectDetails(
            subject="orders-value",
            compatibility="FULL",
            own_compatibility=True,
            mode="READWRITE",
            versions=[version(1, deleted=True), version(2), version(3)],
        )
        self.answers |= {
            "subjects": [one.subject for one in SUBJECTS],
            "schema_subjects": lambda *, deleted: [*SUBJECTS, GONE] if deleted else SUBJECTS,
            "schema_subject": lambda _: history,
            "schema_config": lambda *_: SchemaConfig("BACKWARD"),
            "schema_mode": "READWRITE",
            "schema": self._schema,
            "test_schema": lambda *_, **__: SchemaCompatibility(False, REASONS),
        }

    def _schema(self, name: str, number: int, *, deleted: bool) -> SchemaInfo:
        assert deleted
        references = [LINES] if number > 1 else []
        return SchemaInfo(schema=TEXTS[number], subject=name, version=number, id=14 + number, references=references)


class BareSchemaClient(SchemaClient):
    """A client of a broker without the packages that compare schemas."""

    def __init__(self) -> None:
        super().__init__()
        self.answers["test_schema"] = self._refuse

    def _refuse(self, *_: object, **__: object) -> SchemaCompatibility:
        told = "PROTOBUF schemas need the package google.protobuf, which is not installed"
        raise SchemasUnavailable(told, hint="pip install 'goqueue[schemas]'")
