"""A long look at something lets everybody else have a turn."""

import asyncio

from goqueue.runtime.slices import Slices


def turns_of_others(seconds: float, rests: int) -> int:
    """How often somebody else had a turn while another one rested so many times."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def look() -> int:
        task = asyncio.create_task(others())
        slices = Slices(seconds)
        for _ in range(rests):
            await slices.rest()
        task.cancel()
        return turns

    return asyncio.run(look())


def test_others_have_a_turn_whenever_a_slice_is_over() -> None:
    assert turns_of_others(0.0, 100) >= 99


def test_within_a_slice_nobody_is_let_in() -> None:
    assert turns_of_others(3600.0, 100) == 0
