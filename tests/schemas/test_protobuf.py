"""Protobuf: what is refused, texts, message indexes, what payloads are told, what follows a version."""

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from goqueue.errors import SchemaInvalid
from goqueue.schemas.framing import decode_message_indexes, encode_message_indexes
from goqueue.schemas.protobuf.descriptors import encode_descriptor
from goqueue.schemas.protobuf.protobuf_format import ProtobufFormat
from goqueue.schemas.schema_format import SchemaReference
from tests.schemas.protoc import compiled, without_json_names

PROTOBUF = ProtobufFormat()
P2, P3 = 'syntax = "proto2";', 'syntax = "proto3";'

EVERYTHING = """
// a comment
syntax = "proto2"; /* another */
package shop.v1;
import "google/protobuf/timestamp.proto";
import public "google/protobuf/any.proto";
import "google/protobuf/descriptor.proto";
option java_package = "com.example" ".shop";
option optimize_for = CODE_SIZE;
option (file_note) = { text: "a\\"b" nested { n: -1 } list: [1, 2] };
extend google.protobuf.FileOptions { optional Note file_note = 50001; }
message Note { optional string text = 1; optional Inner nested = 2; repeated int32 list = 3;
  message Inner { optional int32 n = 1; } }
message Order {
  option deprecated = true;
  required int64 id = 1 [(field_note).text = "x", deprecated = true];
  optional string name = 2 [default = "caf\\303\\251 \\x41", json_name = "theName"];
  optional bytes raw = 0x3 [default = "\\001\\377\\n"];
  repeated Status states = 4 [packed = true];
  map<string, .shop.v1.Order.Line> lines_by_sku = 5;
  oneof paid_with { string card = 6; google.protobuf.Timestamp cash = 7; group Other = 8 { optional int32 a = 1; } }
  optional group Result = 9 { optional float score = 1 [default = -1.5]; optional Status st = 2 [default = PAID]; }
  message Line { optional uint32 count = 1 [default = 0x10]; optional Line next = 2; }
  enum Status { option allow_alias = true; NEW = 0; PAID = 1; SETTLED = 1; LOST = -2 [deprecated = true];
    reserved 5 to 7, 100 to max;
    reserved "GONE"; }
  extensions 100 to 199, 500 to max;
  reserved 20, 30 to 40; reserved "old", "older";
  extend Order { optional int32 inner_extension = 101; }
  optional double message = 10 [default = inf];
}
extend Order { repeated string tags = 100; }
extend google.protobuf.FieldOptions { optional Note field_note = 50002; }
service Shop { option deprecated = true;
  rpc Buy(Order) returns (stream .shop.v1.Order.Line) { option idempotency_level = IDEMPOTENT; option (x.y) = 1; }
  rpc Look(stream Order) returns (Note); }
"""

THREE = """
syntax = "proto3";
message A { optional int32 a = 1; int32 b = 2; repeated sint64 c = 3; E e = 4; map<int32, E> m = 5;
  oneof one { string x = 6; bytes y = 7; } optional string d = 8; B.C bc = 9;
  enum E { ZERO = 0; ONE = 1; } }
message B { message C { .A a = 1; } }
"""


@pytest.mark.parametrize("text", [EVERYTHING.replace(" option (x.y) = 1;", ""), THREE])
def test_descriptors_are_those_of_the_compiler(text: str, tmp_path: Path) -> None:
    judged = compiled(tmp_path, schema=text)
    assert judged is not None
    expected, encoded = judged[-1], encode_descriptor(judged[-1])
    found = FileDescriptorProto()
    found.CopyFrom(PROTOBUF.parse(text).file)
    assert str(without_json_names(found)) == str(without_json_names(expected))
    described = PROTOBUF.parse(encoded)
    assert described.file == PROTOBUF.parse(text).file
    assert PROTOBUF.parse(described.encoded_descriptor).text == described.text


def test_descriptor_of_a_plain_file_has_the_text_of_its_author(tmp_path: Path) -> None:
    judged = compiled(tmp_path, schema=THREE)
    assert judged is not None
    parsed = PROTOBUF.parse(THREE)
    written = parsed.text.replace("(.A", "(A").replace(" .A a", " A a")
    assert PROTOBUF.parse(encode_descriptor(judged[-1])).text == written
    assert PROTOBUF.parse(parsed.encoded_descriptor).text == written


def test_base64_that_is_no_descriptor_is_refused() -> None:
    nested = FileDescriptorProto(syntax="proto3")
    inner = nested.message_type.add(name="M")
    for _ in range(30):
        inner = inner.nested_type.add(name="M")
    edition = FileDescriptorProto(syntax="editions")
    for text, reason in (
        ("syntax", "neither a text nor base64"),
        ("aGVsbG8", "neither a text nor base64"),
        (encode_descriptor(edition), "the syntax is 'editions'"),
        (encode_descriptor(nested), "messages inside each other"),
    ):
        with pytest.raises(SchemaInvalid, match=reason):
            PROTOBUF.parse(text)


@pytest.mark.parametrize("text", [EVERYTHING, THREE])
def test_canonical_text_is_read_as_the_same_file(text: str) -> None:
    one = PROTOBUF.parse(text)
    again = PROTOBUF.parse(one.text)
    assert again.text == one.text
    assert again.fingerprint == one.fingerprint
    assert again.file == one.file
    normalized = PROTOBUF.parse(one.normalized_text)
    assert normalized.normalized_text == one.normalized_text
    assert normalized.names == one.names


def test_normalized_text_ignores_order_of_fields_options_and_imports_and_qualification_of_names() -> None:
    one = PROTOBUF.parse(
        P3 + 'option go_package = "b"; option java_package = "a"; message A { B b = 2; int32 a = 1; } message B {}'
    )
    other = PROTOBUF.parse(
        P3 + 'option java_package = "a"; option go_package = "b"; message A { int32 a = 1; .B b = 2; } message B {}'
    )
    assert one.text != other.text
    assert one.normalized_fingerprint == other.normalized_fingerprint


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("message A {", "#/A", "found 'the end of the text' (line 1, column 12)"),
        ("message A { optional int32 a = 1 }", "#/A", "expected ';', found '}'"),
        ("message A { int32 a = 1; }", "#/A", "expected optional, required or repeated"),
        (P3 + "\nmessage A {\n  required int32 a = 1;\n}", "#/A", "no required fields (line 3, column 12)"),
        (P3 + "message A { int32 a = 0; }", "#/A", "0 cannot be the number of a field"),
        (P3 + "message A { int32 a = 19500; }", "#/A", "19500 cannot"),
        (P3 + "message A { int32 a = 1; int32 b = 1; }", "#/A.b", "also that of 'a'"),
        (P3 + "message A { int32 a = 1; int32 a = 2; }", "#/A.a", "used twice"),
        (P3 + "message A { reserved 1 to 5; int32 a = 3; }", "#/A.a", "the number 3 is reserved"),
        (P3 + 'message A { reserved "a"; int32 a = 3; }', "#/A.a", "the name 'a' is reserved"),
        (P3 + "message A { B b = 1; }", "#/A.b", "the type 'B' is not defined"),
        (P3 + "enum E { A = 1; }", "#/E", "the first value"),
        (P3 + "enum E { A = 0; B = 0; }", "#/E", "B and A have the number 0"),
        (P3 + "enum E { }", "#/E", "no values"),
        (P3 + "message A { map<double, int32> m = 1; }", "#/A", "'double' cannot be the key"),
        (P3 + "message A { oneof o { repeated int32 a = 1; } }", "#/A", "not allowed in a oneof"),
        (P3 + 'import "other.proto";', "#", "the import 'other.proto' is not among the references"),
        (P3 + "option nothing = 1;", "#", "the option 'nothing' is not known"),
        (P3 + "message A { int32 a = 1; } message A { }", "#", "duplicate"),
        (P3 + "$", "#", "unexpected character '$'"),
        ('edition = "2023";', "#", "editions are not supported"),
        ('syntax = "proto4";', "#", "unknown syntax"),
        (P3 + "message A { " * 40, "#" + "/A" * 26, "messages inside each other"),
        (P3 + "option (a) = " + "{" * 200, "#", "levels deep"),
        ("x" * 2_000_000, "#", "bytes, the limit"),
        (P3 + ";" * 300_000, "#", "more than 200,000 words"),
    ],
)
def test_invalid_schema_is_refused_with_path_and_reason(text: str, path: str, reason: str) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        PROTOBUF.parse(text)
    assert caught.value.details["path"] == path
    assert reason in caught.value.details["reason"]


def test_imports_are_found_among_references_and_their_public_imports() -> None:
    money = PROTOBUF.parse(P3 + "package money; message Amount { int64 units = 1; }")
    line = PROTOBUF.parse(
        P3 + 'package shop; import public "money.proto"; message Line { money.Amount price = 1; }',
        [SchemaReference("money.proto", money)],
    )
    text = P3 + 'package shop; import "line.proto"; message Order { repeated Line lines = 1; money.Amount total = 2; }'
    order = PROTOBUF.parse(text, [SchemaReference("line.proto", line)])
    assert order.names == ("shop.Order",)
    assert PROTOBUF.validator(order).problems(b"\x00\x0a\x04\x0a\x02\x08\x01\x12\x02\x08\x01") == []
    changed = PROTOBUF.parse(P3 + "package money; message Amount { string units = 1; }")
    other_line = PROTOBUF.parse(line.text, [SchemaReference("money.proto", changed)])
    other = PROTOBUF.parse(text, [SchemaReference("line.proto", other_line)])
    assert [found.path for found in PROTOBUF.incompatibilities(other, order)] == ["#/Amount.units"]
    assert PROTOBUF.incompatibilities(order, order) == []


def test_files_of_common_tools_need_no_reference() -> None:
    text = """syntax = "proto3";
        import "confluent/meta.proto";
        import "confluent/type/decimal.proto";
        import "google/protobuf/wrappers.proto";
        message A {
            confluent.type.Decimal price = 1 [(confluent.field_meta) = { params: [{ key: "scale" value: "2" }] }];
            google.protobuf.StringValue note = 2;
        }"""
    schema = PROTOBUF.parse(text)
    assert "(confluent.field_meta)" in schema.text
    assert PROTOBUF.validator(schema).problems(b"\x00\x0a\x04\x0a\x02ab\x12\x03\x0a\x01x") == []


def test_message_indexes_name_nested_messages() -> None:
    schema = PROTOBUF.parse(
        P3 + "package p; message A { message B { message C { string s = 1; } } int32 a = 1; } message D { }"
    )
    assert schema.names == ("p.A", "p.A.B", "p.A.B.C", "p.D")
    assert dict(schema.indexed_messages())["p.A.B.C"] == (0, 0, 0)
    for indexes, prefix in (
        ((0,), b"\x00"),
        ((1,), b"\x02\x02"),
        ((0, 0, 0), b"\x06\x00\x00\x00"),
        ((300,), b"\x02\xd8\x04"),
    ):
        assert encode_message_indexes(indexes) == prefix
        assert decode_message_indexes(prefix + b"x") == (indexes, len(prefix))
    validator = PROTOBUF.validator(schema)
    assert validator.problems(b"\x00\x08\x01") == []
    assert validator.problems(b"\x02\x00\x08\x01") == []
    assert validator.problems(b"\x06\x00\x00\x00\x0a\x01a") == []
    for payload, reason in (
        (b"", "does not begin with message indexes"),
        (b"\x02", "does not begin"),
        (b"\x02\x08", "no message with the indexes [4]"),
        (b"\xff\xff\xff\xff\xff\x01", "does not begin"),
        (b"\x01", "-1 message indexes"),
        (b"\x06\x00\x00\x00\x0a\x01\xff", "not a message of p.A.B.C"),
        (b"\x00\x08", "not a message of p.A"),
        (b"\x00" + b"\x0b" * 1_000_000, "not a message of p.A"),
    ):
        assert reason in validator.problems(payload)[0].reason, payload


def test_missing_required_fields_are_told_with_their_paths() -> None:
    schema = PROTOBUF.parse(
        P2 + "message A { required int32 a = 1; repeated B b = 2; } message B { required string s = 1; }"
    )
    problems = PROTOBUF.message_validator(schema, "A").problems(b"\x12\x00")
    assert [(problem.path, problem.reason) for problem in problems] == [
        ("/a", "the required field is missing"),
        ("/b[0]/s", "the required field is missing"),
    ]
    with pytest.raises(SchemaInvalid, match="there is no message 'C'"):
        PROTOBUF.message_validator(schema, "C")


def reasons(reader: str, writer: str, syntax: str = P3) -> list[str]:
    return [
        str(found)
        for found in PROTOBUF.incompatibilities(PROTOBUF.parse(syntax + reader), PROTOBUF.parse(syntax + writer))
    ]


COMPATIBLE = {
    "a field is added": ("message A { int32 a = 1; string b = 2; }", "message A { int32 a = 1; }"),
    "a field is removed": ("message A { }", "message A { int32 a = 1; }"),
    "a field is renamed": ("message A { int32 b = 1; }", "message A { int32 a = 1; }"),
    "varints": ("message A { bool a = 1; E b = 2; } enum E { Z = 0; }", "message A { uint64 a = 1; int32 b = 2; }"),
    "text becomes bytes": ("message A { bytes a = 1; }", "message A { string a = 1; }"),
    "text becomes repeated": ("message A { repeated string a = 1; }", "message A { string a = 1; }"),
    "a message is added": ("message B { } message A { }", "message A { }"),
    "values of an enum": ("enum E { Z = 0; B = 2; }", "enum E { Z = 0; A = 1; }"),
    "one field moves into a oneof": (
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        "message A { int32 a = 1; }",
    ),
    "a oneof is renamed": ("message A { oneof p { int32 a = 1; } }", "message A { oneof o { int32 a = 1; } }"),
    "a whole oneof is removed": ("message A { }", "message A { oneof o { int32 a = 1; int32 b = 2; } }"),
    "a field is reserved": ("message A { reserved 1; }", "message A { int32 a = 1; }"),
    "values of a map widen": ("message A { map<string, int64> m = 1; }", "message A { map<string, int32> m = 1; }"),
    "services": ("message A { } service S { rpc R(A) returns (A); }", "message A { }"),
}


def test_reader_with_a_compatible_schema_has_no_incompatibilities() -> None:
    assert {name: found for name, (reader, writer) in COMPATIBLE.items() if (found := reasons(reader, writer))} == {}


INCOMPATIBLE = [
    ("package b; message A { }", "package a; message A { }", "#: the writer's package is a"),
    ("message B { }", "message A { }", "#/A: the reader does not define this message"),
    ("message A { }", "message A { message B { } }", "#/A.B: the reader does not define"),
    (
        "message A { string a = 1; }",
        "message A { int32 a = 1; }",
        "#/A.a: the field 1 is a varint for the writer and text",
    ),
    ("message A { sint32 a = 1; }", "message A { int32 a = 1; }", "#/A.a: the field 1 is a varint"),
    ("message A { repeated int32 a = 1; }", "message A { int32 a = 1; }", "#/A.a: the field 1 is repeated on one side"),
    (
        "message A { B a = 1; } message B { } message C { }",
        "message A { C a = 1; } message B { } message C { }",
        "#/A.a: the field 1 is a C",
    ),
    (
        "message A { map<string, B> m = 1; } message B { }",
        "message A { repeated B m = 1; } message B { }",
        "#/A.m: the field 1 is a message",
    ),
    ("message A { map<string, string> m = 1; }", "message A { map<string, int32> m = 1; }", "#/A.m.value: "),
    (
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        "message A { int32 a = 1; int32 b = 2; }",
        "#/A.o: the reader's oneof joins fields that the writer may set together: a, b",
    ),
    (
        "message A { oneof o { int32 a = 1; } }",
        "message A { oneof o { int32 a = 1; int32 b = 2; } }",
        "#/A.b: the field 2 of the oneof 'o' is missing",
    ),
    ("message A { int32 b = 5; }", "message A { reserved 5; }", "#/A.b: the reader uses the number 5"),
    ("message A { int32 b = 5; }", 'message A { reserved "b"; }', "#/A.b: the reader uses the name 'b'"),
]


def test_incompatible_schema_is_told_with_path_and_reason() -> None:
    found = [(reasons(reader, writer), expected) for reader, writer, expected in INCOMPATIBLE]
    two = "message A { required int32 a = 1; }", "message A { optional int32 a = 1; }", "message A { }"
    found += [
        (reasons(two[0], two[2], P2), "#/A.a: the reader requires the field 1, which the writer does not have"),
        (reasons(two[0], two[1], P2), "#/A.a: the reader requires the field 1, the writer does not"),
        (reasons(two[2], two[0], P2), "#/A.a: the required field 1 is missing"),
    ]
    assert [(told, expected) for told, expected in found if not any(one.startswith(expected) for one in told)] == []
