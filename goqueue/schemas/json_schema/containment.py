"""Containment: is each value that the writer's schema accepts also accepted by the reader's?

Each keyword of the reader must follow from the facts of the writer (`facts.py`). Where nothing follows, alternatives
of the writer are looked at one by one: branches of `anyOf` and `oneOf`, `then` and `else`, types, listed values. A pair
that is met again inside itself is assumed to hold: values are finite, so a proof by the next level down is a proof.

The rules for properties and items follow from this. They are those of open, closed and partially open content models:
a property that is added to an open model may be present with any value in earlier data, so it must accept all.
Two rules are as registries of other vendors have them, and weaker than validation: a property that becomes required
may be missing in earlier data if it has a default, and the branches of the reader's `oneOf` are taken to exclude each
other.
`format` and annotations have no influence.
"""

from collections.abc import Iterable

from goqueue.schemas import limits
from goqueue.schemas.json_schema import array_rules, choice_rules, object_rules, value_rules
from goqueue.schemas.json_schema.document import JsonDocument, Subschema
from goqueue.schemas.json_schema.evaluation import accepts
from goqueue.schemas.json_schema.facts import IN_CONJUNCTION, Facts, conjuncts, is_static, keywords
from goqueue.schemas.schema_format import ROOT, Incompatibility

RULES = (*value_rules.RULES, *array_rules.RULES, *object_rules.RULES, *choice_rules.RULES)
VALUES_SPLIT_MAX = 64
"""Of an enumeration that is looked at value by value."""
_ALONE = frozenset(IN_CONJUNCTION)
_NEVER = limits.SCHEMA_COMPARISON_DEPTH_MAX + 2

Pair = tuple[frozenset[int], int]


class TooManyComparisons(Exception):
    """The schemas cannot be compared within the limits."""


class Containment:
    """One check of a reader's document against a writer's."""

    def __init__(self, reader: JsonDocument, writer: JsonDocument) -> None:
        self.reader = reader
        self.writer = writer
        self._left = limits.SCHEMA_COMPARISONS_MAX
        self._open: dict[Pair, tuple[int, int]] = {}  # with their depths, and levels of nested values
        self._level = 0
        self._is_cut = False  # a pair was met again for the same value, which proves nothing
        self._assumed = _NEVER  # the outermost open pair that was assumed to hold
        self._held: set[Pair] = set()
        self._failed: dict[Pair, tuple[str, list[Incompatibility]]] = {}
        self._kept: list[Facts] = []  # pairs go by identity, so what they identify must stay

    def problems(self) -> list[Incompatibility]:
        try:
            found = self.compare(Facts([self.writer.root], self.writer), self.reader.root, ROOT)
        except TooManyComparisons:
            return [Incompatibility(ROOT, "the schemas nest too many alternatives to be compared within the limits")]
        return list(dict.fromkeys(found))[: limits.SCHEMA_INCOMPATIBILITIES_MAX]

    def compare(self, facts: Facts, reader: Subschema, path: str) -> list[Incompatibility]:
        """Return why values with these facts are not accepted by a schema of the reader."""
        if facts.is_impossible or reader.value is True:
            return []
        pair = (facts.key, id(reader.value))
        if pair in self._held:
            return []
        if pair in self._failed:
            return _moved(*self._failed[pair], path)
        if pair in self._open:
            depth, level = self._open[pair]
            if level == self._level:
                self._is_cut = True
                return [Incompatibility(path, "this depends on itself for the same value")]
            self._assumed = min(self._assumed, depth)
            return []
        return self._compare_new(pair, facts, reader, path)

    def compare_inner(self, facts: Facts, reader: Subschema, path: str) -> list[Incompatibility]:
        """Compare what is inside a value: an item, a property, or its name."""
        self._level += 1
        try:
            return self.compare(facts, reader, path)
        finally:
            self._level -= 1

    def contains(self, facts: Facts, reader: Subschema) -> bool:
        return not self.compare(facts, reader, ROOT)

    def _compare_new(self, pair: Pair, facts: Facts, reader: Subschema, path: str) -> list[Incompatibility]:
        depth = len(self._open)
        self._left -= 1
        if self._left < 0 or depth > limits.SCHEMA_COMPARISON_DEPTH_MAX:
            raise TooManyComparisons
        self._kept.append(facts)
        self._open[pair] = (depth, self._level)
        outer, self._assumed = self._assumed, _NEVER
        was_cut, self._is_cut = self._is_cut, False
        try:
            parts = conjuncts(reader, self.reader)
            found = [problem for part in parts for problem in self._compare_part(facts, part, path)]
        finally:
            del self._open[pair]
        if found and not self._is_cut:
            self._failed[pair] = (path, found)
        elif not found and self._assumed >= depth:  # true whatever the pairs around it turn out to be
            self._held.add(pair)
        self._assumed = min(outer, self._assumed if self._assumed < depth else _NEVER)
        self._is_cut = was_cut or (self._is_cut and bool(found))
        return found

    def _compare_part(self, facts: Facts, part: Subschema, path: str) -> list[Incompatibility]:
        """Compare with the keywords of one schema of the reader, without its `allOf` and references."""
        values = facts.values()
        if values is not None and len(values) <= VALUES_SPLIT_MAX:
            alone = self.reader.without(part, _ALONE)
            if all(accepts(alone, value) for value in values):
                return []
        found = [problem for rule in RULES for problem in rule(self, facts, part, path)]
        found += self._unknown_references(facts, part, path)
        if found and self.each_alternative_fits(facts, self.reader.without(part, _ALONE)):
            return []
        return found

    def _unknown_references(self, facts: Facts, part: Subschema, path: str) -> Iterable[Incompatibility]:
        """Dynamic references that depend on the path of evaluation must be the same in both."""
        stated = keywords(part)
        is_same_document = self.reader.root.value == self.writer.root.value
        for keyword in ("$recursiveRef", "$dynamicRef"):
            if keyword not in stated or part.draft < 2019 or is_static(part, keyword, self.reader):
                continue
            if not (is_same_document and stated[keyword] in facts.stated(keyword)):
                yield Incompatibility(f"{path}/{keyword}", "dynamic references are compared only within equal schemas")

    def each_alternative_fits(self, facts: Facts, part: Subschema) -> bool:
        """Split the writer's values by one choice of its schema, and compare each share."""
        return any(all(self.contains(share, part) for share in shares) for shares in facts.splits())

    def excludes(self, excluded: Subschema, refused: Subschema) -> bool:
        """Return whether the reader's schema `excluded` accepts only what the writer's `refused` does."""
        turned = Containment(self.writer, self.reader)
        turned._left, turned._kept = self._left, self._kept
        try:
            return turned.contains(Facts([excluded], self.reader), refused)
        finally:
            self._left = turned._left


def _moved(before: str, problems: list[Incompatibility], path: str) -> list[Incompatibility]:
    """Return problems that were found at another path."""
    return [Incompatibility(path + problem.path.removeprefix(before), problem.reason) for problem in problems]
