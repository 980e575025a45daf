"""What the fields of JSON values are called and of which type they are: as somebody says, or as a sample shows."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted
from goqueue.spark.columns import batches
from goqueue.spark.logs.port import Logs
from goqueue.spark.outcomes import read_messages
from goqueue.spark.plan import Plan, Range
from goqueue.spark.reading import Run, Split

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SAMPLE_MESSAGES = 1000
_SHARE_LEAST = 0.9  # of the values in a sample that must be objects, or the topic is not taken for JSON
_CORRUPT = "_corrupt_record"  # how Spark calls the field for what it cannot read
_PREFIX = "json_"


@dataclass(frozen=True, slots=True)
class JsonFields:
    """Where the fields come from."""

    schema: str | None = None
    """DDL, as in `order BIGINT, customer STRING`, or the JSON form of a schema."""
    sample: int = SAMPLE_MESSAGES
    """How many messages to look at where no schema is given; 0 leaves values as they are."""

    @property
    def is_none(self) -> bool:
        """Whether values are left as they are."""
        return self.schema is None and not self.sample

    def of(self, spark: "SparkSession", logs: Logs, plan: Plan) -> "StructType | None":
        if self.schema is not None:
            return parse_schema(self.schema)
        return inferred(spark, sample(logs, plan, self.sample)) if self.sample else None


NO_FIELDS = JsonFields(sample=0)


def parse_schema(text: str) -> "StructType":
    """From DDL or from Spark's JSON; needs a session."""
    import json  # noqa: PLC0415

    from pyspark.errors import PySparkException  # noqa: PLC0415 - loaded with the session
    from pyspark.sql.types import StructType  # noqa: PLC0415

    try:
        if text.lstrip().startswith("{"):
            return StructType.fromJson(json.loads(text))
        found = StructType.fromDDL(text)
    except (PySparkException, ValueError, KeyError, TypeError):
        raise RequestInvalid(
            f"{quoted(text)} is not a schema", hint="write it as in 'customer STRING, total DOUBLE'"
        ) from None
    if not isinstance(found, StructType):
        raise RequestInvalid(f"{quoted(text)} is one type", hint="write it as in 'customer STRING, total DOUBLE'")
    return found


def sample(logs: Logs, plan: Plan, count: int) -> list[str]:
    """Values from the beginning and the end of each partition; those that are no text are left out."""
    ranges = [one for one in plan.ranges if one.first < one.end]
    texts: list[str] = []
    for one in ranges:
        each = max(1, count // (2 * len(ranges)))
        middle = min(one.first + each, one.end)
        for first, end in ((one.first, middle), (max(middle, one.end - each), one.end)):
            texts += _texts(_values(logs, one, first, end))
    return texts[:count]


def _values(logs: Logs, whole: Range, first: int, end: int) -> Iterator[bytes | None]:
    segments = tuple(one for one in whole.view.segments if one.base_offset < end and one.next_offset > first)
    for piece in read_messages(logs, Split(*whole.place, first, end, 0, segments, horizon=whole.view.end)):
        if isinstance(piece, Run):
            for batch in batches(*whole.place, piece, ["value"]):
                yield from batch.column(0).to_pylist()


def _texts(values: Iterable[bytes | None]) -> Iterator[str]:
    for value in values:
        if value is None:
            continue
        try:
            yield value.decode()
        except UnicodeDecodeError:
            yield ""


def inferred(spark: "SparkSession", texts: list[str]) -> "StructType | None":
    """The fields of these objects; None where most are none."""
    from pyspark.sql.types import StructType  # noqa: PLC0415

    objects = [text for text in texts if text.lstrip()[:1] == "{"]
    if not objects or len(objects) < _SHARE_LEAST * len(texts):
        return None
    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None:  # a Connect server infers from files alone
        raise RequestInvalid(
            "a Spark Connect server cannot infer the fields of JSON values",
            hint="name them with --json-schema, or leave values as they are with --no-json",
        )
    strings = spark._jvm.org.apache.spark.sql.Encoders.STRING()  # type: ignore[union-attr]
    found = session.read().json(session.createDataset(objects, strings)).schema().json()
    fields = [one for one in StructType.fromJson(_loaded(found)).fields if one.name != _CORRUPT]
    return StructType(fields) if fields else None


def _loaded(text: str) -> dict[str, Any]:
    import json  # noqa: PLC0415

    found: dict[str, Any] = json.loads(text)
    return found


def column_names(fields: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """A column for each field. SQL does not see capitals, so a name that is taken gets `json_` before it."""
    used = {name.lower() for name in taken}
    names: dict[str, str] = {}
    for name in fields:
        column = name
        while column.lower() in used:
            column = _PREFIX + column
        used.add(column.lower())
        names[column] = name
    return names
