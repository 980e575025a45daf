"""How long to wait before the next attempt: exponential backoff with full jitter, so that clients spread out."""

from random import random
from typing import Any

import msgspec

from goqueue.client.calls import Call
from goqueue.errors import GoQueueError, TransientError

FIRST_SECONDS = 0.05
LONGEST_SECONDS = 5.0


class Backoff(msgspec.Struct):
    """The waits of one thing that is tried again and again."""

    attempts: int = 0

    def next(self, error: GoQueueError, chance: float | None = None) -> float:
        """Seconds; never less than what the broker asked for."""
        most = min(LONGEST_SECONDS, FIRST_SECONDS * 2.0 ** min(self.attempts, 20))
        self.attempts += 1
        asked = error.details.get("retry_after", 0.0)
        least = min(float(asked), 60.0) if isinstance(asked, (int, float)) else 0.0
        return least + most * (random() if chance is None else chance)  # noqa: S311 - nobody must not guess it


def may_repeat(call: Call[Any], error: GoQueueError) -> bool:
    """Whether sending `call` again can do no harm.

    An error with `unsure` among its details leaves open whether the broker did what it was asked; with `foreign` it
    comes from something else than a broker, which will not become one.
    """
    if not isinstance(error, TransientError) or error.details.get("foreign"):
        return False
    return call.idempotent or not error.details.get("unsure")
