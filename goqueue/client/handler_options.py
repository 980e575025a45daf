"""The options of a handler, and the rules that follow from them: what becomes of a message that failed.

A failure is what the broker counts as one: an exception, an expired lease, a consumer that vanished. A message that was
released, because its worker stopped, has not failed.
"""

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from types import TracebackType
from typing import Any

from goqueue.client.leased_message import Delivered, describe_error, retry_delay
from goqueue.client.times import seconds
from goqueue.errors import RequestInvalid

CONCURRENCY_MAX = 1_000
GRACE_SECONDS = 20.0
"""The time that handlers have when a worker is stopped: orchestrators kill a process after 30 s."""

LOG = logging.getLogger("goqueue.worker")

Duration = str | float | timedelta
Backoff = Duration | Callable[[int], Duration]
"""The delay before each retry, or a function that returns it for the number of failures, 1 at first."""


@dataclass(frozen=True, slots=True)
class HandlerOptions:
    """The options of `run`, and of the handlers of a worker."""

    concurrency: int = 1
    max_retries: int | None = None
    backoff: Backoff | None = None
    reject_on: type[Exception] | tuple[type[Exception], ...] = ()
    timeout: Duration | None = None
    grace: Duration = GRACE_SECONDS
    middleware: Sequence[Any] = ()

    def __post_init__(self) -> None:
        kinds: object = self.reject_on
        _check_count("concurrency", self.concurrency, 1, CONCURRENCY_MAX)
        if self.max_retries is not None:
            _check_count("max_retries", self.max_retries, 0)
        if self.backoff is not None and not callable(self.backoff):
            retry_delay(self.backoff)
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            if not (isinstance(kind, type) and issubclass(kind, Exception)):
                raise RequestInvalid(
                    f"reject_on has {kind!r:.80}, which is not a class of exceptions",
                    hint="write reject_on=ValueError, or a tuple of such classes",
                )
        if self.timeout is not None and seconds(self.timeout, "timeout") == 0:
            raise RequestInvalid("a timeout of 0 leaves a handler no time", hint="leave it out for no limit")
        seconds(self.grace, "grace")
        for hooks in self.middleware:
            if not any(callable(getattr(hooks, name, None)) for name in ("before", "after")):
                raise RequestInvalid(
                    f"the middleware {hooks!r:.80} has no hook",
                    hint="define before(message), after(message, error, seconds), or both",
                )

    @property
    def time_limit(self) -> float | None:
        return None if self.timeout is None else seconds(self.timeout, "timeout")

    def hooks(self, name: str) -> list[Callable[..., object]]:
        found = (getattr(hooks, name, None) for hooks in self.middleware)
        return [hook for hook in found if hook is not None]

    def settle_failure(self, message: Delivered, error: BaseException) -> None:
        """Reject a failed message, or have it retried, and log which of them with the time of the retry."""
        failures = message.failures + 1
        reason = describe_error(error)
        if isinstance(error, self.reject_on):
            message.reject(reason)
            outcome = f"dead letter, since reject_on names {type(error).__name__}"
        elif self.max_retries is not None and failures > self.max_retries:
            message.reject(reason)
            outcome = f"dead letter, since max_retries is {self.max_retries}"
        else:
            delay = self._delay(failures)
            message.nack(delay, reason)
            outcome = _next_retry(message, delay)
        LOG.error(
            "%s failed at attempt %d: %s; %s",
            place_of(message),
            message.attempt,
            " ".join(reason.split()),
            outcome,
            exc_info=_shown(error),
            extra={
                "topic": message.topic,
                "partition": message.partition,
                "offset": message.offset,
                "attempt": message.attempt,
                "outcome": outcome,
            },
        )

    def _delay(self, failures: int) -> float | None:
        """Return the seconds until the next retry; None leaves them to the broker."""
        if self.backoff is None:
            return None
        try:
            return retry_delay(self.backoff(failures) if callable(self.backoff) else self.backoff)
        except Exception:
            LOG.exception("the backoff function failed for %d failures; the broker's delay applies", failures)
            return None


def place_of(message: Delivered) -> str:
    return f"{message.topic}/{message.partition}@{message.offset}"


def _next_retry(message: Delivered, delay: float | None) -> str:
    """Describe what the broker does after a nack."""
    if message.is_last_attempt:
        return "no retry, since it was the last attempt that the group allows"
    usual = message._lease.held.leased.retry_delay
    if delay is None and isinstance(usual, float):
        delay = usual
    return "next retry after the broker's delay" if delay is None else f"next retry in {delay:g} s"


def _shown(error: BaseException) -> tuple[type[BaseException], BaseException, TracebackType] | None:
    """Return an exception with the part of its traceback that is the application's; None if there is no such part."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith("goqueue.client."):
        trace = trace.tb_next
    return None if trace is None else (type(error), error, trace)


def parse_handler_options(given: Mapping[str, Any]) -> HandlerOptions:
    names = [field.name for field in fields(HandlerOptions)]
    unknown = ", ".join(name for name in given if name not in names)
    if unknown:
        raise RequestInvalid(f"a handler has no option {unknown}", hint=f"known are {', '.join(names)}")
    return HandlerOptions(**given)


def is_coroutine_function(function: Callable[..., object]) -> bool:
    """Return whether a function, or an object that can be called, returns a coroutine."""
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def check_function(function: Callable[..., object], noun: str, *arguments: str) -> None:
    """Refuse a function that cannot be called with these arguments: each message would fail."""
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        given = f"with {', '.join(arguments)}" if arguments else "without arguments"
        raise RequestInvalid(f"{noun} {function!r:.80} cannot be called {given}: {error}") from None
    except ValueError:  # a function of C without a signature
        return


def check_handler(handler: object, *, coroutine: bool) -> None:
    """Refuse a function of the wrong kind: its coroutine would never run, or it would block the event loop."""
    if not callable(handler):
        raise RequestInvalid(f"the handler is {handler!r:.80}, and must be a function of a message")
    check_function(handler, "the handler", "a message")
    is_coroutine = is_coroutine_function(handler)
    if is_coroutine and not coroutine:
        raise RequestInvalid(f"the handler {handler!r:.80} is a coroutine function", hint="use it with AsyncClient")
    if coroutine and not is_coroutine:
        raise RequestInvalid(
            f"the handler {handler!r:.80} is not a coroutine function, and would block the event loop",
            hint="write `async def`, or use it with Client",
        )


def _check_count(name: str, given: object, least: int, most: int | None = None) -> None:
    fits = isinstance(given, int) and not isinstance(given, bool) and given >= least and (most is None or given <= most)
    if not fits:
        limits = f"{least} or more" if most is None else f"{least} to {most:,}"
        raise RequestInvalid(f"{name} is {given!r:.80}, and must be a number: {limits}")
