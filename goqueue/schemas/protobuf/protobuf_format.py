"""Protobuf as a format: parsing, compatibility, payloads."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from goqueue.schemas.protobuf.descriptors import decode_descriptor, encode_descriptor, is_encoded
from goqueue.schemas.protobuf.evolution import Evolution, LinkedFiles
from goqueue.schemas.protobuf.file_parser import parse_file
from goqueue.schemas.protobuf.linker import linked
from goqueue.schemas.protobuf.payloads import MessageValidator, ProtobufValidator
from goqueue.schemas.protobuf.texts import FileWriter
from goqueue.schemas.protobuf.well_known import well_known_files
from goqueue.schemas.schema_format import (
    ROOT,
    Incompatibility,
    ParsedSchema,
    SchemaKind,
    SchemaReference,
    all_references,
    schema_error,
)

FILE_NAME = "schema.proto"
"""The name of a file that no reference names."""


@dataclass(frozen=True, eq=False)
class ProtobufSchema(ParsedSchema):
    """A file with all files that it imports."""

    written: FileDescriptorProto = field(kw_only=True, repr=False)
    """As the text has it: names unresolved, all options uninterpreted."""
    file: FileDescriptorProto = field(kw_only=True, repr=False)
    """As the compiler would write it, without custom options."""
    imported: tuple[FileDescriptorProto, ...] = field(kw_only=True, repr=False)
    """Every file that is needed, each before those that need it."""
    pool: DescriptorPool = field(kw_only=True, repr=False)

    @cached_property
    def normalized_text(self) -> str:
        return FileWriter(_with_full_names(self.written, self.file), is_ordered=True).text()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The full names of all messages; the first message of the file is the main one."""
        return tuple(name for name, _ in self.indexed_messages())

    def indexed_messages(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the messages with their message indexes."""
        prefix = f"{self.file.package}." if self.file.package else ""
        yield from _indexed(self.file.message_type, prefix, ())

    @property
    def encoded_descriptor(self) -> str:
        """The file as base64 of its descriptor."""
        return encode_descriptor(self.file)

    @cached_property
    def names_by_indexes(self) -> Mapping[tuple[int, ...], str]:
        return {indexes: name for name, indexes in self.indexed_messages()}

    def message_class(self, name: str) -> Any:
        return GetMessageClass(self.pool.FindMessageTypeByName(name))


def _indexed(
    messages: Iterable[DescriptorProto], prefix: str, path: tuple[int, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    for index, message in enumerate(messages):
        yield prefix + message.name, (*path, index)
        yield from _indexed(message.nested_type, f"{prefix}{message.name}.", (*path, index))


class ProtobufFormat:
    """Rules of Protobuf, proto2 and proto3."""

    kind = SchemaKind.PROTOBUF

    def parse(self, text: str, references: Sequence[SchemaReference] = ()) -> ProtobufSchema:
        written = parse_file(decode_descriptor(text) if is_encoded(text) else text)
        available = dict(well_known_files())
        for reference in all_references(references):
            if not isinstance(reference.schema, ProtobufSchema):
                raise schema_error(ROOT, f"the reference {reference.name!r} is a schema of {reference.schema.kind}")
            file = FileDescriptorProto()
            file.CopyFrom(reference.schema.file)
            file.name = reference.name
            available[reference.name] = file
        needed = _needed(written, available)
        file = linked(written, FILE_NAME, _visible(written, available))
        return ProtobufSchema(
            SchemaKind.PROTOBUF,
            FileWriter(written, is_ordered=False).text(),
            tuple(references),
            written=written,
            file=file,
            imported=tuple(needed),
            pool=_pool([*needed, file]),
        )

    def incompatibilities(self, reader: ParsedSchema, writer: ParsedSchema) -> list[Incompatibility]:
        files = (cast("ProtobufSchema", one) for one in (reader, writer))
        return Evolution(*(LinkedFiles(one.file, list(one.imported)) for one in files)).problems()

    def validator(self, schema: ParsedSchema) -> ProtobufValidator:
        file = cast("ProtobufSchema", schema)
        return ProtobufValidator(
            {indexes: MessageValidator(file.message_class(name)) for name, indexes in file.indexed_messages()}
        )

    def message_validator(self, schema: ParsedSchema, name: str) -> MessageValidator:
        """Compile one message by its full name, for payloads without message indexes. Raises `SchemaInvalid`."""
        if name not in schema.names:
            raise schema_error(ROOT, f"there is no message {name!r}", hint=f"use one of {', '.join(schema.names[:10])}")
        return MessageValidator(cast("ProtobufSchema", schema).message_class(name))


def _needed(file: FileDescriptorProto, available: dict[str, FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Return all imported files, each before those that need it."""
    found: dict[str, FileDescriptorProto] = {}
    stack = [(name, False) for name in reversed(file.dependency)]
    while stack:
        name, is_expanded = stack.pop()
        if is_expanded:
            found[name] = available[name]
        elif name not in found:
            if name not in available:
                hint = "add it to the references under this name"
                raise schema_error(ROOT, f"the import {name!r} is not among the references", hint=hint)
            stack.append((name, True))
            stack.extend((inner, False) for inner in reversed(available[name].dependency))
    return list(found.values())


def _visible(file: FileDescriptorProto, available: dict[str, FileDescriptorProto]) -> list[FileDescriptorProto]:
    """Return the files whose types a file may name: its imports, and what those import publicly."""
    found: dict[str, FileDescriptorProto] = {}
    names = list(file.dependency)
    while names:
        name = names.pop()
        if name not in found:
            one = found[name] = available[name]
            names += [one.dependency[index] for index in one.public_dependency]
    return list(found.values())


def _pool(files: list[FileDescriptorProto]) -> DescriptorPool:
    """Build all messages, which checks what is left to check."""
    pool = DescriptorPool()
    try:
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
    except TypeError as error:
        raise schema_error(ROOT, str(error).removeprefix("Couldn't build proto file into descriptor pool: ")) from None
    return pool


def _with_full_names(written: FileDescriptorProto, file: FileDescriptorProto) -> FileDescriptorProto:
    """Return a file as written, with the names of its types resolved."""
    found = FileDescriptorProto()
    found.CopyFrom(written)
    for one, other in zip(found.message_type, file.message_type, strict=True):
        _resolve_message(one, other)
    _resolve_fields(found.extension, file.extension)
    for service, resolved in zip(found.service, file.service, strict=True):
        for method, resolved_method in zip(service.method, resolved.method, strict=True):
            method.input_type, method.output_type = resolved_method.input_type, resolved_method.output_type
    return found


def _resolve_message(message: DescriptorProto, resolved: DescriptorProto) -> None:
    _resolve_fields(message.field, resolved.field)
    _resolve_fields(message.extension, resolved.extension)
    for inner, resolved_inner in zip(message.nested_type, resolved.nested_type, strict=True):
        _resolve_message(inner, resolved_inner)


def _resolve_fields(fields: Iterable[Any], resolved: Iterable[Any]) -> None:
    for one, other in zip(fields, resolved, strict=True):
        if one.HasField("type"):
            continue  # scalars, and the nested messages of maps and groups
        one.type_name = other.type_name
