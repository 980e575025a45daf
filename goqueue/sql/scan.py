"""Topics as Arrow datasets: DuckDB tells each scan the columns and the condition that it needs.

What must stay true: DuckDB does not test a condition again that it has handed to a scan, so a scan tests all of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from goqueue.errors import QueryTooLarge
from goqueue.quantities import format_count
from goqueue.spark.logs.port import LogSource
from goqueue.spark.queries.pruning import Interval, ScanRequirement, narrowed
from goqueue.spark.queries.tables import MESSAGE_COLUMNS, RAW_COLUMNS, TEXT_COLUMNS, stored_columns
from goqueue.spark.reading.columns import schema_of
from goqueue.spark.reading.plan import ReadPlan
from goqueue.spark.reading.tasks import Extract

_TIME_END = 2**53  # microseconds: the year 2255
_FORMAT = ds.ParquetFileFormat()  # of files that are not there: a condition is tried on what is said of them
_DISK = LocalFileSystem()


def _schema() -> pa.Schema:
    stored = schema_of(MESSAGE_COLUMNS)
    columns = [pa.field(one.name, pa.string()) if one.name in TEXT_COLUMNS else one for one in stored]
    return pa.schema([*columns, *(pa.field(raw, pa.binary()) for raw in RAW_COLUMNS)])


SCHEMA = _schema()


@dataclass(slots=True)
class Reading:
    """The reading of one query by all of its scans, and what ended it."""

    logs: LogSource
    limit: int
    """The number of messages that a query may read."""
    skips_damage: bool = False
    watch: Callable[[int, int], None] | None = None
    """Called with the messages read so far, and with those that will be."""
    counts_planned: bool = True
    """False where a query ends early by a LIMIT: then the messages that were read count, and not those of its plan."""
    planned: int = 0
    read: int = 0
    scans: "list[TopicScan]" = field(default_factory=list)
    failure: BaseException | None = None

    def begin(self, scan: "TopicScan") -> None:
        self.scans.append(scan)
        self.planned += scan.plan.messages
        if self.counts_planned and self.planned > self.limit:
            raise self._refusal(f"the query reads {format_count(self.planned, 'message')}")

    def count(self, messages: int) -> None:
        self.read += messages
        if self.read > self.limit:
            raise self._refusal(f"the query has read {format_count(self.limit, 'message')}, and needs more")
        if self.watch is not None:
            self.watch(self.read, self.planned)

    def _refusal(self, sentence: str) -> QueryTooLarge:
        return QueryTooLarge(f"{sentence}; the limit is {format_count(self.limit)}", limit=self.limit)


class TopicTable(ds.Dataset):  # type: ignore[misc] # pyarrow has no types
    """The messages of a plan. DuckDB calls `scanner` for each place of a query that reads the table."""

    def __init__(self, topic: str, plan: ReadPlan, reading: Reading) -> None:
        self._topic = topic
        self._plan = plan
        self._reading = reading

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def scanner(self, columns: list[str] | None = None, filter: Any = None, **_: Any) -> "TopicScan":  # noqa: A002
        """Plan a scan; the names of both parameters are Arrow's."""
        try:
            plan = self._plan
            if filter is not None:
                plan = narrowed(self._reading.logs, plan, requirement(filter, plan))
            scan = TopicScan(self._topic, plan, self._reading, SCHEMA.names if columns is None else columns, filter)
            self._reading.begin(scan)
        except BaseException as error:
            self._reading.failure = error
            raise
        return scan


@dataclass(frozen=True, slots=True)
class TopicScan:
    """One scan of a topic."""

    topic: str
    plan: ReadPlan
    reading: Reading
    columns: list[str]
    condition: Any

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns of messages that are decoded."""
        return stored_columns(self._needed, ())

    @property
    def _needed(self) -> list[str]:
        wanted = {*self.columns, *_mentioned(self.condition)}
        return [name for name in SCHEMA.names if name in wanted]

    def to_reader(self) -> pa.RecordBatchReader:
        schema = pa.schema([SCHEMA.field(name) for name in self.columns])
        return pa.RecordBatchReader.from_batches(schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        reading = self.reading
        extract = Extract(reading.logs, self.stored, fails_on_loss=not reading.skips_damage)
        try:
            for split in self.plan.splits(reading.logs):
                for stored in extract.batches(split):
                    reading.count(len(stored))
                    yield from self._chosen(stored)
        except BaseException as error:
            reading.failure = error
            raise

    def _chosen(self, stored: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        found = pa.table({name: _column(stored, name) for name in self._needed})
        if self.condition is not None:
            found = found.filter(self.condition)
        yield from found.select(self.columns).to_batches()


def _column(stored: pa.RecordBatch, name: str) -> pa.Array:
    found = stored.column(RAW_COLUMNS.get(name, name))
    return as_text(found) if name in TEXT_COLUMNS else found


def as_text(found: pa.Array) -> pa.Array:
    """Return bytes as text; what is not UTF-8 becomes U+FFFD."""
    try:
        return found.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if one is None else one.decode(errors="replace") for one in found.to_pylist()]
        return pa.array(texts, pa.string())


# --- what a condition leaves out ---


def requirement(condition: Any, plan: ReadPlan) -> ScanRequirement:
    """Return the offsets, times and partitions outside which a condition of Arrow is never true.

    Arrow decides it: it tells whether a condition can be true of a file of which only bounds are known.
    """
    names = _mentioned(condition)
    offsets = times = partitions = Interval()
    if "offset" in names:
        end = max((one.end for one in plan.ranges), default=0)
        offsets = _interval(condition, ds.field("offset"), lambda value: value, end)
    if "timestamp" in names:
        times = _interval(condition, ds.field("timestamp"), _moment, _TIME_END)
    if "partition" in names:
        numbers = {one.ref[1] for one in plan.ranges}
        kept = _possible(condition, {number: ds.field("partition") == number for number in numbers})
        partitions = Interval(min(kept, default=0), max(kept, default=0))
    return ScanRequirement(frozenset(), offsets, times, partitions)


def _moment(microseconds: int) -> pa.Scalar:
    return pa.scalar(microseconds, pa.timestamp("us", "UTC"))


def _interval(condition: Any, column: Any, value: Callable[[int], Any], end: int) -> Interval:
    """Return the values from 0 to `end` between which a condition can be true."""
    low = _first(end, lambda number: _may_be_true(condition, column <= value(number)))
    high = _first(end, lambda number: not _may_be_true(condition, column >= value(number)))
    return Interval(low or None, None if high > end else high - 1)


def _first(end: int, is_reached: Callable[[int], bool]) -> int:
    """Return the first number from 0 to `end` from which on `is_reached` is true; `end` + 1 where it never is."""
    low, high = 0, end + 1
    while low < high:
        middle = (low + high) // 2
        if is_reached(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _may_be_true(condition: Any, known: Any) -> bool:
    return bool(_possible(condition, {0: known}))


def _possible(condition: Any, known: dict[int, Any]) -> list[int]:
    """Return those for which a condition can be true, given what is known of each."""
    files = [
        _FORMAT.make_fragment(str(number), filesystem=_DISK, partition_expression=said)
        for number, said in known.items()
    ]
    dataset = ds.FileSystemDataset(files, SCHEMA, _FORMAT, _DISK)
    return [int(Path(one.path).name) for one in dataset.get_fragments(filter=condition)]


def _mentioned(condition: Any) -> set[str]:
    """Return the columns of a condition, and perhaps more: it tells them in its text only."""
    text = "" if condition is None else str(condition)
    return {name for name in SCHEMA.names if name in text}
