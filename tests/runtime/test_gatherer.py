"""Facts are shared by those who asked before they were gathered, and by nobody who asked later."""

import asyncio
from typing import Any, cast

from goqueue.observe.facts import Facts
from goqueue.runtime.gatherer import Gatherer

NOTHING: Any = None  # is asked when there is nothing to gather from


class Still(asyncio.SelectorEventLoop):
    """All happens in one moment of its own time."""

    def time(self) -> float:
        return 1.0


class Counted(Gatherer):
    """Its facts are the number of the gathering."""

    gathered = 0

    async def _gather(self) -> Facts:
        self.gathered += 1
        number = self.gathered
        await asyncio.sleep(0)
        return cast("Facts", number)


async def one_after_the_other() -> list[Any]:
    gatherer = Counted(NOTHING, NOTHING)
    return [await gatherer.facts() for _ in range(3)]


async def at_once() -> list[Any]:
    gatherer = Counted(NOTHING, NOTHING)
    return list(await asyncio.gather(*(gatherer.facts() for _ in range(5))))


def test_whoever_asks_later_is_told_anew_however_little_later() -> None:
    with asyncio.Runner(loop_factory=Still) as runner:
        assert runner.run(one_after_the_other()) == [1, 2, 3]


def test_those_who_ask_while_facts_are_gathered_share_the_next_ones() -> None:
    assert asyncio.run(at_once()) == [1, 2, 2, 2, 2]
