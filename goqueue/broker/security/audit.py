"""The audit trail: appends records to the log `__audit`, each with the hash of the one before it.

One append is under way at a time, and records that come meanwhile share the next one: so a record is chained to one
that is durable, and a refused append breaks nothing.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import msgspec

from goqueue.broker.core.partition import Partition
from goqueue.clock import Clock
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import AUDIT_TEXT_CHARACTERS_MAX
from goqueue.quantities import format_time
from goqueue.storage import frame, scan
from goqueue.storage.writer import AppendCallback
from goqueue.wire.audit import NOTHING_BEFORE, AuditOutcome, AuditRecord, decode_record, encode_record, hash_of

_READ_BYTES = 64 * 1024


class AuditEntry(NamedTuple):
    """The content of a record, before it has a place in the chain."""

    principal: str
    action: str
    subject: str
    outcome: AuditOutcome
    code: str = ""
    address: str = ""
    client: str = ""
    request_id: str = ""
    requests: int = 1


class AuditTrail:
    def __init__(self, partition: Partition, clock: Clock) -> None:
        self.partition = partition
        self._clock = clock
        self._last, self._number = NOTHING_BEFORE, 0
        """Hash and number of the last durable record."""
        self._waiting: list[tuple[AuditEntry, AppendCallback]] = []
        self._is_appending = False
        self.on_recorded: Signal[[Sequence[bytes]]] = Signal()
        """Emitted with durable records, as they are in the log."""
        self._find_last()

    def _find_last(self) -> None:
        """Find the last record. After damage the chain begins anew, which `broken_links` shows."""
        for text in self._last_texts():
            with suppress(msgspec.MsgspecError):
                self._number = decode_record(text).number
                self._last = hash_of(text)

    def _last_texts(self) -> Iterator[bytes]:
        log = self.partition.log
        if not log.next_offset or log.fence is not None:
            return
        with suppress(GoQueueError):
            for buffer in log.read(log.next_offset - 1, _READ_BYTES, skip_damage=True).buffers:
                for position in frame.walk(buffer):
                    message = frame.decode(buffer, position)
                    if not message.flags & frame.CONTROL:
                        yield bytes(message.value)

    def refuse_unless_writable(self) -> None:
        """Raise when nothing can be recorded: administrative requests are refused then."""
        obstacle = self.partition.log.obstacle
        if obstacle is not None:
            raise obstacle

    def record(self, entry: AuditEntry, done: AppendCallback) -> None:
        """Append a record. `done` is called when it is durable, or with the error."""
        self._waiting.append((entry, done))
        if not self._is_appending:
            self._append()

    def _append(self) -> None:
        batch, self._waiting = self._waiting, []
        last, number, texts = self._last, self._number, list[bytes]()
        now = format_time(self._clock.now_ns())
        for entry, _ in batch:
            number += 1
            texts.append(encode_record(_record(entry, number, now, last)))
            last = hash_of(texts[-1])

        def settled(error: GoQueueError | None) -> None:
            self._is_appending = False
            if error is None:
                self._last, self._number = last, number
                self.on_recorded.emit(texts)
            for _, done in batch:
                done(error)
            if self._waiting and not self._is_appending:
                self._append()

        self._is_appending = True
        content = bytearray(b"".join(frame.encode(text) for text in texts))
        try:
            self.partition.append(scan.check_batch(content), settled)
        except GoQueueError as error:
            settled(error)


def _record(entry: AuditEntry, number: int, now: str, previous: str) -> AuditRecord:
    return AuditRecord(
        number=number,
        time=now,
        principal=entry.principal,
        action=_short(entry.action),
        subject=_short(entry.subject),
        outcome=entry.outcome,
        code=entry.code,
        address=_short(entry.address),
        client=_short(entry.client),
        request_id=_short(entry.request_id),
        count=entry.requests,
        previous=previous,
    )


def _short(text: str) -> str:
    """Bound a text that a client sent, and replace characters that a terminal would obey."""
    return "".join(one if one.isprintable() else "?" for one in text[:AUDIT_TEXT_CHARACTERS_MAX])
