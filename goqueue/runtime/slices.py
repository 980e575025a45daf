"""Long looks at the broker's state, in slices between which everybody else is served."""

import asyncio

from goqueue.limits import DOCTOR_SLICE_SECONDS


class Slices:
    """`await rest()` at each place where the state may change without harm: it does so when it is time."""

    def __init__(self, seconds: float = DOCTOR_SLICE_SECONDS) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._until = self._loop.time() + seconds

    async def rest(self) -> None:
        if self._loop.time() >= self._until:
            await asyncio.sleep(0)
            self._until = self._loop.time() + self._seconds
