"""Protobuf without a compiler: `.proto` texts of proto2 and proto3, their evolution, payloads.

`tokens` and the parsers read a text into a `FileDescriptorProto` whose names and options are as written; `linker`
resolves names and known options, so that the library `protobuf` can build messages; `texts` writes a file; `evolution`
compares two; `payloads` reads message indexes and checks messages.
"""
