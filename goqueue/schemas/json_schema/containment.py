"""Containment: is each value that the writer's schema accepts also accepted by the reader's?

Each keyword of the reader must follow from the facts of the writer (`facts.py`). Where nothing follows, alternatives
of the writer are looked at one by one: branches of `anyOf` and `oneOf`, `then` and `else`, types, listed values.

What is inside a value, an item or a property, is a pair of its own: facts of the writer and a schema of the reader.
All pairs are taken to hold until one is found not to; then those that relied on it are compared again. Values are
finite, so what still holds at the end is true, also for schemas that refer to themselves.

The rules for properties and items follow from this. They are those of open, closed and partially open content models:
a property that is added to an open model may be present with any value in earlier data, so it must accept all.
Two rules are as registries of other vendors have them, and weaker than validation: a property that becomes required
may be missing in earlier data if it has a default, and the branches of the reader's `oneOf` are taken to exclude each
other. `format` and annotations have no influence.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from goqueue.schemas import limits
from goqueue.schemas.json_schema import array_rules, choice_rules, object_rules, value_rules
from goqueue.schemas.json_schema.document import JsonDocument, Subschema
from goqueue.schemas.json_schema.evaluation import accepts
from goqueue.schemas.json_schema.facts import IN_CONJUNCTION, Facts, conjuncts, is_static, keywords, may_hold
from goqueue.schemas.schema_format import ROOT, Incompatibility

RULES = (*value_rules.RULES, *array_rules.RULES, *object_rules.RULES, *choice_rules.RULES)
VALUES_SPLIT_MAX = 64
"""Of an enumeration that is looked at value by value."""
_ALONE = frozenset(IN_CONJUNCTION)

Key = tuple[frozenset[int], int]


class TooManyComparisons(Exception):
    """The schemas cannot be compared within the limits."""


@dataclass(eq=False)
class _Pair:
    """Facts of the writer and a schema of the reader, with what is known of them. Paths are relative to the pair."""

    facts: Facts
    reader: Subschema
    problems: list[Incompatibility] = field(default_factory=list)
    dependents: "dict[_Pair, None]" = field(default_factory=dict)


class Containment:
    """One check of a reader's document against a writer's."""

    def __init__(self, reader: JsonDocument, writer: JsonDocument) -> None:
        self.reader = reader
        self.writer = writer
        self._is_same_document = reader.root.value == writer.root.value
        self._left = limits.SCHEMA_COMPARISONS_MAX
        self._pairs: dict[Key, _Pair] = {}
        self._waiting: dict[_Pair, None] = {}
        self._current: _Pair | None = None
        self._open: set[Key] = set()
        self._kept: list[Facts] = []  # keys go by identity, so what they identify must stay

    def problems(self) -> list[Incompatibility]:
        try:
            found = self._solve(Facts([self.writer.root], self.writer), self.reader.root)
        except TooManyComparisons:
            return [Incompatibility(ROOT, "the schemas nest too many alternatives to be compared within the limits")]
        return list(dict.fromkeys(_moved(found, ROOT)))[: limits.SCHEMA_INCOMPATIBILITIES_MAX]

    def _solve(self, facts: Facts, reader: Subschema) -> list[Incompatibility]:
        """Compare a pair and all that it leads to, until nothing changes."""
        root = self._pair(facts, reader)
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            failed = [pair for pair in waiting if not pair.problems and self._evaluate(pair)]
            for pair in failed:
                self._waiting.update(dict.fromkeys(one for one in pair.dependents if not one.problems))
        if root.problems and self._left > 0:
            self._evaluate(root)  # once more, now that all that it leads to is known
        return root.problems

    def _evaluate(self, pair: _Pair) -> bool:
        self._current = pair
        pair.problems = self.compare(pair.facts, pair.reader, "")
        return bool(pair.problems)

    def _pair(self, facts: Facts, reader: Subschema) -> _Pair:
        key = (facts.key, id(reader.value))
        if key not in self._pairs:
            self._pairs[key] = _Pair(facts, reader)
            self._waiting[self._pairs[key]] = None
        return self._pairs[key]

    def compare(self, facts: Facts, reader: Subschema, path: str) -> list[Incompatibility]:
        """Return why values with these facts are not accepted by a schema of the reader."""
        if facts.is_impossible or reader.value is True:
            return []
        key = (facts.key, id(reader.value))
        if key in self._open:
            return [Incompatibility(path, "this depends on itself for the same value")]
        self._left -= 1
        if self._left < 0 or len(self._open) > limits.SCHEMA_COMPARISON_DEPTH_MAX:
            raise TooManyComparisons
        self._kept.append(facts)
        self._open.add(key)
        try:
            parts = conjuncts(reader, self.reader)
            return [problem for part in parts for problem in self._compare_part(facts, part, path)]
        finally:
            self._open.discard(key)

    def spend(self, patterns: int) -> None:
        """Count matches of patterns, of which some 50 take as long as a comparison."""
        self._left -= patterns // 50
        if self._left < 0:
            raise TooManyComparisons

    def compare_inner(self, facts: Facts, reader: Subschema, path: str) -> list[Incompatibility]:
        """Compare what is inside a value: an item, a property, or its name."""
        if facts.is_impossible or reader.value is True:
            return []
        pair = self._pair(facts, reader)
        if self._current is not None:
            pair.dependents[self._current] = None
        return _moved(pair.problems, path)

    def contains(self, facts: Facts, reader: Subschema) -> bool:
        return may_hold(facts, reader) and not self.compare(facts, reader, ROOT)

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
        for keyword in ("$recursiveRef", "$dynamicRef"):
            if keyword not in stated or part.draft < 2019 or is_static(part, keyword, self.reader):
                continue
            if not (self._is_same_document and stated[keyword] in facts.stated(keyword)):
                yield Incompatibility(f"{path}/{keyword}", "dynamic references are compared only within equal schemas")

    def each_alternative_fits(self, facts: Facts, part: Subschema) -> bool:
        """Split the writer's values by one choice of its schema, and compare each share."""
        return any(all(self.contains(share, part) for share in shares) for shares in facts.splits())

    def excludes(self, excluded: Subschema, refused: Subschema) -> bool:
        """Return whether the reader's schema `excluded` accepts only what the writer's `refused` does."""
        turned = Containment(self.writer, self.reader)
        turned._left, turned._kept = self._left, self._kept
        try:
            return not turned._solve(Facts([excluded], self.reader), refused)
        finally:
            self._left = turned._left


def _moved(problems: list[Incompatibility], path: str) -> list[Incompatibility]:
    """Return problems of a pair with their full paths."""
    return [Incompatibility(path + problem.path, problem.reason) for problem in problems]
