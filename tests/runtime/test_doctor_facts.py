"""Callers who asked before facts were gathered share them; later callers do not."""

import asyncio
from typing import Any, cast

from goqueue.observe.facts import BrokerFacts
from goqueue.runtime.doctor_facts import DoctorFactsCollector

NOTHING: Any = None  # is asked when there is nothing to gather from


class Still(asyncio.SelectorEventLoop):
    """All happens in one moment of its own time."""

    def time(self) -> float:
        return 1.0


class Counted(DoctorFactsCollector):
    """Its facts are the number of the gathering."""

    gathered = 0

    async def _gather(self) -> BrokerFacts:
        self.gathered += 1
        number = self.gathered
        await asyncio.sleep(0)
        return cast("BrokerFacts", number)


async def one_after_the_other() -> list[Any]:
    gatherer = Counted(NOTHING, NOTHING)
    return [await gatherer.facts() for _ in range(3)]


async def at_once() -> list[Any]:
    gatherer = Counted(NOTHING, NOTHING)
    return list(await asyncio.gather(*(gatherer.facts() for _ in range(5))))


def test_later_call_collects_facts_again() -> None:
    with asyncio.Runner(loop_factory=Still) as runner:
        assert runner.run(one_after_the_other()) == [1, 2, 3]


def test_concurrent_calls_share_collected_facts() -> None:
    assert asyncio.run(at_once()) == [1, 2, 2, 2, 2]
