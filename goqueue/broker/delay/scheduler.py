"""The delay scheduler: which partition has delayed messages to deliver at what time.

The runner runs `deliver` of each delivery that `due` returns, once at a time per partition, and looks again at
`next_ns` and every second, since the clock may be set.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from goqueue.broker.core.deadlines import Deadlines
from goqueue.broker.core.leadership import Leadership
from goqueue.broker.core.partition import Partition
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.delivery import PartitionDelivery
from goqueue.broker.delay.schedule import STATES
from goqueue.broker.delay.timing_wheel import Numbers
from goqueue.clock import NANOSECONDS, Clock
from goqueue.delay import LOG_NAME
from goqueue.errors import LogClosed
from goqueue.events import Signal
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log

_LATE_MESSAGES = 10_000  # latest messages in the lateness figures


def delayed_log_name(partition: Partition) -> str:
    return f"{partition.log.name}/{LOG_NAME}"


class DelayScheduler:
    def __init__(self, clock: Clock, *, is_replicated: bool = False) -> None:
        self._clock, self._is_replicated = clock, is_replicated
        self._deliveries: dict[Partition, PartitionDelivery] = {}
        self._by_name: dict[str, PartitionDelivery] = {}
        self._due: dict[PartitionDelivery, None] = {}
        self._deadlines = Deadlines()
        self._kind = self._deadlines.kind(self._call)
        self.outcomes: Counter[str] = Counter(dict.fromkeys(STATES[1:], 0))
        """Number of messages by final state since the start."""
        self._late: deque[Numbers] = deque()
        self._late_count = 0
        self.on_delivery: Signal[[Numbers]] = Signal()
        """Emitted with the lateness of delivered messages in nanoseconds."""
        self.on_earlier: Signal[[]] = Signal()
        """Emitted when there is work before the last `next_ns`."""
        self.on_opened: Signal[[PartitionDelivery]] = Signal()

    def open(
        self, partition: Partition, log: Log, disk: Disk, expiry_seconds: Callable[[], float | None]
    ) -> PartitionDelivery:
        """Open the delayed log of a partition. That of a cluster is read when it is known what is committed."""
        delayed_log = Partition(partition.topic, partition.number, log, is_delayed=True)
        if self._is_replicated:
            delayed_log.leadership = Leadership(partition.topic, partition.number, "")
        delivery = PartitionDelivery(DelayedMessages(partition, delayed_log, disk, self._clock), expiry_seconds)
        self._deliveries[partition] = self._by_name[log.name] = delivery
        delivery.on_delivery.subscribe(self._observe)
        delivery.delays.on_settled.subscribe(partial(self._settled, delivery.delays))
        if not self._is_replicated:
            delivery.delays.open()
        self.on_opened.emit(delivery)
        delivery.delays.on_earlier.subscribe(lambda: self._look(log.name))
        self._look(log.name)
        return delivery

    def delivery(self, partition: Partition) -> PartitionDelivery | None:
        """Return the delivery of a partition, or None if nothing was ever scheduled."""
        return self._deliveries.get(partition)

    def delays(self, partition: Partition) -> DelayedMessages | None:
        delivery = self._deliveries.get(partition)
        return None if delivery is None else delivery.delays

    def deliveries(self) -> Iterator[PartitionDelivery]:
        yield from list(self._deliveries.values())

    def led(self) -> Iterator[PartitionDelivery]:
        """Yield those that this node decides about: in a cluster, as the leader of their partitions."""
        yield from [one for one in self._deliveries.values() if one.delays.is_led]

    def _settled(self, delays: DelayedMessages, state: int, count: int) -> None:
        self.outcomes[STATES[state]] += count if delays.is_led else 0

    def pending(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for delivery in self.led():
            counts[delivery.delays.partition.topic] += delivery.delays.schedule.pending
        return dict(counts)

    def _observe(self, late_ns: Numbers) -> None:
        self.on_delivery.emit(late_ns)
        if not len(late_ns):  # all were delivered early on request
            return
        self._late.append(late_ns)
        self._late_count += len(late_ns)
        while self._late_count - len(self._late[0]) >= _LATE_MESSAGES:
            self._late_count -= len(self._late.popleft())

    def lateness(self) -> tuple[float | None, float | None]:
        """Return the median and the 99th percentile of recent lateness in seconds."""
        if not self._late:
            return None, None
        half, most = np.percentile(np.concatenate(self._late), (50, 99)).tolist()
        return half / NANOSECONDS, most / NANOSECONDS

    def forget(self, partition: Partition) -> int:
        """Drop the partition of a deleted topic; return its number of pending messages."""
        delivery = self._deliveries.pop(partition, None)
        if delivery is None:
            return 0
        log = delivery.delays.delayed_log.log
        self._by_name.pop(log.name, None)
        self._due.pop(delivery, None)
        delivery.refuse(LogClosed(f"log {log.name} is closed", hint="its topic was deleted", log=log.name))
        return delivery.delays.schedule.pending

    # --- when ---

    def _look(self, name: str) -> None:
        """Set the deadline of a delivery that may have become earlier."""
        delivery = self._by_name.get(name)
        if delivery is None or (when_ns := delivery.next_ns) is None:
            return
        before = self.next_ns
        self._deadlines.add(when_ns, self._kind, name)
        if before is None or when_ns < before:
            self.on_earlier.emit()

    def retry_later(self, delivery: PartitionDelivery, when_ns: int) -> None:
        """Run a refused delivery again at this time."""
        self._deadlines.add(when_ns, self._kind, delivery.delays.name)

    def done(self, delivery: PartitionDelivery) -> None:
        """Set the next deadline after a delivery."""
        self._look(delivery.delays.name)

    def _call(self, name: str) -> int | None:
        delivery = self._by_name.get(name)
        if delivery is not None:
            self._due[delivery] = None
        return None

    @property
    def next_ns(self) -> int | None:
        return self._deadlines.next_ns

    def due(self) -> list[PartitionDelivery]:
        """Return the deliveries that have work now."""
        self._deadlines.call_due(self._clock.now_ns())
        due, self._due = list(self._due), {}
        return due

    def on_clock_set_back(self) -> None:
        """Rebuild all timing wheels after the clock was set back."""
        for delivery in self.deliveries():
            delivery.delays.wind(self._clock.now_ns())
