"""One call and its attempts, within one deadline."""

import re
import threading
import time
from typing import TYPE_CHECKING, Any

from goqueue.client.address import Address
from goqueue.client.calls import Call
from goqueue.client.retry import Backoff, may_repeat
from goqueue.errors import GoQueueError, RequestInvalid

if TYPE_CHECKING:
    import ssl


_LEAST_SECONDS = 0.001
_KEY = re.compile(r"[!-~]{1,4096}")


class Attempts:
    """How much time is left, and whether there is another attempt.

    The broker has the patience of a call for its answer. To find nobody there takes no patience.
    """

    def __init__(self, call: Call[Any], timeout: float) -> None:
        self._call = call
        self._timeout = timeout
        self._patient_until = time.monotonic() + call.patience
        self._deadline = self._patient_until - call.patience + timeout
        self._backoff = Backoff()
        self._failure: GoQueueError | None = None

    def left(self) -> float:
        """For the next attempt; where that is nothing, what went wrong before says more than that time is over."""
        left = self._deadline - time.monotonic()
        if left < _LEAST_SECONDS and self._failure is not None:
            raise self._failure
        return left + self._call.patience

    def after(self, error: GoQueueError) -> float:
        """Seconds to wait before the next attempt; raises the error when there is none."""
        now = time.monotonic()
        if self._call.patience and error.details.get("unsure"):  # it was there, and is missed since now
            self._deadline = max(self._deadline, min(now, self._patient_until) + self._timeout)
        delay, left = self._backoff.next(error), self._deadline - now
        self._failure = error
        if not may_repeat(self._call, error) or delay >= left:
            error.details.pop("unsent", None)
            if error.details.get("unsure") and not error.details.get("foreign") and not self._call.idempotent:
                error.hint = self._call.unsure_hint
            raise error
        return delay

    def pause(self, error: GoQueueError) -> None:
        threading.Event().wait(self.after(error))


def tls_of(address: Address, given: "ssl.SSLContext | None") -> "ssl.SSLContext | None":
    if not address.secure:
        return None
    if given is not None:
        return given
    import ssl  # noqa: PLC0415 - eight milliseconds that only https costs

    return ssl.create_default_context()


def checked_key(api_key: object) -> str | None:
    """A key is a secret: the refusal of a bad one does not show it."""
    if api_key is None:
        return None
    if isinstance(api_key, str) and _KEY.fullmatch(api_key):
        return api_key
    raise RequestInvalid(
        "the API key is not one", hint="it is one word of visible ASCII characters, without spaces and line ends"
    )
