"""Sources of schemas: a registry, the log of one in a data directory, a file.

They travel to the executors, so they are small, and load what they need where it is asked.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from goqueue.broker.schemas.parsing import SchemaSource, parse_source, source_of
from goqueue.broker.schemas.queries import LATEST, RegistryQueries
from goqueue.broker.schemas.records import decode_registry_record
from goqueue.broker.schemas.state import RegistryState
from goqueue.client import Client, SchemaInfo
from goqueue.client.tls import TlsOptions
from goqueue.errors import PathInvalid, SchemaInvalid, SchemaNotFound, SubjectNotFound
from goqueue.schemas.limits import SCHEMA_DEPTH_MAX
from goqueue.schemas.schema_format import ROOT, ParsedSchema, SchemaKind
from goqueue.spark.inspections.internal_logs import read_records
from goqueue.spark.logs.backup import BackupLogs
from goqueue.spark.logs.directory import DirectoryLogs

_LOG = "__schemas"
_TIMEOUT_SECONDS = 60.0
_PARSED_MAX = 512
_KINDS = {".avsc": SchemaKind.AVRO, ".json": SchemaKind.JSON, ".proto": SchemaKind.PROTOBUF}


class SchemaSupply(Protocol):
    """A source of schemas by subject and by id. It is hashable, and equal ones have the same schemas."""

    @property
    def has_ids(self) -> bool:
        """False if all payloads have one schema."""
        ...

    def version(self, subject: str, version: int | None) -> SchemaSource:
        """Return a version of a subject; None: the latest. Raises SubjectNotFound and SchemaVersionNotFound."""
        ...

    def by_id(self, number: int) -> SchemaSource:
        """Return the schema with an id. Raises SchemaNotFound."""
        ...

    def __hash__(self) -> int: ...


@lru_cache(maxsize=_PARSED_MAX)
def parsed_by_id(supply: SchemaSupply, number: int) -> ParsedSchema:
    """Parse the schema with an id. Ids never change their schema, so that tasks of a process share it."""
    return parse_source(supply.by_id(number))


@dataclass(frozen=True)
class RegistrySchemas:
    """The registry of a broker, or another one with Confluent's API."""

    url: str
    token: str | None = field(default=None, repr=False)
    tls: TlsOptions | None = None
    tenant: str = ""
    has_ids: bool = field(default=True, init=False)

    def _client(self) -> Client:
        """Open a connection for one schema: what was found is kept by those who ask."""
        return Client(self.url, _TIMEOUT_SECONDS, api_key=self.token, tenant=self.tenant, tls=self.tls)

    def version(self, subject: str, version: int | None) -> SchemaSource:
        with self._client() as client:
            return self._source(client, client.schema(subject, version or "latest"), {})

    def by_id(self, number: int) -> SchemaSource:
        with self._client() as client:
            return self._source(client, client.schema_by_id(number), {})

    def _source(
        self, client: Client, info: SchemaInfo, known: dict[tuple[str, int], SchemaSource], depth: int = 0
    ) -> SchemaSource:
        """Return a text with those of its references."""
        if depth > SCHEMA_DEPTH_MAX:
            told = f"more than {SCHEMA_DEPTH_MAX} references in a row"
            raise SchemaInvalid(f"the schema of {self.url} has {told}", path=ROOT, reason=told)
        for one in info.references:
            place = (one.subject, one.version)
            if place not in known:
                needed = client.schema(*place, deleted=True)
                known[place] = self._source(client, needed, known, depth + 1)
        references = tuple((one.name, known[one.subject, one.version]) for one in info.references)
        return SchemaSource(SchemaKind(info.schema_type), info.schema, references)


@dataclass(frozen=True)
class LogSchemas:
    """The registry of a data directory, whether its broker runs or not, or of a backup."""

    logs: DirectoryLogs | BackupLogs
    has_ids: bool = field(default=True, init=False)

    def _state(self) -> RegistryState:
        return _read_registry(self.logs, self.logs.view(_LOG, 0).end)

    def version(self, subject: str, version: int | None) -> SchemaSource:
        state = self._state()
        try:
            found = RegistryQueries(state).version(subject, LATEST if version is None else str(version))
        except SubjectNotFound as error:
            names = ", ".join(sorted(state.subjects)[:10])
            error.hint = f"{self.logs.name} has {names}" if names else f"{self.logs.name} has no schemas"
            raise
        return source_of(state, found.content)

    def by_id(self, number: int) -> SchemaSource:
        state = self._state()
        for user in state.users(number):
            return source_of(state, user.content)
        raise SchemaNotFound(f"there is no schema {number}", hint="it was deleted permanently, or is of another broker")


@lru_cache(maxsize=2)
def _read_registry(logs: DirectoryLogs | BackupLogs, end: int) -> RegistryState:
    """Replay the log up to an end: tasks of a process share the state."""
    state = RegistryState()
    if end:
        for message in read_records(logs, _LOG, 0):
            state.apply(decode_registry_record(message))
    return state


@dataclass(frozen=True)
class FileSchemas:
    """One schema for all payloads. The driver has read it."""

    kind: SchemaKind
    text: str
    has_ids: bool = field(default=False, init=False)

    @classmethod
    def at(cls, path: str) -> "FileSchemas":
        kind = next((one for suffix, one in _KINDS.items() if path.endswith(suffix)), SchemaKind.AVRO)
        try:
            with open(path, encoding="utf-8") as file:
                return cls(kind, file.read())
        except OSError as error:
            hint = "name a file, a data directory, the address of a broker, or own"
            raise PathInvalid(f"{path} cannot be read: {error.strerror}", hint=hint) from None
        except UnicodeDecodeError as error:
            raise PathInvalid(f"{path} is not UTF-8: byte {error.start}", hint="schemas are text") from None

    def version(self, subject: str, version: int | None) -> SchemaSource:
        del subject, version
        return SchemaSource(self.kind, self.text, ())

    def by_id(self, number: int) -> SchemaSource:
        raise SchemaNotFound(f"a file has no schema {number}", hint="name a registry with the option schemas")
