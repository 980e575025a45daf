"""How the broker did lately, from what its history remembers, as the doctor wants it."""

from collections.abc import Sequence
from dataclasses import dataclass

from goqueue.limits import DOCTOR_LOOKS_MIN, DOCTOR_WINDOW_SECONDS, HISTORY_SECONDS
from goqueue.observe.history import History

_MILLISECONDS = 1000
_SHARE = 0.95  # of the seconds of a minute: one pause in a while is nobody's concern


@dataclass(frozen=True, slots=True)
class Speeds:
    loop_seconds: float | None = None
    flush_seconds: float | None = None
    disk_growth: float = 0.0
    """Bytes a second."""


def speeds(history: History) -> Speeds:
    lately, remembered = history.last(DOCTOR_WINDOW_SECONDS), history.last(HISTORY_SECONDS)
    return Speeds(
        _mostly_below(lately["loop_lag_ms"]),
        _mostly_below([took for took in lately["flush_p99_ms"] if took]),  # 0 stands for a second without a round
        growth([used for used in remembered["disk_used_bytes"] if used]),  # and here for: not known yet
    )


def _mostly_below(values: Sequence[float]) -> float | None:
    """Seconds that all but the worst stayed below; None where there are too few to tell."""
    if len(values) < DOCTOR_LOOKS_MIN:
        return None
    return sorted(values)[int((len(values) - 1) * _SHARE)] / _MILLISECONDS


def growth(used: Sequence[float]) -> float:
    """A second, in the third of what is remembered in which it was least; 0 until all of that is known.

    A topic grows until its retention is reached, and a file is copied in a minute: neither goes on for long.
    """
    if len(used) < HISTORY_SECONDS:
        return 0.0
    third = len(used) // 3
    return min(_slope(used[start : start + third + 1]) for start in range(0, len(used) - third + 1, third))


def _slope(values: Sequence[float]) -> float:
    return (values[-1] - values[0]) / (len(values) - 1)
