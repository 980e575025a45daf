"""Which trace records are asked for, and where they come from."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.work import Work
from goqueue.broker.tracing.records import TraceRecord
from goqueue.broker.tracing.ring import TraceRing


@dataclass(frozen=True, slots=True)
class TraceSelection:
    """Conditions that records must all meet."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    is_delayed: bool | None = None
    delayed_offset: int | None = None
    """Only `delay.ready` records that may be about this message of the delayed log."""
    group: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    has_headers: bool = False
    may_read: Callable[[str], bool] = lambda _: True

    def includes(self, one: TraceRecord) -> bool:
        return (
            (self.topic is None or one.topic == self.topic)
            and (self.partition is None or one.partition == self.partition)
            and (self.offset is None or one.covers(self.offset))
            and (self.is_delayed is None or one.delayed == self.is_delayed)
            and (self.delayed_offset is None or one.to_offset <= self.delayed_offset < one.to_end)
            and (self.group is None or one.group == self.group)
            and (self.start_ns is None or one.time_ns >= self.start_ns)
            and (self.end_ns is None or one.time_ns < self.end_ns)
            and (one.headers or not self.has_headers)
            and self.may_read(one.topic)
        )

    @classmethod
    def of_message(cls, ref: LogRef, offset: int) -> "TraceSelection":
        return cls(ref.topic, ref.partition, offset, ref.is_delayed)


class TraceArchive(Protocol):
    """Records on disk."""

    def read(self, selection: TraceSelection, most: int) -> list[TraceRecord]:
        """Return matching records, the newest first. Runs on any thread."""
        ...


class TraceStore:
    """All records there are: in memory and on disk. Those of deleted topics are left out."""

    def __init__(
        self, ring: TraceRing, created_ns: Callable[[str], int | None], archive: TraceArchive | None = None
    ) -> None:
        """`created_ns` returns when a topic was created: earlier records are of another one with its name."""
        self.ring = ring
        self.archive = archive
        self._created_ns = created_ns

    def with_archive(self, archive: TraceArchive) -> "TraceStore":
        return TraceStore(self.ring, self._created_ns, archive)

    def find(self, selection: TraceSelection, most: int) -> Work[list[TraceRecord]]:
        """Return matching records, the newest first."""
        found = [one for one in self.ring.newest() if selection.includes(one)][:most]
        if self.archive is not None and len(found) < most:
            found += yield partial(self.archive.read, selection, most)
        return newest_first(filter(self._is_current, found))[:most]

    def of_message(self, ref: LogRef, offset: int, most: int) -> Work[list[TraceRecord]]:
        """Return the records of one message, in the order of time; also of one that is not sampled."""
        found = self.ring.covering(ref, offset)
        if self.archive is not None:
            archived: list[TraceRecord] = yield partial(self.archive.read, TraceSelection.of_message(ref, offset), most)
            found = archived[::-1] + found
        return sorted(dict.fromkeys(filter(self._is_current, found)), key=_time)[-most:]

    def _is_current(self, record: TraceRecord) -> bool:
        created_ns = self._created_ns(record.topic)
        return created_ns is not None and record.time_ns >= created_ns


def newest_first(records: Iterable[TraceRecord]) -> list[TraceRecord]:
    """Sort records, each once: one may be in memory and on disk."""
    return sorted(dict.fromkeys(records), key=_time, reverse=True)


def _time(record: TraceRecord) -> int:
    return record.time_ns
