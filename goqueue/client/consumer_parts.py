"""The parts of a consumer that do not wait: of polling, of sending settlements, and of heartbeats.

What must stay true: a connection has one request under way. The next one is sent after the answer to the one before
was taken.
"""

import time
from contextlib import AbstractContextManager
from typing import Generic, Protocol, TypeVar

from goqueue.client.api_request import ApiRequest, ApiResponse
from goqueue.client.connection_core import ConnectionCore
from goqueue.client.lease import HeldLease
from goqueue.client.lease_tracker import LeaseTracker, SettlementBatch
from goqueue.client.member_requests import ReceivedPoll, SettleResults
from goqueue.client.quota_waits import note_refusal
from goqueue.client.request_attempts import Backoff
from goqueue.errors import GoQueueError, RequestTimedOut

C = TypeVar("C", bound=ConnectionCore)

NEVER = float("inf")

TICK_SECONDS = 0.05
"""The interval of the worker while anything is leased: no settlement waits longer before it is sent."""

RESTLESS_MAX, RESTLESS_SECONDS = 5, 0.1
LEAST_IDLE_SECONDS = 0.001
"""The number of changes in a row without a wait, and the wait before each further one."""
THROTTLED_SECONDS_MAX = 1.0
"""The longest wait after a poll from which a quota held messages back: each poll is a heartbeat."""


class PollerCore(Generic[C]):
    """Requests messages ahead, and takes the answer when it is wanted."""

    def __init__(self, connection: C, lock: AbstractContextManager[object], timeout: float) -> None:
        self.lock = lock
        """Held while the answer is awaited."""
        self._connection = connection
        self._timeout = timeout
        self._asked: ApiRequest[ReceivedPoll] | None = None
        self._failed: GoQueueError | None = None
        self._absent_at = 0.0
        """When the answer was last known not to have arrived: no lease in it is older."""

    @property
    def is_under_way(self) -> bool:
        return self._asked is not None

    def _begin(self, call: ApiRequest[ReceivedPoll]) -> bool:
        """Record a request that is sent now. Return False if one is under way."""
        if self._asked is not None:
            return False
        self._asked, self._failed, self._absent_at = call, None, time.monotonic()
        return True

    def _forget_lost(self) -> None:
        """Forget the request if its answer cannot be received anymore."""
        if not self._connection.can_receive:
            self._asked = None

    def _taken(
        self, call: ApiRequest[ReceivedPoll], answer: ApiResponse, has_arrived: bool
    ) -> tuple[ReceivedPoll, float]:
        self._asked = None
        return self._connection.decode(call, answer), self._absent_at if has_arrived else time.monotonic()

    def look(self) -> bool:
        """Return whether an answer, or the end of the connection, has arrived."""
        now = time.monotonic()
        if self._asked is None or self._failed is not None:
            return False
        arrived = self._connection.has_arrived()
        if not arrived:
            self._absent_at = now
        return arrived

    def interrupt(self) -> None:
        """Make the wait for the answer fail; any thread may call this."""
        self._connection.interrupt()

    def abandon(self) -> None:
        self._asked = None
        self._connection.close()


class SettlementRules(Protocol):
    """The part of a consumer that sending settlements needs."""

    _leases: LeaseTracker

    def _settle_call(self, settlement: SettlementBatch) -> ApiRequest[SettleResults]: ...
    def _concluded(self, settlement: SettlementBatch, outcome: SettleResults | GoQueueError, now: float) -> bool: ...


class SettlementSenderCore(Generic[C]):
    """Sends the settlements that the application noted, and all other requests but polls."""

    def __init__(
        self, connection: C, lock: AbstractContextManager[object], rules: SettlementRules, timeout: float
    ) -> None:
        self.lock = lock
        """Guards the rules as well as the connection. No callback of the application is called while it is held."""
        self._connection = connection
        self._leases = rules._leases
        self._rules = rules
        self._timeout = timeout
        self._current: SettlementBatch | None = None
        self._call: ApiRequest[SettleResults] | None = None
        self._deadline = 0.0

    @property
    def is_idle(self) -> bool:
        """True if nothing is being sent; the lock is held."""
        return self._current is None

    def _next_call(self, deadline: float) -> ApiRequest[SettleResults] | None:
        """Return the settlement to be sent now, if any."""
        now = time.monotonic()
        if self._current is None:
            self._current = self._leases.gather(now)
        current = self._current
        if current is None or current.sent or now < current.not_before:
            return None
        self._call = self._rules._settle_call(current)
        self._deadline = min(now + self._connection.attempt_seconds(self._call, self._timeout), deadline)
        return self._call

    def _conclude(self, outcome: SettleResults | GoQueueError) -> None:
        assert self._current is not None
        if self._rules._concluded(self._current, outcome, time.monotonic()):
            self._current = None

    def interrupt(self) -> None:
        self._connection.interrupt()

    def close(self) -> None:
        self._connection.close()


class WaitLimit:
    """The time for which a caller waits for messages.

    Only waiting polls count as idle time: after a pause of this process or an outage, the broker is asked again.
    """

    def __init__(self, timeout: float, idle_seconds: float | None) -> None:
        self._timeout = timeout
        self.idle_left = idle_seconds
        """Seconds for which polls must bring nothing until the iteration ends; None for no limit."""
        self._failing_until: float | None = None
        self._backoff = Backoff()
        self._restless = 0

    def is_over_after(self, seconds: float) -> bool:
        """Return whether the iteration ends after a poll that waited this long and brought nothing."""
        if self.idle_left is None:
            return False
        self.idle_left = max(self.idle_left - seconds, 0.0)
        return self.idle_left < LEAST_IDLE_SECONDS

    def answered(self) -> None:
        self._backoff.attempts, self._failing_until = 0, None

    def after(self, error: GoQueueError) -> float:
        """Return the seconds to wait after a failure. Raises it when the broker has been away for too long."""
        now = time.monotonic()
        self._failing_until = self._failing_until or now + self._timeout
        delay = self._backoff.next(error)
        if now + delay >= self._failing_until or error.details.get("foreign"):
            raise error
        note_refusal(error, delay)
        return delay

    def before_attending(self) -> float:
        """Return the seconds to wait before a change: more than 0 after several without a message in between."""
        self._restless += 1
        return 0.0 if self._restless <= RESTLESS_MAX else RESTLESS_SECONDS


def settlement_error(held: HeldLease, first: int, end: int) -> GoQueueError | None:
    """Return why some of these offsets could not be settled."""
    refused = any(low < end and first < high for low, high in held.refused.ranges())
    return held.error if refused else None


def settlement_timeout(timeout: float, cause: GoQueueError | None) -> RequestTimedOut:
    why = "" if cause is None else f": {cause.sentence}"
    error = RequestTimedOut(
        f"what was settled did not become durable within {timeout:g} seconds{why}",
        hint="it is sent again as long as its leases hold; flush() again to wait for it",
    )
    error.__cause__ = cause
    return error
