"""Requests of a node to the controller, wherever that is."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from goqueue.cluster.controller_requests import ControllerAnswer, ControllerRequest
from goqueue.cluster.formation import ClusterNote
from goqueue.cluster.level_checks import refuse_later_request
from goqueue.cluster.messages import NodeIdentity
from goqueue.cluster.peer_messages import Answered, Ask
from goqueue.cluster.refusals import error_of, refusal_of
from goqueue.errors import ControllerMoved, ControllerUnavailable, GoQueueError
from goqueue.events import Signal
from goqueue.limits import CLUSTER_ASK_SECONDS
from goqueue.runtime.cluster.cluster_log import ClusterLog
from goqueue.runtime.cluster.controller_runner import ControllerRunner
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import MessageHandler, PeerLink
from goqueue.runtime.cluster.peer_network import PeerNetwork

_LEADERLESS_SECONDS = 2.5
"""Until a request is refused for want of a controller: more than an election takes."""
_PAUSE_SECONDS = 0.05
"""Before a node that is not yet the controller is asked again."""


class AskingNode(Protocol):
    """The part of a node of the cluster that asks."""

    note: ClusterNote
    log: ClusterLog
    network: PeerNetwork
    office: ControllerRunner
    changed: asyncio.Event
    handlers: dict[type, MessageHandler]
    on_disconnected: Signal[[str]]

    @property
    def voters(self) -> frozenset[NodeIdentity]: ...

    @property
    def controller(self) -> NodeIdentity | None: ...


class ControllerClient:
    """Asks, and answers the requests of others while this node is the controller."""

    def __init__(self, member: AskingNode, failed: Callable[[], None]) -> None:
        """`failed` is called after a defect."""
        self._member = member
        self._number = 0
        self._waiting: dict[int, tuple[str, asyncio.Future[ControllerAnswer]]] = {}
        """The node that was asked, and the answer."""
        self._run = OwnedTasks("an answer of the controller", failed).run
        member.handlers[Ask] = member.handlers[Answered] = self._received
        member.on_disconnected.subscribe(self._ended)

    async def ask(self, request: ControllerRequest, seconds: float = CLUSTER_ASK_SECONDS) -> ControllerAnswer:
        """Return the answer when the records are applied here.

        Raises what the controller refuses, or ClusterChangeRefused if not all nodes know such a request yet;
        ControllerUnavailable if there was none, so nothing has happened;
        ControllerMoved if it stopped meanwhile or did not answer: then the outcome is unknown.
        """
        member, is_sent = self._member, False
        refuse_later_request(member.log.state, request)
        loop = asyncio.get_running_loop()
        until = loop.time() + _LEADERLESS_SECONDS
        try:
            async with asyncio.timeout(seconds):
                while True:
                    controller = member.controller
                    refusal = self._no_controller()
                    if controller is not None:
                        try:
                            is_sent = True
                            answer = await self._ask(controller, request)
                            break
                        except ControllerUnavailable as error:
                            refusal = error
                    is_sent = False
                    if loop.time() > until:
                        raise refusal
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_PAUSE_SECONDS):
                            await member.changed.wait()
                while member.log.applied_end < answer.version:
                    await member.changed.wait()
        except TimeoutError:
            if is_sent:
                raise _unknown(f"the controller did not answer within {seconds:g} s") from None
            raise self._no_controller() from None
        return answer

    def _no_controller(self) -> ControllerUnavailable:
        voters, links = self._member.voters, self._member.network.links
        connected = sum(one == self._member.note.me or one.node in links for one in voters)
        return ControllerUnavailable(
            f"the cluster has no controller, so nothing was changed: {connected} of {len(voters)} voters are connected"
            f" with node {self._member.note.me.node}",
            hint="start the nodes that are missing: `goqueue-cli cluster nodes` shows them",
            retry_after=1,
        )

    async def _ask(self, controller: NodeIdentity, request: ControllerRequest) -> ControllerAnswer:
        member = self._member
        if controller == member.note.me:
            return await member.office.decide(request)
        link = member.network.links.get(controller.node)
        if link is None:
            raise ControllerUnavailable(f"node {controller.node} is not connected")
        self._number += 1
        number = self._number
        answer: asyncio.Future[ControllerAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = controller.node, answer
        try:
            link.send(Ask(number, request))
            return await answer
        finally:
            del self._waiting[number]

    def _received(self, link: PeerLink, message: Ask | Answered) -> None:
        if isinstance(message, Ask):
            self._run(self._answer(link, message))
            return
        _, answer = self._waiting.get(message.number, (None, None))
        if answer is None or answer.done():
            return
        if message.answer is not None:
            answer.set_result(message.answer)
        elif message.refusal is not None:
            answer.set_exception(error_of(message.refusal))

    async def _answer(self, link: PeerLink, asked: Ask) -> None:
        try:
            answered = Answered(asked.number, await self._member.office.decide(asked.request))
        except GoQueueError as error:
            answered = Answered(asked.number, None, refusal_of(error))
        link.send(answered)

    def _ended(self, node: str) -> None:
        """Handle the end of a connection."""
        for asked, answer in list(self._waiting.values()):
            if asked == node and not answer.done():
                answer.set_exception(_unknown(f"the connection with node {node} ended"))


def _unknown(why: str) -> ControllerMoved:
    return ControllerMoved(f"{why}: whether the change was made is unknown", hint="look at the topic, and try again")
