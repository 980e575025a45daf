"""Watches the controller, as the nodes name it: for how long there is none, and that no epoch has two."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.chaos.http_client import HttpClient, Unanswered

_LOOK_SECONDS = 0.02
_ANSWER_SECONDS = 0.25


@dataclass
class Gaps:
    """The times at which something worked, and the longest ones between."""

    at: list[float] = field(default_factory=list)

    def works(self) -> None:
        self.at.append(time.monotonic())

    def longest(self, since: float, until: float) -> float:
        """Return the longest time in which it did not work, of those that reach into this window."""
        longest, before = 0.0, since
        for at in self.at:
            if at > since and before < until:
                longest = max(longest, at - before)
            before = max(before, at)
        return max(longest, until - before)


class ControllerWatch:
    """Asks all nodes all the time who the controller is."""

    def __init__(self, addresses: dict[str, str]) -> None:
        self.available = Gaps()
        """When a controller said so of itself."""
        self.terms: dict[int, str] = {}
        """The controller of each epoch."""
        self.problems: list[str] = []
        self.current: str | None = None
        self._addresses = addresses

    async def run(self) -> None:
        await asyncio.gather(*(self._ask(name, url) for name, url in self._addresses.items()))

    async def _ask(self, name: str, url: str) -> None:
        with HttpClient() as client:
            while True:
                with suppress(Unanswered):
                    answer = await client.ask(url, "GET", "/cluster/state", seconds=_ANSWER_SECONDS)
                    if answer.status == 200:
                        state = answer.json
                        self._see(name, state["controller_id"], state["epoch"])
                await asyncio.sleep(_LOOK_SECONDS)

    def _see(self, name: str, controller: str | None, term: int) -> None:
        if controller is None:
            return
        first = self.terms.setdefault(term, controller)
        if first != controller:
            self.problems.append(f"epoch {term} has two controllers: {first}, and {controller} says {name}")
        if controller == name:
            self.current = name
            self.available.works()


async def until_agreed(addresses: Iterable[str], seconds: float) -> str:
    """Wait until all these nodes name the same controller."""
    deadline = time.monotonic() + seconds
    with HttpClient() as client:
        while True:
            found = {await _controller(client, url) for url in addresses}
            if len(found) == 1 and None not in found:
                return str(found.pop())
            assert time.monotonic() < deadline, f"no controller that all know: {found}"
            await asyncio.sleep(_LOOK_SECONDS)


async def _controller(client: HttpClient, url: str) -> str | None:
    with suppress(Unanswered):
        answer = await client.ask(url, "GET", "/cluster/state", seconds=1)
        if answer.status == 200:
            found: str | None = answer.json["controller_id"]
            return found
    return None
