"""What all connections of one server share: the handler, the limits, and the counts that span them."""

import asyncio
import secrets
from email.utils import formatdate
from itertools import count
from typing import Any, Protocol

from goqueue.api.http.limits import HttpLimits
from goqueue.api.http.message import Handle, Request, Response
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import BrokerOverloaded
from goqueue.limits import HTTP_ANSWERS_SHARE_HIGH


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
        "_ids", "_origin", "adrift", "answer_bytes", "body_ns", "clock", "connections", "date", "drain_ns", "emptied",
        "handle", "header_ns", "held_bytes", "idle_ns", "limits", "loop", "monotonic_ns", "observer",
        "stopping", "write_ns",
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
        self.answer_bytes = 0
        """Of all large answers that their readers have not taken as a whole."""
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

    def check_answer(self, size: int, *, is_essential: bool) -> None:
        """Refuse a large answer that would hold more memory than all may together."""
        most = self.limits.answers_bytes + (self.limits.answers_spare_bytes if is_essential else 0)
        if self.answer_bytes + size > most:
            raise self._overloaded()

    def check_answers(self) -> None:
        """Refuse to begin what may become a large answer, while there is still room for those that have begun."""
        if self.answer_bytes > self.limits.answers_bytes * HTTP_ANSWERS_SHARE_HIGH:
            raise self._overloaded()

    def _overloaded(self) -> BrokerOverloaded:
        held, most = self.answer_bytes, self.limits.answers_bytes
        return BrokerOverloaded(
            f"answers that clients have not read yet hold {held:,} bytes, of {most:,} that they may",
            hint="wait, then try again; ask for less at a time",
            retry_after=1,
        )

    def check_emptied(self) -> None:
        if self.emptied is not None and not self.connections and not self.adrift:
            self.emptied.set()
