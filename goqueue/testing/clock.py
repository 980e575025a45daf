"""A clock that moves only when it is told to."""

from goqueue.clock import NANOSECONDS


class ManualClock:
    """Wall and monotonic time under the test's control; `jump` moves only the wall."""

    def __init__(self, now_ns: int = 1_700_000_000 * NANOSECONDS) -> None:
        self._now_ns = now_ns
        self._monotonic_ns = 0

    def now_ns(self) -> int:
        return self._now_ns

    def monotonic_ns(self) -> int:
        return self._monotonic_ns

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        step = round(seconds * NANOSECONDS)
        self._now_ns += step
        self._monotonic_ns += step

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator might."""
        self._now_ns += round(seconds * NANOSECONDS)

    def __repr__(self) -> str:
        return f"<ManualClock now={self._now_ns} monotonic={self._monotonic_ns}>"
