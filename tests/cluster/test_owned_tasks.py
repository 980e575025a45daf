"""Tasks and timers of a node whose defects end its process."""

import asyncio

from goqueue.cluster.messages import Vote
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.votes import Votes


async def break_down() -> None:
    raise KeyError("a defect")


def test_defect_in_a_task_is_told() -> None:
    async def main() -> None:
        failed = asyncio.Event()
        OwnedTasks("a test", failed.set).run(break_down())
        async with asyncio.timeout(10):
            await failed.wait()

    asyncio.run(main())


def test_defect_in_a_timer_is_told() -> None:
    def call() -> None:
        raise KeyError("a defect")

    async def main() -> None:
        for seconds in (0, None):
            failed = asyncio.Event()
            tasks = OwnedTasks("a test", failed.set)
            tasks.call_soon(call) if seconds is None else tasks.call_later(seconds, call)
            async with asyncio.timeout(10):
                await failed.wait()

    asyncio.run(main())


def test_defect_in_the_writing_of_a_vote_is_told() -> None:
    class Notes:
        def save_vote(self, vote: Vote) -> None:
            raise KeyError(f"a defect in {vote}")

    async def main() -> None:
        failed = asyncio.Event()
        votes = Votes(None, Notes(), failed.set)  # type: ignore[arg-type]
        votes.save(Vote(1))
        async with asyncio.timeout(10):
            await failed.wait()
        await votes.stop()

    asyncio.run(main())


def test_stop_ends_tasks_that_were_begun_meanwhile_and_tells_nothing() -> None:
    async def main() -> list[str]:
        told: list[str] = []
        tasks = OwnedTasks("a test", lambda: told.append("failed"))

        async def begin_another() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                tasks.run(wait_forever())

        async def wait_forever() -> None:
            await asyncio.Event().wait()

        tasks.run(begin_another())
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await tasks.stop()
        return told

    assert asyncio.run(main()) == []
