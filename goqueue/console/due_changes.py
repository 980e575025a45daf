"""A change of the due time of delayed messages, in requests and in flags."""

from typing import Any, NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_duration, format_time


class DueChange(NamedTuple):
    """A new due time: `delay` seconds from now, an absolute `time_ns`, or a `shift` in seconds of each message."""

    delay: float | None = None
    time_ns: int | None = None
    shift: float | None = None

    def due_ns(self, due_ns: int, now_ns: int) -> int:
        """Return the new due time of a message."""
        if self.time_ns is not None:
            return self.time_ns
        if self.delay is not None:
            return now_ns + round(self.delay * NANOSECONDS)
        return max(0, due_ns + round((self.shift or 0) * NANOSECONDS))

    def of_one(self, due_ns: int) -> dict[str, Any]:
        """Return client options for one message; a shift becomes an absolute time."""
        return {"deliver_at": format_time(self.due_ns(due_ns, 0))} if self.shift is not None else self.of_many()

    def of_many(self) -> dict[str, Any]:
        if self.time_ns is not None:
            return {"deliver_at": format_time(self.time_ns)}
        return {"delay": self.delay} if self.delay is not None else {"shift": self.shift}

    @property
    def words(self) -> tuple[str, ...]:
        """Return command-line flags."""
        if self.time_ns is not None:
            return "--at", format_time(self.time_ns)
        if self.delay is not None:
            return "--delay", format_duration(self.delay, exact=True)
        shift = format_duration(self.shift or 0, exact=True)
        return "--shift", shift if shift.startswith("-") else f"+{shift}"
