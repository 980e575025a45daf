"""Files that every schema may import without a reference."""

from functools import cache

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from goqueue.schemas.protobuf.file_parser import parse_file
from goqueue.schemas.protobuf.linker import linked

_MODULES = (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
_TEXTS = {
    "confluent/meta.proto": 'syntax = "proto3"; package confluent;',
    "confluent/type/decimal.proto": """
        syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }""",
}
"""Files that schemas made by tools for Kafka import. Only custom options need the first, and those are kept as text."""


@cache
def well_known_files() -> dict[str, FileDescriptorProto]:
    """Return the files of Protobuf itself, and those of common tools, by the names that imports use."""
    found = {name: linked(parse_file(text), name, ()) for name, text in _TEXTS.items()}
    for module in _MODULES:
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        found[file.name] = file
    return found
