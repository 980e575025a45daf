"""Topics as a stream: from where to where each micro-batch reads, and which task reads what of it.

What must stay true: a batch that Spark plans again, after a crash or years later, has the same tasks with the same
messages in the same order. So a batch is cut by its offsets alone, never by sizes or files, which change meanwhile;
and the sink can tell by the number of a message whether it is stored already.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from goqueue.errors import OffsetOutOfRange, RequestInvalid, TopicNotFound
from goqueue.spark.logs.port import PartitionRef
from goqueue.spark.logs.splits import RemovedRange, Split
from goqueue.spark.logs.visibility import stable_views
from goqueue.spark.reading.options import ReadOptions
from goqueue.spark.reading.plan import LATEST, PartitionRange, ReadPlan, make_plan
from goqueue.spark.reading.tasks import Extract
from goqueue.spark.stream.positions import (
    BatchTriggers,
    GroupProgress,
    Positions,
    TriggerLimits,
    begun_positions,
    from_json,
    to_json,
)
from goqueue.storage.log_view import LogView

if TYPE_CHECKING:
    from goqueue.spark.typed.columns import TypedPart

SPLIT_MESSAGES = 500_000
"""Of one task: some tenths of a second, against which the start of a task is little."""
_FOR_BATCHES = ("splitBytes", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


def check_stream(given: Mapping[str, str]) -> None:
    """Refuse what only a read with an end can do."""
    names = {name.lower() for name in given}
    problems = [f"{name} is for batch reads: a stream has no end" for name in _FOR_BATCHES[1:] if name.lower() in names]
    if _FOR_BATCHES[0].lower() in names:
        problems.append("splitBytes is for batch reads: minPartitions cuts a stream finer, always at the same places")
    if any(name.lower() == "delayed" and value.lower() == "true" for name, value in given.items()):
        problems.append("delayed is for batch reads: what becomes of a message is recorded after a stream has read it")
    if problems:
        raise RequestInvalid(
            "the options of format goqueue are wrong: " + "; ".join(problems),
            hint="docs/spark.md lists all options",
            problems=problems,
        )


class GoQueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader of one query. Spark keeps it on the driver while the query runs; tasks have copies that only read."""

    def __init__(
        self,
        options: ReadOptions,
        columns: tuple[str, ...],
        typed: "tuple[TypedPart, ...]",
        partition: type[InputPartition],
    ) -> None:
        self._options = options
        self._partition = partition
        self._logs = options.logs()
        self._extract = Extract(self._logs, columns, fails_on_loss=options.fails_on_loss, typed=typed)
        self._group = (
            GroupProgress(options.url, options.token, options.group, options.tls, options.tenant)
            if options.url and options.group
            else None
        )
        self._limits = TriggerLimits(
            options.offsets_per_trigger, options.bytes_per_trigger, options.offsets_least, options.trigger_delay
        )
        self._triggers = BatchTriggers(self._limits, time.monotonic())
        self._initial: Positions | None = None
        self._target: Positions | None = None
        self._seen: Positions = {}

    # --- on the driver ---

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where the query begins; Spark asks twice for a first batch."""
        if self._initial is None:
            options = self._options
            plan = make_plan(
                self._logs, options.selection, options.start or LATEST, LATEST, is_strict=options.fails_on_loss
            )
            self._initial = {one.ref: one.first for one in plan.ranges}
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return one limit, which stands for all of them."""
        limits = self._limits
        if limits.messages_most is not None:
            return ReadMaxRows(limits.messages_most)
        if limits.bytes_most is not None:
            return ReadMaxBytes(limits.bytes_most)
        if limits.messages_least is not None:
            return ReadMinRows(limits.messages_least)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = {one.ref: one.end for one in self._ranges({})}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        known = from_json(start)
        ranges = self._ranges(known)
        if isinstance(limit, ReadAllAvailable):
            ends = {one.ref: one.end for one in ranges}
        else:
            ends = self._triggers.admit(ranges, time.monotonic(), is_complete=self._target is not None)
        firsts = {one.ref: one.first for one in ranges}
        moved = {ref: end for ref, end in ends.items() if end != known.get(ref, firsts[ref])}
        if not moved:
            return start
        begun = {ref: firsts[ref] for ref in moved if ref not in known}
        if self._initial == known:
            begun |= known
        return to_json({**known, **moved}, begun)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return to_json(self._seen) if self._seen else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        firsts = {**from_json(start), **begun_positions(end)}
        ends = from_json(end)
        wanted = [self._range(ref, firsts.get(ref), ends[ref]) for ref in sorted(ends)]
        return [self._partition(split) for split in self._splits([one for one in wanted if one is not None])]

    def commit(self, end: dict[str, Any]) -> None:
        if self._group is not None:
            self._group.report(from_json(end))

    # --- what there is ---

    def _ranges(self, known: Positions) -> list[PartitionRange]:
        """Return what there is to read behind these positions; a new partition is read from its beginning."""
        places = self._options.selection.places(self._logs)
        self._check_gone(known, places)
        found = []
        for ref, view in stable_views(self._logs, places).items():
            self._seen[ref] = view.readable_end
            end = view.readable_end
            if self._target is not None:
                end = min(end, self._target.get(ref, 0))
            first = self._first(ref, known.get(ref), view)
            found.append(PartitionRange(ref, first, max(first, end), view))
        return found

    def _check_gone(self, known: Positions, places: list[PartitionRef]) -> None:
        gone = sorted({topic for topic, _ in known} - {topic for topic, _ in places})
        if gone and self._options.fails_on_loss:
            if gone[0] in self._logs.topics():
                raise RequestInvalid(
                    f"the checkpoint is that of a stream of topic {gone[0]}, which is not read here",
                    hint="a checkpoint belongs to one stream: name another one, or the topics that it began with",
                )
            raise TopicNotFound(
                f"topic {gone[0]} was deleted while it was read", hint="failOnDataLoss=false goes on without it"
            )

    def _first(self, ref: PartitionRef, known: int | None, view: LogView) -> int:
        """Return where reading continues, if that is still there."""
        if known is None:
            return view.earliest
        if view.earliest <= known <= view.end:
            return known
        if self._options.fails_on_loss:
            if known < view.earliest:
                raise RemovedRange(*ref, known, view.earliest).error
            raise OffsetOutOfRange(
                f"{ref[0]}/{ref[1]} ends at offset {view.end}, it was read up to {known} already",
                hint="was the topic deleted and created anew? failOnDataLoss=false begins with what is there",
            )
        return view.earliest

    def _range(self, ref: PartitionRef, first: int | None, end: int) -> PartitionRange | None:
        """Return what a batch reads of a partition; None for nothing."""
        if first == end:
            return None
        try:
            view = self._logs.view(*ref)
        except TopicNotFound:
            if self._options.fails_on_loss:
                raise
            return None
        if first is None or first > end:
            first = view.earliest
        if self._options.fails_on_loss:
            self._first(ref, first, view)
        end = min(end, max(view.end, first)) if not self._options.fails_on_loss else end
        return PartitionRange(ref, first, end, view) if first < end else None

    def _splits(self, ranges: list[PartitionRange]) -> Iterator[Split]:
        most, least = SPLIT_MESSAGES, self._options.partitions_least
        if least is not None:
            most = max(1, min(most, -(-sum(one.end - one.first for one in ranges) // least)))
        for one in ranges:
            for first in range(one.first, one.end, most):
                yield _split(PartitionRange(one.ref, first, min(first + most, one.end), one.view))

    # --- in tasks ---

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            yield from self._extract.batches(partition.value)


def _split(given: PartitionRange) -> Split:
    overlapping = (one for one in given.view.segments if one.base_offset < given.end and one.next_offset > given.first)
    size = ReadPlan((given,)).size
    return Split(*given.ref, given.first, given.end, size, tuple(overlapping))
