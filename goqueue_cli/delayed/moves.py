"""When delayed messages are to be delivered instead."""

import time
from dataclasses import dataclass
from typing import Any

from goqueue.clock import NANOSECONDS
from goqueue.console.groups import UsageInvalid
from goqueue.quantities import format_time, parse_time
from goqueue_cli.due import parse_at, parse_delay, parse_shift


@dataclass(frozen=True, slots=True)
class Move:
    """One of three: `delay` in seconds from now, `deliver_at` a time, or `shift` in seconds from when each is due."""

    delay: float | None = None
    deliver_at: Any = None
    shift: float | None = None

    def of_many(self) -> dict[str, Any]:
        """As the client takes it where filters choose."""
        given = {"delay": self.delay, "deliver_at": self.deliver_at, "shift": self.shift}
        return {name: value for name, value in given.items() if value is not None}

    def of_one(self, due: str) -> dict[str, Any]:
        """The same for a single one, which is moved to a time instead of being shifted."""
        return self.of_many() if self.shift is None else {"deliver_at": self.time(due)}

    def time(self, due: str) -> str:
        """When one that is `due` then would be delivered."""
        if self.deliver_at is not None:
            return format_time(self.deliver_at)
        start, seconds = (parse_time(due), self.shift) if self.delay is None else (time.time_ns(), self.delay)
        return format_time(max(0, start + round((seconds or 0) * NANOSECONDS)))


def move_of(delay: str | None, at: str | None, shift: str | None) -> Move:
    given = [flag for flag, text in (("--delay", delay), ("--at", at), ("--shift", shift)) if text is not None]
    if len(given) > 1:
        raise UsageInvalid(f"{given[0]} and {given[1]} contradict each other", hint="give one of the two")
    if delay is not None:
        return Move(delay=parse_delay("--delay", delay))
    if shift is not None:
        return Move(shift=parse_shift("--shift", shift))
    if at is not None:
        return Move(deliver_at=parse_at("--at", at))
    raise UsageInvalid("nothing says when to deliver", hint="give --delay 5m, --at a time, or --shift +1h")
