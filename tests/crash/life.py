"""The life of a broker's storage, the answers that it gave, and the check that they hold.

A `Life` is one process on a faulty disk. Its `Ledger` outlives it, like a client's memory: what was
answered, and what was asked for and may have happened. `check` opens what a crash has left and
compares it with the ledger.

The promises, by name:

- *kept*: every answered message is there, at its offset, with its bytes, unless it was to go;
- *whole or absent*: what else is there was asked for at just that offset;
- *no hole*: offsets follow each other, unless the log was compacted;
- *never back*: the first offset does not fall, and no answered offset is given out again;
- *latest*: of each key the newest value is there, and a deleted key stays deleted;
- *gone*: a deleted log does not return;
- *calm*: a crash damages nothing, and recovering what was recovered changes nothing.
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

from goqueue.errors import GoQueueError
from goqueue.limits import OFFSET_MAX
from goqueue.storage import frame, scan
from goqueue.storage.compaction import plan_compaction
from goqueue.storage.flusher import FlushMode
from goqueue.storage.frame import StoredMessage
from goqueue.storage.log import Log
from goqueue.storage.retention import plan_retention
from goqueue.storage.store import Store
from goqueue.storage.truncation import truncate
from goqueue.testing.clock import ManualClock
from goqueue.testing.disk import FaultyDisk
from goqueue.testing.filesystem import FileContent
from tests.storage.stores import DATA, append, messages, open_store

SEGMENT_BYTES = 4096
AGE_SECONDS = 100

Content = tuple[bytes | None, bytes, int]
"""Key, value and flags: what a client sees of its own message."""


@dataclass
class LogLedger:
    """The answers that one log gave."""

    history: list[Content] = field(default_factory=list)
    """All that was asked for, by offset."""
    certain: int = 0
    """Below this offset everything was answered."""
    durable: int = 0
    """Below this offset everything was known to be synced."""
    first_least: int = 0
    """The first offset, at least; and at most."""
    first_most: int = 0
    compacted: bool = False
    state: Literal["coming", "here", "leaving", "gone"] = "coming"
    """Whether the log itself was answered for."""


Ledger = dict[str, LogLedger]


class Life:
    """One process, with a store that is flushed by hand."""

    def __init__(
        self,
        disk: FaultyDisk,
        ledger: Ledger | None = None,
        *,
        flush: FlushMode = "always",
        seed: int = 0,
        copies: bool = False,
    ) -> None:
        self.disk = disk
        self.ledger: Ledger = {} if ledger is None else ledger
        self.clock = ManualClock()
        self.flush_mode: FlushMode = flush
        self.copies = copies
        self.refused: list[GoQueueError] = []
        self._random = Random(seed)
        self.open()

    def open(self) -> None:
        self.store = open_store(
            self.disk,
            self.clock,
            flush=self.flush_mode,
            segment_bytes=SEGMENT_BYTES,
            segment_age_ns=AGE_SECONDS * 10**9,
            tail_bytes=1,  # so that reads go to the disk
        )

    def log(self, name: str) -> Log:
        return self.store.log(name)

    def create(self, *names: str) -> None:
        for name in names:
            ledger = self.ledger.setdefault(name, LogLedger())
            log = self.store.create(name)
            if self.copies:
                log.writer.keep_copies(log.segments)
            ledger.state = "here"

    def append(self, name: str, *sizes: int, keys: str = "") -> None:
        """A batch of values of these sizes; each letter of `keys` is a key, a capital letter deletes it."""
        ledger, log = self.ledger[name], self.log(name)
        contents = [self._content(size, key) for size, key in zip(sizes, keys or "-" * len(sizes), strict=True)]
        frames = scan.check_batch(bytearray(b"".join(frame.encode(v, k, flags=flags) for k, v, flags in contents)))
        end = log.next_offset + len(contents)

        def acknowledge(error: GoQueueError | None) -> None:
            if error is None:
                ledger.certain = end
            else:
                self.refused.append(error)

        appended = log.append(frames, acknowledge)
        assert appended.next_offset == end
        del ledger.history[appended.first_offset :]
        ledger.history += contents

    def _content(self, size: int, key: str) -> Content:
        if key.isupper():
            return key.lower().encode(), b"", frame.TOMBSTONE
        start = b"%d:" % self._random.randrange(10**9)
        return None if key == "-" else key.encode(), start + self._random.randbytes(max(0, size - len(start))), 0

    def flush(self) -> None:
        self.clock.advance(0.01)
        self.store.flush()
        self._note_durable()

    def write(self) -> None:
        """A round between two syncs, as `interval` has them."""
        flusher = self.store.resources.flusher
        flusher._round(flusher._gathered(), sync=flusher._is_due())
        self._note_durable()

    def _note_durable(self) -> None:
        for name, log in self.store.logs.items():
            self.ledger[name].durable = log.durable_end

    def publish(self, name: str, *sizes: int, keys: str = "") -> None:
        """Append and flush."""
        self.append(name, *sizes, keys=keys)
        self.flush()

    def expire(self, name: str, **limits: Any) -> None:
        ledger = self.ledger[name]
        job = plan_retention(self.log(name), self.disk, **limits)
        ledger.first_most = self.log(name).active.base_offset
        try:
            job.run()
        finally:
            job.apply()
        ledger.first_least = ledger.first_most = self.log(name).first_offset

    def compact(self, name: str, *, grace_seconds: float = 1000) -> None:
        self.ledger[name].compacted = True
        log = self.log(name)
        job = plan_compaction(log, self.disk, now_ns=self.clock.now_ns(), tombstone_grace_seconds=grace_seconds)
        try:
            job.run()
        finally:
            job.apply()

    def truncate(self, name: str, offset: int) -> None:
        ledger = self.ledger[name]
        ledger.certain, ledger.durable = min(ledger.certain, offset), min(ledger.durable, offset)
        truncate(self.log(name), self.disk, offset)
        del ledger.history[offset:]

    def delete(self, name: str) -> None:
        ledgers = [ledger for one, ledger in self.ledger.items() if one == name or one.startswith(f"{name}/")]
        for ledger in ledgers:
            ledger.state = "leaving"
        self.store.delete(name)
        for ledger in ledgers:
            ledger.state = "gone"

    def stop(self) -> None:
        self.store.close()

    def restart(self) -> None:
        self.stop()
        self.open()


Scenario = Callable[[Life], None]


# --- the check ---


@contextmanager
def telling(context: str, disk: FaultyDisk | None = None) -> Iterator[None]:
    """Add to a failure what repeats it, and what the disk went through."""
    try:
        yield
    except Exception as error:
        error.add_note("\n  ".join((context, repr(disk), *disk.journal[-40:])) if disk else context)
        raise


class Checker:
    """Checks every state once: many crashes leave the same files after the same answers."""

    def __init__(self) -> None:
        self._checked: set[object] = set()

    def check(self, disk: FaultyDisk, ledger: Ledger) -> None:
        state = state_of(disk), state_of(disk.after_crash("synced")), pickle.dumps(ledger)
        if state not in self._checked:
            check(disk, ledger)
            self._checked.add(state)


def state_of(disk: FaultyDisk) -> frozenset[tuple[str, bytes]]:
    """Return all files with their content, and all directories."""
    nodes = disk._kernel.tree.walk()
    return frozenset((path, bytes(node.cache) if isinstance(node, FileContent) else b"/") for path, node in nodes)


def check(disk: FaultyDisk, ledger: Ledger) -> None:
    """Open what is left and hold it against every promise; then use it, and lose power once more."""
    store = open_store(disk)
    found = held(store)
    for name, owed in ledger.items():
        check_log(store, name, owed, found.get(name))
    assert set(found) <= set(ledger)
    after = content_of(disk)
    for keep in ("everything", "synced"):
        again = disk.after_crash(keep)
        twin = open_store(again)
        assert held(twin) == found, "calm"
        assert all(recovered.cut is None for recovered in twin.recovered.values()), "calm"
        surveyed = keep == "everything" and not any(recovered.was_clean for recovered in store.recovered.values())
        assert not surveyed or content_of(again) == after, "calm"
    check_use(disk, store, found)


def check_use(disk: FaultyDisk, store: Store, found: dict[str, list[tuple[int, Content]]]) -> None:
    """The next append gets the next offset, is answered, and survives."""
    for name, log in store.logs.items():
        offset = log.next_offset
        assert append(store, log, b"afterwards") == range(offset, offset + 1)
        found[name] = [*found[name], (offset, (None, b"afterwards", 0))]
    assert held(store) == found
    assert held(open_store(disk.crash("synced"))) == found


def held(store: Store) -> dict[str, list[tuple[int, Content]]]:
    return {name: [(one.offset, content(one)) for one in messages(log)] for name, log in store.logs.items()}


def content(message: StoredMessage) -> Content:
    return message.key, message.value, message.flags


def content_of(disk: FaultyDisk) -> dict[str, bytes]:
    """All files but the lock, which names a process."""
    return {path: disk.read_file(path) for path in disk.paths() if path != f"{DATA}/lock"}


def check_log(store: Store, name: str, owed: LogLedger, found: list[tuple[int, Content]] | None) -> None:
    if found is None:
        assert owed.state != "here", f"{name} is gone"
        return
    assert owed.state != "gone", f"{name} is back"
    log = store.logs[name]
    assert store.recovered[name].damages == [], "calm"
    assert owed.certain <= log.next_offset <= len(owed.history), "kept"
    assert owed.first_least <= log.first_offset <= owed.first_most, "never back"
    assert all(0 <= offset < OFFSET_MAX and owed.history[offset] == content for offset, content in found), (
        "whole or absent"
    )
    offsets = [offset for offset, _ in found]
    if owed.compacted:
        assert offsets == sorted(set(offsets)), "order"
        assert latest(found) == latest(list(enumerate(owed.history[: log.next_offset]))), "latest"
        assert [each for each in found if each[1][0] is None] == [
            each for each in enumerate(owed.history[: log.next_offset]) if each[1][0] is None
        ], "messages without a key are kept"
    else:
        assert offsets == list(range(log.first_offset, log.next_offset)), "no hole"


def latest(found: list[tuple[int, Content]]) -> dict[bytes, tuple[int, bytes]]:
    """The newest value of every key, where it was not deleted."""
    newest: dict[bytes, tuple[int, bytes]] = {}
    for offset, (key, value, flags) in found:
        if key is None:
            continue
        newest.pop(key, None)
        if not flags & frame.TOMBSTONE:
            newest[key] = offset, value
    return newest
