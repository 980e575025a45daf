"""Linking: the names of types, known options, and what a file may not contain.

The result is a `FileDescriptorProto` as the compiler would write it, without custom options.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    UninterpretedOption,
)

from goqueue.schemas.schema_format import ROOT, schema_error

MESSAGE, ENUM = "message", "enum"


class NameTable:
    """The types that a file can name: its own, those of its imports, and of their public imports."""

    def __init__(self, file: FileDescriptorProto, visible: Sequence[FileDescriptorProto]) -> None:
        self.kinds: dict[str, str] = {}
        self.packages: set[str] = set()
        for one in (*visible, file):
            self._add_package(one.package)
            for name, declared in declarations(one):
                self.kinds[name] = MESSAGE if isinstance(declared, DescriptorProto) else ENUM

    def _add_package(self, package: str) -> None:
        parts = package.split(".")
        self.packages |= {".".join(parts[:count]) for count in range(1, len(parts) + 1)}

    def resolve(self, name: str, scope: str) -> str | None:
        """Return the full name of a type, searched from the innermost scope outward as the compiler does."""
        if name.startswith("."):
            return name[1:] if name[1:] in self.kinds else None
        first = name.partition(".")[0]
        while True:
            prefix = f"{scope}." if scope else ""
            if f"{prefix}{name}" in self.kinds:
                return f"{prefix}{name}"
            if first != name and f"{prefix}{first}" in self.kinds:
                return None  # the compiler stops at the innermost scope that has the first part
            if not scope:
                return None
            scope = scope.rpartition(".")[0]


def declarations(file: FileDescriptorProto) -> Iterator[tuple[str, DescriptorProto | EnumDescriptorProto]]:
    """Yield all messages and enums of a file with their full names, outer ones first."""
    prefix = f"{file.package}." if file.package else ""
    yield from ((prefix + enum.name, enum) for enum in file.enum_type)
    stack = [(prefix + message.name, message) for message in reversed(file.message_type)]
    while stack:
        name, message = stack.pop()
        yield name, message
        yield from ((f"{name}.{enum.name}", enum) for enum in message.enum_type)
        stack.extend((f"{name}.{inner.name}", inner) for inner in reversed(message.nested_type))


def linked(file: FileDescriptorProto, name: str, visible: Sequence[FileDescriptorProto]) -> FileDescriptorProto:
    """Return a file with resolved names and known options. Raises `SchemaInvalid`."""
    table = NameTable(file, visible)
    found = FileDescriptorProto()
    found.CopyFrom(file)
    found.name = name
    if found.syntax == "proto2":
        found.ClearField("syntax")  # the compiler leaves it out
    _interpret(found, ROOT)
    for message in found.message_type:
        _link_message(message, found.package, table, file.syntax)
    for enum in found.enum_type:
        _link_enum(enum, found.package, file.syntax)
    for extension in found.extension:
        _link_field(extension, found.package, table)
    for service in found.service:
        _link_service(service, found.package, table)
    return found


def path_of(scope: str, name: str = "") -> str:
    full = f"{scope}.{name}" if scope and name else scope or name
    return f"{ROOT}/{full}" if full else ROOT


def _link_message(message: DescriptorProto, scope: str, table: NameTable, syntax: str) -> None:
    full = f"{scope}.{message.name}" if scope else message.name
    _interpret(message, path_of(full))
    _check_fields(message, full)
    for field in (*message.field, *message.extension):
        _link_field(field, full, table)
    for oneof in message.oneof_decl:
        _interpret(oneof, path_of(full))
    for extensions in message.extension_range:
        _interpret(extensions, path_of(full))
    for inner in message.nested_type:
        _link_message(inner, full, table, syntax)
    for enum in message.enum_type:
        _link_enum(enum, full, syntax)


class _Ranges:
    """Ranges of numbers, each without its end."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(ranges):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def has(self, number: int) -> bool:
        index = bisect_right(self._starts, number) - 1
        return index >= 0 and number < self._ends[index]


def _check_fields(message: DescriptorProto, full: str) -> None:
    numbers: dict[int, str] = {}
    names: set[str] = set()
    taken = _Ranges(
        [
            *((one.start, one.end) for one in message.reserved_range),
            *((one.start, one.end) for one in message.extension_range),
        ]
    )
    reserved_names = set(message.reserved_name)
    for field in message.field:
        path = path_of(full, field.name)
        if field.number in numbers:
            raise schema_error(path, f"the number {field.number} is also that of {numbers[field.number]!r}")
        if field.name in names:
            raise schema_error(path, "the name is used twice")
        if field.name in reserved_names:
            raise schema_error(path, f"the name {field.name!r} is reserved")
        if taken.has(field.number):
            raise schema_error(path, f"the number {field.number} is reserved, or for extensions")
        numbers[field.number] = field.name
        names.add(field.name)


def _link_field(field: FieldDescriptorProto, scope: str, table: NameTable) -> None:
    path = path_of(scope, field.name)
    if field.extendee:
        field.extendee = "." + _resolved(field.extendee, scope, table, path)
    if field.type_name:
        full = _resolved(field.type_name, scope, table, path)
        field.type_name = f".{full}"
        if not field.HasField("type"):
            is_message = table.kinds[full] == MESSAGE
            field.type = FieldDescriptorProto.TYPE_MESSAGE if is_message else FieldDescriptorProto.TYPE_ENUM
    _interpret(field, path)


def _resolved(name: str, scope: str, table: NameTable, path: str) -> str:
    full = table.resolve(name, scope)
    if full is None:
        hint = "import the file that defines it, and add that file to the references"
        raise schema_error(path, f"the type {name!r} is not defined", hint=hint)
    return full


def _link_enum(enum: EnumDescriptorProto, scope: str, syntax: str) -> None:
    path = path_of(scope, enum.name)
    if not enum.value:
        raise schema_error(path, "the enum has no values")
    if syntax == "proto3" and enum.value[0].number != 0:
        raise schema_error(path, "the first value of an enum of proto3 has the number 0")
    may_repeat = enum.HasField("options") and any(
        option.name[0].name_part == "allow_alias" and option.identifier_value == "true"
        for option in enum.options.uninterpreted_option
    )
    numbers: dict[int, str] = {}
    taken = _Ranges([(one.start, one.end + 1) for one in enum.reserved_range])
    reserved_names = set(enum.reserved_name)
    for value in enum.value:
        if value.number in numbers and not may_repeat:
            raise schema_error(path, f"{value.name} and {numbers[value.number]} have the number {value.number}")
        if value.name in reserved_names or taken.has(value.number):
            raise schema_error(path, f"the name or number of {value.name} is reserved")
        numbers[value.number] = value.name
        _interpret(value, path)
    _interpret(enum, path)


def _link_service(service: Any, scope: str, table: NameTable) -> None:
    path = path_of(scope, service.name)
    _interpret(service, path)
    for method in service.method:
        for side in ("input_type", "output_type"):
            full = _resolved(getattr(method, side), f"{scope}.{service.name}".strip("."), table, path)
            if table.kinds[full] != MESSAGE:
                raise schema_error(path, f"{full} is no message")
            setattr(method, side, f".{full}")
        _interpret(method, path)


def _interpret(owner: Any, path: str) -> None:
    """Set the known options that are plain values, and drop all others: nothing here depends on them."""
    if not owner.HasField("options"):
        return
    options = owner.options
    written = list(options.uninterpreted_option)
    options.ClearField("uninterpreted_option")
    for option in written:
        if len(option.name) != 1 or option.name[0].is_extension:
            continue
        name = option.name[0].name_part
        known = options.DESCRIPTOR.fields_by_name.get(name)
        if known is None or name == "uninterpreted_option":
            raise schema_error(path, f"the option {name!r} is not known; custom ones are in parentheses")
        if known.message_type is None:
            _set_option(options, known, option, path)
    if not options.ListFields():
        owner.ClearField("options")


def _set_option(options: Any, known: Any, option: UninterpretedOption, path: str) -> None:
    value = _option_value(known, option)
    if value is None:
        raise schema_error(path, f"the option {known.name!r} has a value of another type")
    if known.is_repeated:
        getattr(options, known.name).append(value)
    else:
        setattr(options, known.name, value)


def _option_value(known: Any, option: UninterpretedOption) -> Any:
    if known.enum_type is not None:
        found = known.enum_type.values_by_name.get(option.identifier_value)
        return None if found is None else found.number
    if known.type == FieldDescriptorProto.TYPE_BOOL:
        return {"true": True, "false": False}.get(option.identifier_value)
    if known.type == FieldDescriptorProto.TYPE_STRING:
        return option.string_value.decode("utf-8", "replace") if option.HasField("string_value") else None
    return option.positive_int_value if option.HasField("positive_int_value") else None
