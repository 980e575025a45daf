"""What operators read of transactions: which are open for long, which cannot be ended, and when that is over."""

import logging
from collections.abc import Iterable

from goqueue.broker.broker import Broker
from goqueue.broker.transactions.counts import lasted
from goqueue.broker.transactions.places import Held
from goqueue.broker.transactions.records import Ended, Registered
from goqueue.broker.transactions.refusals import why
from goqueue.broker.transactions.whose import Whose
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.observe.logs import fields
from goqueue.observe.metrics import Histogram
from goqueue.quantities import format_count, format_duration

_log = logging.getLogger("goqueue.transactions")

_LINES_MAX = 20  # in one second: thousands may have begun in the same one
_PLACES_NAMED = 5


def listen(broker: Broker, seconds: Histogram) -> None:
    """Write a line for what somebody should know, and observe how long each has lasted."""
    journal = _Journal(broker, seconds)
    broker.transactions.patience.on_hung = journal.hung
    broker.transactions.on_ended = journal.ended
    broker.ending.on_obstacle = journal.hindered


class _Journal:
    def __init__(self, broker: Broker, seconds: Histogram) -> None:
        self._broker = broker
        self._seconds = seconds
        self._told: dict[Whose, str] = {}
        """The transactions of which a line was written, and their ids."""
        self._second_ns = self._lines = 0

    def hung(self, record: Registered) -> None:
        if record.state != "ongoing" or not self._may_tell("transactions are open for long"):
            return
        self._told[record.whose] = record.id
        now_ns = self._broker.transactions.clock.now_ns()
        _log.warning(
            "transaction %s of %s is open for %s: %s; it is aborted %s; `goqueue-cli transaction abort %s` ends it now",
            *(record.whose, record.id, format_duration(round((now_ns - record.began_ns) / NANOSECONDS))),
            *(self._held_back(record), self._expiry(record, now_ns), record.id),
            extra=fields(transactional_id=record.id, transaction=str(record.whose)),
        )

    def _held_back(self, record: Registered) -> str:
        places = self._broker.transactions.places
        now = [touched for touched in record.partitions if not touched.spot.is_delayed]
        held = {touched.spot: places.held_by(record, touched) for touched in now}
        found = [f"{spot.topic}/{spot.partition}" for spot, one in held.items() if one.held_back]
        more = ", …" if len(found) > _PLACES_NAMED else ""
        groups = f"; groups wait with it: {', '.join(record.groups[:_PLACES_NAMED])}" if record.groups else ""
        if not found:
            return f"it holds no messages back{groups}"
        count = _count(held.values())
        return f"it holds {count} of {', '.join(found[:_PLACES_NAMED])}{more} back{groups}"

    def _expiry(self, record: Registered, now_ns: int) -> str:
        transactions = self._broker.transactions
        due_ns = transactions.patience.expires_ns(record)
        within = f"in {format_duration(max(0, round((due_ns - now_ns) / NANOSECONDS)))}"
        is_last = due_ns < now_ns - transactions.patience.idle_ns(record) + record.timeout_ns
        return f"{within}, whatever is heard of it" if is_last else f"{within} unless something is heard of it"

    def hindered(self, name: str, error: GoQueueError) -> None:
        """Its end is decided, and some log does not take it."""
        record = self._broker.transactions.register.by_id.get(name)
        if record is None or not self._may_tell("transactions cannot be ended"):
            return
        self._told[record.whose] = name
        _log.warning(
            "transaction %s of %s is to be %s, which cannot be carried out and is tried again every second: %s",
            *(record.whose, name, "committed" if record.state == "prepare_commit" else "aborted", error.sentence),
            extra=fields(transactional_id=name, transaction=str(record.whose)),
        )

    def ended(self, ended: Ended) -> None:
        self._seconds.observe(lasted(ended))
        name = self._told.pop(ended.whose, None)
        if name is None:
            return
        is_commit = ended.state == "complete_commit"
        _log.info(
            "transaction %s of %s was %s after %s",
            *(ended.whose, name, "committed" if is_commit else "aborted", format_duration(round(lasted(ended)))),
            extra=fields(transactional_id=name, reason="" if is_commit else why(ended.reason)),
        )

    def _may_tell(self, what: str) -> bool:
        """As many in a second as somebody reads; the one after those says that there are more."""
        second_ns = self._broker.transactions.clock.now_ns() // NANOSECONDS
        if second_ns != self._second_ns:
            self._second_ns, self._lines = second_ns, 0
        self._lines += 1
        if self._lines == _LINES_MAX + 1:
            _log.warning("more %s: `goqueue-cli transaction list` shows them", what)
        return self._lines <= _LINES_MAX


def _count(held: Iterable[Held]) -> str:
    return format_count(sum(one.held_back for one in held), "message")
