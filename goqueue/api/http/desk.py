"""What all connections of one server share: the handler, the limits, and the counts that span them."""

import asyncio
import secrets
from email.utils import formatdate
from itertools import count
from typing import Any, Protocol

from goqueue.api.http.limits import HttpLimits
from goqueue.api.http.message import Handle, Request, Response
from goqueue.clock import NANOSECONDS, Clock


class Observer(Protocol):
    """Is told what happens; must be quick, and must not raise."""

    def connection_opened(self) -> None: ...

    def connection_closed(self) -> None: ...

    def answered(self, request: Request, response: Response, seconds: float) -> None:
        """The answer is on its way. Seconds count from the request's first byte."""
        ...

    def refused(self, reason: str) -> None:
        """Nothing was answered but, at most, a refusal: the code of an error, `client_gone` or `reader_too_slow`."""
        ...


class Guest(Protocol):
    """What the server knows of a connection."""

    deadline_ns: int

    def expire(self, now_ns: int) -> None:
        """Its deadline has passed."""
        ...

    def wind_up(self) -> None:
        """The server is stopping: leave as soon as nothing is in progress."""
        ...

    def abort(self) -> None:
        """Leave now."""
        ...


class Desk:
    """One per server."""

    __slots__ = (
        "_ids", "_origin", "adrift", "body_ns", "clock", "connections", "date", "drain_ns", "emptied", "handle",
        "header_ns", "held_bytes", "idle_ns", "limits", "loop", "monotonic_ns", "observer", "stopping", "write_ns",
    )  # fmt: skip

    def __init__(self, handle: Handle, limits: HttpLimits, observer: Observer, clock: Clock) -> None:
        self.handle = handle
        self.limits = limits
        self.observer = observer
        self.clock = clock
        self.monotonic_ns = clock.monotonic_ns
        self.loop: asyncio.AbstractEventLoop | None = None
        self.connections: set[Guest] = set()
        self.adrift: set[asyncio.Future[Any]] = set()
        """Handlers that go on although their client has left."""
        self.held_bytes = 0
        """Of all request bodies that are unfinished or unanswered."""
        self.stopping = False
        self.emptied: asyncio.Event | None = None
        """Told when the last connection has left, and nothing is adrift."""
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
        self._origin = secrets.token_hex(6)
        self._ids = count(1)
        self.tell_date()

    def new_id(self) -> str:
        """An id for a request: no two of any server are the same."""
        return f"{self._origin}-{next(self._ids):x}"

    def tell_date(self) -> None:
        """Make the date's header line anew: once a second is enough."""
        self.date = f"date: {formatdate(self.clock.now_ns() / NANOSECONDS, usegmt=True)}\r\n"

    def check_emptied(self) -> None:
        if self.emptied is not None and not self.connections and not self.adrift:
            self.emptied.set()
