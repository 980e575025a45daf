"""Lists of traces: the newest first, one for each range of messages to which the same happened."""

from collections.abc import Iterator
from dataclasses import dataclass

from goqueue.broker.core.work import Work
from goqueue.broker.tracing.assembly import JourneyAssembler
from goqueue.broker.tracing.journey import Journey, TraceStatus
from goqueue.broker.tracing.message_search import Position
from goqueue.broker.tracing.records import TraceRecord
from goqueue.broker.tracing.selection import TraceSelection, TraceStore, newest_first
from goqueue.limits import TRACE_LIST_RECORDS, TRACE_LIST_TRIES


class FoundRecords:
    """An archive of records that were read already."""

    def __init__(self, records: list[TraceRecord]) -> None:
        self._by_log: dict[tuple[str, int], list[TraceRecord]] = {}
        for one in records:
            self._by_log.setdefault((one.topic, one.partition), []).append(one)

    def read(self, selection: TraceSelection, most: int) -> list[TraceRecord]:
        if selection.topic is None or selection.partition is None:
            return []
        records = self._by_log.get((selection.topic, selection.partition), [])
        return [one for one in records if selection.includes(one)][:most]


@dataclass(slots=True)
class ListedTrace:
    journey: Journey
    batch: int
    """The number of messages to which the same happened last."""


class TraceListing:
    """Finds traces, one after the other: call `next` until it returns None, with pauses for other work."""

    def __init__(
        self,
        assembler: JourneyAssembler,
        store: TraceStore,
        selection: TraceSelection,
        *,
        status: TraceStatus | None = None,
    ) -> None:
        self._assembler = assembler
        self._store = store
        self._selection = selection
        self._status = status
        self._records: Iterator[TraceRecord] | None = None
        self._seen: set[Position] = set()
        self._listed: set[bytes] = set()
        self._tries = TRACE_LIST_TRIES
        self.is_complete = True
        """False if there may be more than was examined."""

    def next(self) -> Work[ListedTrace | None]:
        if self._records is None:
            yield from self._begin()
        assert self._records is not None, "the records were just read"
        for record in self._records:
            offset = record.first if self._selection.offset is None else self._selection.offset
            if record.event == "consume.acked" and not record.attempt and not record.transaction:
                continue  # the commit of an offset is about all messages before it
            if (record.ref, offset) in self._seen:
                continue
            if not self._tries:
                self.is_complete = False
                return None
            self._tries -= 1
            self._seen.add((record.ref, offset))
            journey = yield from self._assembler.of_message(record.ref, offset, self._selection.may_read)
            if journey is None:
                continue
            self._seen.update((one.ref, one.offset) for one in journey.messages)
            if journey.trace_id not in self._listed and self._status in (None, journey.status):
                self._listed.add(journey.trace_id)
                return ListedTrace(journey, record.messages)
        return None

    def _begin(self) -> Work[None]:
        """Read the newest records once; journeys are assembled from these, without further reads of files."""
        records = yield from self._store.find(self._selection, TRACE_LIST_RECORDS)
        self.is_complete = len(records) < TRACE_LIST_RECORDS
        may_read = self._selection.may_read
        near = yield from self._store.find(TraceSelection(may_read=may_read), TRACE_LIST_RECORDS)
        if self._selection.topic is not None:  # copies are in other topics, but its own records reach further back
            near += yield from self._store.find(
                TraceSelection(topic=self._selection.topic, may_read=may_read), TRACE_LIST_RECORDS
            )
        everything = newest_first(near + records)
        self._assembler = self._assembler.over(self._store.with_archive(FoundRecords(everything)))
        self._records = iter(records)
