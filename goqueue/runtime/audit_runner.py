"""Refusals on their way to the audit trail, and the copy of the trail in a file.

A refusal is counted in memory, at the cost of a dictionary entry, and recorded within a second. While there are many
different ones, they are recorded once a minute, at most `AUDIT_REFUSALS_AT_ONCE` with the rest as one sum: so an
attacker fills neither the disk nor the trail.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from goqueue.broker.security.audit import AuditEntry, AuditTrail
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.limits import AUDIT_REFUSALS_AT_ONCE, AUDIT_REFUSALS_SECONDS

_log = logging.getLogger("goqueue.audit")


class _Refusal(NamedTuple):
    principal: str
    action: str
    subject: str
    code: str
    address: str


_OTHERS = _Refusal("", "various", "", "", "")


class RefusalCounter:
    """Refused requests that are not recorded yet."""

    def __init__(self, trail: AuditTrail, clock: Clock) -> None:
        self._trail = trail
        self._clock = clock
        self._counts: dict[_Refusal, int] = {}
        self._request_ids: dict[_Refusal, str] = {}
        self._next_ns = 0

    def count(self, principal: str, action: str, subject: str, code: str, address: str, request_id: str) -> None:
        refusal = _Refusal(principal, action, subject, code, address)
        counts = self._counts
        if refusal not in counts:
            if len(counts) >= AUDIT_REFUSALS_AT_ONCE:
                refusal, request_id = _OTHERS, ""
            self._request_ids.setdefault(refusal, request_id)
        counts[refusal] = counts.get(refusal, 0) + 1

    def flush(self) -> None:
        """Record what was counted, unless that was done a moment ago and there were many."""
        now_ns = self._clock.monotonic_ns()
        if not self._counts or now_ns < self._next_ns:
            return
        counts, self._counts = self._counts, {}
        request_ids, self._request_ids = self._request_ids, {}
        if len(counts) > 1:
            self._next_ns = now_ns + AUDIT_REFUSALS_SECONDS * NANOSECONDS
        for refusal, count in counts.items():
            self._trail.record(
                AuditEntry(
                    refusal.principal,
                    refusal.action,
                    refusal.subject,
                    "refused",
                    refusal.code,
                    refusal.address,
                    request_id=request_ids.get(refusal, ""),
                    requests=count,
                ),
                _warn,
            )


def _warn(error: GoQueueError | None) -> None:
    if error is not None:
        _log.warning("refused requests could not be recorded in the audit trail: %s", error)


class AuditFile:
    """A copy of the trail as JSON lines, which other programs may read. It is written on a thread of its own."""

    def __init__(self, path: str, trail: AuditTrail) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, "goqueue-audit")
        self._loop = asyncio.get_running_loop()
        self._has_failed = False
        self._write([])
        self._unsubscribe = trail.on_recorded.subscribe(self._recorded)

    def _recorded(self, texts: Sequence[bytes]) -> None:
        self._thread.submit(self._write_or_warn, list(texts))

    def _write_or_warn(self, texts: Sequence[bytes]) -> None:
        try:
            self._write(texts)
        except OSError as error:
            if not self._has_failed:
                _log.warning("the audit file %s cannot be written: %s; the topic has the records", self._path, error)
            self._has_failed = True
        else:
            self._has_failed = False

    def _write(self, texts: Sequence[bytes]) -> None:
        """Append lines in one write; the file is opened each time, so that it can be rotated."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            left = memoryview(b"".join(text + b"\n" for text in texts))
            while left:
                left = left[os.write(descriptor, left) :]
        finally:
            os.close(descriptor)

    def close(self) -> None:
        self._unsubscribe()
        self._thread.shutdown()
