"""A number as it was while somebody looked: one point for each second, as the plots take them."""

from collections import deque
from collections.abc import Sequence

from goqueue.clock import NANOSECONDS

SECONDS_MAX = 300


class Trend:
    """Between two answers the number is taken to have stayed as it was."""

    def __init__(self, seconds: int = SECONDS_MAX) -> None:
        self._points: deque[float] = deque(maxlen=seconds)
        self._second = 0

    def add(self, value: float, at_ns: int) -> None:
        second = at_ns // NANOSECONDS
        if self._points:
            between = min(second - self._second, self._points.maxlen or 0)
            if between <= 0:
                self._points[-1] = value
                return
            self._points.extend([self._points[-1]] * (between - 1))
        self._points.append(value)
        self._second = second

    @property
    def points(self) -> Sequence[float]:
        return list(self._points)
