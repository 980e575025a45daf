"""One client: its requests are answered in the order they came, and each thing it does has its time.

    state      the client                      ends with
    OPEN       asks and is answered            the last answer: DRAINING behind a refusal, else CLOSING
    DRAINING   may still be sending; what      its own end, or what is enough of bytes or seconds: CLOSING
               comes is thrown away
    CLOSING    has yet to take what is left    nothing left, or what is enough of seconds: CLOSED
    CLOSED     has left

What comes in an open connection is read by its `Intake`, which has phases of its own. There is no timer: a
deadline is a number, and the server's sweep looks for those that have passed.
"""

import asyncio
from enum import Enum, auto
from typing import cast

from goqueue.api.http.answer import CONTINUE, wire
from goqueue.api.http.desk import Desk
from goqueue.api.http.intake import Intake, Phase
from goqueue.api.http.message import Request, Response
from goqueue.api.status import FAULT, refusal
from goqueue.clock import NANOSECONDS
from goqueue.errors import BrokerOverloaded
from goqueue.limits import HTTP_SLICE_BYTES, HTTP_WRITE_BUFFER_BYTES


class State(Enum):
    OPEN = auto()
    DRAINING = auto()
    CLOSING = auto()
    CLOSED = auto()


OPEN, DRAINING, CLOSING, CLOSED = State
WAITING, HEAD, BODY, ENDED = Phase

LIFE: dict[State, frozenset[State]] = {
    OPEN: frozenset({DRAINING, CLOSING, CLOSED}),
    DRAINING: frozenset({CLOSING, CLOSED}),
    CLOSING: frozenset({CLOSED}),
    CLOSED: frozenset(),
}

NEVER_NS = 2**63
"""The deadline of who waits for us."""

ENDS_WITH_ITS_CLIENT = frozenset({"GET", "HEAD"})
"""Nobody is there to read, so there is nothing to read for. What changes something is carried through."""


class Connection(asyncio.Protocol):
    """Owned by its transport; known to the server through its desk."""

    __slots__ = (
        "_answer_bytes", "_answering", "_desk", "_discarded_bytes", "_half_closed", "_intake", "_loop", "_monotonic_ns",
        "_paused", "_pending", "_pipelined", "_state", "_transport", "_unread", "_unsent_bytes",
        "_writable", "deadline_ns",
    )  # fmt: skip

    _intake: Intake
    _transport: asyncio.Transport
    _answering: Request

    def __init__(self, desk: Desk) -> None:
        assert desk.loop is not None, "the server has started"
        self._desk = desk
        self._loop = desk.loop
        self._monotonic_ns = desk.monotonic_ns
        self._pipelined = desk.limits.pipelined
        self._state = OPEN
        self._pending: asyncio.Future[Response] | None = None
        """What will answer the request `_answering`."""
        self._unread: memoryview | None = None
        """What has come and is not parsed yet, because enough requests wait already."""
        self._paused = False
        self._writable = True
        self._unsent_bytes = 0
        self._answer_bytes = 0
        """Of a large answer that the client has not taken as a whole: until then, the transport keeps all of it."""
        self._half_closed = False
        self._discarded_bytes = 0
        self.deadline_ns = NEVER_NS

    # --- what the transport calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        desk, limits = self._desk, self._desk.limits
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HTTP_WRITE_BUFFER_BYTES, 0)
        self._intake = Intake(desk, _peer_of(transport))
        desk.connections.add(self)
        desk.observer.connection_opened()
        count = len(desk.connections)
        if count > limits.connections + limits.connections_spare:
            desk.observer.refused(BrokerOverloaded.code)
            self.abort()
            return
        if count > limits.connections:
            sentence = f"the broker has {limits.connections:,} connections, which is all it takes"
            self._intake.refuse(BrokerOverloaded(sentence, hint="wait, then try again", retry_after=1))
        self._proceed()

    def data_received(self, data: bytes) -> None:
        if self._state is not OPEN or self._intake.phase is ENDED:
            self._discard(len(data))
        elif len(data) <= HTTP_SLICE_BYTES and self._unread is None:
            self._intake.feed(data, self._monotonic_ns())
            self._proceed()
        else:
            self._unread = memoryview(data if self._unread is None else bytes(self._unread) + data)
            self._proceed()

    def eof_received(self) -> bool:
        """Whether to stay for what is still to be answered, although the client will send no more."""
        self._half_closed = True
        if self._state is not OPEN:
            return False
        self._intake.end()
        self._forsake()
        if self._pending is None and not self._intake.requests:
            self._close()
            return False
        self._schedule(self._monotonic_ns())
        return self._transport.can_write_eof()  # TLS knows no half of a connection

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - a reset is an end like any other
        desk = self._desk
        self._enter(CLOSED, NEVER_NS)
        self._unread = None
        self._forsake()
        self._intake.close()
        self._release_answer()
        if self._pending is not None:
            desk.adrift.add(self._pending)
        desk.connections.discard(self)
        desk.observer.connection_closed()
        desk.check_emptied()

    def pause_writing(self) -> None:
        self._writable = False
        self._unsent_bytes = self._transport.get_write_buffer_size()
        self.deadline_ns = self._monotonic_ns() + self._desk.write_ns

    def resume_writing(self) -> None:
        self._writable = True
        self._release_answer()
        if self._state is OPEN:
            self._proceed()

    # --- what the server calls ---

    def expire(self, now_ns: int) -> None:
        """The deadline has passed."""
        if self._state is not OPEN:
            self.abort()
        elif not self._writable:
            self._look_after_reader(now_ns)
        elif self._intake.phase in {HEAD, BODY}:
            self._intake.time_out()
            self._proceed()
        else:
            self._close()

    def wind_up(self) -> None:
        """Leave as soon as nothing is in progress."""
        if self._state is OPEN and self._is_undecided:
            self._close()
        elif self._state is OPEN:
            self._proceed()

    @property
    def _is_undecided(self) -> bool:
        """Whether there is no more of a request than the beginning of its head, which may never become one."""
        return self._pending is None and not self._intake.requests and self._intake.phase is HEAD

    def abort(self) -> None:
        """Leave now."""
        if self._state is not CLOSING:
            self._enter(CLOSING, NEVER_NS)
        self._transport.abort()

    # --- answering ---

    def _proceed(self) -> None:
        """Answer what can be answered, read on where there is room, and see what comes next."""
        requests = self._intake.requests
        while True:
            while requests and self._pending is None and self._writable:
                self._handle(requests.popleft())
            if self._unread is None or not self._writable or len(requests) >= self._pipelined:
                break
            self._read_on(self._unread)
        if self._pending is None and not requests:
            self._rest()
        if self._state is OPEN:
            self._balance()
            self._schedule(self._monotonic_ns())

    def _handle(self, request: Request) -> None:
        try:
            answer = self._desk.handle(request)
            if not isinstance(answer, Response):
                self._pending = asyncio.ensure_future(answer, loop=self._loop)
                self._answering = request
                self._pending.add_done_callback(self._finish)
                return
        except Exception as error:
            answer = self._fault(request, error)
        self._answer(request, answer)

    def _finish(self, future: asyncio.Future[Response]) -> None:
        """A handler that took its time is done."""
        if self._pending is not future:
            return  # it was cancelled with its client
        request, self._pending = self._answering, None
        del self._answering  # its body may be large
        try:
            response = future.result()
        except (Exception, asyncio.CancelledError) as error:
            response = self._fault(request, error)
        if self._state is OPEN:
            self._answer(request, response)
            self._proceed()
        else:
            self._drop(request)
            self._desk.adrift.discard(future)
            self._desk.check_emptied()

    def _answer(self, request: Request, response: Response) -> None:
        desk = self._desk
        connection = "close" if desk.stopping and self._is_last() else request.connection
        without_body = request.method == "HEAD"
        try:
            answer = wire(response, request.id, connection, desk.date, without_body=without_body)
        except Exception as error:
            response = self._fault(request, error)
            answer = wire(response, request.id, connection, desk.date, without_body=without_body)
        if not isinstance(answer, bytes):
            try:
                desk.check_answer(sum(map(len, answer)), is_essential=response.is_essential)
            except BrokerOverloaded as error:
                response = refusal(error.without_frames())
                answer = wire(response, request.id, connection, desk.date, without_body=without_body)
        self._write(answer)
        desk.held_bytes -= request.weight
        desk.observer.answered(request, response, (self._monotonic_ns() - request.began_ns) / NANOSECONDS)

    def _write(self, answer: bytes | list[bytes | memoryview]) -> None:
        if isinstance(answer, bytes):
            self._transport.write(answer)
        else:
            self._transport.writelines(answer)
            if not self._writable:
                self._answer_bytes = sum(map(len, answer))
                self._desk.answer_bytes += self._answer_bytes

    def _release_answer(self) -> None:
        self._desk.answer_bytes -= self._answer_bytes
        self._answer_bytes = 0

    def _fault(self, request: Request, error: BaseException) -> Response:
        """A mistake of ours: the operator gets the traceback, the client an apology."""
        context = {
            "message": f"the handler of {request.method} {request.path} failed, request {request.id}",
            "exception": error,
        }
        self._loop.call_exception_handler(context | {"protocol": self, "transport": self._transport})
        return FAULT

    def _forsake(self) -> None:
        """The client has gone: what only it wanted to know is not looked for any longer."""
        if self._pending is not None and self._answering.method in ENDS_WITH_ITS_CLIENT:
            pending, self._pending = self._pending, None
            pending.cancel()
            self._drop(self._answering)
            del self._answering
            self._intake.abandon()

    def _drop(self, request: Request) -> None:
        """Nobody is there to be answered."""
        self._desk.held_bytes -= request.weight
        self._desk.observer.refused("client_gone")

    # --- reading ---

    def _read_on(self, unread: memoryview) -> None:
        intake = self._intake
        size = intake.appetite(len(unread))
        intake.feed(unread[:size], self._monotonic_ns())
        self._unread = unread[size:] if size < len(unread) and intake.phase is not ENDED else None

    def _balance(self) -> None:
        """Read from the client only while there is room."""
        full = not self._writable or self._unread is not None or len(self._intake.requests) >= self._pipelined
        if full is self._paused or self._half_closed:
            return
        self._paused = full
        if full:
            self._transport.pause_reading()
        else:
            self._intake.extend(self._monotonic_ns())
            self._transport.resume_reading()

    def _discard(self, size: int) -> None:
        """Throw away what comes behind the last request, but not without end."""
        self._discarded_bytes += size
        if self._discarded_bytes > self._desk.limits.drain_bytes and not self._paused:
            self._paused = True
            self._transport.pause_reading()
            if self._state is DRAINING:
                self._close()

    def _schedule(self, now_ns: int) -> None:
        """Set the deadline of an open connection."""
        intake = self._intake
        if not self._writable:
            return  # it was set when writing stopped
        if (intake.phase is HEAD or intake.phase is BODY) and not self._paused and not intake.expects_continue:
            self.deadline_ns = intake.deadline_ns
        elif self._pending is not None or intake.requests:
            self.deadline_ns = NEVER_NS
        else:
            self.deadline_ns = now_ns + self._desk.idle_ns

    def _look_after_reader(self, now_ns: int) -> None:
        """A slow reader may stay as long as it takes enough."""
        unsent = self._transport.get_write_buffer_size()
        if self._unsent_bytes - unsent >= self._desk.limits.write_step_bytes:
            self._unsent_bytes = unsent
            self.deadline_ns = now_ns + self._desk.write_ns
        else:
            self._desk.observer.refused("reader_too_slow")
            self.abort()

    # --- the end ---

    def _is_last(self) -> bool:
        """Whether nothing is in progress behind the request that is being answered."""
        intake = self._intake
        return intake.phase in {WAITING, ENDED} and not intake.requests and self._unread is None

    def _rest(self) -> None:
        """All that came has been answered: wait for more, tell the client to go on, or leave."""
        intake = self._intake
        if intake.phase is ENDED:
            self._leave()
        elif intake.expects_continue:
            intake.expects_continue = False
            intake.extend(self._monotonic_ns())
            self._transport.write(CONTINUE)
        elif self._desk.stopping and self._is_last():
            self._close()

    def _leave(self) -> None:
        """The last answer is given, or is the refusal that is still to be told."""
        error = self._intake.refusal
        if error is None:
            self._close()
            return
        without_body = self._intake.refused_method == "HEAD"
        self._write(wire(refusal(error), self._intake.refused_id, "close", self._desk.date, without_body=without_body))
        self._desk.observer.refused(error.code)
        if self._half_closed:
            self._close()
            return
        # To close at once would reset the connection under a client that is still sending, and with it the answer.
        self._enter(DRAINING, self._monotonic_ns() + self._desk.drain_ns)
        self._unread = None
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _close(self) -> None:
        """Close as soon as the client has taken what is written."""
        self._enter(CLOSING, self._monotonic_ns() + self._desk.write_ns)
        self._transport.close()

    def _enter(self, state: State, deadline_ns: int) -> None:
        assert state in LIFE[self._state], f"no way leads from {self._state} to {state}"
        self._state = state
        self.deadline_ns = deadline_ns


def _peer_of(transport: asyncio.BaseTransport) -> str:
    name = transport.get_extra_info("peername")
    if not isinstance(name, tuple):
        return ""
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
