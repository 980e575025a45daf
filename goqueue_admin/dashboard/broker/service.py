"""Calls to the broker, their latest results, and the state of the connection.

What must stay true: one round of calls runs at a time; requests that come meanwhile make one more round, not many; a
result for a screen that is gone is dropped. An unreachable broker is retried at growing intervals.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from operator import is_not
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from goqueue.clock import NANOSECONDS, Clock, SystemClock
from goqueue.errors import (
    BrokerStopping,
    BrokerUnreachable,
    ClusterOff,
    GoQueueError,
    PermissionDenied,
    RequestTimedOut,
    TenantsOff,
)

if TYPE_CHECKING:
    from goqueue.client import AsyncReader, Message
    from goqueue.client.address import Address
    from goqueue.client.admin_requests import GroupDetails
    from goqueue.client.tls import TlsOptions


class BrokerCall(NamedTuple):
    """A call of a method of `AsyncClient`. Equal calls share one result."""

    method: str
    arguments: tuple[Any, ...] = ()
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return " ".join(map(str, (self.method, *self.arguments)))


def broker_call(method: str, *arguments: Any, **options: Any) -> BrokerCall:
    return BrokerCall(method, arguments, tuple(sorted(options.items())))


STATS = broker_call("stats")
HISTORY = broker_call("history", 300)
DOCTOR = broker_call("doctor")
VERSION = broker_call("version")
TOPICS = broker_call("topic_details")
GROUPS = broker_call("group_details")
REBALANCES = broker_call("rebalance_stats")
DELAYS = broker_call("delay_stats")
TRANSACTIONS = broker_call("transaction_stats")


class ConnectionStatus(NamedTuple):
    """The state of the connection to the broker."""

    state: Literal["asking", "here", "away"]
    since_ns: int
    retry_ns: int = 0
    """Time of the next retry while it is unreachable."""
    reason: str = ""


class CallResult(NamedTuple):
    """The latest result or error of a call, and the result before it."""

    value: Any
    before: Any
    error: GoQueueError | None
    at_ns: int


_UNKNOWN = CallResult(None, None, None, 0)


class CallResults:
    """The latest result of each call."""

    def __init__(self) -> None:
        self._answers: dict[BrokerCall, CallResult] = {}
        self._joined: dict[str, tuple[Sequence[Any], Any]] = {}

    def take(self, asked: BrokerCall, value: Any, at_ns: int, error: GoQueueError | None = None) -> None:
        last = self._answers.pop(asked, _UNKNOWN)  # so that the oldest stands first
        self._answers[asked] = CallResult(value, last.value, error, at_ns)

    def get(self, asked: BrokerCall) -> Any:
        """Return the value, or None."""
        return self._answers.get(asked, _UNKNOWN).value

    def before(self, asked: BrokerCall) -> Any:
        return self._answers.get(asked, _UNKNOWN).before

    def error(self, asked: BrokerCall) -> GoQueueError | None:
        return self._answers.get(asked, _UNKNOWN).error

    def at_ns(self, asked: BrokerCall) -> int:
        """Return the time of the answer, or 0."""
        return self._answers.get(asked, _UNKNOWN).at_ns

    def age(self, *asked: BrokerCall) -> None:
        """Let results count as old, after a change; they stay until there are new ones."""
        for one in asked:
            if one in self._answers:
                self._answers[one] = self._answers[one]._replace(at_ns=0)

    def facts(self, asked: BrokerCall) -> Mapping[str, Any]:
        """Return an answer that is a JSON object, or an empty one."""
        value = self.get(asked)
        return value if isinstance(value, dict) else {}

    def joined(self, name: str, pages: Sequence[Any]) -> Any:
        """Concatenate the pages of a long answer; equal pages give the identical list. None without pages."""
        held, whole = self._joined.get(name, ((), None))
        if len(held) != len(pages) or any(map(is_not, held, pages)):
            there = [page for page in pages if page is not None]
            whole = there[0] if len(there) == 1 else [one for page in there for one in page] or None
            self._joined[name] = (pages, whole)
        return whole

    def forget_refusals(self) -> None:
        """Let refused calls be made again."""
        self.age(*(asked for asked, one in self._answers.items() if one.error is not None))

    def keep(self, wanted: int = 200) -> None:
        """Drop the oldest results beyond a number."""
        for asked in list(self._answers)[: max(0, len(self._answers) - wanted)]:
            del self._answers[asked]


_AT_ONCE = 1_000
_PAGES_MAX = 10
"""Of a list: more is not shown."""


def paged_calls(known: CallResults, first: BrokerCall, following: Callable[[Any], BrokerCall]) -> list[BrokerCall]:
    """Return the calls for a long list: one per full page, and the next; `following` makes it from the last entry."""
    asked = [first]
    page = known.get(first)
    while page and len(page) >= _AT_ONCE and len(asked) < _PAGES_MAX:
        asked.append(following(page[-1]))
        page = known.get(asked[-1])
    return asked


def known_groups(known: CallResults) -> "list[GroupDetails] | None":
    """Return the known groups, or None."""
    joined: list[GroupDetails] | None = known.joined("now", [known.get(asked) for asked in group_calls(known)])
    return joined


def previous_groups(known: CallResults) -> "list[GroupDetails] | None":
    """Return the groups of the previous answer, or None."""
    joined: list[GroupDetails] | None = known.joined("before", [known.before(asked) for asked in group_calls(known)])
    return joined


def group_calls(known: CallResults) -> list[BrokerCall]:
    """Return the calls for the list of groups."""
    return paged_calls(known, GROUPS, lambda last: broker_call("group_details", _AT_ONCE, last.group_id))


ANSWER_SECONDS = 5.0
REFUSED_SECONDS = 60
"""A call that the key may not make is made again so late: each refusal is in the audit trail."""
PROBE_SECONDS = 0.4
BACKOFF_SECONDS = (1, 2, 3, 5)
TAIL_BYTES = 64 * 1024
"""Maximum size of an answer with messages: decoding it takes less than a frame."""


class BrokerClient(Protocol):
    """The methods of a client that are used besides those named by calls."""

    @property
    def reader(self) -> Callable[..., Awaitable["AsyncReader"]]: ...
    async def close(self) -> None: ...


class Service:
    """Runs rounds of calls; calls `told` after every result and connection change."""

    def __init__(
        self, client: BrokerClient, address: str, clock: Clock, probe: Callable[[], Awaitable[str | None]] | None = None
    ) -> None:
        self.address = address
        self.clock = clock
        self.known = CallResults()
        self.link = ConnectionStatus("asking", clock.now_ns())
        self.told: Callable[[BrokerCall | None], None] = lambda _: None
        self.generation = 0
        self._client = client
        self._probe = probe
        self._failures = 0
        self._round: asyncio.Task[None] | None = None
        self._next: Sequence[BrokerCall] = ()

    # --- rounds ---

    def look(self, questions: Sequence[BrokerCall], *, fresh: bool = False) -> None:
        """Run a round of calls in order. `fresh` cancels the current round first, for a new screen."""
        if fresh:
            self.generation += 1
            self._next = ()
            if self._round is not None:
                self._round.cancel()
                self._round = None
        if not self.is_idle:
            self._next = questions
        else:
            self._round = asyncio.create_task(self._rounds(questions, self.generation), name="dashboard-round")

    def _is_refused(self, asked: BrokerCall) -> bool:
        """Return whether a call would be refused again: for lack of a right, or because the broker has no tenants.

        Rights may change, so that is asked again after a while; the others only after an outage.
        """
        error, at_ns = self.known.error(asked), self.known.at_ns(asked)
        if not at_ns or at_ns < self.link.since_ns or not isinstance(error, PermissionDenied | TenantsOff | ClusterOff):
            return False
        is_lasting = isinstance(error, TenantsOff | ClusterOff) or "tenant" in error.details
        return is_lasting or self.clock.now_ns() - at_ns < REFUSED_SECONDS * NANOSECONDS

    @property
    def is_idle(self) -> bool:
        """True while no round of calls is under way."""
        return self._round is None or self._round.done()

    async def _rounds(self, questions: Sequence[BrokerCall], generation: int) -> None:
        while questions and generation == self.generation:
            for asked in dict.fromkeys(questions):
                if not self._is_refused(asked) and not await self._answer(asked, generation):
                    break
            questions, self._next = self._next, ()

    async def _answer(self, asked: BrokerCall, generation: int) -> bool:
        """Run one call; return False if the round should stop."""
        value, error = None, None
        try:
            value = await self.do(asked)
        except (BrokerUnreachable, BrokerStopping, RequestTimedOut) as outage:
            if generation == self.generation:
                self._away(outage)
            return False
        except GoQueueError as refusal:
            error = refusal
        if generation == self.generation:
            self._here()
            self.known.take(asked, value, self.clock.now_ns(), error)
            self.known.keep()
            self.told(asked)
        return generation == self.generation

    async def do(self, asked: BrokerCall) -> Any:
        """Return the result of one call; while it is slow, probe whether the broker is reachable at all.

        The client retries until its timeout. The screen must show an unreachable broker at once.
        """
        call: Callable[..., Awaitable[Any]] = getattr(self._client, asked.method)
        task = asyncio.ensure_future(call(*asked.arguments, **dict(asked.options)))
        try:
            while True:
                done, _ = await asyncio.wait({task}, timeout=PROBE_SECONDS)
                if done:
                    return task.result()
                reason = await self._probe() if self._probe else None
                if reason:
                    raise BrokerUnreachable(f"no broker answers at {self.address}: {reason}")
        finally:
            task.cancel()

    async def fetch(self, asked: BrokerCall) -> Any:
        """Run one call outside of the rounds, and keep its result."""
        value = await self.do(asked)
        self.known.take(asked, value, self.clock.now_ns())
        return value

    # --- being here and away ---

    def _here(self) -> None:
        self._failures = 0
        if self.link.state != "here":
            self.link = ConnectionStatus("here", self.clock.now_ns())
            self.told(None)

    def _away(self, error: GoQueueError) -> None:
        now = self.clock.now_ns()
        pause = BACKOFF_SECONDS[min(self._failures, len(BACKOFF_SECONDS) - 1)]
        since = self.link.since_ns if self.link.state == "away" else now
        self._failures += 1
        self.link = ConnectionStatus("away", since, now + pause * NANOSECONDS, error.sentence)
        self.told(None)

    def due(self, asked: Sequence[BrokerCall], seconds: float) -> list[BrokerCall]:
        """Return the calls whose answers are missing or older than some seconds."""
        now = self.clock.now_ns()
        return [one for one in asked if now - self.known.at_ns(one) >= seconds * NANOSECONDS]

    @property
    def is_due(self) -> bool:
        """True unless the broker is unreachable and its retry is not due."""
        return self.link.state != "away" or self.clock.now_ns() >= self.link.retry_ns

    # --- messages ---

    async def tail(self, topic: str, **options: Any) -> "AsyncReader":
        """Open a reader with small answers, which do not block the screen."""
        return await self._client.reader(topic, max_bytes=TAIL_BYTES, on_missing="earliest", **options)

    async def message(self, topic: str, partition: int, offset: int) -> "Message | None":
        """Read one message; None if it is gone."""
        reader = await self._client.reader(
            topic, partitions=partition, start=offset, until=offset + 1, max_bytes=TAIL_BYTES, on_missing="earliest"
        )
        async with reader:
            async for message in reader:
                if message.offset == offset:
                    return message
        return None

    async def close(self) -> None:
        self.generation += 1
        if self._round is not None:
            self._round.cancel()
            with suppress(asyncio.CancelledError):
                await self._round
        await self._client.close()

    def __repr__(self) -> str:
        return f"<Service {self.address} {self.link.state}>"


def connect(
    server: str | None,
    timeout: float,
    api_key: str | None = None,
    tls: "TlsOptions | None" = None,
    tenant: str | None = None,
) -> Service:
    """Create a service for the broker at an address."""
    from goqueue.client import AsyncClient, address  # noqa: PLC0415 - tests of the service itself need neither

    places = address.parse_all(server)
    seconds = min(timeout, ANSWER_SECONDS)

    async def reason(place: "Address") -> str | None:
        try:
            async with asyncio.timeout(seconds):
                _, writer = await asyncio.open_connection(place.host, place.port)
        except TimeoutError:
            return "it took too long"
        except OSError as error:
            return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        writer.close()
        return None

    async def probe() -> str | None:
        """Return why none of the addresses can be reached, in their order."""
        found = await asyncio.gather(*map(reason, places))
        said = [one for one in found if one is not None]
        return ", ".join(said) if len(said) == len(found) else None

    client = AsyncClient(server, seconds, api_key=api_key, tenant=tenant or "", tls=tls)
    return Service(client, ",".join(map(str, places)), SystemClock(), probe)
