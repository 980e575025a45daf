"""One broker after the other on one disk, and what its shell does for transactions: each task goes on by itself."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from random import Random
from typing import Any

from goqueue.broker.broker import Broker
from goqueue.broker.delivery.rules import Rules
from goqueue.broker.groups.coordinator import GroupSettings
from goqueue.broker.partition import Partition
from goqueue.broker.topic import Topic, TopicSettings, TopicSpec
from goqueue.broker.transactions.coordinator import TransactionCoordinator
from goqueue.broker.work import Promise, run
from goqueue.errors import GoQueueError, OperatorError, TransientError
from goqueue.storage.flusher import Mode
from goqueue.storage.log import LogSettings
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Crashed, FaultyDisk, Keep
from tests.simulation.doing import Doing
from tests.simulation.transactions import checks
from tests.simulation.transactions.model import Model, Place, Where
from tests.storage.stores import open_store

TOPICS = {"orders": 2, "prices": 1}
SEGMENT_BYTES = 2500
OPENINGS_MAX = 20
KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")


class TransactionWorld:
    """The disk, the clock, the broker that runs now with its tasks, and the model that outlives it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.disk = FaultyDisk(seed)
        self.clock = ManualClock()
        self.mode: Mode = self.random.choice(("always", "always", "interval"))
        self.settings = TopicSettings(
            retention_bytes=self.random.choice((None, None, 6000)),
            cleanup=self.random.choice(("delete", "delete", "compact", "compact,delete")),
        )
        self.model = Model()
        self.is_faulty = False
        """Whether the disk has been told to refuse something in this life."""
        self.is_damaged = False
        """Whether the life is over before its time."""
        self.works: list[Doing] = []
        self.rounds: dict[str, Doing] = {}
        """What is done once at a time: deliveries, upkeep."""
        self.decided: list[str] = []
        """The transactional ids whose transactions are to be carried out."""
        self.waits: list[Promise[None]] = []
        """To be kept a moment later."""
        self.recovery: Doing | None = None
        self.is_recovered = False
        self.on_death: list[Callable[[], None]] = []
        """Called when the process is gone, and everybody who waited for it."""
        self.numbers = count()
        self.tick = 0
        self.lives = 0
        self.story: list[str] = []
        self.start()

    def tell(self, *words: object) -> None:
        self.story.append(" ".join(map(str, words)))

    @property
    def transactions(self) -> TransactionCoordinator:
        return self.broker.transactions

    # --- lives ---

    def start(self) -> None:
        """Open what the disk holds, however often it takes, and hold it against the model."""
        for _ in range(OPENINGS_MAX):
            try:
                self._open()
                break
            except Crashed:
                self._next_disk(self.random.choice(KEEPS), torn=True)
            except GoQueueError as error:
                self.refused("the start", error)
                self._next_disk("everything", torn=False)
        else:
            raise AssertionError("the broker does not start")
        self.lives += 1
        # An index that the disk has refused, and then a loss of power where nobody waits for syncs: nobody knows what
        # had been synced, so what is torn counts as damage. That is not simulated.
        self.is_damaged |= any(found.damages for found in self.store.recovered.values())
        assert not self.is_damaged or self.mode == "interval", "what was synced is sound"
        if not self.is_damaged:
            checks.check_register(self)
            self.see()

    def _open(self) -> None:
        tail_bytes = self.random.choice((1, 1 << 20))
        self.store = open_store(
            self.disk, self.clock, flush=self.mode, segment_bytes=SEGMENT_BYTES, tail_bytes=tail_bytes
        )
        groups = GroupSettings(rules=Rules(retries_max=1_000_000, retry_ns=10**9), log_bytes=20_000)
        settings = LogSettings(SEGMENT_BYTES)
        self.broker = Broker(self.store, self.disk, self.clock, settings, self.random.getrandbits, groups)
        self.broker.open()
        self.decided, self.waits = [], []
        self.transactions.on_decided = self.decided.append
        self.transactions.on_wait = self.broker.producer_ids.on_wait = self.broker.office.on_wait = self.waits.append
        self.is_recovered, self.recovery = False, None
        for name in TOPICS:
            if name not in self.broker.topics:
                self.create(name)
                self.store.flush()

    def create(self, name: str) -> None:
        def told(result: Topic | GoQueueError) -> None:
            if isinstance(result, GoQueueError):
                self.refused(f"the creation of {name}", result)

        self.broker.create_topic(TopicSpec(name=name, partitions=TOPICS[name], settings=self.settings), told)

    def recover(self) -> None:
        """Go on with what the start has left to do."""
        if self.recovery is None and not self.is_recovered:

            def over(_: object) -> None:
                self.is_recovered, self.recovery = True, None

            def refused(error: GoQueueError) -> None:
                self.recovery = None
                self.refused("the recovery", error)

            self.recovery = Doing(self, "recovery", self.broker.ending.recover(), over, refused)
        if self.recovery is not None and self.recovery.is_ready:
            self.recovery.step()

    def carry_out(self) -> None:
        """Begin to end one of those that were decided; they wait for the recovery."""
        if self.is_recovered and self.decided:
            name = self.decided.pop(self.random.randrange(len(self.decided)))
            Doing(self, f"the end of {name}", self.broker.ending.carry_out(name)).step()

    def commit(self) -> None:
        for _, partition in self.broker.partitions():
            partition.commit()
        self.broker.coordinator.commit()
        self.transactions.commit()

    def flush(self, *, sync: bool = True) -> None:
        """The disk works, everybody is told, and who waited for a moment looks again."""
        self.store.resources.flusher.flush(sync=sync or self.mode == "always")
        waits = list(self.waits)
        self.waits.clear()
        for promise in waits:
            promise(None)

    def call_due(self) -> None:
        for rules in (self.broker.coordinator, self.transactions):
            rules.deadlines.call_due(rules.clock.now_ns())

    def once(self, name: str, begin: Callable[[], Any], partition: Partition) -> None:
        """Work on a partition of which there is one at a time."""
        if name in self.rounds:
            return

        def over(_: object) -> None:
            self.rounds.pop(name, None)

        def refused(error: GoQueueError) -> None:
            over(error)
            if not partition.log.is_closed:
                self.refused(name, error)

        self.rounds[name] = Doing(self, name, begin(), over, refused)
        self.rounds[name].step()

    def settle(self, rounds: int, *, sync: bool = True) -> None:
        """Let everything that is on its way come to its end, as far as nobody has to wait for a time to come."""
        for _ in range(rounds):
            self.recover()
            self.commit()
            self.flush(sync=sync)
            self.carry_out()
            for doing in list(self.works):
                while doing.is_ready:
                    doing.step()
            self.see()

    def crash(self) -> None:
        keep = self.random.choice(KEEPS)
        self.tell("crashed, keeping", keep)
        self._next_disk(keep, torn=self.random.random() < 0.5)
        self.start()

    def stop(self) -> None:
        """As the runtime does it: ends are carried out, notes are written."""
        self.settle(rounds=8)
        for doing in list(self.works):
            doing.close()
        self.commit()
        self.store.flush()
        for _, partition in self.broker.partitions():
            self.attempt(f"the note of {partition.log.name}", partial(run, partition.save_producers(self.disk)))
        self.attempt("the notes", self.broker.close)
        self.attempt("the store's close", self.store.close)
        self.tell("stopped")
        self._next_disk("everything", torn=False)
        self.start()

    def _next_disk(self, keep: Keep, *, torn: bool) -> None:
        for doing in list(self.works):
            with suppress(GoQueueError, Crashed):
                doing.close()
        self.works.clear()
        self.rounds.clear()
        for forget in self.on_death:
            forget()
        if self.mode == "interval" and (keep != "everything" or self.is_faulty):  # or a sync was refused
            self.model.forget_unsynced()
        self.disk = self.disk.crash(keep, torn=torn)
        self.disk.capacity_bytes = None
        self.is_faulty = False
        for path in self.disk.paths():  # a cache may go at any time
            if path.endswith((".aborted", "__transactions/0/snapshot")) and self.random.random() < 0.3:
                self.disk.remove(path)

    # --- what may be refused ---

    def attempt(self, what: str, action: Callable[[], Any]) -> None:
        try:
            action()
        except (OperatorError, TransientError) as error:
            self.refused(what, error)

    def refused(self, what: str, error: GoQueueError) -> None:
        """The disk may refuse it where it was told to refuse; nothing else may."""
        self.tell(what, "was refused:", error)
        self.model.counts[f"refused: {error.code}"] += 1
        is_expected = error.code in ("log_closed", "topic_busy", "transaction_pending")
        assert self.is_faulty or is_expected, f"{what} was refused by a sound disk: {error!r}"
        assert isinstance(error, OperatorError | TransientError), f"{what} was refused: {error!r}"

    # --- what readers see ---

    def place(self, partition: Partition) -> Place:
        topic = self.broker.topics[partition.topic]
        return self.model.place(Where(topic.name, partition.number, topic.created_ns))

    def partition(self, where: Where) -> Partition | None:
        """None where its topic is gone."""
        topic = self.broker.topics.get(where.topic)
        return topic.partitions[where.number] if topic is not None and topic.created_ns == where.created_ns else None

    def partitions(self) -> list[tuple[Place, Partition]]:
        """Those of clients that can be read."""
        topics = [topic for name, topic in self.broker.topics.items() if name in TOPICS]
        found = [partition for topic in topics for partition in topic.partitions]
        return [(self.place(one), one) for one in found if one.log.fence is None and not one.log.is_closed]

    def see(self) -> None:
        """Take note of what a reader sees next, and hold it against what was asked for."""
        for place, partition in self.partitions():
            checks.check_positions(partition)
            self.attempt(f"a look at {partition.log.name}", partial(checks.follow, self, place, partition))

    def check(self) -> None:
        for place, partition in self.partitions():
            self.attempt(f"a look at all of {partition.log.name}", partial(checks.check_place, self, place, partition))
