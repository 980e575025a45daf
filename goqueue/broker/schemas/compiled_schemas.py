"""Compiled schemas, by which messages are checked. Those that were used last are kept."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from goqueue.broker.core.work import Work
from goqueue.broker.schemas.limits import (
    COMPILED_BYTES_BASE,
    COMPILED_BYTES_FACTOR,
    COMPILED_BYTES_MAX,
    COMPILED_SCHEMAS_MAX,
)
from goqueue.broker.schemas.parsing import SchemaSource, parse_source, source_of
from goqueue.broker.schemas.records import SchemaContent, VersionRecord
from goqueue.broker.schemas.state import RegistryState
from goqueue.schemas.formats import schema_format
from goqueue.schemas.schema_format import PayloadValidator, SchemaKind


@dataclass(frozen=True, slots=True, eq=False)
class CompiledSchema:
    """A schema as a validator, with the names by which naming strategies find its subject."""

    kind: SchemaKind
    validator: PayloadValidator
    names: Mapping[tuple[int, ...], str]
    """The full name of each message by its indexes; other formats have one name, that of the first message."""
    content: SchemaContent
    """What was compiled. An id that was given to an equal text again may refer to other schemas now."""
    cost: int
    """An estimate of its memory, in bytes."""


class CompiledSchemas:
    """A bounded cache by id."""

    def __init__(self, count_max: int = COMPILED_SCHEMAS_MAX, bytes_max: int = COMPILED_BYTES_MAX) -> None:
        self._count_max, self._bytes_max = count_max, bytes_max
        self._kept: OrderedDict[int, CompiledSchema] = OrderedDict()
        """The last used at the end."""
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, record: VersionRecord) -> CompiledSchema | None:
        found = self._kept.get(record.id)
        if found is None or found.content is not record.content:
            return None
        self._kept.move_to_end(record.id)
        return found

    def load(self, state: RegistryState, record: VersionRecord) -> Work[CompiledSchema]:
        """Compile the schema of a version on another thread, and keep it."""
        job = partial(_compiled, source_of(state, record.content), record.content)
        compiled: CompiledSchema = yield job
        self._keep(record.id, compiled)
        return compiled

    def _keep(self, number: int, compiled: CompiledSchema) -> None:
        former = self._kept.pop(number, None)
        self.held_bytes += compiled.cost - (former.cost if former else 0)
        self._kept[number] = compiled
        while len(self._kept) > self._count_max or (self.held_bytes > self._bytes_max and len(self._kept) > 1):
            _, gone = self._kept.popitem(last=False)
            self.held_bytes -= gone.cost


def _compiled(source: SchemaSource, content: SchemaContent) -> CompiledSchema:
    parsed = parse_source(source)
    cost = COMPILED_BYTES_BASE + COMPILED_BYTES_FACTOR * _length(source, set())
    validator = schema_format(parsed.kind).validator(parsed)
    return CompiledSchema(parsed.kind, validator, parsed.names_by_indexes, content, cost)


def _length(source: SchemaSource, seen: set[int]) -> int:
    if id(source) in seen:
        return 0
    seen.add(id(source))
    return len(source.text) + sum(_length(needed, seen) for _, needed in source.references)
