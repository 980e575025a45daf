"""The votes of a node: written on a thread of its own, and answered to candidates that ask over HTTP."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from goqueue.cluster.messages import NodeIdentity, Vote, VoteAnswer, VoteRequest
from goqueue.cluster.raft import Raft
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.notes import NodeNotes
from goqueue.runtime.cluster.owned_tasks import OwnedTasks


class VotingNode(Protocol):
    """The part of a node of the cluster that votes."""

    raft: Raft | None

    def now(self) -> int: ...

    def work(self) -> None: ...

    def fail(self, error: GoQueueError) -> None: ...


class Votes:
    def __init__(self, member: VotingNode, notes: NodeNotes, failed: Callable[[], None]) -> None:
        """`failed` is called after a defect."""
        self._member = member
        self._tasks = OwnedTasks("writing a vote", failed)
        self._notes = notes
        self._threads = ThreadPoolExecutor(1, "goqueue-vote")
        self._waiting: dict[NodeIdentity, list[asyncio.Future[VoteAnswer]]] = {}
        """Callers that ask for a candidate which is not connected."""

    async def stop(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)
        await self._tasks.stop()

    def save(self, vote: Vote) -> None:
        """Write a vote; the core continues when it is on the device."""
        self._tasks.run(self._save(vote))

    async def _save(self, vote: Vote) -> None:
        member = self._member
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._notes.save_vote, vote)
        except GoQueueError as error:
            if member.raft is not None:
                member.fail(error)
            return
        if member.raft is not None:
            member.raft.vote_saved(vote, member.now())
            member.work()

    def ask(self, candidate: NodeIdentity, asked: VoteRequest) -> "asyncio.Future[VoteAnswer]":
        """Return the answer for a candidate that is not connected, once it may leave."""
        member = self._member
        assert member.raft is not None, "only a voter is asked"
        answer: asyncio.Future[VoteAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(candidate, []).append(answer)
        member.raft.receive(candidate, asked, member.now())
        member.work()
        return answer

    def answer(self, candidate: NodeIdentity, message: VoteAnswer) -> bool:
        """Answer the callers that wait for this candidate; return whether there are any."""
        waiting = self._waiting.pop(candidate, [])
        for answer in waiting:
            if not answer.done():
                answer.set_result(message)
        return bool(waiting)
