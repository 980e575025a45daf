"""Full and incremental backups of 1 GB in four logs, their verification, and a restore."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from benchmarks.harness.suite import Bench, Figure, Sample, at_least, at_most, measurement
from benchmarks.storage.stock import MB, Stopwatch, encoded, fill, settings, store
from goqueue.backup.create import BackupWriter, Throttle
from goqueue.backup.cut import take_cut
from goqueue.backup.manifest import Manifest
from goqueue.backup.opening import open_target
from goqueue.backup.restore import plan_restore, restore_backup
from goqueue.backup.verify import verify_backup
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import Store

GB = 10**9
LOGS = 4
BATCH = 10_000
RATE = Figure("MB/s", budget=at_least(300))


class Source:
    """A store with logs, and a target for its backups."""

    def __init__(self, bench: Bench, opened: Store, path: str, content: bytes = b"") -> None:
        self.disk = SystemDisk()
        self.store = opened
        self.target = open_target(f"{path}/backups", disk=self.disk)
        self._content = content or encoded(BATCH, bench.random)
        self._numbers = count()
        for number in range(LOGS):
            opened.create(f"orders/{number}")

    def fill(self, size: int) -> None:
        for log in self.store.logs.values():
            fill(self.store, log, self._content, max(1, size // LOGS // len(self._content)))

    def back_up(self) -> Manifest:
        directory = f"{self.store.path}/cut"
        work = take_cut(self.store, self.disk, directory, 0)
        next(work)()
        cut = None
        try:
            work.send(None)
        except StopIteration as end:
            cut = end.value
        assert cut is not None
        lock = self.target.open("a benchmark")
        try:
            with ThreadPoolExecutor(1) as writer:
                job = BackupWriter(self.disk, directory, cut, self.target, Throttle(0), writer)
                return job.run(f"20261120T031500Z-{next(self._numbers):08x}", "1")
        finally:
            lock.release()


@measurement("full backup", RATE)
def full(bench: Bench) -> Iterator[Sample]:
    while True:
        path = bench.room()
        with store(f"{path}/data", settings=settings()) as opened:
            source = Source(bench, opened, path)
            source.fill(bench.size(GB, GB // 10, long=10 * GB))
            watch = Stopwatch()
            made = source.back_up()
            yield made.size / MB / watch.seconds()


SHARE = Figure("%", "of the time of a full one", budget=at_most(5), less_is_better=True)


@measurement("incremental backup of 1 %", SHARE)
def incremental(bench: Bench) -> Iterator[Sample]:
    path, size = bench.room(), bench.size(GB, GB // 10, long=10 * GB)
    with store(f"{path}/data", settings=settings()) as opened:
        source = Source(bench, opened, path)
        source.fill(size)
        watch = Stopwatch()
        source.back_up()
        whole = watch.seconds()
        while True:
            source.fill(size // 100)
            watch = Stopwatch()
            source.back_up()
            yield 100 * watch.seconds() / whole


@measurement("verify", Figure("MB/s"))
def verified(bench: Bench) -> Iterator[Sample]:
    path = bench.room()
    with store(f"{path}/data", settings=settings()) as opened:
        source = Source(bench, opened, path)
        source.fill(bench.size(GB, GB // 10, long=10 * GB))
        made = source.back_up()
    while True:
        watch = Stopwatch()
        assert verify_backup(source.target, made.id).is_sound
        yield made.size / MB / watch.seconds()


@measurement("restore", RATE)
def restored(bench: Bench) -> Iterator[Sample]:
    path = bench.room()
    with store(f"{path}/data", settings=settings()) as opened:
        source = Source(bench, opened, path)
        source.fill(bench.size(GB, GB // 10, long=10 * GB))
        made = source.back_up()
    for number in count():
        plan = plan_restore(source.disk, made, f"{path}/restored-{number}")
        watch = Stopwatch()
        restore_backup(source.disk, source.target, plan, "a benchmark")
        yield made.size / MB / watch.seconds()
