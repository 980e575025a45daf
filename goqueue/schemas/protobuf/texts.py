"""Texts of `.proto` files: canonical (as written, without comments) and normalized."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    UninterpretedOption,
)

from goqueue.schemas.protobuf.enum_parser import ENUM_MAX, FIELD_MAX
from goqueue.schemas.protobuf.message_parser import LABELS, SCALARS

_LABEL_NAMES = {number: name for name, number in LABELS.items()}
_SCALAR_NAMES = {number: name for name, number in SCALARS.items()}
_MAX = {FIELD_MAX: "max", ENUM_MAX: "max"}
Lines = Iterator[str]


class FileWriter:
    """Writes a file. With an order, options and imports are sorted and fields come by number."""

    def __init__(self, file: FileDescriptorProto, *, is_ordered: bool) -> None:
        self._file = file
        self._is_ordered = is_ordered

    def text(self) -> str:
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Lines:
        file = self._file
        yield f'syntax = "{file.syntax}";'
        if file.package:
            yield f"package {file.package};"
        yield from self._sorted(self._imports())
        yield from self._options(file.options)
        groups = _group_names(file.extension)
        for message in file.message_type:  # before enums: some clients take the first type for the message
            if message.name not in groups:
                yield from self._message("message", message)
        for enum in file.enum_type:
            yield from self._enum(enum)
        yield from self._extensions(file.extension, file.message_type)
        for service in file.service:
            yield from self._service(service)

    def _sorted(self, lines: Iterable[str]) -> Iterable[str]:
        return sorted(lines) if self._is_ordered else lines

    def _imports(self) -> Lines:
        for index, name in enumerate(self._file.dependency):
            kind = "public " if index in self._file.public_dependency else ""
            kind = "weak " if index in self._file.weak_dependency else kind
            yield f"import {kind}{_quoted(name.encode())};"

    def _options(self, options: Any) -> Iterable[str]:
        return self._sorted(f"option {_option(one)};" for one in options.uninterpreted_option)

    def _inline(self, options: Any, special: Iterable[str] = ()) -> str:
        written = [*special, *map(_option, options.uninterpreted_option)]
        return f" [{', '.join(self._sorted(written))}]" if written else ""

    def _message(self, head: str, message: DescriptorProto) -> Lines:
        yield f"{head} {message.name} {{" if head else "{"
        yield from _indented(self._body(message))
        yield "}"

    def _body(self, message: DescriptorProto) -> Lines:
        yield from self._options(message.options)
        yield from self._reserved(message, lambda end: end - 1)
        for extensions in message.extension_range:
            yield f"extensions {_range(extensions.start, extensions.end - 1)}{self._inline(extensions.options)};"
        yield from self._fields(message)
        for enum in message.enum_type:
            yield from self._enum(enum)
        hidden = _group_names(message.field) | _group_names(message.extension)
        for inner in message.nested_type:
            if inner.name not in hidden and not inner.options.map_entry:
                yield from self._message("message", inner)
        yield from self._extensions(message.extension, message.nested_type)

    def _fields(self, message: DescriptorProto) -> Lines:
        written: set[int] = set()
        order = sorted(message.field, key=lambda field: field.number) if self._is_ordered else message.field
        members: dict[int, list[FieldDescriptorProto]] = {}
        for one in order:
            if one.HasField("oneof_index"):
                members.setdefault(one.oneof_index, []).append(one)
        for field in order:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield from self._field(field, message.nested_type, label=self._label(field))
            elif field.oneof_index not in written:
                written.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                yield f"oneof {oneof.name} {{"
                yield from _indented(self._options(oneof.options))
                for one in members[field.oneof_index]:
                    yield from _indented(self._field(one, message.nested_type, label=""))
                yield "}"

    def _label(self, field: FieldDescriptorProto) -> str:
        is_plain = field.label == FieldDescriptorProto.LABEL_OPTIONAL and self._file.syntax == "proto3"
        return "" if is_plain and not field.proto3_optional else f"{_LABEL_NAMES[field.label]} "

    def _field(self, field: FieldDescriptorProto, nested: Any, *, label: str) -> Lines:
        special = [f"json_name = {_quoted(field.json_name.encode())}"] if field.HasField("json_name") else []
        if field.HasField("default_value"):
            special.append(f"default = {_default(field)}")
        tail = f"{field.name} = {field.number}{self._inline(field.options, special)}"
        inner = {one.name: one for one in nested}.get(field.type_name)
        if field.type == FieldDescriptorProto.TYPE_GROUP and inner is not None:
            group = f"{inner.name} = {field.number}{self._inline(field.options, special)}"
            yield f"{label}group {group} {{"
            yield from _indented(self._body(inner))
            yield "}"
        elif inner is not None and inner.options.map_entry:
            key, value = inner.field
            yield f"map<{_type(key)}, {_type(value)}> {tail};"
        else:
            yield f"{label}{_type(field)} {tail};"

    def _extensions(self, extensions: Iterable[FieldDescriptorProto], nested: Any) -> Lines:
        for extension in extensions:
            yield f"extend {extension.extendee} {{"
            yield from _indented(self._field(extension, nested, label=self._label(extension)))
            yield "}"

    def _enum(self, enum: EnumDescriptorProto) -> Lines:
        yield f"enum {enum.name} {{"
        yield from _indented(self._options(enum.options))
        yield from _indented(self._reserved(enum, lambda end: end))
        for value in enum.value:
            yield f"  {value.name} = {value.number}{self._inline(value.options)};"
        yield "}"

    def _reserved(self, owner: Any, last: Callable[[int], int]) -> Lines:
        for one in owner.reserved_range:
            yield f"reserved {_range(one.start, last(one.end))};"
        for name in self._sorted(owner.reserved_name):
            yield f"reserved {_quoted(name.encode())};"

    def _service(self, service: Any) -> Lines:
        yield f"service {service.name} {{"
        yield from _indented(self._options(service.options))
        for method in service.method:
            given = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            answered = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            options = list(self._options(method.options))
            yield f"  rpc {method.name}({given}) returns ({answered}){' {' if options else ';'}"
            if options:
                yield from (f"    {line}" for line in options)
                yield "  }"
        yield "}"


def _indented(lines: Iterable[str]) -> Lines:
    return (f"  {line}" for line in lines)


def _group_names(fields: Iterable[FieldDescriptorProto]) -> set[str]:
    return {field.type_name.rpartition(".")[2] for field in fields if field.type == FieldDescriptorProto.TYPE_GROUP}


def _type(field: FieldDescriptorProto) -> str:
    return field.type_name or _SCALAR_NAMES[field.type]


def _range(start: int, end: int) -> str:
    return str(start) if start == end else f"{start} to {_MAX.get(end, end)}"


def _option(option: UninterpretedOption) -> str:
    name = ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in option.name)
    return f"{name} = {_value(option)}"


def _value(option: UninterpretedOption) -> str:
    if option.HasField("string_value"):
        return _quoted(option.string_value)
    if option.HasField("aggregate_value"):
        return f"{{ {option.aggregate_value} }}"
    if option.HasField("double_value"):
        return repr(option.double_value)
    for kind in ("identifier_value", "positive_int_value", "negative_int_value"):
        if option.HasField(kind):
            return str(getattr(option, kind))
    return ""


def _default(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_STRING:
        return _quoted(field.default_value.encode())
    if field.type == FieldDescriptorProto.TYPE_BYTES:
        return f'"{field.default_value}"'
    return field.default_value


def _quoted(value: bytes) -> str:
    """Return a text in quotes. UTF-8 stays readable."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return '"' + "".join(f"\\{byte:03o}" for byte in value) + '"'
    named = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(named.get(one) or (one if ord(one) >= 32 else f"\\{ord(one):03o}") for one in text) + '"'
