"""The limits of a client, and what all connections of one server share: handler, limits, totals."""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.utils import formatdate
from itertools import count
from typing import Any, Protocol, Self

from goqueue import limits
from goqueue.api.http.message import HttpRequest, HttpResponse, RequestHandler
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import BrokerOverloaded, RequestTooLarge
from goqueue.limits import HTTP_ANSWERS_SHARE_HIGH, STALL_SECONDS
from goqueue.runtime.deferred import Deferred

STATE_KEY = "goqueue.server"
"""The name of the `ServerState` in the state of an application's lifespan."""
SWEEP_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bytes, counts and seconds; the reasons stand beside the defaults in `goqueue/limits.py`."""

    header_bytes: int = limits.HTTP_HEADER_BYTES
    header_count: int = limits.HTTP_HEADER_COUNT
    url_bytes: int = limits.HTTP_URL_BYTES
    body_bytes: int = limits.HTTP_BODY_BYTES
    header_seconds: float = limits.HTTP_HEADER_SECONDS
    body_seconds: float = limits.HTTP_BODY_SECONDS
    body_step_bytes: int = limits.HTTP_BODY_STEP_BYTES
    """An incomplete body must grow by this much in every `body_seconds`."""
    idle_seconds: float = limits.HTTP_IDLE_SECONDS
    write_seconds: float = limits.HTTP_WRITE_SECONDS
    write_step_bytes: int = limits.HTTP_WRITE_STEP_BYTES
    """A slow reader must take this much in every `write_seconds`."""
    connections: int = limits.HTTP_CONNECTIONS
    connections_spare: int = limits.HTTP_CONNECTIONS_SPARE
    bodies_bytes: int = limits.HTTP_BODIES_BYTES
    answers_bytes: int = limits.HTTP_ANSWERS_BYTES
    answers_spare_bytes: int = limits.HTTP_ANSWERS_SPARE_BYTES
    pipelined: int = limits.HTTP_PIPELINED
    drain_bytes: int = limits.HTTP_DRAIN_BYTES
    drain_seconds: float = limits.HTTP_DRAIN_SECONDS
    handshakes: int = limits.TLS_HANDSHAKES
    """Beyond the connections; without TLS there are none."""
    handshake_seconds: float = limits.TLS_HANDSHAKE_SECONDS

    def within(self, files_max: int | None) -> Self:
        """Return these limits with no more connections than files are left after those of storage and handshakes."""
        if files_max is None:
            return self
        taken = limits.STORAGE_FILES_MAX + limits.TLS_HANDSHAKE_FILES * self.handshakes
        left = max(files_max - taken, limits.HTTP_CONNECTIONS_MIN)
        spare = min(self.connections_spare, left // 8)
        return replace(self, connections=min(self.connections, left - spare), connections_spare=spare)


class ServerObserver(Protocol):
    """Listener of a server. Must be quick and must not raise."""

    def connection_opened(self, peer: str) -> None:
        """Called for accepted connections, not for those above the limit."""
        ...

    def connection_closed(self, peer: str) -> None: ...

    def answered(self, request: HttpRequest, response: HttpResponse, seconds: float) -> None:
        """Called when an answer is written. Seconds count from the first byte of the request."""
        ...

    def refused(self, reason: str) -> None:
        """Called when a request got no answer of a handler: with an error code, `client_gone` or `reader_too_slow`."""
        ...


class ServerState:
    """Handler, limits and totals of one server."""

    loop: asyncio.AbstractEventLoop
    """Set when the first connection comes."""

    def __init__(self, handle: RequestHandler, *, limits: HttpLimits, observer: ServerObserver, clock: Clock) -> None:
        self.handle = handle
        self.app: object = None
        """The ASGI application whose requests `handle` answers."""
        self.limits = limits
        self.observer = observer
        self.clock = clock
        self.monotonic_ns = clock.monotonic_ns
        self.open_connections: set[Any] = set()
        """With those that are being refused."""
        self.orphaned: set[asyncio.Future[Any] | Deferred[Any]] = set()
        """Handlers that continue although their client has left."""
        self.held_bytes = 0
        """Bytes of all request bodies that are incomplete or unanswered."""
        self.answer_bytes = 0
        """Bytes of all large answers that clients have not read completely."""
        self.share_of: Callable[[HttpRequest], Any] = lambda _: None
        """Returns the `TenantShare` of a request; None without one."""
        self.has_tenants = False
        """Set before it listens."""
        self.stopping = False
        self.on_stop: Callable[[], None] = lambda: None
        """Called once when the stop begins: requests that wait are to be answered."""
        self.empty_event: asyncio.Event | None = None
        """Set when no connection and no orphaned handler is left."""
        self.header_ns, self.body_ns, self.idle_ns, self.write_ns, self.drain_ns = (
            round(seconds * NANOSECONDS)
            for seconds in (
                limits.header_seconds,
                limits.body_seconds,
                limits.idle_seconds,
                limits.write_seconds,
                limits.drain_seconds,
            )
        )
        self._further_lines = ""
        self._id_prefix = secrets.token_hex(6)
        self._ids = count(1)
        self._sweeper: asyncio.TimerHandle | None = None
        self.update_date()

    @property
    def connections(self) -> int:
        return len(self.open_connections)

    def begin(self) -> None:
        """Begin to sweep over connections, once. Called by each connection."""
        if self._sweeper is None:
            self.loop = asyncio.get_running_loop()
            self.update_date()
            self._arm()

    def begin_stop(self) -> None:
        if not self.stopping:
            self.stopping = True
            self.on_stop()

    def end(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()

    def sweep(self, late_seconds: float = 0.0) -> None:
        """Expire every connection whose deadline has passed. Called once a second; more calls do no harm.

        A late call moves all deadlines, because what clients sent meanwhile is not read yet.
        """
        self.update_date()
        if late_seconds > STALL_SECONDS:
            for connection in self.open_connections:
                connection.deadline_ns += round(late_seconds * NANOSECONDS)
        now_ns = self.monotonic_ns()
        for connection in [connection for connection in self.open_connections if connection.deadline_ns <= now_ns]:
            connection.expire(now_ns)

    def _arm(self) -> None:
        due = self.loop.time() + SWEEP_SECONDS
        self._sweeper = self.loop.call_at(due, self._tick, due)

    def _tick(self, due: float) -> None:
        self._arm()
        self.sweep(self.loop.time() - due)

    def new_id(self) -> str:
        """Return a request id that no other request of any server has."""
        return f"{self._id_prefix}-{next(self._ids):x}"

    def update_date(self) -> None:
        """Renew the date header, with the headers that all answers have. Once a second is enough."""
        date = formatdate(self.clock.now_ns() / NANOSECONDS, usegmt=True)
        self.date = f"date: {date}\r\n{self._further_lines}"

    def say_always(self, name: str, value: str) -> None:
        """Give all answers from now on this one header."""
        self._further_lines = f"{name}: {value}\r\n"
        self.update_date()

    def check_body(self, size: int, *, held: int | None = None) -> None:
        """Raise an error if a body of this size is too large, alone or with the others; `held` is what it adds."""
        if size > self.limits.body_bytes:
            raise self.body_too_large(f"{size:,} bytes")
        if self.held_bytes + (size if held is None else held) > self.limits.bodies_bytes:
            raise self.bodies_too_large()

    def body_too_large(self, size: str) -> RequestTooLarge:
        most = self.limits.body_bytes
        return RequestTooLarge(
            f"{size} are too large for a body, the limit is {most:,}", hint="send the messages in several requests"
        )

    def bodies_too_large(self) -> BrokerOverloaded:
        most = self.limits.bodies_bytes
        return BrokerOverloaded(
            f"request bodies in progress hold {most:,} bytes, the limit", hint="retry in a second", retry_after=1
        )

    def check_answer(self, size: int, *, is_essential: bool) -> None:
        """Raise BrokerOverloaded if a large answer would exceed the memory of all answers."""
        most = self.limits.answers_bytes + (self.limits.answers_spare_bytes if is_essential else 0)
        if self.answer_bytes + size > most:
            raise self._overloaded()

    def check_answers(self) -> None:
        """Raise BrokerOverloaded before a large answer is begun, while answers that have begun still have room."""
        if self.answer_bytes > self.limits.answers_bytes * HTTP_ANSWERS_SHARE_HIGH:
            raise self._overloaded()

    def _overloaded(self) -> BrokerOverloaded:
        held, most = self.answer_bytes, self.limits.answers_bytes
        return BrokerOverloaded(
            f"answers that clients have not read yet hold {held:,} bytes, at most {most:,} are allowed",
            hint="retry in a second, or ask for less at a time",
            retry_after=1,
        )

    def notify_if_empty(self) -> None:
        if self.empty_event is not None and not self.open_connections and not self.orphaned:
            self.empty_event.set()
