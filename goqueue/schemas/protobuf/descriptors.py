"""Files as encoded descriptors, as some clients register them: base64 of a `FileDescriptorProto`.

A descriptor becomes the text that its author could have written, so that both have one canonical text and one id.
Custom options cannot be read without the files that define them, and are left out.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    UninterpretedOption,
)
from google.protobuf.message import DecodeError

from goqueue.schemas.protobuf.linker import NameTable
from goqueue.schemas.protobuf.message_parser import NESTED_MESSAGES_MAX
from goqueue.schemas.protobuf.texts import FileWriter
from goqueue.schemas.protobuf.well_known import well_known_files
from goqueue.schemas.schema_format import ROOT, check_text, schema_error

_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\s*\Z")


def is_encoded(text: str) -> bool:
    """Tell whether a schema is base64: every text of a file has a `;` or a brace."""
    return _BASE64.match(text) is not None


def encode_descriptor(file: FileDescriptorProto) -> str:
    return b64encode(file.SerializeToString()).decode()


def decode_descriptor(encoded: str) -> str:
    """Return the text of an encoded descriptor."""
    check_text(encoded)
    try:
        file = FileDescriptorProto.FromString(b64decode(encoded))
    except (ValueError, DecodeError):
        raise schema_error(ROOT, "it is neither a text nor base64 of a FileDescriptorProto") from None
    return descriptor_text(file)


def descriptor_text(file: FileDescriptorProto) -> str:
    """Return the text of a file. It has the names of types as short as an author would write them."""
    if file.syntax not in {"", "proto2", "proto3"}:
        raise schema_error(ROOT, f'the syntax is {file.syntax!r}; use "proto2" or "proto3"')
    written = FileDescriptorProto()
    written.CopyFrom(file)
    written.syntax = file.syntax or "proto2"
    _check_depth(written)
    names = _NameShortener(written)
    _write_options(written)
    for enum in written.enum_type:
        _write_enum(enum)
    for message in written.message_type:
        _write_message(message, written.package, names)
    for extension in written.extension:
        _write_field(extension, written.package, names, written.message_type)
    for service in written.service:
        _write_options(service)
        for method in service.method:
            scope = _joined(written.package, service.name)
            method.input_type = names.short(method.input_type, scope)
            method.output_type = names.short(method.output_type, scope)
            _write_options(method)
    return FileWriter(written, is_ordered=False).text()


def _check_depth(file: FileDescriptorProto) -> None:
    level, depth = list(file.message_type), 0
    while level:
        depth += 1
        if depth > NESTED_MESSAGES_MAX:
            raise schema_error(ROOT, f"more than {NESTED_MESSAGES_MAX} messages inside each other")
        level = [inner for message in level for inner in message.nested_type]


class _NameShortener:
    """Finds names that mean the same as full ones where they stand."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._table = NameTable(file, ())
        for name in _mentioned(file):
            self._table.kinds.setdefault(name.removeprefix("."), "")

    def short(self, full: str, scope: str) -> str:
        if not full.startswith("."):
            return full
        name, shared = full[1:], 0
        parts, around = name.split("."), scope.split(".")
        while shared < len(parts) - 1 and parts[shared : shared + 1] == around[shared : shared + 1]:
            shared += 1
        for candidate in (".".join(parts[shared:]), name):
            if self._table.resolve(candidate, scope) == name:
                return candidate
        return full


def _mentioned(file: FileDescriptorProto) -> Iterator[str]:
    """Yield the names of types that fields and methods have."""
    for method in (one for service in file.service for one in service.method):
        yield from (method.input_type, method.output_type)
    yield from (name for field in file.extension for name in (field.type_name, field.extendee))
    stack = list(file.message_type)
    while stack:
        message = stack.pop()
        stack.extend(message.nested_type)
        yield from (
            name for field in (*message.field, *message.extension) for name in (field.type_name, field.extendee)
        )


def _write_message(message: DescriptorProto, scope: str, names: _NameShortener) -> None:
    full = _joined(scope, message.name)
    for inner in message.nested_type:
        _write_message(inner, full, names)
    for field in (*message.field, *message.extension):
        _write_field(field, full, names, message.nested_type)
    for enum in message.enum_type:
        _write_enum(enum)
    for owner in (message, *message.oneof_decl, *message.extension_range):
        _write_options(owner)


def _write_field(field: FieldDescriptorProto, scope: str, names: _NameShortener, nested: Any) -> None:
    owner, _, own = field.type_name.rpartition(".")
    inner = next((one for one in nested if one.name == own), None) if owner.removeprefix(".") == scope else None
    if inner is not None and (inner.options.map_entry or field.type == FieldDescriptorProto.TYPE_GROUP):
        field.type_name = own  # the writer looks for it beside the field
    elif field.type_name:
        field.type_name = names.short(field.type_name, scope)
    if field.extendee:
        field.extendee = names.short(field.extendee, scope)
    if field.json_name == _json_name(field.name):
        field.ClearField("json_name")
    _write_options(field)


def _write_enum(enum: Any) -> None:
    for owner in (enum, *enum.value):
        _write_options(owner)


def _write_options(owner: Any) -> None:
    """Replace known options by what a parser reads them from."""
    if not owner.HasField("options"):
        return
    options = owner.options
    written = list(options.uninterpreted_option)
    for field, value in options.ListFields():
        if field.name in {"uninterpreted_option", "map_entry"} or field.is_extension or field.message_type is not None:
            continue
        written += (_option(field, one) for one in (value if field.is_repeated else [value]))
    is_entry = isinstance(owner, DescriptorProto) and options.map_entry
    options.Clear()
    options.uninterpreted_option.extend(written)
    if is_entry:
        options.map_entry = True


def _option(field: Any, value: Any) -> UninterpretedOption:
    option = UninterpretedOption()
    option.name.add(name_part=field.name, is_extension=False)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        option.identifier_value = known.name if known is not None else str(value)
    elif field.type == FieldDescriptorProto.TYPE_BOOL:
        option.identifier_value = "true" if value else "false"
    elif field.type == FieldDescriptorProto.TYPE_STRING:
        option.string_value = value.encode()
    else:
        option.positive_int_value = value
    return option


def _json_name(name: str) -> str:
    """Return the name in JSON that the compiler derives."""
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _joined(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


class MessageFile(NamedTuple):
    """The file of a generated message class, with the files that it imports and that no registry knows beforehand."""

    name: str
    text: str
    imports: tuple["MessageFile", ...]
    kind: Any
    """The class."""
    message: str
    """The full name of its message."""


def file_of_class(kind: Any) -> MessageFile:
    """Return the file of a message class, as it is registered."""
    return _message_file(kind.DESCRIPTOR.file, kind, {})


def _message_file(descriptor: Any, kind: Any, known: dict[str, MessageFile]) -> MessageFile:
    if descriptor.name not in known:
        file = FileDescriptorProto()
        descriptor.CopyToProto(file)
        needed = [one for one in descriptor.dependencies if one.name not in well_known_files()]
        imports = tuple(_message_file(one, kind, known) for one in needed)
        message = kind.DESCRIPTOR.full_name
        known[descriptor.name] = MessageFile(descriptor.name, descriptor_text(file), imports, kind, message)
    return known[descriptor.name]
