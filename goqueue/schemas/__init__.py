"""Formats of schemas: JSON Schema, Avro and Protobuf.

Rules only: no network, no files, no state besides what the caller keeps. `formats.schema_format(kind)` gives the
format; `schema_format` has the types that all formats share; `compatibility` applies a level to earlier versions.
The libraries are the extra `schemas`; each is loaded with its format.
"""
