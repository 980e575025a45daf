"""The lock of a store that has no locks: an object with an owner and an expiry, changed by conditional writes alone.

Its owner renews it while it works. Another process takes it once it is released, once it has been expired for longer
than clocks differ, or once its owner is known to be dead because it ran on this machine. An owner that has
lost it finds out by the next renewal, which is made before anything that could harm the backups of another one.
"""

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Protocol
from uuid import uuid4

import msgspec

from goqueue.clock import NANOSECONDS
from goqueue.errors import BackupTargetInvalid, DataDirectoryInUse, GoQueueError
from goqueue.limits import BACKUP_LEASE_DOUBT_SECONDS, BACKUP_LEASE_RENEWAL_SECONDS, BACKUP_LEASE_SECONDS
from goqueue.quantities import format_duration, format_time


class LeaseCell(Protocol):
    """The object that a lease is kept in. Versions are the store's own."""

    def read(self) -> tuple[bytes, str] | None:
        """Return the content and its version."""
        ...

    def write(self, content: bytes, version: str | None) -> str | None:
        """Write it if it still has this version, or none; return the new version, or None if another was faster."""
        ...


class LeaseRecord(msgspec.Struct, frozen=True):
    """The content of the object."""

    owner: str
    host: str
    process: str
    """The process of the owner: boot of the machine, namespace, id and start."""
    token: str
    expires_ns: int
    """0 once it is released."""
    expires: str
    """The same for people."""


class TargetLease:
    """A lock that is held."""

    def __init__(self, cell: LeaseCell, place: str, owner: str) -> None:
        """Take it. Raises DataDirectoryInUse if another process has it."""
        self._cell, self._place, self._owner = cell, place, owner
        self._token = uuid4().hex
        self._is_lost = False
        self._changing = Lock()
        self._version = self._take()
        self._is_over = Event()
        self._renewer = Thread(target=self._renew_until_over, name="goqueue-backup-lease", daemon=True)
        self._renewer.start()

    def _record(self, expires_ns: int) -> bytes:
        expires = format_time(expires_ns) if expires_ns else "released"
        record = LeaseRecord(self._owner, socket.gethostname(), _this_process(), self._token, expires_ns, expires)
        return msgspec.json.encode(record)

    def _renewed(self) -> bytes:
        return self._record(time.time_ns() + round(BACKUP_LEASE_SECONDS * NANOSECONDS))

    def _take(self) -> str:
        found = self._cell.read()
        if found is not None:
            self._refuse_held(found[0])
        version = self._cell.write(self._renewed(), None if found is None else found[1])
        if version is None:
            again = self._cell.read()
            if again is None or decode_record(again[0]).token != self._token:  # else only the answer was lost
                raise self._in_use("another process", "it was faster")
            version = again[1]
        for outdated in (None, *([] if found is None else [found[1]])):
            if version != outdated and self._cell.write(self._renewed(), outdated) is not None:
                raise BackupTargetInvalid(
                    f"{self._place} ignores conditional writes, so two brokers could destroy each other's backups",
                    hint="use a store that has If-None-Match and If-Match, or a directory",
                )
        return version

    def _refuse_held(self, content: bytes) -> None:
        record = decode_record(content)
        ends_ns = record.expires_ns + round(BACKUP_LEASE_DOUBT_SECONDS * NANOSECONDS)
        left = (ends_ns - time.time_ns()) / NANOSECONDS
        if record.expires_ns and left > 0 and not _is_dead(record.process):
            raise self._in_use(f"{record.owner} on {record.host}", f"its lease ends in {format_duration(round(left))}")

    def _in_use(self, owner: str, why: str) -> DataDirectoryInUse:
        return DataDirectoryInUse(
            f"{self._place} is in use by {owner}: {why}",
            hint="wait for its end; give each broker a target of its own",
        )

    def renew(self) -> None:
        """Prove that no other process has it. Raises BackupTargetInvalid."""
        with self._changing:
            self._renew()

    def _renew(self) -> None:
        content = self._renewed()
        version = None if self._is_lost else self._cell.write(content, self._version)
        if version is None and not self._is_lost:
            found = self._cell.read()
            if found is not None and found[0] == content:  # only the answer was lost
                version = found[1]
        if version is None:
            self._is_lost = True
            raise BackupTargetInvalid(
                f"another process has taken the lock of {self._place} meanwhile",
                hint="give each broker a target of its own, and run the backup again",
            )
        self._version = version

    def is_in_place(self) -> bool:
        return not self._is_lost

    def release(self) -> None:
        self._is_over.set()
        self._renewer.join()
        if not self._is_lost:
            with suppress(GoQueueError):  # it expires
                self._cell.write(self._record(0), self._version)

    def _renew_until_over(self) -> None:
        while not self._is_over.wait(BACKUP_LEASE_RENEWAL_SECONDS) and not self._is_lost:
            with suppress(GoQueueError):  # the next attempt, or the next use of it, finds out
                self.renew()


def decode_record(content: bytes) -> LeaseRecord:
    """Return a record; an unreadable one counts as released."""
    try:
        return msgspec.json.decode(content, type=LeaseRecord)
    except msgspec.DecodeError:
        return LeaseRecord("", "", "", "", 0, "")


def _this_process() -> str:
    return f"{machine_id()}/{os.getpid()}/{_start_of(os.getpid())}"


def machine_id() -> str:
    """Return the boot of this machine and the namespace of process ids, as one text."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return f"{boot}/{os.readlink('/proc/self/ns/pid')}"


def _start_of(process_id: int) -> str:
    """Return when a process began, in ticks; empty without such a process."""
    try:
        return (
            Path(f"/proc/{process_id}/stat")
            .read_text(encoding="utf-8", errors="replace")
            .rpartition(")")[2]
            .split()[19]
        )
    except OSError:
        return ""


def _is_dead(process: str) -> bool:
    """Return whether a process ran on this machine and does so no more."""
    machine, _, rest = process.rpartition("/")
    machine, _, process_id = machine.rpartition("/")
    return machine == machine_id() and process_id.isdecimal() and _start_of(int(process_id)) != rest
