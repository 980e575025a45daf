"""Deferred results, and handlers that run without a task as long as they wait for nothing else."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest
import uvloop

from goqueue.errors import TopicNotFound
from goqueue.runtime.deferred import Deferred, HandlerRun, Turn


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        uvloop.run(asyncio.wait_for(test(), 30))

    return run


def new_turn() -> Turn:
    return Turn(asyncio.get_running_loop())


async def ended(run: HandlerRun[Any]) -> None:
    """Wait until its listener was told."""
    told = asyncio.get_running_loop().create_future()
    run.then(told.set_result)
    await told


@on_a_loop
async def test_a_task_may_await_a_deferred_before_and_after_it_is_done() -> None:
    later: Deferred[int] = Deferred()
    asyncio.get_running_loop().call_soon(later.resolve, 17)
    assert await later == 17
    assert await later == 17


@on_a_loop
async def test_error_is_raised_where_a_deferred_is_awaited() -> None:
    failing: Deferred[int] = Deferred()
    asyncio.get_running_loop().call_soon(failing.resolve, TopicNotFound("there is none"))
    with pytest.raises(TopicNotFound):
        await failing


@on_a_loop
async def test_result_after_a_cancellation_is_dropped() -> None:
    gone: Deferred[int] = Deferred()
    assert gone.cancel()
    gone.resolve(1)
    assert not gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        gone.result()


@on_a_loop
async def test_task_that_waits_for_a_deferred_can_be_cancelled() -> None:
    waits: Deferred[int] = Deferred()

    async def wait() -> int:
        return await waits

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@on_a_loop
async def test_handlers_of_a_turn_run_before_any_of_them_is_answered() -> None:
    turn, order = new_turn(), list[str]()

    async def handle(name: str) -> None:
        order.append(f"run {name}")
        turn.follow(lambda: order.append(f"follow {name}"))

    runs = [HandlerRun(handle(name), turn) for name in "ab"]
    for run, name in zip(runs, "ab", strict=True):
        run.then(lambda _, name=name: order.append(f"answer {name}"))  # type: ignore[misc]
    assert order == []
    await asyncio.sleep(0)
    assert order == ["run a", "run b", "follow a", "follow b", "answer a", "answer b"]


@on_a_loop
async def test_handler_without_a_wait_for_others_has_no_task() -> None:
    turn, stored = new_turn(), Deferred[int]()

    async def handle() -> tuple[int, bool]:
        return await stored, asyncio.current_task() is None

    run = HandlerRun(handle(), turn)
    turn.follow(lambda: stored.resolve(3))
    await ended(run)
    assert run.result() == (3, True)


@on_a_loop
async def test_handler_that_waits_for_a_thread_goes_on_in_a_task() -> None:
    turn, stored = new_turn(), Deferred[int]()

    async def handle() -> int:
        found = await asyncio.to_thread(lambda: 4)
        async with asyncio.timeout(10):
            await asyncio.sleep(0)
        turn.follow(lambda: stored.resolve(found))
        return await stored

    run = HandlerRun(handle(), turn)
    await ended(run)
    assert run.result() == 4


@pytest.mark.parametrize("place", ["before it runs", "in a deferred", "when that is done", "in a task"])
def test_cancelled_handler_cleans_up(place: str) -> None:
    async def test() -> None:
        turn, stored, seen = new_turn(), Deferred[int](), list[str]()

        async def handle() -> None:
            seen.append("begun")
            try:
                await (asyncio.Event().wait() if place == "in a task" else stored)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        run = HandlerRun(handle(), turn)
        if place != "before it runs":
            await asyncio.sleep(0)
        if place == "in a task":
            await asyncio.sleep(0)
        if place == "when that is done":
            stored.resolve(1)
        assert run.cancel()
        await ended(run)
        with pytest.raises(asyncio.CancelledError):
            run.result()
        assert seen == ([] if place == "before it runs" else ["begun", "cancelled"])

    uvloop.run(asyncio.wait_for(test(), 30))


@on_a_loop
async def test_handler_cleans_up_when_its_task_is_cancelled_before_the_first_step() -> None:
    turn, steps, thread = new_turn(), list[str](), asyncio.get_running_loop().create_future()

    async def handler() -> None:
        try:
            await thread
        finally:
            steps.append("cleaned up")

    run = HandlerRun(handler(), turn)
    turn._run()  # which makes the task
    assert run.cancel()
    await ended(run)
    assert steps == ["cleaned up"]


@on_a_loop
async def test_cancelled_handler_may_wait_while_it_cleans_up() -> None:
    turn, stored, returned, steps = new_turn(), Deferred[int](), Deferred[int](), list[str]()

    async def handle() -> None:
        try:
            await stored
        finally:
            await returned
            steps.append("cleaned up")

    run = HandlerRun(handle(), turn)
    await asyncio.sleep(0)
    stored.resolve(1)
    assert run.cancel()  # while it is about to continue
    await asyncio.sleep(0)
    returned.resolve(2)
    await ended(run)
    assert steps == ["cleaned up"]


@on_a_loop
async def test_mistake_in_one_answer_leaves_the_others() -> None:
    turn, mistakes, told = new_turn(), list[BaseException](), list[int]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: mistakes.append(context["exception"]))

    async def handle() -> None: ...

    first, second = HandlerRun(handle(), turn), HandlerRun(handle(), turn)
    first.then(lambda _: 1 / 0)  # type: ignore[arg-type]
    second.then(lambda _: told.append(2))
    await ended(HandlerRun(handle(), turn))
    assert [type(mistake) for mistake in mistakes] == [ZeroDivisionError]
    assert told == [2]
