"""The comparison as rules see it."""

from typing import Protocol

from goqueue.schemas.json_schema.document import JsonDocument, Subschema
from goqueue.schemas.json_schema.facts import Facts
from goqueue.schemas.schema_format import Incompatibility


class Comparison(Protocol):
    """A check of a reader's document against a writer's; `containment` has it. Rules compare parts with it."""

    reader: JsonDocument

    def compare(self, facts: Facts, reader: Subschema, path: str) -> list[Incompatibility]: ...

    def compare_inner(self, facts: Facts, reader: Subschema, path: str) -> list[Incompatibility]: ...

    def contains(self, facts: Facts, reader: Subschema) -> bool: ...

    def spend(self, patterns: int) -> None: ...

    def each_alternative_fits(self, facts: Facts, part: Subschema) -> bool: ...

    def excludes(self, excluded: Subschema, refused: Subschema) -> bool: ...
