"""The votes of a node: written on a thread of its own, and answered to candidates that ask over HTTP."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from goqueue.cluster.messages import NodeIdentity, Vote, VoteAnswer, VoteRequest
from goqueue.cluster.raft import Raft
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.notes import NodeNotes


class VotingNode(Protocol):
    """The part of a node of the cluster that votes."""

    raft: Raft | None

    def now(self) -> int: ...

    def work(self) -> None: ...

    def fail(self, error: GoQueueError) -> None: ...


class Votes:
    def __init__(self, member: VotingNode, notes: NodeNotes) -> None:
        self._member = member
        self._notes = notes
        self._threads = ThreadPoolExecutor(1, "goqueue-vote")
        self._waiting: dict[NodeIdentity, list[asyncio.Future[VoteAnswer]]] = {}
        """Callers that ask for a candidate which is not connected."""

    def close(self) -> None:
        self._threads.shutdown()

    def save(self, vote: Vote) -> None:
        """Write a vote; the core continues when it is on the device."""
        saving = asyncio.get_running_loop().run_in_executor(self._threads, partial(self._notes.save_vote, vote))
        saving.add_done_callback(partial(self._saved, vote))

    def _saved(self, vote: Vote, saving: "asyncio.Future[None]") -> None:
        member = self._member
        if saving.cancelled() or member.raft is None:
            return
        error = saving.exception()
        if isinstance(error, GoQueueError):
            member.fail(error)
        elif error is not None:
            raise error
        else:
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
