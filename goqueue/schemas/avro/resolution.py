"""Resolution: can data of a writer's schema be read with a reader's, by the rules of Avro's specification?

As in Avro's library for Java, names are compared without their namespaces, and aliases of the reader count. Two logical
types that read the same bytes as different values are incompatible, where that library looks at the bytes only.
"""

from goqueue.schemas import limits
from goqueue.schemas.avro.types import NO_DEFAULT, AvroType
from goqueue.schemas.schema_format import ROOT, Incompatibility

PROMOTIONS = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}
DEPTH_MAX = 2 * limits.SCHEMA_DEPTH_MAX
"""Of pairs inside each other: two recursive types can have more of them than either has levels."""
_RECORDS = {"record", "error"}


class Resolution:
    """One check. A pair of types that is met again inside itself holds if everything else does."""

    def __init__(self) -> None:
        self._results: dict[tuple[int, int], list[Incompatibility]] = {}
        self._open: set[tuple[int, int]] = set()
        self._failed: set[tuple[int, int]] = set()
        self._is_assumed = False
        self._left = limits.SCHEMA_COMPARISONS_MAX

    def problems(self, reader: AvroType, writer: AvroType) -> list[Incompatibility]:
        """Compare until no assumption about a recursive pair proves wrong; mostly the first pass is the last."""
        while True:
            self._results.clear()
            self._is_assumed = False
            before = len(self._failed)
            found = self._compare(reader, writer, ROOT)
            if self._left < 0:
                return [Incompatibility(ROOT, "the schemas have too many combinations of types to be compared")]
            if not self._is_assumed or len(self._failed) == before:
                return list(dict.fromkeys(found))[: limits.SCHEMA_INCOMPATIBILITIES_MAX]

    def _compare(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        pair = (id(reader), id(writer))
        if pair in self._results:
            return self._results[pair]
        if pair in self._open:
            self._is_assumed = True
            return [Incompatibility(path, "the types inside differ")] if pair in self._failed else []
        self._left -= 1
        if self._left < 0 or len(self._open) > DEPTH_MAX:
            self._left = -1
            return []
        self._open.add(pair)
        found = self._differences(reader, writer, path)
        self._open.discard(pair)
        self._results[pair] = found
        if found:
            self._failed.add(pair)
        return found

    def _differences(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        if writer.kind == "union":
            return [
                problem
                for branch in writer.inner
                for problem in self._compare(
                    reader, branch, path if len(writer.inner) == 1 else f"{path}/{branch.title}"
                )
            ]
        if reader.kind == "union":
            return self._in_union(reader, writer, path)
        if writer.kind in PROMOTIONS.get(reader.kind, ()):
            return list(_logical(reader, writer, path))
        if reader.kind != writer.kind and not {reader.kind, writer.kind} <= _RECORDS:
            return [
                Incompatibility(
                    path, f"the writer has {_article(writer)}, which the reader cannot read as {_article(reader)}"
                )
            ]
        return [*self._same_kind(reader, writer, path), *_logical(reader, writer, path)]

    def _same_kind(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        if reader.name and not names_match(reader, writer):
            return [
                Incompatibility(
                    path,
                    f"the writer's {writer.kind} is {writer.name}, the reader's {reader.name}; an alias would match",
                )
            ]
        match reader.kind:
            case "array" | "map":
                place = f"{path}/{'items' if reader.kind == 'array' else 'values'}"
                return self._compare(reader.inner[0], writer.inner[0], place)
            case "fixed" if reader.size != writer.size:
                return [
                    Incompatibility(
                        path, f"the writer's {writer.name} has {writer.size} bytes, the reader's {reader.size}"
                    )
                ]
            case "enum":
                return _missing_symbols(reader, writer, path)
            case "record" | "error":
                return self._fields(reader, writer, path)
        return []

    def _fields(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        written = {one.name: one for one in writer.fields}
        found: list[Incompatibility] = []
        for wanted in reader.fields:
            name = next((name for name in (wanted.name, *wanted.aliases) if name in written), None)
            place = f"{path}/{wanted.name}"
            if name is not None:
                found += self._compare(wanted.type, written[name].type, place)
            elif wanted.default is NO_DEFAULT:
                found.append(
                    Incompatibility(place, "the writer does not have this field, and the reader has no default for it")
                )
        return found

    def _in_union(self, reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
        reasons: list[Incompatibility] = []
        for branch in reader.inner:
            problems = self._compare(branch, writer, path)
            if not problems:
                return []
            if branch.kind == writer.kind and (not branch.name or names_match(branch, writer)):
                reasons = problems  # the branch that a user would expect to match
        return reasons or [Incompatibility(path, f"no branch of the reader's union accepts {_article(writer)}")]


def names_match(reader: AvroType, writer: AvroType) -> bool:
    return reader.simple_name == writer.simple_name or writer.name in reader.aliases


def _missing_symbols(reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
    missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
    if not missing or reader.default is not NO_DEFAULT:
        return []
    shown = ", ".join(missing[:5])
    return [Incompatibility(path, f"the reader's enum {reader.name} does not have {shown}, and no default")]


def _logical(reader: AvroType, writer: AvroType, path: str) -> list[Incompatibility]:
    """Compare logical types where both sides have one."""
    if reader.logical is None or writer.logical is None:
        return []
    if reader.logical != writer.logical:
        return [
            Incompatibility(path, f"the writer has {writer.logical}, which the reader would take for {reader.logical}")
        ]
    if reader.logical != "decimal" or reader.decimal is None or writer.decimal is None:
        return []
    (precision, scale), (written, written_scale) = reader.decimal, writer.decimal
    if scale != written_scale:
        return [Incompatibility(path, f"the writer's decimal has the scale {written_scale}, the reader's {scale}")]
    if precision < written:
        return [Incompatibility(path, f"the writer's decimal has {written} digits, the reader's {precision}")]
    return []


def _article(one: AvroType) -> str:
    return f"{one.kind} {one.name}" if one.name else one.kind
