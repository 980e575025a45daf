"""The world with groups: what is done for them step by step, and what is forgotten when the power goes."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from goqueue.broker.broker import Broker
from goqueue.broker.delivery.rules import DEAD_LETTER_SUFFIX, Rules
from goqueue.broker.groups.coordinator import Coordinator, GroupSettings
from goqueue.broker.work import Job, Promise, Work
from goqueue.errors import GoQueueError
from goqueue.storage.log import LogSettings
from goqueue.testing.disk import Crashed, Keep
from tests.simulation.groups.checks import check_cursors, check_groups
from tests.simulation.groups.model import Groups, Key, Progress
from tests.simulation.groups.transactions import Transactions
from tests.simulation.world import SEGMENT_BYTES, World

LOG_BYTES = 6000
TOPICS = ("alerts", "orders", "prices")

T = TypeVar("T")


class GroupWorld(World):
    """One broker after the other, with groups."""

    def __init__(self, seed: int) -> None:
        self.groups = Groups()
        self.works: list[Doing[Any]] = []
        self.on_death: list[Callable[[], None]] = []
        """Called when the process is gone, and everybody who waited for it."""
        self.transactions = Transactions(self)
        self.retries_max = 1 + seed % 3
        super().__init__(seed)
        self.model.made_by_broker = frozenset(f"{name}{DEAD_LETTER_SUFFIX}" for name in TOPICS)

    @property
    def coordinator(self) -> Coordinator:
        return self.broker.coordinator

    def new_broker(self) -> Broker:
        settings = GroupSettings(rules=Rules(retries_max=self.retries_max), log_bytes=LOG_BYTES)
        log_settings = LogSettings(SEGMENT_BYTES)
        return Broker(self.store, self.disk, self.clock, log_settings, self.random.getrandbits, settings)

    def recovered(self) -> None:
        super().recovered()
        self.groups.recovered(self._floor)
        self.transactions.recovered()
        self.see()
        check_groups(self)

    def _floor(self, key: Key) -> int:
        cursor = self.coordinator.ledger.cursor(key.group, key.place)
        return cursor.floor if cursor is not None else 0

    def see(self) -> None:
        """Take note of places that groups have opened, and hold all of them against what must always be so."""
        for group in self.coordinator.ledger.groups():
            for place, cursor in self.coordinator.ledger.cursors(group.group).items():
                key = Key(group.group, *place, cursor.topic_ns)
                progress = self.groups.progress.get(key)
                if progress is None:
                    self.groups.progress[key] = self._progress(key, cursor.floor)
                elif progress.is_closed and key.group not in self.groups.is_unsure:
                    progress.is_closed = False
                    progress.begin = max(progress.begin, cursor.floor if key.group in self.groups.begin_late else 0)
        for key, progress in self.groups.progress.items():
            standing = self.coordinator.ledger.cursor(key.group, key.place)
            progress.is_closed |= standing is None or standing.topic_ns != key.created_ns
        check_cursors(self)

    def _progress(self, key: Key, floor: int) -> Progress:
        topic, known = self.broker.topics.get(key.topic), self.model.topics.get(key.topic)
        is_known = known is not None and topic is not None and topic.created_ns == key.created_ns
        owed = known.partitions[key.partition] if is_known and known is not None else None
        unsure = self.groups.resetting[key.group, key.topic]
        return Progress(owed, floor if key.group in self.groups.begin_late else 0, unsure=unsure)

    def commit(self) -> None:
        super().commit()
        self.coordinator.commit()

    def stop(self) -> None:
        for doing in list(self.works):
            doing.close()
        super().stop()

    def _next_disk(self, keep: Keep, *, torn: bool) -> None:
        for doing in list(self.works):
            with suppress(GoQueueError, Crashed):
                doing.close()
        for forget in self.on_death:
            forget()
        super()._next_disk(keep, torn=torn)


class Doing(Generic[T]):
    """Work whose jobs are done one by one while the broker goes on."""

    def __init__(
        self,
        world: GroupWorld,
        name: str,
        work: Work[T],
        done: Callable[[T], object],
        refused: Callable[[GoQueueError], object],
    ) -> None:
        self.name = name
        self._world = world
        self._work = work
        self._done = done
        self._refused = refused
        self._job: Job | Promise[Any] | None = None
        self.is_over = False
        world.works.append(self)

    @property
    def is_ready(self) -> bool:
        """Whether it can go on: it is not over, and waits for nobody."""
        return not self.is_over and not (isinstance(self._job, Promise) and not self._job.is_kept)

    def step(self) -> None:
        """Do the job that was decided last, and decide the next one."""
        try:
            self._job = self._next_job()
        except StopIteration as end:
            self._end()
            self._done(end.value)
        except GoQueueError as error:
            self._end()
            self._refused(error)

    def _next_job(self) -> Job | Promise[Any]:
        if self._job is None:
            return next(self._work)
        try:
            result = self._job.result() if isinstance(self._job, Promise) else self._job()
        except Exception as error:
            return self._work.throw(error)
        return self._work.send(result)

    def close(self) -> None:
        """Whoever asked has gone."""
        if not self.is_over:
            self._end()
            self._work.close()

    def _end(self) -> None:
        self.is_over = True
        self._world.works.remove(self)
