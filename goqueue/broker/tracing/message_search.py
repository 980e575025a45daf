"""Finds messages in logs for a trace: by position, copies by their origin, and messages by their trace id."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from goqueue.broker.broker import Broker
from goqueue.broker.core.delay_headers import delivered_origins
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import LogRef, PartitionRef
from goqueue.broker.core.work import Work
from goqueue.broker.groups.dead_letter_message import find_origins, origin_prefix
from goqueue.broker.tracing.records import TraceRecord
from goqueue.delay import LOG_NAME, delayed_offset
from goqueue.errors import GoQueueError, OffsetOutOfRange
from goqueue.limits import OFFSET_MAX, READ_BYTES, TRACE_COPY_SCAN_BYTES, TRACE_FOUND_MAX, TRACE_ID_SCAN_BYTES
from goqueue.storage import frame, scan
from goqueue.storage.frame import StoredMessage
from goqueue.wire.sections import ORIGIN_HEADER
from goqueue.wire.trace_context import derived_trace_id, log_hash, offset_of, read_trace_context

_DIGITS_MAX = 19
_log_hash = lru_cache(maxsize=65_536)(log_hash)

Position = tuple[LogRef, int]
"""A log and an offset."""


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """Where a message was before."""

    ref: LogRef
    offset: int
    group: str = ""
    """The group that moved it; empty for a delayed message."""


def log_label(ref: LogRef) -> str:
    """Return the name of a log in derived trace ids."""
    return f"{ref.topic}/{LOG_NAME}" if ref.is_delayed else ref.topic


def trace_id_at(ref: LogRef, offset: int) -> bytes:
    """Return the derived trace id of a position."""
    return derived_trace_id(log_label(ref), ref.partition, offset)


def origin_of(ref: LogRef, message: StoredMessage) -> MessageOrigin | None:
    """Return where a message was before it came here, from headers that only the broker writes."""
    if not ref.is_delayed and (delayed := delayed_offset(message.headers)) is not None:
        return MessageOrigin(LogRef(ref.topic, ref.partition, is_delayed=True), delayed)
    name, value = message.headers[0] if message.headers else ("", b"")
    parts = value.decode("utf-8", "replace").rsplit("/", 3) if name == ORIGIN_HEADER else []
    if len(parts) != 4 or not all(part.isdigit() and len(part) <= _DIGITS_MAX for part in parts[2:]):
        return None
    return MessageOrigin(LogRef(parts[1], int(parts[2])), int(parts[3]), parts[0])


class MessageSearch:
    """Reads the logs of a broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def partition(self, ref: LogRef) -> Partition | None:
        """Return a log; None if it does not exist, also for internal topics."""
        topic = self._broker.topics.get(ref.topic)
        if topic is None or is_internal(ref.topic) or not 0 <= ref.partition < len(topic.partitions):
            return None
        partition = topic.partition(ref.partition)
        if not ref.is_delayed:
            return partition
        delays = self._broker.delay_scheduler.delays(partition)
        return None if delays is None else delays.delayed_log

    def read(self, ref: LogRef, offset: int) -> Work[StoredMessage | None]:
        """Return a message; None if it is not there any more, or is damaged."""
        record = yield from self._record(ref, offset)
        return None if record is None or record.flags & frame.CONTROL else record

    def _record(self, ref: LogRef, offset: int) -> Work[StoredMessage | None]:
        """Return a message or a control record."""
        partition = self.partition(ref)
        if partition is None or not partition.earliest <= offset < partition.high_watermark:
            return None
        try:
            read = yield from partition.read_uncommitted(offset, 1, skip_damage=True)
        except OffsetOutOfRange:
            return None
        message = frame.decode(read.buffers[0]) if read.buffers else None
        return message if message is not None and message.offset == offset else None

    def explain_absence(self, ref: LogRef, offset: int) -> Work[str]:
        """Return why there is no message at an offset, for people."""
        partition = self.partition(ref)
        name = "delayed log of the partition" if ref.is_delayed else "partition"
        if partition is None or partition.earliest >= partition.high_watermark:
            return f"the {name} has no messages"
        record = yield from self._record(ref, offset)
        if record is not None and record.flags & frame.CONTROL:
            is_marker = record.flags & frame.TRANSACTIONAL and not ref.is_delayed
            kind = "the marker of a transaction's end" if is_marker else "a record of the broker"
            return f"offset {offset} is {kind}, not a message"
        return f"the {name} has the offsets {partition.earliest} to {partition.high_watermark - 1}"

    # --- copies ---

    def copy_of(self, ref: LogRef, offset: int, group: str, target: LogRef, since: int) -> Work[int | None]:
        """Return the offset of the copy that a group's move has written, searched from where the move began."""
        prefix = origin_prefix(group, PartitionRef(ref.topic, ref.partition))

        def find(buffer: memoryview) -> int | None:
            return next((at for origin, at in find_origins(buffer, prefix) if origin == offset), None)

        return (yield from self._first(target, since, OFFSET_MAX, TRACE_COPY_SCAN_BYTES, find))

    def moved_copies(
        self, ref: LogRef, offset: int, target: LogRef, time_ns: int, bytes_max: int
    ) -> Work[tuple[list[int], int]]:
        """Return the offsets of all copies in a target, of any group, and how many bytes were examined.

        The target is searched from a time on. This finds copies of which no record is left.
        """
        partition = self.partition(target)
        found: list[int] = []
        examined = 0
        if partition is None:
            return found, examined
        needle = f"/{ref.topic}/{ref.partition}/{offset}".encode()

        def find(buffer: memoryview) -> None:
            nonlocal examined
            examined += len(buffer)
            for message in _containing(buffer, needle):
                origin = origin_of(target, message)
                if origin is not None and (origin.ref, origin.offset) == (ref, offset):
                    found.append(message.offset)

        since = yield from partition.offset_for_time(time_ns)
        yield from self._first(target, since, OFFSET_MAX, bytes_max, find)
        return found, examined

    def delivered_at(self, ref: LogRef, offset: int, first: int, end: int) -> Work[int | None]:
        """Return where in a range of the topic a delayed message is."""

        def find(buffer: memoryview) -> int | None:
            if offset not in delivered_origins([buffer]):
                return None
            messages = (frame.decode(buffer, at) for at in frame.walk(buffer))
            return next((one.offset for one in messages if delayed_offset(one.headers) == offset), None)

        return (yield from self._first(ref, first, end, TRACE_COPY_SCAN_BYTES, find))

    def delivered_after(self, ref: LogRef, offset: int, time_ns: int) -> Work[int | None]:
        """Return where a delayed message is in the topic, searched from a time on."""
        partition = self.partition(ref)
        if partition is None:
            return None
        first = yield from partition.offset_for_time(time_ns)
        return (yield from self.delivered_at(ref, offset, first, OFFSET_MAX))

    def _first(
        self, ref: LogRef, first: int, end: int, bytes_max: int, find: Callable[[memoryview], int | None]
    ) -> Work[int | None]:
        """Return the first result of `find` in a range of a log; examine this many bytes at most."""
        partition, left = self.partition(ref), bytes_max
        if partition is None:
            return None
        offset = max(first, partition.earliest)
        while offset < min(end, partition.high_watermark) and left > 0:
            try:
                read = yield from partition.read_uncommitted(offset, READ_BYTES, skip_damage=True)
            except GoQueueError:
                return None
            for buffer in read.buffers:
                found: int | None = yield partial(find, buffer)
                if found is not None:
                    return found
            if read.next_offset <= offset:
                return None
            left, offset = left - read.size, read.next_offset
        return None

    # --- trace ids ---

    def derived_position(self, trace_id: bytes, may_read: Callable[[str], bool]) -> Position | None:
        """Return the position from which an id was derived; None if no log of the broker fits."""
        for topic in self._broker.topics.values():
            if is_internal(topic.name) or not may_read(topic.name):
                continue
            for partition in topic.partitions:
                for is_delayed in (False, True):
                    ref = LogRef(topic.name, partition.number, is_delayed)
                    if trace_id[:8] == _log_hash(log_label(ref), ref.partition):
                        return self._existing(ref, offset_of(trace_id))
        return None

    def _existing(self, ref: LogRef, offset: int) -> Position | None:
        partition = self.partition(ref)
        return (ref, offset) if partition is not None and 0 <= offset < partition.high_watermark else None

    def with_trace_id(self, trace_id: bytes, batches: Iterable[TraceRecord]) -> Work[list[Position]]:
        """Return messages with this id in their `traceparent`, among batches that have headers, the oldest first.

        The newest parts of the logs are read first, and a bounded number of bytes.
        """
        found: dict[Position, int] = {}
        left = TRACE_ID_SCAN_BYTES
        for ref, offset, end in self._parts(batches):
            partition = self.partition(ref)
            while partition is not None and left > 0 and len(found) < TRACE_FOUND_MAX:
                offset = max(offset, partition.earliest)  # noqa: PLW2901 - the next offset to read
                if offset >= min(end, partition.high_watermark):
                    break
                try:
                    read = yield from partition.read_uncommitted(offset, READ_BYTES, skip_damage=True)
                except GoQueueError:
                    break
                times: dict[int, int] = yield partial(_with_id, list(read.buffers), trace_id, end)
                found.update(((ref, one), time_ns) for one, time_ns in times.items())
                if read.next_offset <= offset:
                    break
                left, offset = left - read.size, read.next_offset  # noqa: PLW2901 - as above
        return sorted(found, key=lambda position: (found[position], position))

    def _parts(self, batches: Iterable[TraceRecord]) -> list[tuple[LogRef, int, int]]:
        """Return parts of logs that have these batches, the newest first: small batches are read together."""
        newest: dict[tuple[LogRef, int, int], int] = {}
        for batch in batches:
            partition = self.partition(batch.ref)
            if partition is not None:
                step = max(1, READ_BYTES // partition.message_bytes)
                for first in range(batch.first - batch.first % step, batch.end, step):
                    part = batch.ref, first, first + step
                    newest[part] = max(newest.get(part, 0), batch.time_ns)
        return sorted(newest, key=lambda part: newest[part], reverse=True)


def _with_id(buffers: list[memoryview], trace_id: bytes, end: int) -> dict[int, int]:
    """Return the offsets below `end` of messages whose `traceparent` has this id, and their times."""
    times: dict[int, int] = {}
    for message in (one for buffer in buffers for one in _containing(buffer, trace_id.hex().encode())):
        context = read_trace_context(message.headers)
        if context is not None and context.trace_id == trace_id and message.offset < end:
            times[message.offset] = message.timestamp_ns
    return times


def _containing(buffer: memoryview, needle: bytes) -> Iterator[StoredMessage]:
    """Yield the messages with these bytes, without decoding others."""
    hits = [match.start() for match in re.finditer(re.escape(needle), buffer)]
    if hits:
        positions = scan.walk(buffer).positions
        rows = np.unique(np.searchsorted(positions, hits, side="right") - 1).tolist()
        yield from (frame.decode(buffer, int(positions[row])) for row in rows if row >= 0)
