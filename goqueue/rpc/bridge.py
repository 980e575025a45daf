"""The way from the listener's thread to the pipeline on the broker's loop, and back.

Requests that gather are taken in one turn of the broker's loop, and their answers are returned in one turn of the
listener's: a wake-up of the other thread costs more than a request. What must stay true: the pipeline, the totals of
the server's state and its observer are used by the broker's thread alone.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from goqueue.api.http.error_responses import INTERNAL_ERROR, error_response
from goqueue.api.http.message import ENDS_WITH_ITS_CLIENT, HttpRequest, HttpResponse, RequestHandler
from goqueue.api.http.server_state import ServerState
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import HTTP_COALESCED_BYTES, RPC_JOBS_PER_TURN
from goqueue.runtime.deferred import Deferred


class Mailbox:
    """Jobs for another thread's loop, done in their order, many in one turn. Any thread may add some."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._is_waking = False

    def add(self, job: Callable[..., None], *given: Any) -> None:
        self._jobs.append((job, given))
        if not self._is_waking:
            self._is_waking = True
            self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        for _ in range(RPC_JOBS_PER_TURN):
            if not self._jobs:
                self._is_waking = False
                if self._jobs:  # added just before, by a thread that saw it set
                    break
                return
            job, given = self._jobs.popleft()
            job(*given)
        self._is_waking = True
        self._loop.call_soon(self._run)  # the loop's other work comes first


class Exchange:
    """One request on its way."""

    __slots__ = ("answer", "held_bytes", "pending", "request")

    def __init__(self, request: HttpRequest, answer: "asyncio.Future[HttpResponse]") -> None:
        self.request = request
        self.answer = answer
        """Belongs to the loop of the listener."""
        self.pending: asyncio.Future[HttpResponse] | Deferred[HttpResponse] | None = None
        """Belongs to the loop of the broker."""
        self.held_bytes = 0
        """The size of a large answer that the client has not taken."""


class LoopBridge:
    """Asks the pipeline for the calls of one listener. `ask` is for the listener's thread."""

    exchange_type: type[Exchange] = Exchange

    def __init__(
        self,
        handle: RequestHandler,
        state: ServerState,
        broker_loop: asyncio.AbstractEventLoop,
        listener_loop: asyncio.AbstractEventLoop,
        *,
        has_certificates: bool,
    ) -> None:
        self.has_certificates = has_certificates
        """Whether clients may present certificates."""
        self.state = state
        self._handle = handle
        self._broker_loop = broker_loop
        self._listener_loop = listener_loop
        self._to_broker = Mailbox(broker_loop)
        self._to_listener = Mailbox(listener_loop)

    async def ask(self, request: HttpRequest) -> tuple[HttpResponse, Exchange]:
        """Return the response. The caller calls `release` when it has no use for the exchange any more."""
        exchange = self.exchange_type(request, self._listener_loop.create_future())
        self._to_broker.add(self._begin, exchange)
        try:
            return await exchange.answer, exchange
        except asyncio.CancelledError:
            self._to_broker.add(self._abandon, exchange)
            raise

    def release(self, exchange: Exchange) -> None:
        """Stop counting the memory of an answer: the client has taken it, or has left."""
        if exchange.held_bytes:
            self._to_broker.add(self._released, exchange)

    def begin_call(self, peer: str) -> None:
        """Called when a call of a client begins."""

    def end_call(self, peer: str) -> None:
        """Called when a call of a client ends."""

    # --- on the broker's loop ---

    def _begin(self, exchange: Exchange) -> None:
        state, request = self.state, exchange.request
        request.weight = request.weight or len(request.body)
        state.held_bytes += request.weight
        try:
            state.check_body(request.weight, held=0)
            answer = self._handle(request)
        except GoQueueError as error:
            self._finish(exchange, error_response(error.without_tracebacks()))
        except Exception as error:
            self._finish(exchange, self._internal_error(request, error))
        else:
            if isinstance(answer, HttpResponse):
                self._finish(exchange, answer)
            elif isinstance(answer, Deferred):
                exchange.pending = answer
                answer.then(lambda ended: self._end(exchange, ended))
            else:
                exchange.pending = asyncio.ensure_future(answer, loop=self._broker_loop)
                exchange.pending.add_done_callback(lambda ended: self._end(exchange, ended))

    def _end(self, exchange: Exchange, ended: "asyncio.Future[HttpResponse] | Deferred[HttpResponse]") -> None:
        exchange.pending = None
        try:
            response = ended.result()
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and exchange.answer.cancelled():
                self._count_abandoned(exchange)
                return
            response = self._internal_error(exchange.request, error)
        self._finish(exchange, response)

    def _finish(self, exchange: Exchange, response: HttpResponse) -> None:
        state, request = self.state, exchange.request
        state.held_bytes -= request.weight
        body = response.body
        size = len(body) if isinstance(body, bytes) else sum(map(len, body))
        if size > HTTP_COALESCED_BYTES:
            try:
                self._hold_answer(exchange, response, size)
            except GoQueueError as error:
                response = error_response(error.without_tracebacks())
        state.observer.answered(request, response, (state.monotonic_ns() - request.began_ns) / NANOSECONDS)
        self._to_listener.add(self._deliver, exchange, response)

    def _hold_answer(self, exchange: Exchange, response: HttpResponse, size: int) -> None:
        """Count the memory of a large answer. Raises BrokerOverloaded."""
        self.state.check_answer(size, is_essential=response.is_essential)
        exchange.held_bytes = size
        self.state.answer_bytes += size

    def _released(self, exchange: Exchange) -> None:
        self.state.answer_bytes -= exchange.held_bytes
        exchange.held_bytes = 0

    def _abandon(self, exchange: Exchange) -> None:
        """End what only the client that left wanted. A request that changes something is completed."""
        if exchange.pending is not None and exchange.request.method in ENDS_WITH_ITS_CLIENT:
            exchange.pending.cancel()

    def _count_abandoned(self, exchange: Exchange) -> None:
        self.state.held_bytes -= exchange.request.weight
        self.state.observer.refused("client_gone")

    def _internal_error(self, request: HttpRequest, error: BaseException) -> HttpResponse:
        message = f"the handler of {request.method} {request.path} failed, request {request.id}"
        self._broker_loop.call_exception_handler({"message": message, "exception": error})
        return INTERNAL_ERROR

    # --- on the listener's loop ---

    def _deliver(self, exchange: Exchange, response: HttpResponse) -> None:
        if exchange.answer.done():
            self.release(exchange)  # its client has left
        else:
            exchange.answer.set_result(response)
