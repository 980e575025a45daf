"""The two connections of a consumer for threads: one polls, the other settles. Nothing is waited for ahead of time.

What must stay true: a connection has one request under way. Whoever sends the next one has taken the answer to the
one before.
"""

import select
import threading
import time
from typing import Protocol, TypeVar

from goqueue.client.blocking import Connection
from goqueue.client.calls import Call
from goqueue.client.leases import Leases, Settlement
from goqueue.client.polls import Polled, Results
from goqueue.errors import GoQueueError, RequestTimedOut

T = TypeVar("T")

NEVER = float("inf")


class Poller:
    """Asks for messages, and takes the answer when it is wanted: until then it lies in the kernel."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self.lock = threading.Lock()
        """Held by whoever waits for the answer."""
        self._connection = connection
        self._timeout = timeout
        self._asked: Call[Polled] | None = None
        self._failed: GoQueueError | None = None
        self._absent_at = 0.0
        """When the answer was last known not to be there: no lease in it is older."""

    @property
    def is_under_way(self) -> bool:
        return self._asked is not None

    def ask(self, call: Call[Polled]) -> None:
        """Write the request, unless one is under way."""
        if self._asked is not None:
            return
        self._asked, self._failed, self._absent_at = call, None, time.monotonic()
        try:
            self._connection.send(call, time.monotonic() + self._timeout)
        except GoQueueError as error:
            self._failed = error

    def take(self) -> tuple[Polled, float] | None:
        """Wait for the answer, and since when its leases hold at the most; None when nothing was asked. The lock is
        held."""
        call, self._asked = self._asked, None
        if call is None:
            return None
        if self._failed is not None:
            raise self._failed
        now = time.monotonic()
        lies_there = has_arrived(self._connection)
        # Counted from now: an answer that lies there already has not been late.
        answer = self._connection.receive(now + call.patience + self._timeout)
        return call.decode(answer), self._absent_at if lies_there else time.monotonic()

    def look(self) -> bool:
        """Whether an answer, or the end of the connection, has arrived."""
        now = time.monotonic()
        if self._asked is None or self._failed is not None:
            return False
        arrived = has_arrived(self._connection)
        if not arrived:
            self._absent_at = now
        return arrived

    def interrupt(self) -> None:
        """Whoever waits gets an error; any thread may call this."""
        self._connection.interrupt()

    def abandon(self) -> None:
        self._asked = None
        self._connection.close()


class Settler:
    """Sends what was noted, and all other calls but polls."""

    def __init__(self, connection: Connection, leases: Leases, rules: "Rules", timeout: float) -> None:
        self.lock = threading.Lock()
        """Guards the rules as well as the connection. Nothing of the application is called with it."""
        self._connection = connection
        self._leases = leases
        self._rules = rules
        self._timeout = timeout
        self._current: Settlement | None = None
        self._call: Call[Results] | None = None
        self._deadline = 0.0

    # --- the lock is held ---

    @property
    def is_idle(self) -> bool:
        return self._current is None

    def settle(self, *, patient: bool = True) -> None:
        """Send what was noted, without waiting for the answer; that of the request before is taken first."""
        if not patient and self._current is not None and self._current.sent and not has_arrived(self._connection):
            return
        self._finish()
        self._send()

    def _send(self, deadline: float = NEVER) -> None:
        now = time.monotonic()
        if self._current is None:
            self._current = self._leases.gather(now)
        current = self._current
        if current is None or current.sent or now < current.not_before:
            return
        self._call = self._rules._settle_call(current)
        self._deadline = min(now + self._timeout, deadline)
        try:
            self._connection.send(self._call, self._deadline)
        except GoQueueError as error:
            self._conclude(current, error)
        except BaseException:
            current.repeated = True
            raise
        else:
            current.sent = True

    def _finish(self, deadline: float = NEVER) -> None:
        """Take the answer that is due, if one is."""
        current, call = self._current, self._call
        if current is None or call is None or not current.sent:
            return
        try:
            outcome: Results | GoQueueError = call.decode(self._connection.receive(min(self._deadline, deadline)))
        except GoQueueError as error:
            outcome = error
        except BaseException:
            current.sent, current.repeated = False, True
            raise
        self._conclude(current, outcome)

    def _conclude(self, current: Settlement, outcome: Results | GoQueueError) -> None:
        if self._rules._concluded(current, outcome, time.monotonic()):
            self._current = None

    # --- the lock is taken here ---

    def call(self, call: Call[T], timeout: float | None = None) -> T:
        """One attempt."""
        with self.lock:
            self._finish()
            left = self._timeout + call.patience if timeout is None else timeout
            return call.decode(self._connection.exchange(call, left))

    def flush(self, timeout: float) -> None:
        """Send everything that was noted before this call, and wait until it is durable."""
        deadline, gathered = time.monotonic() + timeout, False
        while True:
            with self.lock:
                self._finish(deadline)
                if self._current is None:
                    if gathered:
                        return
                    self._current = self._leases.gather(time.monotonic())
                    gathered = not self._leases.has_news
                if self._current is None:
                    return
                current = self._current
                self._send(deadline)
                delay = current.not_before - time.monotonic() if not current.sent else 0.0
            if time.monotonic() + max(delay, 0.0) >= deadline and self._current is not None:
                raise overdue(timeout, current.failure)
            if delay > 0:
                threading.Event().wait(delay)

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


class Rules(Protocol):
    def _settle_call(self, settlement: Settlement) -> Call[Results]: ...
    def _concluded(self, settlement: Settlement, outcome: Results | GoQueueError, now: float) -> bool: ...


def overdue(timeout: float, cause: GoQueueError | None) -> RequestTimedOut:
    why = "" if cause is None else f": {cause.sentence}"
    error = RequestTimedOut(
        f"what was settled did not become durable within {timeout:g} seconds{why}",
        hint="it is sent again as long as its leases hold; flush() again to wait for it",
    )
    error.__cause__ = cause
    return error


def has_arrived(connection: Connection) -> bool:
    file = connection.fileno()
    if file < 0:
        return True  # which is known at once
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(0))
