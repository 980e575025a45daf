"""What shall go wrong on a faulty disk, and the journal of what was asked of it."""

import errno
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

JOURNAL_ENTRIES_MAX = 1000

Operations = str | Callable[[str, str], bool]
"""A pattern for the names of operations, or a function of an operation's name and path."""


class Crashed(BaseException):
    """The process died here. Not an `Exception`, so that no handler takes it for one and carries on."""


class Interruption(NamedTuple):
    """How an operation ends early: with which exception, and after how many bytes of a write."""

    exception: OSError | Crashed
    after_bytes: int = 0


@dataclass(slots=True)
class Fault:
    """Something that goes wrong whenever a matching operation comes by."""

    operation: Operations
    path: str
    error: int
    times: int | Literal["forever"]
    skip: int
    after_bytes: int

    def strikes(self, operation: str, paths: tuple[str, ...]) -> bool:
        if self.times == 0 or not any(self._matches(operation, path) for path in paths):
            return False
        if self.skip:
            self.skip -= 1
            return False
        if self.times != "forever":
            self.times -= 1
        return True

    def _matches(self, operation: str, path: str) -> bool:
        if callable(self.operation):
            return self.operation(operation, path)
        return fnmatchcase(operation, self.operation) and fnmatchcase(path, self.path)


class Script:
    """Counts and journals the operations of one process, and says which of them fail."""

    def __init__(self) -> None:
        self.operations = 0
        self.faults: list[Fault] = []
        self._crash: tuple[int, int] | None = None
        self._journal: deque[tuple[object, ...]] = deque(maxlen=JOURNAL_ENTRIES_MAX)

    def successor(self, keep: str) -> "Script":
        """For the next process: nothing fails, nothing is counted yet, and the journal goes on."""
        script = Script()
        script._journal = self._journal.copy()
        script.note("-- crash, keeping", keep, "--")
        return script

    def crash_at(self, operation: int, after_bytes: int) -> None:
        if operation <= self.operations:
            raise ValueError(f"operation {operation} is over: {self.operations} have been made")
        self._crash = operation, after_bytes

    def heal(self) -> None:
        self.faults.clear()
        self._crash = None

    def note(self, *words: object) -> None:
        self._journal.append(words)

    def journal(self) -> list[str]:
        return [" ".join(map(str, words)) for words in self._journal]

    def change(self, operation: str, *paths: str, detail: tuple[object, ...] = ()) -> Interruption | None:
        """Count an operation that changes the disk; None if it shall go well."""
        self.operations += 1
        if self._crash and self.operations == self._crash[0]:
            self.note(self.operations, operation, *paths, *detail, "CRASHED")
            return Interruption(Crashed(f"at operation {self.operations}: {operation} {paths[0]}"), self._crash[1])
        stop = self.look(operation, *paths)
        self.note(self.operations, operation, *paths, *detail, *(_reason(stop) if stop else ()))
        return stop

    def look(self, operation: str, *paths: str) -> Interruption | None:
        """An operation that changes nothing is not counted, but it may fail."""
        for fault in self.faults:
            if fault.strikes(operation, paths):
                return Interruption(OSError(fault.error, os.strerror(fault.error)), fault.after_bytes)
        return None


def _reason(stop: Interruption) -> tuple[str, ...]:
    code = getattr(stop.exception, "errno", None)
    return (errno.errorcode.get(code, str(code)),) if code else ()
