"""Where transactions may be open in a data directory, as the broker's own log of them tells.

The broker records there what a transaction is about to touch before it touches it, and that it has ended when its
markers stand. What is recorded may be synced a moment before the markers are, so one that has ended counts for a while
as if it were open: whoever plans looks into the logs themselves.
"""

import threading
import time
from typing import TYPE_CHECKING

from goqueue.broker.transactions.records import Record, Registered, Touched, decode_record
from goqueue.broker.transactions.states import OPEN
from goqueue.clock import NANOSECONDS
from goqueue.spark.reading import Run, Split, read
from goqueue.storage import frame
from goqueue.storage.visit import LogView

if TYPE_CHECKING:
    from goqueue.spark.logs.port import Logs

_LOG = "__transactions"
_ENDED_NS = 10 * NANOSECONDS  # markers are synced within a second, unless somebody has set more
_ATTEMPTS, _MOMENT_SECONDS = 20, 0.005


class Transactions:
    """Of one broker. Each question reads on in the log where the one before has ended."""

    def __init__(self, logs: "Logs") -> None:
        self._logs = logs
        self._read_to = 0
        self._open: dict[str, Registered] = {}
        self._ended: list[tuple[int, Registered]] = []
        """When they did, and what they had touched."""

    def touched(self) -> list[Touched]:
        """The partitions in which transactions are open, or were a moment ago."""
        self._read_on()
        since_ns = time.time_ns() - _ENDED_NS
        self._ended = [(ended_ns, record) for ended_ns, record in self._ended if ended_ns > since_ns]
        records = [*self._open.values(), *(record for _, record in self._ended)]
        return [touched for record in records for touched in record.partitions]

    def _read_on(self) -> None:
        view = self._view()
        first = max(self._read_to, view.earliest)
        if first >= view.end:
            return
        for piece in read(self._logs, Split(_LOG, 0, first, view.end, view.size, view.segments)):
            if isinstance(piece, Run):
                for position in piece.frames.positions.tolist():
                    self._apply(decode_record(frame.decode(piece.frames.buffer.data, position)))
        self._read_to = view.end

    def _view(self) -> LogView:
        """A mark that cannot be read for a moment hides what was there already."""
        for _ in range(_ATTEMPTS):
            view = self._logs.view(_LOG, 0)
            if view.end >= self._read_to:
                break
            threading.Event().wait(_MOMENT_SECONDS)
        return view

    def _apply(self, record: Record) -> None:
        before = self._open.pop(record.id, None)
        if isinstance(record, Registered) and record.state in OPEN:
            self._open[record.id] = record
        elif before is not None:
            self._ended.append((record.changed_ns if isinstance(record, Registered) else 0, before))
