"""The compiler and the library `protobuf` as judges: of texts, and of data that a compatible schema must read."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from goqueue.errors import SchemaInvalid
from goqueue.schemas.protobuf.descriptors import encode_descriptor
from goqueue.schemas.protobuf.protobuf_format import FILE_NAME, ProtobufFormat, ProtobufSchema
from tests.schemas.protoc import compiled, without_json_names

PROTOBUF = ProtobufFormat()
SCALARS = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
    "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip
NAMED = ("A", "B", "A.C", ".p.B", "E", "google.protobuf.Timestamp")
types = st.sampled_from([*SCALARS, *NAMED, *NAMED])
options = st.sampled_from(["", "", "", " [deprecated = true]", " [(custom).x = 1]", ' [json_name = "other"]'])


@st.composite
def fields(draw: st.DrawFn, syntax: str) -> str:
    """Some fields, of which two may have the same number or be reserved now and then."""
    labels = ["optional", "repeated", "required"] if syntax == "proto2" else ["", "", "optional", "repeated"]
    found = []
    names = draw(st.lists(st.sampled_from("abcdef"), max_size=5, unique=True))
    for index, name in enumerate(names):
        number = "abcdef".index(name) + 1 if draw(st.integers(0, 30)) else index + 1
        kind = draw(st.sampled_from(["plain", "plain", "plain", "map", "oneof"]))
        if kind == "plain":
            found.append(f"{draw(st.sampled_from(labels))} {draw(types)} {name} = {number}{draw(options)};")
        elif kind == "map":
            found.append(f"map<{draw(st.sampled_from(SCALARS))}, {draw(types)}> {name} = {number};")
        else:
            found.append(
                f"oneof o_{name} {{ {draw(types)} {name} = {number}; {draw(types)} {name}2 = {number + 10}; }}"
            )
    return " ".join(found)


@st.composite
def texts(draw: st.DrawFn, syntax: str = "") -> str:
    syntax = syntax or draw(st.sampled_from(["proto2", "proto3"]))
    body = fields(syntax)
    values = draw(st.lists(st.integers(-1, 3), min_size=1, max_size=3, unique=True))
    enum = " ".join(f"V{index} = {value};" for index, value in enumerate(sorted(values, key=abs)))
    reserved = draw(st.sampled_from(["", "", "reserved 9;", "reserved 7 to 8, 20 to max;", 'reserved "z", "a2";']))
    return f"""syntax = "{syntax}"; package p; import "google/protobuf/timestamp.proto";
import "google/protobuf/descriptor.proto";
message Custom {{ optional int32 x = 1; }} extend google.protobuf.FieldOptions {{ optional Custom custom = 50000; }}
message A {{ {reserved} {draw(body)} message C {{ {draw(body)} }} }}
message B {{ {draw(body)} }} enum E {{ {enum} }}"""


@given(texts())
def test_files_are_accepted_and_understood_as_by_the_compiler(text: str) -> None:
    with TemporaryDirectory() as directory:
        judged = compiled(Path(directory), schema=text)
    parsed = parsed_or_none(text)
    assert (parsed is None) == (judged is None), text
    if parsed is None or judged is None:
        return
    encoded = encode_descriptor(judged[-1])
    found = FileDescriptorProto()
    found.CopyFrom(parsed.file)
    assert found.name == FILE_NAME
    assert str(without_json_names(found)) == str(without_json_names(judged[-1]))
    assert PROTOBUF.parse(parsed.text).file == parsed.file
    assert PROTOBUF.parse(encoded).file == parsed.file


@st.composite
def messages(draw: st.DrawFn, message: Any, depth: int = 2) -> Any:
    """Set some fields of a message."""
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and draw(st.booleans()):
            continue
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            continue
        for _ in range(draw(st.integers(1, 2)) if field.is_repeated else 1):
            if field.message_type is not None:
                if depth == 0 and not field.is_required:
                    continue
                inner = getattr(message, field.name)
                draw(messages(inner.add() if field.is_repeated else inner, depth - 1))
                if not field.is_repeated:
                    inner.SetInParent()
            elif field.is_repeated:
                getattr(message, field.name).append(draw(scalars(field)))
            else:
                setattr(message, field.name, draw(scalars(field)))
    return message


def scalars(field: Any) -> st.SearchStrategy[Any]:
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    name = {value: key for key, value in type(field).__dict__.items() if key.startswith("TYPE_")}[field.type][
        5:
    ].lower()
    if name in {"double", "float"}:
        return st.sampled_from([0.0, 1.5, -2.0])
    if name in {"string", "bytes"}:
        return st.sampled_from(["", "ab"] if name == "string" else [b"", b"ab"])
    return st.booleans() if name == "bool" else st.integers(0 if name.startswith(("u", "fixed")) else -5, 5)


def parsed_or_none(text: str) -> ProtobufSchema | None:
    try:
        return PROTOBUF.parse(text)
    except SchemaInvalid:
        return None


def is_endless(message: Any, seen: tuple[str, ...] = ()) -> bool:
    """Return whether a message needs itself."""
    if message.full_name in seen:
        return True
    return any(
        is_endless(field.message_type, (*seen, message.full_name))
        for field in message.fields
        if field.is_required and field.message_type
    )


@given(st.data())
def test_data_of_the_writer_is_read_with_a_compatible_schema(data: st.DataObject) -> None:
    text = data.draw(texts())
    old = data.draw(st.sampled_from([name for name in SCALARS if f" {name} " in text] or ["int32"]))
    new = data.draw(st.sampled_from(SCALARS))
    reader, writer = parsed_or_none(text.replace(f" {old} ", f" {new} ", 1)), parsed_or_none(text)
    if data.draw(st.integers(0, 3)) == 0:
        reader = parsed_or_none(data.draw(texts("proto2" if "proto2" in text else "proto3")))
    if reader is None or writer is None or is_endless(writer.message_class("p.A").DESCRIPTOR):
        return
    message: Message = data.draw(messages(writer.message_class("p.A")()))
    payload = message.SerializeToString()
    assert PROTOBUF.validator(writer).problems(b"\x00" + payload)[:0] == []
    assert PROTOBUF.message_validator(writer, "p.A").problems(payload) == []
    if not PROTOBUF.incompatibilities(reader, writer):
        assert PROTOBUF.message_validator(reader, "p.A").problems(payload) == []
        read = reader.message_class("p.A").FromString(payload)
        assert [
            name for name, value in plain_values(message).items() if plain_values(read).get(name, value) != value
        ] == []


def plain_values(message: Any) -> dict[str, Any]:
    """Return the values of fields that are no messages, by number and type."""
    return {
        f"{field.number} {field.type} {field.is_repeated}": list(value) if field.is_repeated else value
        for field, value in message.ListFields()
        if field.message_type is None
    }
