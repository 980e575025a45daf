"""The schema registry in the SDK."""

from pathlib import Path

import pytest

from goqueue.client import Client, SchemaReferenceInfo
from goqueue.errors import SchemaIncompatible, SchemaNotFound, SubjectNotFound
from goqueue.testing.broker import LocalBroker

_ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
_BILL = _ORDER.replace("long", "string")


def test_schemas_are_managed_through_a_client(tmp_path: Path) -> None:
    with LocalBroker(str(tmp_path / "data")) as broker, Client(broker.url) as client:
        made = client.register_schema("a/b", _ORDER, metadata={"properties": {"owner": "shop"}})
        assert (made.id, made.version) == (1, 1)
        shown = client.schema("a/b")
        assert (shown.schema, shown.schema_type, shown.version) == (_ORDER, "AVRO", 1)
        assert client.schema_by_id(1).metadata == {"properties": {"owner": "shop"}}
        line = '{"type":"record","name":"Line","fields":[{"name":"order","type":"Order"}]}'
        client.register_schema("line", line, references=[SchemaReferenceInfo("Order", "a/b", 1)])
        assert client.subjects() == ["a/b", "line"]
        assert [one.id for one in client.schemas("l")] == [2]
        shown_subjects = [(one.subject, one.versions, one.references) for one in client.schema_subjects()]
        assert shown_subjects == [("a/b", 1, 0), ("line", 1, 1)]
        assert [one.id for one in client.schema_subjects("l", after="a/b", limit=1)] == [2]
        version = client.schema_subject("a/b").versions[0]
        assert [(one.subject, one.version) for one in version.referenced_by] == [("line", 1)]
        found = client.test_schema("a/b", _BILL)
        assert (found.is_compatible, len(found.messages)) == (False, 1)
        with pytest.raises(SchemaIncompatible):
            client.register_schema("a/b", _BILL)
        with pytest.raises(SchemaNotFound):
            client.find_schema("a/b", _BILL)
        client.set_schema_config("a/b", compatibility="none")
        assert client.schema_config("a/b").compatibility_level == "NONE"
        assert client.set_schema_mode("READONLY", "line") == client.schema_mode("line") == "READONLY"
        assert client.delete_schema_mode("line") == "READONLY"
        assert client.register_schema("a/b", _BILL).version == 2
        assert client.delete_schema_version("a/b", 2) == 2
        assert client.schema_versions("a/b", deleted=True) == [1, 2]
        history = client.schema_subject("a/b")
        assert (history.compatibility, history.own_compatibility, history.mode) == ("NONE", True, "READWRITE")
        assert [(one.version, one.deleted, one.size_bytes) for one in history.versions] == [
            (1, False, len(_ORDER)), (2, True, len(_BILL)),
        ]  # fmt: skip
        assert client.delete_schema_subject("line") == [1]
        assert [one.subject for one in client.schema_subjects()] == ["a/b"]
        assert [one.versions for one in client.schema_subjects("l", deleted=True)] == [0]
        assert client.delete_schema_subject("line", permanent=True) == [1]
        assert client.delete_schema_config("a/b").compatibility_level == "NONE"
        with pytest.raises(SubjectNotFound):
            client.schema("line")
        assert client.schema_stats().versions == 1
