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


@cache
def well_known_files() -> dict[str, FileDescriptorProto]:
    """Return the files of Protobuf itself by the names that imports use."""
    found = {}
    for module in _MODULES:
        file = FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        found[file.name] = file
    return found
