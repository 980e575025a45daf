"""One broker after another on one simulated disk. Each life ends with a clean stop, a crash or a loss of power.

A world has one seed, and one clock, disk and broker. What clients do in it is `Traffic`: each kind takes its own steps,
keeps a naive model of what it was told, and checks its named invariants after every step and every start.
"""

import errno
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from goqueue.broker.broker import Broker
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.producer_checkpoint import save_producers
from goqueue.broker.core.shards import Shards
from goqueue.broker.core.work import Work, run_work
from goqueue.broker.groups.coordinator import GroupSettings
from goqueue.errors import BrokerUnreachable, GoQueueError, OperatorError, TransientError
from goqueue.storage.flusher import FlushMode
from goqueue.storage.log import LogSettings
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import Crashed, FaultyDisk, Keep
from tests.simulation.task import Task
from tests.simulation.traces import TraceWatch
from tests.simulation.traffic import Actions, Traffic
from tests.storage.stores import open_store

KEEPS: tuple[Keep, ...] = ("everything", "synced", "some")
OPENINGS_MAX = 20
SETTLE_ROUNDS_MAX = 400
STORY_STEPS = 60  # shown with a failure
JOURNAL_ENTRIES = 40
FAILING = ("write", "write", "sync", "sync", "create", "rename", "remove", "sync_directory", "truncate")


@dataclass(frozen=True)
class Mix:
    """Traffic that shares one world, and the settings of its broker."""

    traffic: tuple[type[Traffic], ...]
    steps: int = 300
    segment_bytes: int = 4096
    flush: tuple[FlushMode, ...] = ("always",)
    groups: tuple[GroupSettings, ...] = (GroupSettings(),)
    seconds: tuple[float, ...] = (0.001, 1, 60, 3600, 50_000, 200_000)
    """By how much the time moves on at once."""
    jumps: tuple[int, ...] = ()
    """Seconds by which the wall clock may be set."""
    fault_paths: tuple[str, ...] = ("*",)
    read_faults: tuple[str, ...] = ()
    """Paths that may be unreadable. An unreadable log counts as damaged, and damage is not simulated."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Of actions, by name, where they differ from the usual ones."""


class PartedBroker(Broker):
    """A broker of which some topics can be out of reach for those who do not own them."""

    away: frozenset[str] = frozenset()

    def log(self, ref: LogRef) -> Partition:
        if ref.topic in self.away:
            raise BrokerUnreachable(f"the leader of {ref.topic}/{ref.partition} cannot be reached")
        return super().log(ref)


class World:
    """The disk, the clock, the broker that runs now, and the traffic that outlives it."""

    def __init__(self, seed: int, mix: Mix) -> None:
        self.random = Random(seed)
        self.disk = FaultyDisk(seed)
        self.clock = ManualClock()
        self.mix = mix
        self.mode: FlushMode = self.random.choice(mix.flush)
        self.group_settings = self.random.choice(mix.groups)
        self.is_faulty = False
        """Whether the disk was told to refuse something in this life."""
        self.is_over = False
        """Whether this world ends early, since what happened in it is not simulated further."""
        self.store: Store
        self.broker: PartedBroker
        self.tasks: list[Task] = []
        self.rounds: dict[str, Task] = {}
        """Tasks of which one runs at a time, by name."""
        self.lives = 0
        self.tick = 0
        """The number of the step: what was answered at one tick shows in everything that is asked later."""
        self.counts: Counter[str] = Counter()
        """How often each thing happened, to see that a simulation does something."""
        self.story: list[str] = []
        self.traffic = [kind(self) for kind in (*mix.traffic, TraceWatch)]
        self.start()
        actions = self._environment()
        for one in self.traffic:
            actions |= one.actions()
        self.actions = {action: mix.weights.get(action.__name__, weight) for action, weight in actions.items()}

    def tell(self, *words: object) -> None:
        self.story.append(" ".join(map(str, words)))

    # --- steps ---

    def live(self) -> None:
        """Take all steps, then let everything come to its end."""
        with self.with_story():
            self._take_steps()
            self._rest()

    def live_on(self) -> None:
        """Take all steps, and stop in the middle of life, with nothing on its way to the disk."""
        with self.with_story():
            self._take_steps()
            self.end_faults()
            self.settle()

    def _take_steps(self) -> None:
        for one in self.traffic:
            self._survive(one.begin)
        for _ in range(self.mix.steps):
            self._survive(self._step)

    @contextmanager
    def with_story(self) -> Iterator[None]:
        """Tell with a failure what led to it."""
        try:
            yield
        except BaseException as failure:
            shown = (*self.story[-STORY_STEPS:], repr(self.disk), *self.disk.journal[-JOURNAL_ENTRIES:])
            failure.add_note("  " + "\n  ".join(shown))
            raise

    def _survive(self, step: Callable[[], None]) -> None:
        if self.is_over:
            return
        try:
            step()
        except Crashed:
            self.crash()
        except (OperatorError, TransientError) as error:
            self.refused("a step", error)

    def _step(self) -> None:
        self.tick += 1
        for one in self.traffic:
            one.before_step()
        (action,) = self.random.choices(list(self.actions), list(self.actions.values()))
        self.tell(action.__name__)
        self.counts[action.__name__] += 1
        action()
        self.observe()

    def observe(self) -> None:
        for one in self.traffic:
            one.observe()

    def _rest(self) -> None:
        """On a sound disk everything that was refused succeeds, everything owed arrives, and the stop is clean."""
        self.end_faults()
        self._unless_over(self.crash)
        for one in self.traffic:
            self._unless_over(one.rest)
        self._unless_over(self.stop)
        for one in self.traffic:
            self._unless_over(one.after_rest)

    def _unless_over(self, action: Callable[[], None]) -> None:
        if not self.is_over:
            action()

    def _environment(self) -> Actions:
        """Return what happens whatever clients do."""
        actions: Actions = {
            self.run_task: 30,
            self.flush_some: 20,
            self.commit: 8,
            self.pass_time: 8,
            self.check: 2,
            self.refuse: 2,
            self.fill: 1,
            self.part: 1,
            self.end_faults: 3,
            self.reopen_shard: 2,
            self.crash_soon: 1.5,
            self.crash: 1.5,
            self.stop: 1,
        }
        return actions | ({self.jump: 1} if self.mix.jumps else {})

    # --- lives ---

    def start(self) -> None:
        """Open what the disk holds, however often it takes, and check it."""
        without_index: set[str] = set()
        for _ in range(OPENINGS_MAX):
            without_index |= self._segments_without_index()
            try:
                self._open()
                break
            except Crashed:
                self._lose_power()
            except GoQueueError as error:
                self.refused("the start", error)
                self._next_disk("everything", torn=False)
        else:
            raise AssertionError("the broker does not start")
        self.lives += 1
        # Where the disk refused an index, or answers do not wait for a sync, nothing says after a loss of power what
        # had been synced, so a torn write counts as damage. Such a life ends.
        damaged = {log.segments[-1].path for log in self.store.recovered.values() if log.damages}
        self.is_over |= bool(damaged)
        assert damaged <= without_index or self.mode == "interval", "what was synced is sound"
        for one in self.traffic:
            self._unless_over(one.recovered)

    def _segments_without_index(self) -> set[str]:
        paths = set(self.disk.paths())
        return {path for path in paths if path.endswith(".log") and f"{path[:-4]}.index" not in paths}

    def _open(self) -> None:
        size, tail_bytes = self.mix.segment_bytes, self.random.choice((1, 1 << 20))
        self.store = open_store(self.disk, self.clock, flush=self.mode, segment_bytes=size, tail_bytes=tail_bytes)
        settings, bits = LogSettings(size), self.random.getrandbits
        self.broker = PartedBroker(self.store, self.disk, self.clock, settings, bits, self.group_settings)
        self.broker.open()
        for one in self.traffic:
            one.opened()

    def stop(self) -> None:
        """Stop as the runtime does: tasks end, checkpoints are written."""
        for one in self.traffic:
            one.before_stop()
        for task in list(self.tasks):
            task.close()
        self.commit()
        self.store.flush()
        for _, partition in self.broker.partitions():
            save = partial(run_work, save_producers(partition, self.disk))
            self.attempt(f"the producers checkpoint of {partition.log.name}", save)
        self.attempt("the broker's close", self.broker.close)
        self.attempt("the store's close", self.store.close)
        for one in self.traffic:
            one.stopped()
        self.tell("stopped")
        self._next_disk("everything", torn=False)
        self.start()

    def reopen_shard(self) -> None:
        """Close a shard of groups or transactions, and open it again while everything else goes on."""
        shards: Shards[Any] = self.random.choice((self.broker.groups, self.broker.transactions))
        number = self.random.randrange(len(shards.partitions))
        self.tell("  ", shards.partitions[number].log.name)
        closed = shards.close(number)
        self.flush()
        assert closed.is_kept, "nothing of a closed shard is being written after a flush"
        shards.open(number)

    def crash(self) -> None:
        self._lose_power()
        self.start()

    def _lose_power(self) -> None:
        keep = self.random.choice(KEEPS)
        self.tell("crashed, keeping", keep)
        self._next_disk(keep, torn=self.random.random() < 0.5)

    def _next_disk(self, keep: Keep, *, torn: bool) -> None:
        for task in list(self.tasks):
            with suppress(GoQueueError, Crashed):
                task.close()
        self.tasks.clear()
        self.rounds.clear()
        may_lose_answers = self.mode == "interval" and (keep != "everything" or self.is_faulty)
        for one in self.traffic:
            one.died(may_lose_answers=may_lose_answers)
        self.disk = self.disk.crash(keep, torn=torn)
        self.disk.capacity_bytes = None
        self.is_faulty = False
        for path in self.disk.paths():  # a cache may be deleted at any time
            if any(path.endswith(one.caches) for one in self.traffic) and self.random.random() < 0.3:
                self.disk.remove(path)

    # --- what may be refused ---

    def attempt(self, what: str, action: Callable[[], Any]) -> None:
        try:
            action()
        except (OperatorError, TransientError) as error:
            self.refused(what, error)

    def refused(self, what: str, error: GoQueueError) -> None:
        """Accept a refusal only of a disk that was told to refuse."""
        self.tell(what, "was refused:", error)
        self.counts[f"refused: {error.code}"] += 1
        is_expected = any(error.code in one.expected_codes for one in self.traffic)
        assert self.is_faulty or is_expected, f"{what} was refused by a sound disk: {error!r}"
        assert isinstance(error, OperatorError | TransientError), f"{what} was refused: {error!r}"

    # --- what the broker does by itself ---

    def begin(
        self,
        name: str,
        work: Work[Any],
        done: Callable[[Any], object] = lambda _: None,
        refused: Callable[[GoQueueError], object] = lambda _: None,
    ) -> Task:
        """Start a task, and do its first step."""
        task = Task(self, name, work, done, refused)
        task.step()
        return task

    def once(
        self,
        name: str,
        begin: Callable[[], Work[Any]],
        done: Callable[[], object] = lambda: None,
        refused: Callable[[GoQueueError], object] | None = None,
    ) -> None:
        """Start a task unless one of this name runs."""
        if name in self.rounds:
            return

        def end(result: object) -> None:
            self.rounds.pop(name, None)
            if not isinstance(result, GoQueueError):
                done()
            elif refused is None:
                self.refused(name, result)
            else:
                refused(result)

        self.rounds[name] = task = Task(self, name, begin(), end, end)
        task.step()

    def run_task(self) -> None:
        """Go on with a task, for some of its jobs or for all that can be done now."""
        ready = [task for task in self.tasks if task.is_ready]
        for task in self.random.sample(ready, min(len(ready), self.random.choice((1, 1, 3)))):
            for _ in range(self.random.choice((1, 1, 2, 100))):
                if task.is_ready:
                    task.step()

    def settle(self) -> None:
        """Let all tasks end, as far as the disk allows it."""
        for _ in range(SETTLE_ROUNDS_MAX):
            self.commit()
            self.flush()
            ready = [task for task in self.tasks if task.is_ready]
            if not ready:
                return
            ready[0].step()
            self.observe()

    def commit(self) -> None:
        for _, partition in self.broker.partitions():
            partition.commit()
        self.broker.groups.commit()
        self.broker.transactions.commit()
        for one in self.traffic:
            one.commit()

    def flush(self, *, sync: bool = True) -> None:
        self.store.resources.flusher.flush(sync=sync or self.mode == "always")
        for one in self.traffic:
            one.flushed()

    def flush_some(self) -> None:
        if self.random.random() < 0.8:
            self.commit()
        self.flush(sync=self.random.random() < 0.3)

    def pass_time(self) -> None:
        self.clock.advance(self.random.choice(self.mix.seconds))
        for one in self.traffic:
            one.time_passed()

    def jump(self) -> None:
        self.clock.jump(self.random.choice(self.mix.jumps))

    def check(self) -> None:
        for one in self.traffic:
            self.attempt("a check of everything", one.check)

    # --- what goes wrong ---

    def refuse(self) -> None:
        """Let some operation fail soon, and perhaps more than once."""
        draw = self.random.choice
        operation, error, path = draw(FAILING), draw((errno.ENOSPC, errno.EIO)), draw(self.mix.fault_paths)
        if self.mix.read_faults and self.random.random() < 0.2:
            reads = (("read", errno.EIO, draw(self.mix.read_faults)), ("open", errno.EMFILE, "*"))
            operation, error, path = draw(reads)
        self.fail(operation, error, path, draw((1, 1, 2, 5)))

    def fail(self, operation: str, error: int, path: str, times: int) -> None:
        skip = self.random.choice((0, 0, 1, 4))
        self.tell("  ", operation, errno.errorcode[error], path, times, "times, after", skip)
        self.is_faulty = True
        self.disk.fail(operation, error, path=path, times=times, skip=skip, after_bytes=self.random.choice((0, 100)))

    def fill(self) -> None:
        """Leave almost no room."""
        self.is_faulty = True
        used = sum(len(self.disk.read_file(path)) for path in self.disk.paths())
        self.disk.capacity_bytes = used + self.random.choice((0, 200, 3000))

    def part(self) -> None:
        """Keep copies and ends of transactions from some topics, as if their leaders were on a node that is away."""
        names = [name for name in self.broker.topics if not is_internal(name)]
        self.broker.away = frozenset(name for name in names if self.random.random() < 0.5)
        self.is_faulty |= bool(names)
        self.tell("  ", *self.broker.away)

    def end_faults(self) -> None:
        """End all faults; a fenced log stays fenced until the next start."""
        self.broker.away = frozenset()
        self.disk.end_faults()
        self.disk.capacity_bytes = None

    def crash_soon(self) -> None:
        operation = self.disk.operations + self.random.randint(1, 12)
        self.disk.crash_at(operation, after_bytes=self.random.randrange(600))
