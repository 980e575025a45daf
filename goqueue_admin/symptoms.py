"""What the doctor sees from here and the broker cannot see: the way to it, its clock beside ours, its version."""

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from goqueue import __version__
from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_duration, parse_time

if TYPE_CHECKING:
    from goqueue.client import Client

CODES = {
    "clock_differs": ("warning",),
    "round_trip_slow": ("warning", "note"),
    "version_differs": ("note",),
}
"""With the severities that each may have."""

_ROUND_TRIPS = 5  # the fastest tells of the way, the others of what happened to be in it
_CLOCK_SECONDS = 2.0  # clocks that are kept stay within a fraction of it
_TRIP_SLOW_SECONDS = 0.05  # of a network in one place it is a hundredth of that
_TRIP_BAD_SECONDS = 0.5

Finding = dict[str, Any]


class Seen(NamedTuple):
    """A broker from a distance."""

    round_trip: float
    clock_ahead: float
    """Seconds by which its clock is ahead of ours, at least: half a round trip may be anybody's."""
    version: str


def look(client: "Client") -> Seen:
    trips = [_trip(client) for _ in range(_ROUND_TRIPS)]
    round_trip, ahead = min(trips)
    uncertain = round_trip / 2
    certain = max(0.0, abs(ahead) - uncertain)
    return Seen(round_trip, certain if ahead >= 0 else -certain, str(client.version().get("version", "")))


def _trip(client: "Client") -> tuple[float, float]:
    """How long it took, and by how much the broker's clock was ahead in the middle of it."""
    began, began_ns = time.monotonic(), time.time_ns()
    there_ns = parse_time(client.health()["timestamp"])
    took = time.monotonic() - began
    return took, (there_ns - began_ns) / NANOSECONDS - took / 2


def findings(seen: Seen) -> list[Finding]:
    """In the form of the broker's own."""
    return [found for found in (_clock(seen), _round_trip(seen), _version(seen)) if found is not None]


def _clock(seen: Seen) -> Finding | None:
    if abs(seen.clock_ahead) < _CLOCK_SECONDS:
        return None
    apart = format_duration(round(abs(seen.clock_ahead), 1))
    side = "ahead of" if seen.clock_ahead > 0 else "behind"
    return _finding(
        "clock_differs",
        "warning",
        "the clock",
        f"the broker's clock is {apart} {side} the one of this machine: times such as --from -1h miss by that",
        "see which of the two is wrong: `timedatectl`",
        {"seconds": round(seen.clock_ahead, 3)},
    )


def _round_trip(seen: Seen) -> Finding | None:
    if seen.round_trip < _TRIP_SLOW_SECONDS:
        return None
    return _finding(
        "round_trip_slow",
        "warning" if seen.round_trip >= _TRIP_BAD_SECONDS else "note",
        "the network",
        f"the quickest of {_ROUND_TRIPS} requests took {format_duration(round(seen.round_trip, 3))}",
        "run clients nearer to the broker, or have them send more with each request; "
        "`goqueue-admin broker describe` tells whether the broker is what is slow",
        {"seconds": round(seen.round_trip, 6)},
    )


def _version(seen: Seen) -> Finding | None:
    if seen.version == __version__:
        return None
    return _finding(
        "version_differs",
        "note",
        "the version",
        f"the broker has version {seen.version or 'unknown'}, and this program {__version__}",
        "install the broker's version here if a command is refused",
        {"broker": seen.version, "client": __version__},
    )


def _finding(code: str, severity: str, subject: str, sentence: str, hint: str, details: dict[str, Any]) -> Finding:
    return {
        "code": code,
        "severity": severity,
        "subject": subject,
        "sentence": sentence,
        "hint": hint,
        "details": details,
    }
