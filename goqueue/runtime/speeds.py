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
    """A second, once there is a minute to tell from."""
    if len(used) <= DOCTOR_WINDOW_SECONDS:
        return 0.0
    return (used[-1] - used[0]) / (len(used) - 1)
