"""The names and types of the fields of JSON values, given as a schema or inferred from a sample."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goqueue.errors import RequestInvalid
from goqueue.quantities import quoted
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.columns import batches
from goqueue.spark.reading.plan import PartitionRange, ReadPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

SAMPLE_MESSAGES = 1000
SHARE_LEAST = 0.9  # of the values in a sample that must be objects, or the topic is not taken for JSON
_CORRUPT = "_corrupt_record"  # how Spark calls the field for what it cannot read


@dataclass(frozen=True, slots=True)
class JsonFields:
    """Where the fields come from."""

    schema: str | None = None
    """DDL, as in `order BIGINT, customer STRING`, or the JSON form of a schema."""
    sample: int = SAMPLE_MESSAGES
    """How many messages to look at where no schema is given; 0 leaves values as they are."""

    @property
    def is_none(self) -> bool:
        """True where values are left as they are."""
        return self.schema is None and not self.sample

    def of(self, spark: "SparkSession", logs: LogSource, plan: ReadPlan) -> "StructType | None":
        if self.schema is not None:
            return parse_schema(self.schema)
        return infer_fields(spark, sample_values(logs, plan, self.sample)) if self.sample else None


NO_FIELDS = JsonFields(sample=0)


def parse_schema(text: str) -> "StructType":
    """Parse DDL or Spark's JSON; it needs a session."""
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


def sample_values(logs: LogSource, plan: ReadPlan, count: int) -> list[str]:
    """Return values from the beginning and the end of each partition, as far as they are text."""
    ranges = [one for one in plan.ranges if one.first < one.end]
    texts: list[str] = []
    for one in ranges:
        each = max(1, count // (2 * len(ranges)))
        middle = min(one.first + each, one.end)
        for first, end in ((one.first, middle), (max(middle, one.end - each), one.end)):
            texts += _texts(_values(logs, one, first, end))
    return texts[:count]


def _values(logs: LogSource, whole: PartitionRange, first: int, end: int) -> Iterator[bytes | None]:
    segments = tuple(one for one in whole.view.segments if one.base_offset < end and one.next_offset > first)
    for piece in read_messages(logs, Split(*whole.ref, first, end, 0, segments, horizon=whole.view.end)):
        if isinstance(piece, FrameRun):
            for batch in batches(*whole.ref, piece, ["value"]):
                yield from batch.column(0).to_pylist()


def _texts(values: Iterable[bytes | None]) -> Iterator[str]:
    for value in values:
        if value is None:
            continue
        try:
            yield value.decode()
        except UnicodeDecodeError:
            yield ""


def infer_fields(spark: "SparkSession", texts: list[str]) -> "StructType | None":
    """Infer the fields of these objects; None where most values are not objects."""
    from pyspark.sql.types import StructType  # noqa: PLC0415

    objects = [text for text in texts if text.lstrip()[:1] == "{"]
    if not objects or len(objects) < SHARE_LEAST * len(texts):
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
