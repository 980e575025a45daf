"""What a faulty disk never does: lose what was synced, or make up what was never written.

A machine of Hypothesis uses two disks of one seed in step and remembers, in the plainest way, what
each file and each name may be after a crash.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from goqueue.storage.disk import Disk
from goqueue.testing.disk import FaultyDisk, Keep

DIRECTORIES = ("/d", "/e")
PATHS = tuple(f"{directory}/{name}" for directory in DIRECTORIES for name in "ab")
paths = st.sampled_from(PATHS)


@dataclass(eq=False)
class Expected:
    """What one file was at its last sync, and all that it has been since."""

    states: list[bytes] = field(default_factory=lambda: [b""])

    @property
    def cache(self) -> bytes:
        return self.states[-1]

    def may_be(self, content: bytes) -> bool:
        """Every byte was once at its place or is a zero that was never written, and so with the size."""
        return len(content) in map(len, self.states) and all(
            byte in self._seen(position) for position, byte in enumerate(content)
        )

    def _seen(self, position: int) -> set[int]:
        """The values of one byte; only where the synced file ended, or was cut to, may it be an unwritten zero."""
        seen = {state[position] for state in self.states if position < len(state)}
        return seen | {0} if any(position >= len(state) for state in self.states) else seen


class Promises(RuleBasedStateMachine):
    """After every step it looks at what each kind of crash would leave."""

    def __init__(self) -> None:
        super().__init__()
        self.disks: list[FaultyDisk] = []
        self.names: dict[str, Expected] = {}
        self.durable: dict[str, Expected] = {}
        self.since_sync: dict[str, set[Expected | None]] = {}
        """Of every name that changed since its directory was synced: all that it has stood for."""
        self.crossed = False
        """A file changed directories, so that syncing one of them may have synced names of the other."""

    @initialize(seed=st.integers(0, 9), block_bytes=st.sampled_from([1, 3, 512]))
    def begin(self, seed: int, block_bytes: int) -> None:
        self.disks = [FaultyDisk(seed, block_bytes=block_bytes) for _ in range(2)]
        for path in PATHS[::2]:
            for disk in self.disks:
                disk.write_file(path, path.encode())
            self.names[path] = self.durable[path] = Expected([path.encode()])

    @rule(path=paths)
    def create(self, path: str) -> None:
        if path not in self.names:
            for disk in self.disks:
                disk.open(path, "create").close()
            self._change(path, Expected())

    @rule(path=paths, position=st.integers(0, 12), data=st.binary(min_size=1, max_size=8))
    def write(self, path: str, position: int, data: bytes) -> None:
        if file := self.names.get(path):
            for disk in self.disks:
                disk.open(path, "write").write(position, [data[:1], data[1:]])
            before = file.cache.ljust(position, b"\0")
            file.states.append(before[:position] + data + before[position + len(data) :])

    @rule(path=paths, size=st.integers(0, 20))
    def truncate(self, path: str, size: int) -> None:
        if file := self.names.get(path):
            for disk in self.disks:
                disk.open(path, "write").truncate(size)
            file.states.append(file.cache[:size].ljust(size, b"\0"))

    @rule(path=paths)
    def sync(self, path: str) -> None:
        if file := self.names.get(path):
            for disk in self.disks:
                disk.open(path, "read").sync()
            file.states = [file.cache]

    @rule(directory=st.sampled_from(DIRECTORIES))
    def sync_directory(self, directory: str) -> None:
        for disk in self.disks:
            disk.sync_directory(directory)
        for path in PATHS:
            if path.startswith(directory):
                self._forget(path)

    @rule(old=paths, new=paths)
    def rename(self, old: str, new: str) -> None:
        if old in self.names and old != new:
            for disk in self.disks:
                disk.rename(old, new)
            self.crossed = self.crossed or old[:2] != new[:2]
            file = self.names[old]
            self._change(old, None)
            self._change(new, file)

    @rule(path=paths)
    def remove(self, path: str) -> None:
        if path in self.names:
            for disk in self.disks:
                disk.remove(path)
            self._change(path, None)

    @rule(keep=st.sampled_from(["synced", "some"]))
    def lose_power(self, keep: Keep) -> None:
        self.disks = [disk.crash(keep) for disk in self.disks]
        self.names = {path: Expected([content]) for path, content in files(self.disks[0]).items()}
        self.durable = self.names.copy()
        self.since_sync.clear()
        self.crossed = False

    @rule()
    def kill(self) -> None:
        self.disks = [disk.crash("everything") for disk in self.disks]

    @invariant()
    def a_killed_process_loses_nothing(self) -> None:
        cached = {path: file.cache for path, file in self.names.items()}
        for disk in self.disks:
            assert files(disk) == files(disk.after_crash("everything")) == cached

    @invariant()
    def what_was_synced_survives_every_loss_of_power(self) -> None:
        for disk in self.disks:
            self._check("synced", files(disk.after_crash("synced")))
            self._check("some", files(disk.after_crash("some")))
            self._check("some", files(disk.after_crash("some", torn=True)))
            self._check("some", files(disk.after_crash("everything").after_crash("some")))

    @invariant()
    def equal_seeds_and_equal_calls_give_equal_outcomes(self) -> None:
        after = [disk.after_crash("some", torn=True) for disk in self.disks]
        assert all(files(disk) == files(after[0]) and disk.journal == after[0].journal for disk in after)

    def _check(self, keep: Keep, left: dict[str, bytes]) -> None:
        for path in PATHS:
            exact = keep == "synced" and not self.crossed
            candidates = {self.durable.get(path)} if exact else self.since_sync.get(path, {self.durable.get(path)})
            assert any(matches(file, left.get(path), keep) for file in candidates), f"{path} after {keep}"
        moved = [file for file in self.durable.values() if file in self.names.values()]
        assert all(any(matches(file, content, keep) for content in left.values()) for file in moved), "a file is lost"

    def _change(self, path: str, file: Expected | None) -> None:
        self.since_sync.setdefault(path, {self.durable.get(path)}).add(file)
        self.names.pop(path, None)
        if file:
            self.names[path] = file

    def _forget(self, path: str) -> None:
        self.since_sync.pop(path, None)
        self.durable.pop(path, None)
        if path in self.names:
            self.durable[path] = self.names[path]


def matches(file: Expected | None, content: bytes | None, keep: Keep) -> bool:
    if file is None or content is None:
        return file is None and content is None
    return content == file.states[0] if keep == "synced" else file.may_be(content)


def files(disk: FaultyDisk) -> dict[str, bytes]:
    return {path: disk.read_file(path) for path in disk.paths()}


TestPromises = Promises.TestCase
TestPromises.settings = settings(max_examples=60)


def test_the_twin_is_a_disk() -> None:
    disk: Disk = FaultyDisk()
    assert disk.kind("/") == "directory"
