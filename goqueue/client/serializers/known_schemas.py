"""The part of a registry that a client has read: schemas by their ids, and ids and latest versions of subjects."""

import time
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from goqueue.client.address import quote
from goqueue.client.api_request import RequestSequence, json_request, with_query
from goqueue.client.schema_requests import RegisteredSchema, SchemaInfo, SchemaReferenceInfo
from goqueue.errors import GoQueueError, SchemaInvalid, SchemaNotFound
from goqueue.schemas.formats import schema_format
from goqueue.schemas.limits import SCHEMA_DEPTH_MAX, SCHEMA_REFERENCES_MAX
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind, SchemaReference

KNOWN_MAX = 1_000
"""Schemas that a client keeps, and subjects."""

LATEST_SECONDS = 60.0
"""How long the latest version of a subject is used before it is asked for again."""

UNKNOWN_SECONDS = 30.0
FAILED_SECONDS = 1.0
"""How long an id is not asked for again: one without a schema, and one whose request failed."""

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """A dict that drops its oldest entries. Several threads may use it."""

    def __init__(self, most: int = KNOWN_MAX) -> None:
        self._most = most
        self._entries: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def put(self, key: K, value: V) -> None:
        self._entries[key] = value
        while len(self._entries) > self._most:
            self._entries.pop(next(iter(list(self._entries))), None)

    def __len__(self) -> int:
        return len(self._entries)


class IdentifiedSchema(NamedTuple):
    """A schema with its id."""

    id: int
    parsed: ParsedSchema


class _Failure(NamedTuple):
    error: GoQueueError
    until: float


class KnownSchemas:
    """The memory of a client. An id never changes its schema, so entries stay true; the latest versions do not."""

    def __init__(self) -> None:
        self._by_id: BoundedCache[int, ParsedSchema] = BoundedCache()
        self._failed: BoundedCache[int, _Failure] = BoundedCache()
        self._registrations: BoundedCache[Any, RegisteredSchema] = BoundedCache()

    # --- by id ---

    def find(self, number: int) -> ParsedSchema | GoQueueError | None:
        """Return a schema, or the error for it, without a request; None if it must be asked for."""
        found = self._by_id.get(number)
        if found is not None:
            return found
        failure = self._failed.get(number)
        return failure.error if failure is not None and time.monotonic() < failure.until else None

    def load(self, number: int) -> RequestSequence[None]:
        """Ask for a schema, so that `find` has it or its error."""
        try:
            yield from self.by_id(number)
        except GoQueueError as error:
            lasts = UNKNOWN_SECONDS if isinstance(error, (SchemaNotFound, SchemaInvalid)) else FAILED_SECONDS
            self._failed.put(number, _Failure(error, time.monotonic() + lasts))

    def by_id(self, number: int) -> RequestSequence[ParsedSchema]:
        found = self._by_id.get(number)
        if found is None:
            info: SchemaInfo = yield json_request("GET", f"/schemas/ids/{number}", SchemaInfo)
            found = yield from self._parsed(info)
            self._by_id.put(number, found)
        return found

    def _parsed(self, info: SchemaInfo, depth: int = 0) -> RequestSequence[ParsedSchema]:
        return (yield from self.parse(info.schema_type, info.schema, info.references, depth))

    def parse(
        self, kind: str, text: str, references: Sequence[SchemaReferenceInfo] = (), depth: int = 0
    ) -> RequestSequence[ParsedSchema]:
        """Parse a text after the schemas that it refers to, which are asked for."""
        if depth > SCHEMA_DEPTH_MAX or len(references) > SCHEMA_REFERENCES_MAX:
            raise SchemaInvalid("the schema has too many references, or references inside each other")
        needed = []
        for one in references:
            path = f"/subjects/{quote(one.subject)}/versions/{one.version}"
            info: SchemaInfo = yield json_request("GET", with_query(path, deleted=True), SchemaInfo)
            known = None if info.id is None else self._by_id.get(info.id)
            if known is None:
                known = yield from self._parsed(info, depth + 1)
                if info.id is not None:
                    self._by_id.put(info.id, known)
            needed.append(SchemaReference(one.name, known))
        return schema_format(SchemaKind(kind)).parse(text, needed)

    # --- by subject ---

    def latest(self, subject: str) -> RequestSequence[IdentifiedSchema]:
        """Return the latest version of a subject."""
        path = f"/subjects/{quote(subject)}/versions/latest"
        info: SchemaInfo = yield json_request("GET", path, SchemaInfo)
        number = info.id or 0
        parsed = self._by_id.get(number)
        if parsed is None:
            parsed = yield from self._parsed(info)
            self._by_id.put(number, parsed)
        return IdentifiedSchema(number, parsed)

    def id_of(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[SchemaReferenceInfo],
        *,
        register: bool,
        normalize: bool | None = None,
    ) -> RequestSequence[int]:
        """Return the id of a schema in a subject, which is registered if that is allowed."""
        found = yield from self._registered(subject, kind, text, references, register=register, normalize=normalize)
        return found.id

    def version_of(
        self, subject: str, kind: str, text: str, references: Sequence[SchemaReferenceInfo], *, register: bool
    ) -> RequestSequence[int]:
        """Return its version instead, for a reference to it."""
        found = yield from self._registered(subject, kind, text, references, register=register)
        return found.version

    def _registered(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[SchemaReferenceInfo],
        *,
        register: bool,
        normalize: bool | None = None,
    ) -> RequestSequence[RegisteredSchema]:
        key = (subject, kind, text, tuple(references), normalize)
        found = self._registrations.get(key)
        if found is None:
            path = f"/subjects/{quote(subject)}{'/versions' if register else ''}"
            body = {"schema": text, "schemaType": kind, "references": list(references)}
            options = {"normalize": None if normalize is None else str(normalize).lower()}
            found = yield json_request("POST", with_query(path, **options), RegisteredSchema, body)
            self._registrations.put(key, found)
        return found
