"""When a request is retried, how long its attempts may take, and which of their errors is raised."""

import time
from collections.abc import Callable
from random import SystemRandom
from typing import Any

import msgspec

from goqueue.client.api_request import ApiRequest
from goqueue.client.quota_waits import note_refusal
from goqueue.errors import (
    BrokerUnreachable,
    GoQueueError,
    LeadershipLost,
    LeaderUnavailable,
    NotCoordinator,
    NotLeader,
    RequestTimedOut,
    TransientError,
)

_random = SystemRandom().random  # not the generator that the program may have seeded
FIRST_SECONDS = 0.05
LONGEST_SECONDS = 5.0
ELECTION_SECONDS = 0.25
"""The longest wait for the next leader of a partition, or coordinator of a group."""


class Backoff(msgspec.Struct):
    """Exponential backoff with full jitter, so that clients spread out."""

    attempts: int = 0

    def next(self, error: GoQueueError, chance: float | None = None) -> float:
        """Return the seconds to wait; never less than the broker asked for."""
        if error.details.pop("untried", False):  # by this client, at another address
            return 0.0
        is_moving = isinstance(error, NotLeader | NotCoordinator | LeaderUnavailable | LeadershipLost)
        if is_moving:  # a new leader is there sooner than nodes say
            error.details.pop("retry_after", None)
        most = min(ELECTION_SECONDS if is_moving else LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(self.attempts, 20))
        self.attempts += 1
        asked = error.details.get("retry_after", 0.0)
        least = min(float(asked), 60.0) if isinstance(asked, (int, float)) else 0.0
        return least + most * (_random() if chance is None else chance)


def may_repeat(call: ApiRequest[Any], error: GoQueueError) -> bool:
    """Return whether sending `call` again can do no harm.

    With `unsure` in its details an error leaves open whether the broker carried out the request. With `foreign` it
    comes from a server that is not a broker.
    """
    if not isinstance(error, TransientError) or error.details.get("foreign"):
        return False
    return call.idempotent or not error.details.get("unsure")


QUIET_SECONDS = 2.0
"""The time after which a broker that is away is reported."""
_LEAST_SECONDS = 0.001
_ANSWER_SECONDS = 0.1
"""After a refusal, a request that must not be repeated is not sent with less time: silence says less than that."""
_UNANSWERED = {"unsure", "unsent", "foreign"}
"""Details of errors that are no answer of a broker, or leave open whether it carried out the request."""


class RequestAttempts:
    """The time left for a request and its retries.

    The broker may use the patience of a request for its answer. A failed connection attempt may not.
    """

    def __init__(self, call: ApiRequest[Any], timeout: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._call = call
        self._timeout = timeout
        self._monotonic = monotonic
        now = monotonic()
        self._patient_until = now + call.patience
        self._deadline = now + timeout
        self._report_at = now + QUIET_SECONDS
        self._backoff = Backoff()
        self._failure: GoQueueError | None = None
        self._refusal: GoQueueError | None = None

    def left(self) -> float:
        """Return the seconds for the next attempt. Raises the error of the attempts before, if there are none."""
        left = self._deadline - self._monotonic()
        if left < _LEAST_SECONDS and self._failure is not None:
            raise self._failure
        return left + self._call.patience

    def after(self, error: GoQueueError) -> float:
        """Return the seconds to wait before the next attempt. Raises the error of the attempts, if there is none."""
        now = self._monotonic()
        if self._call.patience and error.details.get("unsure"):  # the broker was there until now
            self._deadline = max(self._deadline, min(now, self._patient_until) + self._timeout)
        delay, left = self._backoff.next(error), self._deadline - now
        self._failure = self._most_telling(error, is_late=left <= 0)
        is_telling = self._failure is self._refusal and not self._call.idempotent
        if not may_repeat(self._call, error) or delay + is_telling * _ANSWER_SECONDS >= left:
            error.details.pop("unsent", None)
            if error.details.get("unsure") and not error.details.get("foreign") and not self._call.idempotent:
                error.hint = self._call.unsure_hint
            raise self._failure
        return delay

    def _most_telling(self, error: GoQueueError, *, is_late: bool) -> GoQueueError:
        """Return an earlier refusal by the broker instead of an error that only says that the time was over.

        The attempt without an answer may have been carried out, which its caller must know if that is not idempotent.
        """
        if not _UNANSWERED & error.details.keys():
            self._refusal = error
            return error
        is_silence = is_late or isinstance(error, RequestTimedOut)
        if self._refusal is None or not self._call.idempotent or not is_silence or error.details.get("foreign"):
            return error
        self._refusal.details["unsure"] = True
        return self._refusal

    def report(self, error: GoQueueError, delay: float) -> None:
        """Tell about a wait for a quota, and once that the broker is away: the program must not seem to hang."""
        note_refusal(error, delay)
        now = self._monotonic()
        if now < self._report_at or not isinstance(error, BrokerUnreachable):
            return
        self._report_at = float("inf")
        import logging  # noqa: PLC0415 - commands start sooner without it

        left = round(self._deadline - now)
        logging.getLogger("goqueue.client").warning("%s; trying again for %d s", error.sentence, left)
