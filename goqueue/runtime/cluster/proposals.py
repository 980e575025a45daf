"""Records that a controller has appended, and the callers that wait until they are committed."""

import asyncio
from collections import deque

from goqueue.errors import ControllerMoved


class Proposals:
    """Callers in the order of their records."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._waiting: deque[tuple[int, asyncio.Future[int]]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, end: int) -> "asyncio.Future[int]":
        """Return a future for this end of the log, which is kept when everything below it is committed."""
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((end, answer))
        return answer

    def commit(self, end: int) -> None:
        while self._waiting and self._waiting[0][0] <= end:
            proposed, answer = self._waiting.popleft()
            if not answer.done():
                answer.set_result(proposed)

    def refuse(self) -> None:
        """Answer all: the node is not the controller any more, and its records may be kept or lost."""
        waiting, self._waiting = self._waiting, deque()
        for _, answer in waiting:
            if not answer.done():
                answer.set_exception(
                    ControllerMoved(
                        f"node {self._node} stopped being the controller: whether the record counts is unknown",
                        hint="look at `goqueue-cli cluster nodes`, and try again if it is missing",
                    )
                )


def forget(answer: "asyncio.Future[int]") -> None:
    """Let the result go: it is tried again until its record is there."""
    answer.add_done_callback(lambda done: done.cancelled() or done.exception())
