"""A real process on a real directory, killed with SIGKILL at random moments, again and again."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from goqueue.storage.flusher import FlushMode
from goqueue.storage.frame import StoredMessage
from goqueue.storage.log import Log
from tests.crash.life import telling
from tests.crash.writer import KEYED, NAMES, Line, is_deletion, key_of, open_store, value_of, write_forever
from tests.storage.stores import messages

SHARE = 2
"""Of `--kills`, how many for each kill here."""
LINES_MAX = 40

forkserver = multiprocessing.get_context("forkserver")


@dataclass
class Remembered:
    """The answers that clients got about one log."""

    lives: dict[int, int] = field(default_factory=dict)
    """In which life each offset was answered."""
    first_offset: int = 0

    @property
    def end(self) -> int:
        return max(self.lives, default=-1) + 1


Ledger = dict[str, Remembered]


def lines(pipe: Connection) -> Iterator[Line]:
    with suppress(EOFError):
        while True:
            yield pipe.recv()


def note(ledger: Ledger, line: Line, life: int) -> None:
    kind, name, first, end = line
    if kind == "begins":
        ledger[name].first_offset = first
        return
    given_twice = [offset for offset in range(first, end) if offset in ledger[name].lives]
    assert not given_twice, f"{name} gave {given_twice} out in life {life}, and before"
    ledger[name].lives.update(dict.fromkeys(range(first, end), life))


def live_and_die(path: str, life: int, chance: Random, ledger: Ledger) -> None:
    """Start a writer with any flush mode, kill it after some of its lines, and take note of all that it said."""
    flush: FlushMode = chance.choice(("always", "interval"))
    reading, writing = forkserver.Pipe(duplex=False)
    process = forkserver.Process(target=write_forever, args=(path, life, chance.getrandbits(32), flush, writing))
    process.start()
    writing.close()
    assert process.pid is not None
    left = chance.randrange(1, LINES_MAX)
    with closing(reading):
        for line in lines(reading):
            note(ledger, line, life)
            left -= 1
            if left == 0:
                os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    process.close()


def check_log(log: Log, owed: Remembered) -> None:
    found = messages(log, max_bytes=100_000)
    assert log.next_offset >= owed.end
    assert log.first_offset >= owed.first_offset
    assert all(is_genuine(log.name, message, owed) for message in found)
    if log.name == KEYED:
        newest = {key_of(KEYED, offset): offset for offset in range(log.next_offset)}
        kept = sorted(offset for offset in newest.values() if not is_deletion(KEYED, offset))
        there = {message.key: message.offset for message in found}
        assert sorted(offset for offset in there.values() if not is_deletion(KEYED, offset)) == kept
    else:
        assert [message.offset for message in found] == [*range(log.first_offset, log.next_offset)]


def is_genuine(name: str, message: StoredMessage, owed: Remembered) -> bool:
    """Return whether it says what was answered; of what was not answered, that it is whole and where it belongs."""
    life = owed.lives.get(message.offset)
    if life is None:
        life = int(message.value.split()[2]) if message.value else 0
    expected = key_of(name, message.offset), value_of(name, message.offset, life)
    return (message.key, message.value) == expected


def test_answered_appends_survive_every_kill(tmp_path: Path, seed: str, kills: int) -> None:
    chance, ledger = Random(seed), {name: Remembered() for name in NAMES}
    with telling(f"seed {seed}, in {tmp_path}"):
        for life in range(kills):
            live_and_die(str(tmp_path / "data"), life, chance, ledger)
            if life == kills - 1 or chance.random() < 0.5:  # else the next writer recovers by itself
                check(str(tmp_path / "data"), ledger)


def check(path: str, ledger: Ledger) -> None:
    with closing(open_store(path, "always")) as store:
        assert all(recovered.damages == [] for recovered in store.recovered.values())
        for name, owed in ledger.items():
            if owed.end or name in store.logs:
                check_log(store.log(name), owed)
