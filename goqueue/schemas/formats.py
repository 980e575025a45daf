"""The formats by kind. Each loads its library when it is first asked for."""

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import cast

from goqueue.errors import SchemasUnavailable
from goqueue.schemas.schema_format import SchemaFormat, SchemaKind

_MODULES = {
    SchemaKind.AVRO: ("goqueue.schemas.avro.avro_format", "AvroFormat", "json"),
    SchemaKind.JSON: ("goqueue.schemas.json_schema.json_format", "JsonFormat", "jsonschema_rs"),
    SchemaKind.PROTOBUF: ("goqueue.schemas.protobuf.protobuf_format", "ProtobufFormat", "google.protobuf"),
}


@cache
def schema_format(kind: SchemaKind) -> SchemaFormat:
    """Return the format. Raises `SchemasUnavailable` if its library is not installed."""
    module, name, library = _MODULES[kind]
    if not _is_installed(library):
        raise SchemasUnavailable(
            f"{kind} schemas need the package {library}, which is not installed", hint="pip install 'goqueue[schemas]'"
        )
    return cast("SchemaFormat", getattr(import_module(module), name)())


def refuse_unless_all_installed(need: str) -> None:
    """Raise `SchemasUnavailable` unless schemas of every format can be read, which `need` needs."""
    missing = [library for _, _, library in _MODULES.values() if not _is_installed(library)]
    if missing:
        raise SchemasUnavailable(
            f"{need} needs the packages {' and '.join(missing)}, which are not installed",
            hint="pip install 'goqueue[schemas]' where the broker runs",
        )


def _is_installed(library: str) -> bool:
    try:
        return find_spec(library) is not None
    except ModuleNotFoundError:  # the package that it would be in
        return False
