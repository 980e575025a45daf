"""A long walk lets other tasks run."""

import asyncio

from goqueue.runtime.event_loop import TimeSlices


def turns_of_others(seconds: float, rests: int) -> int:
    """Count the turns of another task during so many rests."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def look() -> int:
        task = asyncio.create_task(others())
        slices = TimeSlices(seconds)
        for _ in range(rests):
            await slices.rest()
        task.cancel()
        return turns

    return asyncio.run(look())


def test_other_tasks_run_after_a_slice() -> None:
    assert turns_of_others(0.0, 100) >= 99


def test_other_tasks_do_not_run_within_a_slice() -> None:
    assert turns_of_others(3600.0, 100) == 0
