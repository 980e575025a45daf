"""How late the event loop is: what every request waits before anybody looks at it."""

import asyncio
from collections.abc import Callable

from goqueue.limits import LAG_SECONDS


class LagMeter:
    """Asks the loop to call at a time, and sees when it does."""

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._arm(asyncio.get_running_loop())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        due = loop.time() + LAG_SECONDS

        def look() -> None:
            self._observe(max(0.0, loop.time() - due))
            self._arm(loop)

        self._timer = loop.call_at(due, look)
