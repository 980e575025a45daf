"""Parses schemas with their references, when they are first needed, and keeps those that were used last.

Parsing and comparing can take long, so both are jobs, which may run on a thread: a job gets everything that it needs,
and touches neither the state nor the cache.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

from goqueue.broker.core.work import Work
from goqueue.broker.schemas.limits import PARSED_SCHEMAS_MAX
from goqueue.broker.schemas.records import ReferenceRecord, SchemaContent, VersionRecord
from goqueue.broker.schemas.state import RegistryState
from goqueue.errors import SchemaInvalid
from goqueue.quantities import quoted
from goqueue.schemas.compatibility import CompatibilityLevel, incompatibility_messages
from goqueue.schemas.formats import schema_format
from goqueue.schemas.limits import SCHEMA_DEPTH_MAX, SCHEMA_REFERENCES_MAX
from goqueue.schemas.schema_format import ParsedSchema, SchemaKind, SchemaReference

if TYPE_CHECKING:
    from goqueue.schemas.protobuf.protobuf_format import ProtobufSchema


class SchemaSource(NamedTuple):
    """A text with those that it refers to, by the names that it uses."""

    kind: SchemaKind
    text: str
    references: tuple[tuple[str, "SchemaSource"], ...]


@dataclass(frozen=True, slots=True)
class CheckedSchema:
    """A schema that was parsed, and what is stored of it."""

    content: SchemaContent
    digest: bytes
    parsed: ParsedSchema


class SchemaParser:
    """Parses what clients send, and versions of the state."""

    def __init__(self) -> None:
        self._parsed: OrderedDict[int, tuple[SchemaSource, ParsedSchema]] = OrderedDict()
        """By id with their texts, the last used at the end. A version that was deleted and registered again has the
        same id, and may refer to other texts.
        """

    def check(self, state: RegistryState, given: SchemaContent, *, normalize: bool) -> Work[CheckedSchema]:
        """Parse a schema and return it as it is stored. Raises SchemaInvalid."""
        kind = _kind(given.kind)
        if not given.text:
            raise SchemaInvalid("the schema is empty", hint="send its text in the field schema", path="#", reason="")
        source = SchemaSource(kind, given.text, _sources(state, given.references))
        checked: CheckedSchema = yield partial(_checked, source, given, normalize=normalize)
        return checked

    def incompatibilities(
        self, state: RegistryState, level: CompatibilityLevel, new: ParsedSchema, earlier: Sequence[VersionRecord]
    ) -> Work[list[str]]:
        """Return why a schema may not follow these versions, the oldest first."""
        if level is CompatibilityLevel.NONE or not earlier:
            return []
        needed = earlier if level.is_transitive else earlier[-1:]
        sources = [source_of(state, one.content) for one in needed]
        known = [self._known(one.id, source) for one, source in zip(needed, sources, strict=True)]
        answer: tuple[list[ParsedSchema], list[str]] = yield partial(_compared, level, new, known)
        parsed, messages = answer
        for record, source, schema in zip(needed, sources, parsed, strict=True):
            self._keep(record.id, source, schema)
        return messages

    def encoded(self, state: RegistryState, record: VersionRecord) -> Work[str]:
        """Return a file of Protobuf as base64 of its descriptor."""
        source = source_of(state, record.content)
        answer: tuple[ParsedSchema, str] = yield partial(_encoded, self._known(record.id, source))
        self._keep(record.id, source, answer[0])
        return answer[1]

    def _known(self, number: int, source: SchemaSource) -> ParsedSchema | SchemaSource:
        """Return a schema as it was parsed from this very text, or the text."""
        found = self._parsed.get(number)
        return found[1] if found is not None and found[0] == source else source

    def _keep(self, number: int, source: SchemaSource, schema: ParsedSchema) -> None:
        self._parsed[number] = source, schema
        self._parsed.move_to_end(number)
        if len(self._parsed) > PARSED_SCHEMAS_MAX:
            self._parsed.popitem(last=False)

    def refuse_missing(self, state: RegistryState, references: Sequence[ReferenceRecord]) -> None:
        """Raise SchemaInvalid unless all references lead to versions."""
        _sources(state, references)


def _kind(text: str) -> SchemaKind:
    try:
        return SchemaKind(text)
    except ValueError:
        sentence = f"Invalid schema type {quoted(text[:100])}"
        raise SchemaInvalid(sentence, hint=f"there are {', '.join(SchemaKind)}", path="#", reason=sentence) from None


def _sources(
    state: RegistryState, references: Sequence[ReferenceRecord], depth: int = 0
) -> tuple[tuple[str, SchemaSource], ...]:
    """Collect the texts of references, and of what those refer to."""
    if len(references) > SCHEMA_REFERENCES_MAX or depth > SCHEMA_DEPTH_MAX:
        raise _refused(f"more than {SCHEMA_REFERENCES_MAX} references, or {SCHEMA_DEPTH_MAX} of them in a row")
    found = []
    for one in references:
        record = state.subjects.get(one.subject, {}).get(one.version)
        if record is None:
            raise _refused(
                f"no schema has the subject {quoted(one.subject)} and the version {one.version}, which the reference "
                f"{quoted(one.name)} names"
            )
        found.append((one.name, source_of(state, record.content, depth + 1)))
    return tuple(found)


def source_of(state: RegistryState, content: SchemaContent, depth: int = 0) -> SchemaSource:
    return SchemaSource(SchemaKind(content.kind), content.text, _sources(state, content.references, depth))


def _refused(reason: str) -> SchemaInvalid:
    return SchemaInvalid(reason, path="#", reason=reason)


# --- jobs ---


def parse_source(source: SchemaSource, known: dict[int, ParsedSchema] | None = None) -> ParsedSchema:
    """Parse a text after its references. `known` has what was parsed for the same text already."""
    known = {} if known is None else known
    done = known.get(id(source))
    if done is None:
        references = [SchemaReference(name, parse_source(needed, known)) for name, needed in source.references]
        done = known[id(source)] = schema_format(source.kind).parse(source.text, references)
    return done


def _checked(source: SchemaSource, given: SchemaContent, *, normalize: bool) -> CheckedSchema:
    parsed = parse_source(source)
    content = SchemaContent(
        kind=given.kind,
        text=parsed.normalized_text if normalize else parsed.text,
        references=tuple(sorted(given.references, key=lambda one: one.name)) if normalize else given.references,
        metadata=given.metadata,
        rule_set=given.rule_set,
        tenant=given.tenant,
    )
    return CheckedSchema(content, content.digest(), parsed)


def _encoded(known: ParsedSchema | SchemaSource) -> tuple[ParsedSchema, str]:
    schema = parse_source(known) if isinstance(known, SchemaSource) else known
    return schema, cast("ProtobufSchema", schema).encoded_descriptor


def _compared(
    level: CompatibilityLevel, new: ParsedSchema, earlier: Sequence[ParsedSchema | SchemaSource]
) -> tuple[list[ParsedSchema], list[str]]:
    parsed = [parse_source(one) if isinstance(one, SchemaSource) else one for one in earlier]
    return parsed, incompatibility_messages(schema_format(new.kind), level, new, parsed)
