"""The latest trace records in memory."""

from collections import Counter, deque
from collections.abc import Callable, Iterator

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.tracing.records import TraceRecord, delayed_part
from goqueue.broker.tracing.sampling import Sampling
from goqueue.clock import NANOSECONDS
from goqueue.events import Signal
from goqueue.limits import TRACE_OUTBOX_RECORDS, TRACE_PROMOTIONS_SECOND


class TraceRing:
    """Keeps the latest records, and hands those that are sampled on to the files.

    Records that are not sampled wait beside them: if their messages fail later, they are kept.
    """

    def __init__(
        self, records_max: int, sampling: Sampling, now_ns: Callable[[], int], *, has_outbox: bool = False
    ) -> None:
        """With an outbox, kept records wait there until they are written."""
        self.sampling = sampling
        self.counts: Counter[str] = Counter()
        """Records by event."""
        self.sampled_out = 0
        self.dropped = 0
        """Records that were not written, because the disk was too slow."""
        self.on_waiting: Signal[[]] = Signal()
        """Called when the first record waits to be written."""
        self.on_kept: Signal[[TraceRecord]] = Signal()
        """Called with each record that is sampled."""
        self._now_ns = now_ns
        self._kept: deque[TraceRecord] = deque(maxlen=records_max)
        self._others: deque[TraceRecord] = deque(maxlen=records_max)
        self._has_outbox = has_outbox
        self._outbox: list[TraceRecord] = []
        self._second = self._promotions = 0

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, record: TraceRecord, *, always: bool = False) -> None:
        """Add a record; with `always`, keep all of its messages."""
        self.counts[record.event] += 1
        if self.sampling.is_full(record.topic):
            self._keep(record)
        elif always:
            self.promote(record)
            self._keep(record)
        elif self.sampling.keeps(record):
            self._keep(record)
        else:
            self.sampled_out += 1
            self._others.append(record)

    def promote(self, record: TraceRecord) -> None:
        """Keep what was and will be recorded of these messages."""
        if not self.sampling.keep(record) or not self._may_search():
            return
        ref = record.ref
        found = [one for one in self._others if one.overlaps(record) and one.ref == ref]
        if not found:
            return
        chosen = set(map(id, found))
        left = [one for one in self._others if id(one) not in chosen]
        self._others.clear()
        self._others.extend(left)
        self.sampled_out -= len(found)
        for one in found:
            self._keep(one)
            if one.event == "delay.ready":
                self.promote(delayed_part(one))

    def _may_search(self) -> bool:
        second = self._now_ns() // NANOSECONDS
        if second != self._second:
            self._second, self._promotions = second, 0
        self._promotions += 1
        return self._promotions <= TRACE_PROMOTIONS_SECOND

    def _keep(self, record: TraceRecord) -> None:
        self._kept.append(record)
        self.on_kept.emit(record)
        if not self._has_outbox:
            return
        outbox = self._outbox
        if len(outbox) >= TRACE_OUTBOX_RECORDS:
            self.dropped += 1
            return
        outbox.append(record)
        if len(outbox) == 1:
            self.on_waiting.emit()

    def take(self) -> list[TraceRecord]:
        """Return the records that wait to be written."""
        taken, self._outbox = self._outbox, []
        return taken

    def newest(self) -> Iterator[TraceRecord]:
        """Yield the sampled records, the newest first."""
        yield from reversed(list(self._kept))

    def covering(self, ref: LogRef, offset: int) -> list[TraceRecord]:
        """Return all records of a message, sampled or not."""
        topic, partition, is_delayed = ref
        return [
            one
            for records in (self._kept, self._others)
            for one in records
            if one.first <= offset < one.end
            and one.partition == partition
            and one.topic == topic
            and one.delayed == is_delayed
            and one.covers(offset)
        ]

    @property
    def oldest_ns(self) -> int | None:
        return min((one.time_ns for one in self._kept), default=None)
