"""How messages are delivered: for how long they are lent, how often they are tried, how long retries wait."""

from dataclasses import dataclass

from goqueue.clock import NANOSECONDS
from goqueue.limits import RETRIES_MAX, RETRY_SECONDS, RETRY_SECONDS_MAX, VISIBILITY_SECONDS

DEAD_LETTER_SUFFIX = ".dlq"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    visibility_ns: int = round(VISIBILITY_SECONDS * NANOSECONDS)
    retries_max: int = RETRIES_MAX
    """Failures beyond these make a dead letter."""
    retry_ns: int = round(RETRY_SECONDS * NANOSECONDS)
    retry_ns_max: int = round(RETRY_SECONDS_MAX * NANOSECONDS)

    def retry_delay_ns(self, failures: int) -> int:
        """Before the next attempt, after so many that failed: twice as long each time."""
        return min(self.retry_ns << min(max(failures - 1, 0), 40), self.retry_ns_max)

    def is_last(self, failures: int) -> bool:
        """Whether the next failure would be one too many."""
        return failures >= self.retries_max
