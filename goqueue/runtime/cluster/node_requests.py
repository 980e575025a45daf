"""Numbered questions of a node to other nodes, and their answers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Protocol, TypeVar

from goqueue.cluster.peer_messages import AnyMessage
from goqueue.errors import BrokerUnreachable, GoQueueError, RequestTimedOut
from goqueue.events import Signal
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import MessageHandler, PeerLink
from goqueue.runtime.cluster.peer_network import PeerNetwork

_log = logging.getLogger("goqueue.cluster")

Question = TypeVar("Question", bound=AnyMessage)


class AskedNode(Protocol):
    """The part of a node of the cluster that is needed here."""

    network: PeerNetwork
    handlers: dict[type, MessageHandler]
    on_disconnected: Signal[[str]]


class NodeRequests:
    """The questions of one node. Created on the loop."""

    def __init__(self, member: AskedNode, failed: Callable[[], None]) -> None:
        """`failed` is called after a defect."""
        self._member = member
        self._numbers = count(1)
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        """The node that was asked, and the answer."""
        self._tasks = OwnedTasks("an answer to another node", failed)
        member.on_disconnected.subscribe(self._on_disconnected)

    def serve(
        self, question: type[Question], answer: type[AnyMessage], find: Callable[[Question], Awaitable[AnyMessage]]
    ) -> None:
        """Answer a kind of question with what `find` returns, which has the number of the question."""

        async def reply(link: PeerLink, asked: Question) -> None:
            try:
                link.send(await find(asked))
            except GoQueueError as error:  # such as a damaged log; who asked asks again, or another node
                _log.warning("node %s gets no answer to what it asked: %s", link.node, error)

        def answer_soon(link: PeerLink, asked: Question) -> None:
            self._tasks.run(reply(link, asked))

        self._member.handlers[question] = answer_soon
        self._member.handlers[answer] = self._on_answer

    def reaches(self, node: str) -> bool:
        """Return whether a question can be sent to a node now."""
        return node in self._member.network.links

    async def stop(self) -> None:
        await self._tasks.stop()

    def ask(self, node: str, question: Callable[[int], AnyMessage]) -> "asyncio.Future[Any]":
        """Send the question that this makes of a number. The answer may be BrokerUnreachable: then its outcome is
        unknown.
        """
        number, answer = next(self._numbers), asyncio.get_running_loop().create_future()
        link = self._member.network.links.get(node)
        if link is None:
            answer.set_exception(_unreachable(node))
            return answer
        self._waiting[number] = node, answer
        answer.add_done_callback(lambda _: self._waiting.pop(number, None))
        link.send(question(number))
        return answer

    async def ask_within(self, seconds: float, node: str, question: Callable[[int], AnyMessage]) -> Any:
        """Return the answer. Raises BrokerUnreachable, and RequestTimedOut."""
        try:
            async with asyncio.timeout(seconds):
                return await self.ask(node, question)
        except TimeoutError:
            raise RequestTimedOut(f"node {node} did not answer within {seconds:g} s") from None

    def _on_answer(self, link: PeerLink, message: Any) -> None:
        node, answer = self._waiting.get(message.number, ("", None))
        if answer is not None and node == link.node and not answer.done():
            answer.set_result(message)

    def _on_disconnected(self, node: str) -> None:
        for asked, answer in list(self._waiting.values()):
            if asked == node and not answer.done():
                answer.set_exception(_unreachable(node))


def _unreachable(node: str) -> BrokerUnreachable:
    return BrokerUnreachable(f"node {node} cannot be reached", hint="look at `goqueue-cli cluster nodes`")
