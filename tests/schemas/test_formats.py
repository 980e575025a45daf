"""Formats by kind, and compatibility levels over versions."""

import sys

import pytest

from goqueue.errors import SchemasUnavailable
from goqueue.schemas.compatibility import CompatibilityLevel, incompatibility_messages
from goqueue.schemas.formats import refuse_unless_all_installed, schema_format
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind

AVRO = schema_format(SchemaKind.AVRO)


@pytest.mark.parametrize("kind", SchemaKind)
def test_format_is_found_by_its_kind(kind: SchemaKind) -> None:
    assert schema_format(kind).kind is kind


def test_missing_extra_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(SchemasUnavailable, match="jsonschema_rs, which is not installed") as caught:
        schema_format.__wrapped__(SchemaKind.JSON)
    assert caught.value.hint == "pip install 'goqueue[schemas]'"

    with pytest.raises(SchemasUnavailable, match="a setting needs the packages jsonschema_rs, which"):
        refuse_unless_all_installed("a setting")


def version(*fields: str) -> ParsedSchema:
    listed = ",".join(f'{{"name":"{name.rstrip("?")}","type":"int"{default(name)}}}' for name in fields)
    return AVRO.parse(f'{{"type":"record","name":"R","fields":[{listed}]}}')


def default(name: str) -> str:
    return ',"default":1' if name.endswith("?") else ""


A, A_B, A_OPTIONAL_B = version("a"), version("a", "b"), version("a", "b?")
N, B, F, FULL = (CompatibilityLevel(name) for name in ("NONE", "BACKWARD", "FORWARD", "FULL"))
B_ALL, F_ALL, FULL_ALL = (CompatibilityLevel(f"{level}_TRANSITIVE") for level in (B, F, FULL))


@pytest.mark.parametrize(
    ("level", "new", "earlier", "allowed"),
    [
        (N, A_B, [A], True),
        (B, A_OPTIONAL_B, [A], True),
        (B, A_B, [A], False),
        (B, A_B, [A, A_OPTIONAL_B], True),
        (B_ALL, A_B, [A, A_OPTIONAL_B], False),
        (F, A_B, [A], True),
        (F, A, [A_B], False),
        (F, A, [A_B, A_OPTIONAL_B], True),
        (F_ALL, A, [A_B, A_OPTIONAL_B], False),
        (FULL, A_OPTIONAL_B, [A], True),
        (FULL, A_B, [A], False),
        (FULL, A, [A_B], False),
        (FULL_ALL, A_B, [A, A_OPTIONAL_B], False),
        (FULL_ALL, A, [], True),
    ],
)
def test_level_decides_direction_and_versions(
    level: CompatibilityLevel, new: ParsedSchema, earlier: list[ParsedSchema], allowed: bool
) -> None:
    assert (incompatibility_messages(AVRO, level, new, earlier) == []) is allowed


def test_messages_name_direction_version_path_and_reason() -> None:
    found = incompatibility_messages(AVRO, FULL_ALL, A_B, [A, A_OPTIONAL_B])
    assert found == [
        "the new schema cannot read data of the version 2 before this one: "
        "#/b: the writer does not have this field, and the reader has no default for it"
    ]
    other = schema_format(SchemaKind.JSON).parse("true")
    assert incompatibility_messages(AVRO, B, A, [other]) == ["the latest version is JSON, this one is AVRO"]
