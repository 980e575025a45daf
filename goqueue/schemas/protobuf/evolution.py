"""Evolution: can messages of a writer's schema be read with a reader's, field number by field number?

The rules are those of Protobuf's guide on updating message types, as registries of other vendors apply them. Types
within a group have the same encoding: varints with enums and booleans, zigzag numbers, fixed 32 and 64 bits, texts
with bytes. A number may not become repeated, since packed numbers would be read as text.
"""

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from goqueue.schemas import limits
from goqueue.schemas.protobuf.linker import declarations
from goqueue.schemas.schema_format import ROOT, Incompatibility

Field = FieldDescriptorProto
GROUPS = {
    "a varint": (
        Field.TYPE_INT32,
        Field.TYPE_INT64,
        Field.TYPE_UINT32,
        Field.TYPE_UINT64,
        Field.TYPE_BOOL,
        Field.TYPE_ENUM,
    ),
    "a zigzag number": (Field.TYPE_SINT32, Field.TYPE_SINT64),
    "fixed 32 bits": (Field.TYPE_FIXED32, Field.TYPE_SFIXED32),
    "fixed 64 bits": (Field.TYPE_FIXED64, Field.TYPE_SFIXED64),
    "a float": (Field.TYPE_FLOAT,),
    "a double": (Field.TYPE_DOUBLE,),
    "text or bytes": (Field.TYPE_STRING, Field.TYPE_BYTES),
    "a message": (Field.TYPE_MESSAGE,),
    "a group": (Field.TYPE_GROUP,),
}
ENCODINGS = {kind: group for group, kinds in GROUPS.items() for kind in kinds}
REPEATABLE = {"text or bytes", "a message", "a group"}


class LinkedFiles:
    """A linked file and all messages that it can name."""

    def __init__(self, file: FileDescriptorProto, imported: list[FileDescriptorProto]) -> None:
        self.file = file
        self.own = {name: one for name, one in declarations(file) if isinstance(one, DescriptorProto)}
        self.messages = dict(self.own)
        self.packages = dict.fromkeys(self.own, file.package)
        for other in imported:
            for name, one in declarations(other):
                if isinstance(one, DescriptorProto):
                    self.messages.setdefault(name, one)
                    self.packages.setdefault(name, other.package)

    def message(self, field: FieldDescriptorProto) -> DescriptorProto | None:
        return self.messages.get(field.type_name[1:])

    def local_name(self, name: str) -> str:
        """Return the name of a message without its package."""
        package = self.packages.get(name, "")
        return name.removeprefix(f"{package}.") if package else name


class Evolution:
    """One check of a reader's file against a writer's."""

    def __init__(self, reader: LinkedFiles, writer: LinkedFiles) -> None:
        self._reader = reader
        self._writer = writer
        self._found: list[Incompatibility] = []
        self._compared: set[tuple[str, str]] = set()
        self._left: list[tuple[str, str]] = []

    def problems(self) -> list[Incompatibility]:
        if self._reader.file.package != self._writer.file.package:
            written, read = (one.file.package or "(none)" for one in (self._writer, self._reader))
            self._tell(ROOT, f"the writer's package is {written}, the reader's {read}")
            return self._found
        for name, message in self._writer.own.items():
            if message.options.map_entry:
                continue
            if name in self._reader.own:
                self._left.append((name, name))
            else:
                self._tell(self._path(name), "the reader does not define this message, the writer does")
        while self._left and len(self._found) <= limits.SCHEMA_INCOMPATIBILITIES_MAX:
            pair = self._left.pop()
            if pair not in self._compared:
                self._compared.add(pair)
                self._compare(*pair)
        return sorted(set(self._found))[: limits.SCHEMA_INCOMPATIBILITIES_MAX]

    def _path(self, name: str) -> str:
        return f"{ROOT}/{self._writer.local_name(name)}"

    def _tell(self, path: str, reason: str) -> None:
        self._found.append(Incompatibility(path, reason))

    def _compare(self, read_name: str, written_name: str) -> None:
        reader, writer = self._reader.messages[read_name], self._writer.messages[written_name]
        path = self._path(written_name)
        read = {field.number: field for field in reader.field}
        written = {field.number: field for field in writer.field}
        for number, field in written.items():
            place = f"{path}.{field.name}"
            if number in read:
                self._compare_fields(read[number], field, place)
            else:
                self._compare_removed(field, writer, read, place)
        for number, field in read.items():
            if number not in written:
                self._compare_added(field, writer, f"{path}.{field.name}")
        self._compare_oneofs(reader, writer, path)

    def _compare_removed(
        self, field: FieldDescriptorProto, writer: DescriptorProto, read: dict[int, FieldDescriptorProto], path: str
    ) -> None:
        if field.label == Field.LABEL_REQUIRED:
            self._tell(path, f"the required field {field.number} is missing in the reader")
        elif field.HasField("oneof_index") and not field.proto3_optional:
            oneof = field.oneof_index
            members = [one for one in writer.field if one.HasField("oneof_index") and one.oneof_index == oneof]
            if any(one.number in read for one in members):
                name = writer.oneof_decl[oneof].name
                self._tell(path, f"the field {field.number} of the oneof {name!r} is missing in the reader")

    def _compare_added(self, field: FieldDescriptorProto, writer: DescriptorProto, path: str) -> None:
        if field.label == Field.LABEL_REQUIRED:
            self._tell(path, f"the reader requires the field {field.number}, which the writer does not have")
        if any(kept.start <= field.number < kept.end for kept in writer.reserved_range):
            self._tell(path, f"the reader uses the number {field.number}, which the writer reserves")
        if field.name in writer.reserved_name:
            self._tell(path, f"the reader uses the name {field.name!r}, which the writer reserves")

    def _compare_fields(self, read: FieldDescriptorProto, written: FieldDescriptorProto, path: str) -> None:
        if read.label == Field.LABEL_REQUIRED != written.label:
            self._tell(path, f"the reader requires the field {read.number}, the writer does not")
        kinds = ENCODINGS[read.type], ENCODINGS[written.type]
        messages = self._reader.message(read), self._writer.message(written)
        maps = [message is not None and message.options.map_entry for message in messages]
        if kinds[0] != kinds[1] or maps[0] != maps[1]:
            shown = ["a map" if is_map else kind for kind, is_map in zip(kinds, maps, strict=True)]
            self._tell(path, f"the field {read.number} is {shown[1]} for the writer and {shown[0]} for the reader")
        elif messages[0] is not None and messages[1] is not None:
            self._compare_types(read, written, path, is_map=maps[0])
        elif kinds[0] not in REPEATABLE and _is_repeated(read) != _is_repeated(written):
            self._tell(path, f"the field {read.number} is repeated on one side only, which numbers may not be")

    def _compare_types(
        self, read: FieldDescriptorProto, written: FieldDescriptorProto, path: str, *, is_map: bool
    ) -> None:
        names = read.type_name[1:], written.type_name[1:]
        if is_map:
            entries = self._reader.messages[names[0]], self._writer.messages[names[1]]
            for one, other in zip(entries[0].field, entries[1].field, strict=True):
                self._compare_fields(one, other, f"{path}.{one.name}")
        elif self._reader.local_name(names[0]) != self._writer.local_name(names[1]):
            self._tell(path, f"the field {read.number} is a {names[1]} for the writer and a {names[0]} for the reader")
        elif names[0] not in self._reader.own or names[1] not in self._writer.own:
            self._left.append(names)

    def _compare_oneofs(self, reader: DescriptorProto, writer: DescriptorProto, path: str) -> None:
        """Refuse oneofs whose fields were independent: of several that are set only the last would be read."""
        groups = {field.number: _exclusive_group(field) for field in writer.field}
        for index, oneof in enumerate(reader.oneof_decl):
            members = [field for field in reader.field if field.HasField("oneof_index") and field.oneof_index == index]
            before = {groups[field.number] for field in members if field.number in groups}
            if len(before) > 1:
                moved = ", ".join(field.name for field in members if field.number in groups)
                self._tell(
                    f"{path}.{oneof.name}", f"the reader's oneof joins fields that the writer may set together: {moved}"
                )


def _is_repeated(field: FieldDescriptorProto) -> bool:
    return field.label == Field.LABEL_REPEATED


def _exclusive_group(field: FieldDescriptorProto) -> tuple[str, int]:
    if field.HasField("oneof_index"):
        return "oneof", field.oneof_index
    return "field", field.number
