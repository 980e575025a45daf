"""The options of typed columns, and the columns that they make."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os.path import isdir
from typing import Literal, Protocol

import pyarrow as pa

from goqueue.client.environment import environment_key
from goqueue.client.tls import TlsOptions
from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted
from goqueue.schemas.subject_names import topic_subject
from goqueue.spark.logs.directory import DirectoryLogs
from goqueue.spark.reading.backup_place import BackupPlace
from goqueue.spark.reading.columns import KEY_COLUMNS, VALUE_COLUMNS
from goqueue.spark.typed.columns import TypedPart, reader_schema
from goqueue.spark.typed.schema_sources import FileSchemas, LogSchemas, RegistrySchemas, SchemaSupply

OWN = "own"
Mode = Literal["PERMISSIVE", "FAILFAST"]
_LATEST = "latest"
_VERSION_DIGITS_MAX = 10


class _GivenOptions(Protocol):
    """The options of a read besides these."""

    @property
    def path(self) -> str | None: ...
    @property
    def url(self) -> str | None: ...
    @property
    def token(self) -> str | None: ...
    @property
    def tenant(self) -> str: ...
    @property
    def tls(self) -> TlsOptions | None: ...
    @property
    def backup(self) -> BackupPlace | None: ...


@dataclass(frozen=True, slots=True)
class PartOptions:
    """The schema of one typed column."""

    subject: str | None = None
    version: int | None = None
    """None: the latest when the read is planned."""


@dataclass(frozen=True, slots=True)
class TypedOptions:
    """Where schemas come from, and which ones the columns have."""

    schemas: str
    value: PartOptions = PartOptions()
    key: PartOptions = PartOptions()
    has_key: bool = False
    is_strict: bool = False

    @property
    def default_columns(self) -> tuple[str, ...]:
        """The columns that take the place of the value; those of the key stand before them."""
        return (*(KEY_COLUMNS[:2] if self.has_key else ()), *VALUE_COLUMNS[:2])

    def parts(
        self, given: _GivenOptions, topics: Sequence[str], wanted: Mapping[str, pa.DataType | None]
    ) -> tuple[TypedPart, ...]:
        """Return the typed columns among the wanted ones; their schemas are looked up now.

        `wanted` has the types that the caller gave. What is not wanted needs no registry.
        """
        chosen = [is_key for is_key in (False, True) if not _names(is_key).isdisjoint(wanted)]
        supply = self._supply(given) if chosen else None
        return tuple(self._part(supply, topics, wanted, is_key=is_key) for is_key in chosen if supply is not None)

    def _part(
        self, supply: SchemaSupply, topics: Sequence[str], wanted: Mapping[str, pa.DataType | None], *, is_key: bool
    ) -> TypedPart:
        options = self.key if is_key else self.value
        subject = options.subject or ""
        if supply.has_ids and not subject:
            subject = _subject_of(topics, is_key=is_key)
        source = supply.version(subject, options.version)
        whole = reader_schema(source).mapping.type
        name = (KEY_COLUMNS if is_key else VALUE_COLUMNS)[0]
        kind = wanted.get(name) or whole
        if not is_part_of(kind, whole):
            raise RequestInvalid(
                f"column {name} is {whole} by its schema, the schema of the read says {kind}",
                hint="leave out fields, but do not change their types: CAST them",
            )
        return TypedPart(is_key, supply, source, kind, self.is_strict)

    def _supply(self, given: _GivenOptions) -> SchemaSupply:
        if self.schemas == OWN:
            if given.url is not None:
                return RegistrySchemas(given.url, given.token, given.tls, given.tenant)
            return LogSchemas(DirectoryLogs.at(given.path or "") if given.backup is None else given.backup.logs())
        if self.schemas.startswith(("http://", "https://")):
            is_own = given.url is None or given.url.rstrip("/") == self.schemas.rstrip("/")
            return RegistrySchemas(self.schemas, (given.token or environment_key()) if is_own else None, given.tls)
        return LogSchemas(DirectoryLogs.at(self.schemas)) if isdir(self.schemas) else FileSchemas.at(self.schemas)


def _names(is_key: bool) -> set[str]:
    return set(KEY_COLUMNS if is_key else VALUE_COLUMNS)


def _subject_of(topics: Sequence[str], *, is_key: bool) -> str:
    if len(topics) != 1:
        option = "keySchemaSubject" if is_key else "schemaSubject"
        raise RequestInvalid(
            f"{option} is needed: the read is of {len(topics) or 'all'} topics, and a column has one schema",
            hint="subscribe to one topic, or name the subject",
        )
    return topic_subject(topics[0], is_key=is_key)


def is_part_of(kind: pa.DataType, whole: pa.DataType) -> bool:
    """Test if a type is another one, perhaps without some of its fields."""
    if pa.types.is_struct(kind) and pa.types.is_struct(whole):
        known = {one.name: one.type for one in whole}
        return all(one.name in known and is_part_of(one.type, known[one.name]) for one in kind)
    if pa.types.is_list(kind) and pa.types.is_list(whole):
        return is_part_of(kind.value_type, whole.value_type)
    if pa.types.is_map(kind) and pa.types.is_map(whole):
        return kind.key_type == whole.key_type and is_part_of(kind.item_type, whole.item_type)
    return bool(kind == whole)


# --- how values are written ---


def parse_version(text: str) -> int | None:
    if text == _LATEST:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _VERSION_DIGITS_MAX and int(text)):
        raise ValueError(f"{quoted(text)} is no version: write its number, or latest")
    return int(text)


def parse_mode(text: str) -> Mode:
    if text.upper() not in ("PERMISSIVE", "FAILFAST"):
        raise ValueError(f"{quoted(text)} is neither PERMISSIVE nor FAILFAST")
    return "FAILFAST" if text.upper() == "FAILFAST" else "PERMISSIVE"
