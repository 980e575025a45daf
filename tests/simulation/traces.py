"""Tracing in every simulated world: records tell only what is durable, and any trace can be asked for."""

from random import Random
from typing import TYPE_CHECKING

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.work import run_work
from goqueue.broker.tracing.assembly import JourneyAssembler
from goqueue.broker.tracing.recorder import TraceRecorder
from goqueue.broker.tracing.records import TraceRecord
from goqueue.broker.tracing.ring import TraceRing
from goqueue.broker.tracing.sampling import Sampling
from goqueue.broker.tracing.selection import TraceStore
from tests.simulation.traffic import Traffic

if TYPE_CHECKING:
    from tests.simulation.world import World

_ASKED = 3


class TraceWatch(Traffic):
    """Checks each record when it is made, and asks for traces now and then."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self.random = Random(0)  # what others draw stays the same
        self._ring: TraceRing
        self._assembler: JourneyAssembler

    def opened(self) -> None:
        broker = self.broker
        self._ring = TraceRing(1_000, Sampling(lambda _: self.random.choice((0.3, 1.0))), self.clock.now_ns)
        TraceRecorder(broker, self._ring, self.clock.now_ns)
        self._ring.on_kept.subscribe(self._made)
        store = TraceStore(self._ring, lambda name: 0 if name in broker.topics else None)
        self._assembler = JourneyAssembler(broker, store)

    def _made(self, record: TraceRecord) -> None:
        self.counts[f"traced: {record.event}"] += 1
        topic = self.broker.topics.get(record.topic)
        if topic is None or record.delayed or record.transaction or record.partition >= len(topic.partitions):
            return
        partition = topic.partition(record.partition)
        if record.event == "publish.persisted" and record.time_ns:
            assert record.end <= partition.high_watermark, f"{record} is not committed"
        cursors = self.broker.groups.of(record.group).store.durable_cursors(record.group) if record.group else {}
        cursor = cursors.get(PartitionRef(record.topic, record.partition))
        if cursor is not None and cursor.topic_ns == topic.created_ns:
            if record.event == "consume.fetched":
                assert record.end <= partition.high_watermark, f"{record} was delivered before it was committed"
            is_plain = cursor.heads is None and not record.reason  # in a lane, an ack may name what was settled before
            if record.event == "consume.acked" and is_plain:
                assert cursor.is_settled(record.first, record.first + 1), f"{record} is not settled"

    def check(self) -> None:
        """Ask for some traces; each has the events of its records, in the order of time."""
        records = list(self._ring.newest())
        for record in self.random.sample(records, min(_ASKED, len(records))):
            journey = run_work(self._assembler.of_message(record.ref, record.first, lambda _: True))
            if journey is not None:
                times = [one.time_ns for one in journey.events]
                assert times == sorted(times)
                assert journey.status in ("completed", "pending", "error")
