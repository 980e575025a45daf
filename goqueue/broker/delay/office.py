"""All partitions with delayed messages, and which of them has to be seen to when.

The shell's duties: have `deliver` of each postman that `due` names carried out, once at a time for each partition;
look again at `next_ns`, and every second, since the clock may have been set; keep what `on_wait` is called with a
moment later, and never at once: whoever asks again and again would keep the flusher from being heard.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator

import numpy as np

from goqueue.broker.deadlines import Deadlines
from goqueue.broker.delay.delays import Delays
from goqueue.broker.delay.postman import Postman
from goqueue.broker.delay.schedule import STATES
from goqueue.broker.delay.wheel import Numbers
from goqueue.broker.partition import Partition
from goqueue.broker.work import Promise
from goqueue.clock import NANOSECONDS, Clock
from goqueue.delay import LOG_NAME
from goqueue.errors import LogClosed
from goqueue.storage.disk import Disk
from goqueue.storage.log import Log

_LATE_MESSAGES = 10_000  # that the figures of lateness are of


def delayed_log_name(partition: Partition) -> str:
    return f"{partition.log.name}/{LOG_NAME}"


class Office:
    """The postmen of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._postmen: dict[Partition, Postman] = {}
        self._by_name: dict[str, Postman] = {}
        self._due: dict[Postman, None] = {}
        self._deadlines = Deadlines()
        self._kind = self._deadlines.kind(self._call)
        self.outcomes: Counter[str] = Counter(dict.fromkeys(STATES[1:], 0))
        """What became of messages since the start."""
        self._late: deque[Numbers] = deque()
        self._late_count = 0
        self.on_delivery: Callable[[Numbers], None] = lambda _: None
        """Called with how late messages were, in nanoseconds."""
        self.on_earlier: Callable[[], None] = lambda: None
        """Called when somebody has to be seen to before `next_ns` was."""
        self.on_wait: Callable[[Promise[None]], None] = lambda promise: promise(None)
        """Called with what is to be kept in a moment: then it is looked again whether something was synced."""

    def open(self, partition: Partition, log: Log, disk: Disk, expiry_seconds: Callable[[], float | None]) -> Postman:
        """Make the state of a delayed log, and have its messages delivered from now on."""
        inbox = Partition(partition.topic, partition.number, log, is_delayed=True)
        postman = Postman(Delays(partition, inbox, self._clock), expiry_seconds)
        self._postmen[partition] = self._by_name[log.name] = postman
        postman.on_delivery = self._observe
        postman.delays.on_settled = self._settled
        postman.delays.on_wait = self._wait
        postman.delays.open(disk)
        postman.delays.on_earlier = lambda: self._look(log.name)
        self._look(log.name)
        return postman

    def postman(self, partition: Partition) -> Postman | None:
        """None where nothing was ever scheduled."""
        return self._postmen.get(partition)

    def delays(self, partition: Partition) -> Delays | None:
        postman = self._postmen.get(partition)
        return None if postman is None else postman.delays

    def postmen(self) -> Iterator[Postman]:
        yield from list(self._postmen.values())

    def _wait(self, promise: Promise[None]) -> None:
        self.on_wait(promise)  # as it is by then: logs are opened before anybody can wait

    def _settled(self, state: int, count: int) -> None:
        self.outcomes[STATES[state]] += count

    def pending(self) -> dict[str, int]:
        """How many wait, by topic."""
        counts: Counter[str] = Counter()
        for partition, postman in self._postmen.items():
            counts[partition.topic] += postman.delays.schedule.pending
        return dict(counts)

    def _observe(self, late_ns: Numbers) -> None:
        self.on_delivery(late_ns)
        if not len(late_ns):  # all were delivered before they were due
            return
        self._late.append(late_ns)
        self._late_count += len(late_ns)
        while self._late_count - len(self._late[0]) >= _LATE_MESSAGES:
            self._late_count -= len(self._late.popleft())

    def lateness(self) -> tuple[float | None, float | None]:
        """How late the latest messages were in seconds: the half of them, and all but one in a hundred."""
        if not self._late:
            return None, None
        half, most = np.percentile(np.concatenate(self._late), (50, 99)).tolist()
        return half / NANOSECONDS, most / NANOSECONDS

    def forget(self, partition: Partition) -> int:
        """Its topic is gone; how many messages were pending."""
        postman = self._postmen.pop(partition, None)
        if postman is None:
            return 0
        log = postman.delays.inbox.log
        self._by_name.pop(log.name, None)
        self._due.pop(postman, None)
        postman.refuse(LogClosed(f"log {log.name} is closed", hint="its topic was deleted", log=log.name))
        return postman.delays.schedule.pending

    # --- when ---

    def _look(self, name: str) -> None:
        """Something of this one may be due earlier than it was."""
        postman = self._by_name.get(name)
        if postman is None or (when_ns := postman.next_ns) is None:
            return
        before = self.next_ns
        self._deadlines.add(when_ns, self._kind, name)
        if before is None or when_ns < before:
            self.on_earlier()

    def try_again(self, postman: Postman, when_ns: int) -> None:
        """It was refused; meanwhile nothing else of it is due."""
        self._deadlines.add(when_ns, self._kind, postman.delays.name)

    def done(self, postman: Postman) -> None:
        """What was due of it has been delivered."""
        self._look(postman.delays.name)

    def _call(self, name: str) -> int | None:
        postman = self._by_name.get(name)
        if postman is not None:
            self._due[postman] = None
        return None

    @property
    def next_ns(self) -> int | None:
        return self._deadlines.next_ns

    def due(self) -> list[Postman]:
        """Those who have something to do now."""
        self._deadlines.call_due(self._clock.now_ns())
        due, self._due = list(self._due), {}
        return due

    def clock_was_set(self) -> None:
        """What is due when has to be worked out anew."""
        for postman in self.postmen():
            postman.delays.wind(self._clock.now_ns())

    def __repr__(self) -> str:
        return f"<Office {len(self._postmen)} postmen>"
