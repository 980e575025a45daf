"""Requests that the leader of a followed log answers, at whichever node of a cluster they arrive.

A change is forwarded to the leader, and answered here when this node has applied it, so that its sender can read what
it wrote. The answer comes when the other nodes in reach have applied it too. What a question does not find here may be
newer than this node knows: the leader is asked then.
"""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Protocol

from goqueue.api.http.message import HttpRequest, HttpResponse, RequestHandler
from goqueue.cluster.peer_messages import Forward, Forwarded
from goqueue.errors import BrokerUnreachable, LeadershipLost, LeaderUnavailable
from goqueue.runtime.cluster.followed_logs import FollowedLogs
from goqueue.runtime.cluster.journal_follower import JournalFollower
from goqueue.runtime.cluster.node_requests import NodeRequests
from goqueue.security.client_certificates import ClientCertificate

_LEADERLESS_SECONDS = 3.0
"""Until a request is refused for want of a leader: more than an election takes."""
_LOOK_SECONDS = 0.25
"""Between two looks at who leads."""
_ANSWER_SECONDS = 10.0
_REACH_SECONDS = 2.0
"""For this node to apply what the leader has committed."""
_MISDIRECTED = 421
_HERE = ("connection", "content-length", "expect", "host", "origin", "transfer-encoding", "upgrade")
"""Headers that are about the connection of the client, or that its node has checked."""


class LedRow(Protocol):
    """The part of a row of the table that is needed here."""

    @property
    def method(self) -> str: ...

    @property
    def led(self) -> str: ...

    @property
    def is_repeatable(self) -> bool: ...


class LedRequests:
    """Finds the leaders for requests of this node, and answers those of others."""

    def __init__(self, logs: FollowedLogs, requests: NodeRequests, answer: RequestHandler) -> None:
        """`answer` answers a request here."""
        self.logs = logs
        self._requests = requests
        self._answer_here = answer
        self._loop = asyncio.get_running_loop()
        requests.serve(Forward, Forwarded, self._on_forward)

    # --- for clients of this node ---

    def refuse_unless_led(self, topic: str) -> None:
        """Raise if changes of this log are made at another node."""
        if self.logs.is_forwarded(topic) and not self.logs[topic].is_led:
            raise self.logs[topic].refusal()

    async def change(
        self, row: LedRow, request: HttpRequest, here: Callable[[], Awaitable[HttpResponse]]
    ) -> HttpResponse:
        """Return the answer of the leader, which is `here` if this node leads."""
        log, until = self.logs[row.led], self._loop.time() + _LEADERLESS_SECONDS
        while True:
            if not self.logs.is_forwarded(row.led) or request.is_forwarded:
                return await here()
            if log.is_led:
                response = await here()
                if response.status != _MISDIRECTED:
                    await self.logs.others_know(row.led)
                    return response
            elif self.logs.may_ask_others and self._requests.reaches(log.leader):
                answer = await self._forward(row, request, log)
                if answer is not None:
                    return answer
            if not self.logs.may_ask_others:
                raise log.refusal()
            if self._loop.time() > until:
                raise log.unknown_here()
            await self._wait(log)

    async def _wait(self, log: JournalFollower) -> None:
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                await log.moved.wait()
        except TimeoutError:
            return

    async def _forward(self, row: LedRow, request: HttpRequest, log: JournalFollower) -> HttpResponse | None:
        """Return the answer of the node that leads now; None if nothing was done, or it can be done again."""
        leader = log.leader
        answer = self._ask(leader, row.led, request)
        until = self._loop.time() + _ANSWER_SECONDS
        while not answer.done():
            await asyncio.wait({answer}, timeout=_LOOK_SECONDS)
            if not answer.done() and (log.leader != leader or self._loop.time() > until):
                answer.cancel()
                _refuse_to_repeat(row, f"node {leader}, which led {row.led}, does not answer")
                return None
        try:
            forwarded: Forwarded = answer.result()
        except BrokerUnreachable as error:
            _refuse_to_repeat(row, error.sentence)
            return None
        if forwarded.status in (0, _MISDIRECTED):
            return None
        await log.reach(forwarded.end, _REACH_SECONDS)
        return _response(forwarded)

    async def look_up(self, row: LedRow, request: HttpRequest) -> HttpResponse | None:
        """Return the leader's answer to a question that found nothing here; None if this answer counts.

        Raises LeaderUnavailable if no leader can be asked: there may be something that this node does not know.
        """
        log = self.logs[row.led]
        if not self.logs.is_forwarded(row.led) or (self.logs.knows_cluster and not self.logs.may_ask_others):
            return None
        if log.is_led:
            log.refuse_unless_newest()
            return None
        answer: asyncio.Future[Forwarded] | None = None
        if not request.is_forwarded and self._requests.reaches(log.leader):
            answer = self._ask(log.leader, row.led, request)
            await asyncio.wait({answer}, timeout=_REACH_SECONDS)
            if answer.done() and answer.exception() is None and answer.result().status not in (0, _MISDIRECTED):
                return _response(answer.result())
            answer.cancel()
        raise log.unknown_here()

    async def catch_up(self, topic: str) -> bool:
        """Apply what the leader of a log has committed; return whether there was more to know."""
        log = self.logs[topic]
        before = log.end
        request = HttpRequest("GET", "", "", {}, bytearray(), "", "", 0)
        if not self.logs.may_ask_others or log.is_led or not self._requests.reaches(log.leader):
            return False
        answer = self._ask(log.leader, topic, request)
        await asyncio.wait({answer}, timeout=_REACH_SECONDS)
        if not answer.done():
            answer.cancel()
        elif answer.exception() is None:
            await log.reach(answer.result().end, _REACH_SECONDS)
        return log.end != before

    def _ask(self, node: str, topic: str, request: HttpRequest) -> "asyncio.Future[Forwarded]":
        return self._requests.ask(node, lambda number: _forward_of(number, topic, request))

    # --- for other nodes ---

    async def ask_node(self, node: str, request: HttpRequest, seconds: float = _REACH_SECONDS) -> HttpResponse:
        """Return the answer of a node to the request of a client. Raises BrokerUnreachable and RequestTimedOut, and
        LeaderUnavailable while not all nodes know the question.
        """
        if not self.logs.may_ask_others:
            raise LeaderUnavailable(
                f"node {node} cannot be asked before all nodes of the cluster have this version",
                hint="ask that node itself, or upgrade the others",
                retry_after=1,
            )
        answer = await self._requests.ask_within(seconds, node, lambda number: _forward_of(number, "", request))
        return _response(answer)

    async def _on_forward(self, asked: Forward) -> Forwarded:
        log = self.logs.get(asked.log)
        if log is not None and not log.is_led:
            return Forwarded(asked.number, 0)
        response = HttpResponse(200)
        if asked.path:
            found = self._answer_here(_request_of(asked, self._loop.time()))
            response = await found if isawaitable(found) else found
            if log is not None and asked.method != "GET":
                await self.logs.others_know(asked.log)
        body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
        end = 0 if log is None else log.end
        return Forwarded(asked.number, response.status, response.content_type, response.headers, body, end)


def _refuse_to_repeat(row: LedRow, why: str) -> None:
    """Raise if a request must not be sent again without knowing whether it was done."""
    if not row.is_repeatable:
        raise LeadershipLost(
            f"{why}: whether the change was made is unknown",
            hint="look whether it was, and try again",
            retry_after=1,
        )


def _forward_of(number: int, log: str, request: HttpRequest) -> Forward:
    headers = {name: value for name, value in request.headers.items() if name not in _HERE}
    certificate = None if request.certificate is None else (request.certificate.names, request.certificate.expires_ns)
    return Forward(
        number, log, request.method, request.path, request.query, headers, bytes(request.body), request.id,
        request.peer, certificate,
    )  # fmt: skip


def _request_of(asked: Forward, seconds: float) -> HttpRequest:
    return HttpRequest(
        asked.method, asked.path, asked.query, dict(asked.headers), bytearray(asked.body), asked.id, asked.peer,
        int(seconds * 1_000_000_000),
        certificate=None if asked.certificate is None else ClientCertificate(*asked.certificate),
        is_forwarded=True,
    )  # fmt: skip


def _response(answer: Forwarded) -> HttpResponse:
    return HttpResponse(answer.status, answer.body, answer.content_type, tuple(map(tuple, answer.headers)))  # type: ignore[arg-type]
