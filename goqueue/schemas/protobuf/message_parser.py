"""Messages of `.proto` texts: fields, maps, groups, oneofs, extensions, reserved names and numbers."""

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, UninterpretedOption

from goqueue.schemas import limits
from goqueue.schemas.protobuf.enum_parser import FIELD_MAX, number_range, read_enum, read_reserved
from goqueue.schemas.protobuf.option_parser import read_inline_options, read_option_statement
from goqueue.schemas.protobuf.tokens import TokenReader

LABELS = {
    "optional": FieldDescriptorProto.LABEL_OPTIONAL,
    "required": FieldDescriptorProto.LABEL_REQUIRED,
    "repeated": FieldDescriptorProto.LABEL_REPEATED,
}
SCALARS = {
    name: FieldDescriptorProto.Type.Value(f"TYPE_{name.upper()}")
    for name in (
        "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32",
        "sfixed32", "sfixed64", "sint32", "sint64",
    )
}  # fmt: skip
NESTED_MESSAGES_MAX = limits.SCHEMA_DEPTH_MAX // 4
KEYS = SCALARS.keys() - {"double", "float", "bytes"}


class MessageParser:
    """Reads the bodies of messages."""

    def __init__(self, tokens: TokenReader, syntax: str) -> None:
        self._tokens = tokens
        self._syntax = syntax

    def read_message(self, message: DescriptorProto) -> None:
        message.name = self._tokens.name()
        self._read_body(message)

    def _read_body(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        tokens.scope.append(message.name)
        if len(tokens.scope) > NESTED_MESSAGES_MAX:
            tokens.fail(f"more than {NESTED_MESSAGES_MAX} messages inside each other")
        tokens.expect("{")
        while not tokens.accept("}"):
            self._read_statement(message)
        _add_presence(message)
        tokens.scope.pop()

    def _read_statement(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        word = tokens.peek().text if tokens.peek().kind in {"name", "symbol"} else ""
        following = tokens.peek(1)
        if word == ";":
            tokens.next()
        elif word == "option" and (following.kind == "name" or following.text == "("):
            tokens.next()
            read_option_statement(tokens, message.options)
        elif word == "message":
            tokens.next()
            self.read_message(message.nested_type.add())
        elif word == "enum":
            tokens.next()
            read_enum(tokens, message.enum_type.add())
        elif word == "extend":
            tokens.next()
            self.read_extensions(message.extension, message.nested_type)
        elif word == "oneof":
            tokens.next()
            self._read_oneof(message)
        elif word == "reserved":
            tokens.next()
            read_reserved(tokens, message, FIELD_MAX, is_end_included=False)
        elif word == "extensions":
            tokens.next()
            self._read_extension_ranges(message)
        elif word == "map" and following.text == "<":
            self._read_map(message)
        else:
            self._read_field(message.field.add(), message.nested_type)

    def _read_oneof(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        index = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=tokens.name())
        opened = tokens.expect("{")
        before = len(message.field)
        while not tokens.accept("}"):
            if tokens.accept(";"):
                continue
            if tokens.is_at("option") and tokens.peek(2).text in {"=", ".", "("}:
                tokens.next()
                read_option_statement(tokens, oneof.options)
                continue
            if (tokens.is_at(*LABELS) and tokens.peek(1).text != "=") or (
                tokens.is_at("map") and tokens.peek(1).text == "<"
            ):
                tokens.fail(f"{tokens.peek().text!r} is not allowed in a oneof")
            field = message.field.add()
            self._read_field(field, message.nested_type, is_in_oneof=True)
            field.oneof_index = index
        if len(message.field) == before:
            tokens.fail(f"the oneof {oneof.name!r} has no fields", opened)

    def _read_field(self, field: FieldDescriptorProto, nested: Any, *, is_in_oneof: bool = False) -> None:
        tokens = self._tokens
        label = "" if is_in_oneof or not tokens.is_at(*LABELS) else tokens.next().text
        if not label and not is_in_oneof and self._syntax == "proto2":
            tokens.fail(f"expected optional, required or repeated, found {tokens.peek().text!r}")
        if label == "required" and self._syntax == "proto3":
            tokens.fail("proto3 has no required fields")
        field.label = LABELS[label or "optional"]
        if label == "optional" and self._syntax == "proto3":
            field.proto3_optional = True
        if tokens.is_at("group") and tokens.peek(1).kind == "name" and tokens.peek(2).text == "=":
            self._read_group(field, nested)
            return
        _set_type(field, tokens.full_name())
        field.name = tokens.name()
        self._read_number_and_options(field)
        tokens.expect(";")

    def _read_group(self, field: FieldDescriptorProto, nested: Any) -> None:
        tokens = self._tokens
        group = tokens.expect("group")
        if self._syntax == "proto3":
            tokens.fail("proto3 has no groups", group)
        name = tokens.name()
        field.name, field.type, field.type_name = name.lower(), FieldDescriptorProto.TYPE_GROUP, name
        self._read_number_and_options(field)
        message = nested.add(name=name)
        self._read_body(message)

    def _read_map(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        tokens.next()
        tokens.expect("<")
        token = tokens.peek()
        key = tokens.name()
        if key not in KEYS:
            tokens.fail(f"{key!r} cannot be the key of a map", token)
        tokens.expect(",")
        value = tokens.full_name()
        tokens.expect(">")
        field = message.field.add(name=tokens.name(), label=FieldDescriptorProto.LABEL_REPEATED)
        self._read_number_and_options(field)
        tokens.expect(";")
        entry = message.nested_type.add(name=entry_name(field.name))
        entry.options.map_entry = True
        for number, (name, kind) in enumerate((("key", key), ("value", value)), start=1):
            _set_type(entry.field.add(name=name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL), kind)
        field.type_name = entry.name
        field.type = FieldDescriptorProto.TYPE_MESSAGE

    def _read_number_and_options(self, field: FieldDescriptorProto) -> None:
        tokens = self._tokens
        tokens.expect("=")
        token = tokens.peek()
        number = tokens.integer()
        if not 0 < number <= FIELD_MAX or 19_000 <= number < 20_000:
            tokens.fail(f"{number} cannot be the number of a field", token)
        field.number = number
        read_inline_options(tokens, field.options, lambda option: self._take_special(field, option))

    def _take_special(self, field: FieldDescriptorProto, option: UninterpretedOption) -> bool:
        """Use the two options that are parts of the field itself."""
        name = option.name[0].name_part if len(option.name) == 1 and not option.name[0].is_extension else ""
        if name == "json_name" and option.HasField("string_value"):
            field.json_name = option.string_value.decode("utf-8", "replace")
            return True
        if name == "default":
            if self._syntax == "proto3":
                self._tokens.fail("proto3 has no defaults of its own")
            field.default_value = _default_text(field, option)
            return True
        return False

    def _read_extension_ranges(self, message: DescriptorProto) -> None:
        tokens = self._tokens
        if self._syntax == "proto3":
            tokens.fail("proto3 has no extension ranges")
        before = len(message.extension_range)
        while True:
            start, end = number_range(tokens, FIELD_MAX)
            message.extension_range.add(start=start, end=end + 1)
            if not tokens.accept(","):
                break
        first = message.extension_range[before]
        read_inline_options(tokens, first.options)
        for other in message.extension_range[before + 1 :] if first.HasField("options") else ():
            other.options.CopyFrom(first.options)
        tokens.expect(";")

    def read_extensions(self, extensions: Any, nested: Any) -> None:
        tokens = self._tokens
        extendee = tokens.full_name()
        tokens.expect("{")
        while not tokens.accept("}"):
            if not tokens.accept(";"):
                field = extensions.add(extendee=extendee)
                self._read_field(field, nested)


def _set_type(field: FieldDescriptorProto, name: str) -> None:
    if name in SCALARS:
        field.type = SCALARS[name]
    else:
        field.type_name = name


def entry_name(field: str) -> str:
    """Return the name of a map's entries, as the compiler forms it: `line_items` has `LineItemsEntry`."""
    found = ""
    is_start = True
    for letter in field:
        if letter != "_":
            found += letter.upper() if is_start and letter.islower() else letter
        is_start = letter == "_"
    return f"{found}Entry"


def _add_presence(message: DescriptorProto) -> None:
    """Make a oneof of one member of each field with presence in proto3, after all other oneofs."""
    taken = {one.name for group in (message.field, message.oneof_decl, message.nested_type) for one in group}
    for field in message.field:
        if field.proto3_optional:
            name = f"_{field.name}"
            while name in taken:
                name = f"X{name}"
            taken.add(name)
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=name)


def _default_text(field: FieldDescriptorProto, option: UninterpretedOption) -> str:
    """Return a default as descriptors have it."""
    if option.HasField("string_value"):
        if field.type == FieldDescriptorProto.TYPE_BYTES:
            return escaped_bytes(option.string_value)
        return option.string_value.decode("utf-8", "replace")
    if option.HasField("identifier_value"):
        return option.identifier_value
    for kind in ("positive_int_value", "negative_int_value", "double_value"):
        if option.HasField(kind):
            value = getattr(option, kind)
            return f"{value:g}" if kind == "double_value" and float(f"{value:g}") == value else str(value)
    return ""


def escaped_bytes(value: bytes) -> str:
    """Return bytes as descriptors have them: printable ASCII, others as octal escapes."""
    named = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(named.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in value)
