"""Dead letters: why, where and for whom messages failed, what came lately, and what was sent back.

What their headers say is read as columns. What was sent back is what the broker's own group has settled there.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.dead_letter_message import DEAD_LETTER_HEADER_PREFIX
from goqueue.broker.groups.records import Range
from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX
from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_count
from goqueue.spark.inspections.catalog import DLQ
from goqueue.spark.inspections.dead_letter_queues import Origins, find_queues
from goqueue.spark.inspections.header import header_column
from goqueue.spark.inspections.inspection import InspectionContext, Report, Row
from goqueue.spark.inspections.internal_logs import read_group_logs
from goqueue.spark.logs.port import LogSource
from goqueue.spark.logs.splits import FrameRun, Split
from goqueue.spark.logs.visibility import read_messages
from goqueue.spark.reading.tasks import splits_to_frame
from goqueue.storage.scan import Frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

By = Literal["error", "origin", "group", "hour"]

SAMPLES = 3
_ERROR_CHARACTERS_MAX = 120
_HOUR_NS = 3600 * NANOSECONDS

_VARIABLE = re.compile(
    r"'[^']*'|\"[^\"]*\"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?:0x)?(?=[0-9a-fA-F]*[0-9])[0-9a-fA-F]{6,}\b|[0-9]+(?:\.[0-9]+)*"
)

_SCHEMA = pa.schema(
    [
        pa.field("what", pa.string()),
        pa.field("letters", pa.int64()),
        pa.field("sent_back", pa.int64()),
        pa.field("fresh", pa.int64()),
        pa.field("first_ns", pa.int64()),
        pa.field("last_ns", pa.int64()),
        pa.field("oldest_left_ns", pa.int64()),
        pa.field("attempts", pa.int64()),
        pa.field("attempts_max", pa.int64()),
        pa.field("samples", pa.list_(pa.string())),
    ]
)


@lru_cache(maxsize=4096)
def error_class(error: str) -> str:
    """Return an error without the numbers, ids and quoted texts in which errors of one kind differ."""
    return _VARIABLE.sub("…", error)[:_ERROR_CHARACTERS_MAX]


@dataclass(frozen=True, slots=True)
class DeadLetterScan:
    """The work of a task: a row for each class of what one run of frames holds."""

    logs: LogSource
    by: By
    since_ns: int | None
    sent_back: Mapping[PartitionRef, Sequence[Range]]
    queues: Mapping[str, Origins]

    def __call__(self, split: Split) -> Iterator[pa.RecordBatch]:
        back = np.array(self.sent_back.get(PartitionRef(split.topic, split.partition), ()), np.int64).reshape(-1, 2)
        for piece in read_messages(self.logs, split):
            if isinstance(piece, FrameRun):
                rows = list(self._rows(split, piece, back))
                yield pa.RecordBatch.from_pylist(rows, _SCHEMA)

    def _rows(self, split: Split, run: FrameRun, back: NDArray[np.int64]) -> Iterator[dict[str, Any]]:
        frames = run.frames
        offsets, times = frames.offsets, frames.timestamps
        ranks = np.searchsorted(back[:, 0], offsets, side="right") - 1
        gone = (ranks >= 0) & (offsets < np.append(back[:, 1], -1)[ranks])
        attempts = _numbers(_broker_header(frames, "attempts"))
        counts = run.real & self._count(split.topic, frames)
        names, codes = self._classes(frames, times)
        for number, name in enumerate(names):
            here = np.flatnonzero((codes == number) & counts)
            if not len(here):
                continue
            left = here[~gone[here]]
            yield {
                "what": name,
                "letters": len(here),
                "sent_back": len(here) - len(left),
                "fresh": 0 if self.since_ns is None else int(np.count_nonzero(times[here] >= self.since_ns)),
                "first_ns": int(times[here[0]]),
                "last_ns": int(times[here[-1]]),
                "oldest_left_ns": int(times[left[0]]) if len(left) else None,
                "attempts": int(attempts[here].sum()),
                "attempts_max": int(attempts[here].max()),
                "samples": [
                    f"{split.topic}/{split.partition}/{offset}"
                    for offset in offsets[(left if len(left) else here)[-SAMPLES:]].tolist()
                ],
            }

    def _count(self, queue: str, frames: Frames) -> NDArray[np.bool_]:
        """Return which messages count: those without an origin only where a queue has its usual name."""
        topics, codes = _coded(_broker_header(frames, "topic"))
        origins = self.queues[queue]
        is_usual = queue.endswith(DEAD_LETTER_SUFFIX)
        chosen = [bool(topic in origins if origins is not None and topic else topic or is_usual) for topic in topics]
        return np.array(chosen or [False], np.bool_)[codes]

    def _classes(self, frames: Frames, times: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
        """Return the classes, and the number of the class of each message."""
        match self.by:
            case "hour":
                hours, codes = np.unique(times // _HOUR_NS * _HOUR_NS, return_inverse=True)
                return [str(hour) for hour in hours.tolist()], codes
            case "error":
                texts, codes = _coded(_broker_header(frames, "error"))
                return _merged([error_class(text) for text in texts], codes)
            case "group":
                return _coded(_broker_header(frames, "group"))
            case "origin":
                topics, first = _coded(_broker_header(frames, "topic"))
                numbers, second = _coded(_broker_header(frames, "partition"))
                pairs, codes = np.unique(first * len(numbers) + second, return_inverse=True)
                return [f"{topics[pair // len(numbers)]}/{numbers[pair % len(numbers)]}" for pair in pairs], codes


def _broker_header(frames: Frames, name: str) -> pa.Array:
    return header_column(frames, f"{DEAD_LETTER_HEADER_PREFIX}{name}")


def _coded(column: pa.Array) -> tuple[list[str], NDArray[np.int64]]:
    """Return the different texts, and the number of each message's text; no text is an empty one."""
    coded = column.fill_null(b"").dictionary_encode()
    texts = [text.decode("utf-8", "replace") for text in coded.dictionary.to_pylist()]
    return texts, coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _merged(names: list[str], codes: NDArray[np.int64]) -> tuple[list[str], NDArray[np.int64]]:
    numbers: dict[str, int] = {}
    targets = np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)
    return list(numbers), targets[codes]


def _numbers(column: pa.Array) -> NDArray[np.int64]:
    """Parse numbers; other texts count as 0."""
    texts, codes = _coded(column)
    values = [int(text) if text.isdecimal() and text.isascii() and len(text) < 10 else 0 for text in texts]
    return np.array(values or [0], np.int64)[codes]


@dataclass(frozen=True, slots=True)
class DeadLetterClass:
    """Dead letters that have something in common."""

    what: str
    """The error, the origin, the group, or when the hour begins in nanoseconds."""
    letters: int
    sent_back: int
    fresh: int
    """How many are not older than what was asked for."""
    first_ns: int
    last_ns: int
    oldest_left_ns: int | None
    """Of those that were not sent back."""
    attempts: int
    """Of all together."""
    attempts_max: int
    samples: tuple[str, ...]
    """Where the latest of them are."""

    @property
    def left(self) -> int:
        return self.letters - self.sent_back


def count_dead_letters(
    spark: "SparkSession", splits: Sequence[Split], scan: DeadLetterScan, *, top: int = 50
) -> list[DeadLetterClass]:
    """Return the largest classes; hours in their order."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - loaded with the session

    found = splits_to_frame(spark, splits, scan, _SCHEMA)
    sums = [f.sum(name).alias(name) for name in ("letters", "sent_back", "fresh", "attempts")]
    rows = (
        found.groupBy("what")
        .agg(
            *sums,
            f.min("first_ns").alias("first_ns"),
            f.max("last_ns").alias("last_ns"),
            f.min("oldest_left_ns").alias("oldest_left_ns"),
            f.max("attempts_max").alias("attempts_max"),
            f.slice(f.sort_array(f.collect_list(f.struct("last_ns", "samples")), asc=False), 1, SAMPLES).alias(
                "latest"
            ),
        )
        .orderBy(f.desc("letters"), f.desc("last_ns"), "what")
        .limit(top)
        .collect()
    )
    classes = [_dead_letter_class(row.asDict()) for row in rows]
    return sorted(classes, key=lambda one: one.first_ns) if scan.by == "hour" else classes


def _dead_letter_class(row: dict[str, Any]) -> DeadLetterClass:
    samples = [sample for one in row.pop("latest") for sample in reversed(one["samples"])]
    return DeadLetterClass(**row, samples=tuple(samples[:SAMPLES]))


def rows(found: Iterable[DeadLetterClass], by: By, *, has_since: bool) -> list[Row]:
    return [
        {
            by: int(one.what) if by == "hour" else one.what or None,
            "letters": one.letters,
            "left": one.left,
            "sent_back": one.sent_back,
            **({"new": one.fresh} if has_since else {}),
            "attempts_mean": one.attempts / one.letters,
            "attempts_max": one.attempts_max,
            "first_time": one.first_ns,
            "last_time": one.last_ns,
            "oldest_left": one.oldest_left_ns,
            "samples": list(one.samples),
        }
        for one in found
    ]


def inspect(context: InspectionContext, by: By, since: int | None, top: int) -> Report:
    logs, groups = context.logs, read_group_logs(context.logs)
    queues = find_queues(logs, groups, context.topics)
    plan = context.plan_of(tuple(queues)) if queues else None
    fields = (by, *DLQ.table[:3], *(["new"] if since is not None else []), *DLQ.table[3:])
    if plan is None or not plan.messages:
        return Report([], fields=fields, warnings=["there are no dead letters"])
    scan = DeadLetterScan(logs, by, since, groups.sent_back(), queues)
    with context.session(plan) as spark:
        found = count_dead_letters(spark, plan.splits(logs), scan, top=top)
    report = Report(rows(found, by, has_since=since is not None), plan, fields)
    if len(found) == top:
        report.warnings.append(f"the largest {format_count(top)} are shown; --top {top * 10} shows more")
    return report
