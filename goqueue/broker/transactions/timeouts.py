"""Timeouts of transactions: abort, warn, and retry the completion."""

from collections.abc import Callable

from goqueue.broker.core.deadlines import Deadlines
from goqueue.broker.transactions.records import PREPARED, TransactionMetadata
from goqueue.broker.transactions.registry import TransactionRegistry
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import GoQueueError
from goqueue.events import Signal
from goqueue.limits import TRANSACTION_HUNG_SECONDS, TRANSACTION_SECONDS_MAX

_AGAIN_NS = NANOSECONDS
_SOON_NS = NANOSECONDS // 20
_MOST_NS = round(TRANSACTION_SECONDS_MAX * NANOSECONDS)
_ALL = ""
_HUNG_NS = round(TRANSACTION_HUNG_SECONDS * NANOSECONDS)


class TransactionTimeouts:
    """Watches the transactions of one registry.

    `abort` is called with a transaction that has timed out, `complete` with the id of one to complete again.
    """

    def __init__(
        self,
        register: TransactionRegistry,
        clock: Clock,
        abort: Callable[[TransactionMetadata], None],
        complete: Callable[[str], object],
    ) -> None:
        self.deadlines = Deadlines()
        self.on_hung: Signal[[TransactionMetadata]] = Signal()
        """Emitted once for a transaction that is open for long."""
        self._register = register
        self._clock = clock
        self._abort = abort
        self._complete = complete
        self._active_ns: dict[str, int] = {}
        """Time of the last sign of life of each ongoing transaction."""
        self._looked_ns = 0
        """Time of the last check for long transactions."""
        self._expiry = self.deadlines.kind(self._expire)
        self._alarm = self.deadlines.kind(self._warn)
        self._repeat = self.deadlines.kind(self._complete_again)

    def begin(self, known: TransactionMetadata, now_ns: int) -> None:
        self._active_ns[known.id] = now_ns
        self.deadlines.add(now_ns + min(known.timeout_ns, _MOST_NS), self._expiry, known.id)
        self.deadlines.add(now_ns + _HUNG_NS, self._alarm, _ALL)

    def record_activity(self, name: str) -> None:
        if name in self._active_ns:
            self._active_ns[name] = self._clock.now_ns()

    def end(self, name: str) -> None:
        self._active_ns.pop(name, None)

    def retry_later(self, name: str, *, soon: bool = False) -> None:
        self.deadlines.add(self._clock.now_ns() + (_SOON_NS if soon else _AGAIN_NS), self._repeat, name)

    def idle_ns(self, record: TransactionMetadata) -> int:
        return self._clock.now_ns() - self._active_ns.get(record.id, record.changed_ns)

    def expires_ns(self, record: TransactionMetadata) -> int:
        """Return when it is aborted without another sign of life."""
        return min(self._active_ns.get(record.id, 0) + record.timeout_ns, record.began_ns + _MOST_NS)

    def ends_at_maximum(self, record: TransactionMetadata) -> bool:
        """Return whether signs of life will not keep it open for longer than half a second more."""
        return record.began_ns + _MOST_NS - self.expires_ns(record) < NANOSECONDS // 2

    def _expire(self, name: str) -> int | None:
        known = self._register.by_id.get(name)
        if known is None or known.state != "ongoing":
            return None
        now_ns, due_ns = self._clock.now_ns(), self.expires_ns(known)
        if now_ns < due_ns:
            return due_ns
        try:
            self._abort(known)
        except GoQueueError:
            return now_ns + _AGAIN_NS
        return now_ns + _AGAIN_NS  # in case the record is refused later

    def _warn(self, _: str) -> int | None:
        now_ns, looked_ns = self._clock.now_ns(), self._looked_ns
        self._looked_ns = now_ns
        for known in self._register.open_ones():
            due_ns = known.began_ns + _HUNG_NS
            if due_ns > now_ns:
                return max(due_ns, now_ns + _AGAIN_NS)
            if due_ns > looked_ns:
                self.on_hung.emit(known)
        return None

    def _complete_again(self, name: str) -> None:
        known = self._register.by_id.get(name)
        if known is not None and known.state in PREPARED:
            self._complete(name)
