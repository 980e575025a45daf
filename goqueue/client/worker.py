"""A worker: handlers of messages and functions on schedules, declared by decorators and run as one process.

Each handler has a consumer of its own in the worker's group. Those of plain functions run in threads, those of
coroutine functions together in one event loop in another thread. The main thread waits for signals.
"""

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from goqueue.client._async.client import AsyncClient
from goqueue.client._async.handler_runner import AsyncHandlerRunner
from goqueue.client._sync.client import Client
from goqueue.client._sync.handler_runner import TICK_SECONDS, HandlerRunner
from goqueue.client.consumer_core import ConsumerOptions, check_group, check_topics, parse_consumer_options
from goqueue.client.handler_options import (
    LOG,
    Duration,
    HandlerOptions,
    check_function,
    is_coroutine_function,
    parse_handler_options,
)
from goqueue.client.leased_message import Delivered, describe_error
from goqueue.client.schedule import Schedule, cron, every
from goqueue.client.schedule_chain import Job, ScheduleChain
from goqueue.client.stop_signals import StopSignals
from goqueue.client.times import seconds
from goqueue.errors import RequestInvalid, TransientError
from goqueue.nearest import nearest

if TYPE_CHECKING:
    import ssl
    from typing import Unpack

    from goqueue.client.arguments import WorkerArguments
    from goqueue.client.tls import TlsOptions

HandlerFunction = TypeVar("HandlerFunction", bound=Callable[[Delivered], object])
ScheduledFunction = TypeVar("ScheduledFunction", bound=Callable[[], object])

CONNECT_SECONDS = 5.0
"""How long a worker waits for a broker before it says so in the log, and goes on waiting."""

SCHEDULES = ".schedules"
"""The end of the name of the topic and the group of a worker's schedules."""

_CONCURRENT_SCHEDULES = 10
_HANDLER_OPTIONS = [field.name for field in fields(HandlerOptions)]
_CONSUMER_OPTIONS = [field.name for field in fields(ConsumerOptions) if field.name not in _HANDLER_OPTIONS]
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class _Handler:
    topics: list[str]
    function: Callable[[Delivered], Any]
    options: HandlerOptions
    consumer: Mapping[str, Any]

    @property
    def is_coroutine(self) -> bool:
        return is_coroutine_function(self.function)


class Worker:
    """The handlers and schedules of one group. `goqueue-cli worker module:app` runs it, or `run()`.

    Options are defaults for all handlers: those of `run` of a consumer, and those of a consumer.
    """

    def __init__(self, group: str, **options: "Unpack[WorkerArguments]") -> None:
        check_group(group)
        self.group = group
        self._defaults = options
        _split(options)
        self._handlers: list[_Handler] = []
        self._jobs: dict[str, Job] = {}
        self._signals = StopSignals()

    # --- decorators ---

    def handler(
        self, *topics: str, **options: "Unpack[WorkerArguments]"
    ) -> Callable[[HandlerFunction], HandlerFunction]:
        """Have a function called with each message of these topics; `async def` or not."""
        if any(callable(topic) for topic in topics):
            raise RequestInvalid("a handler needs a topic", hint='write @app.handler("orders"), for example')
        names = check_topics(topics)
        chosen, consumer = _split(self._defaults | options)

        def add(function: HandlerFunction) -> HandlerFunction:
            if not callable(function):
                raise RequestInvalid(f"the handler of {', '.join(names)} is {function!r:.80}, and must be a function")
            check_function(function, "the handler", "a message")
            self._handlers.append(_Handler(names, function, chosen, consumer))
            return function

        return add

    def every(self, interval: Duration, *, name: str | None = None) -> Callable[[ScheduledFunction], ScheduledFunction]:
        """Have a function called without arguments at multiples of an interval, in one process of the group."""
        return self._schedule(every(seconds(interval, "interval")), name)

    def cron(self, fields: str, *, name: str | None = None) -> Callable[[ScheduledFunction], ScheduledFunction]:
        """Have a function called at the times of five cron fields, in UTC, in one process of the group."""
        return self._schedule(cron(fields), name)

    def _schedule(self, schedule: Schedule, name: str | None) -> Callable[[ScheduledFunction], ScheduledFunction]:
        def add(function: ScheduledFunction) -> ScheduledFunction:
            chosen = name or function_name(function)
            if not _NAME.fullmatch(chosen):
                raise RequestInvalid(f"{chosen!r:.80} cannot name a schedule", hint="use letters, digits, - . and _")
            if chosen in self._jobs:
                raise RequestInvalid(f"there are two schedules {chosen}", hint="give one of them another name=")
            check_function(function, "the function of a schedule")
            self._jobs[chosen] = Job(schedule, function)
            return function

        return add

    # --- the process ---

    def run(
        self,
        server: str | Sequence[str] | None = None,
        *,
        api_key: str | None = None,
        tenant: str | None = None,
        tls: "ssl.SSLContext | TlsOptions | None" = None,
        concurrency: int | None = None,
    ) -> None:
        """Handle messages until SIGTERM, SIGINT or a failure of a consumer, which is raised.

        `concurrency` replaces that of all handlers. Without handlers of its own, logging writes to stderr.
        """
        if not (self._handlers or self._jobs):
            raise RequestInvalid(
                f"the worker {self.group} has no handlers", hint='decorate a function with @app.handler("topic")'
            )
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
        connect = {"server": server, "timeout": CONNECT_SECONDS, "api_key": api_key, "tenant": tenant, "tls": tls}
        with StopSignals() as self._signals:
            _Process(self, self._signals, connect, concurrency).run()

    def stop(self) -> None:
        """Stop as SIGTERM does, from another thread."""
        self._signals.count += 1

    def __repr__(self) -> str:
        return f"<Worker {self.group}: {', '.join(self.describe())}>"

    def describe(self) -> list[str]:
        """Return one line for each handler and each schedule."""
        handlers = [f"{'+'.join(one.topics)} → {function_name(one.function)}" for one in self._handlers]
        return handlers + [f"{job.schedule} → {name}" for name, job in self._jobs.items()]


class _Process:
    """One run of a worker: a thread for each consumer of plain functions, and one for all coroutine functions."""

    def __init__(self, worker: Worker, signals: StopSignals, connect: dict[str, Any], concurrency: int | None) -> None:
        self._worker = worker
        self._signals = signals
        self._connect = connect
        self._handlers = [
            one if concurrency is None else replace(one, options=replace(one.options, concurrency=concurrency))
            for one in worker._handlers
        ]
        self._failure: BaseException | None = None

    def run(self) -> None:
        threads = [threading.Thread(target=self._guard, args=(part,), daemon=True) for part in self._parts()]
        for thread in threads:
            thread.start()
        for line in self._worker.describe():
            LOG.info("%s: %s", self._worker.group, line)
        was_stopped = False
        while alive := [thread for thread in threads if thread.is_alive()]:
            alive[0].join(TICK_SECONDS)
            if self._signals.count and not was_stopped:
                was_stopped = True
                self._log_stop()
        if self._failure is not None:
            raise self._failure
        LOG.info("%s: stopped", self._worker.group)

    def _log_stop(self) -> None:
        if self._failure is None:
            LOG.info("%s: stopping; another signal releases at once what is in hand", self._worker.group)
        else:
            LOG.error("%s: stopping because of %s", self._worker.group, describe_error(self._failure))

    def _parts(self) -> Iterator[Callable[[], None]]:
        for one in self._handlers:
            if not one.is_coroutine:
                yield partial(self._handle, one)
        if any(one.is_coroutine for one in self._handlers):
            yield lambda: asyncio.run(self._handle_in_loop())
        if self._worker._jobs:
            yield self._keep_schedules

    def _guard(self, part: Callable[[], None]) -> None:
        """Run a part. The first failure of one ends the worker."""
        try:
            part()
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error
        self._signals.count = self._signals.count or 1

    def _handle(self, handler: _Handler) -> None:
        with Client(**self._connect) as client:
            consumer = client.consumer(self._worker.group, handler.topics, **handler.consumer)
            HandlerRunner(consumer, handler.function, handler.options).run(self._signals)

    async def _handle_in_loop(self) -> None:
        async with AsyncClient(**self._connect) as client:
            await asyncio.gather(*(self._handle_as_task(client, one) for one in self._handlers if one.is_coroutine))

    async def _handle_as_task(self, client: AsyncClient, handler: _Handler) -> None:
        """Run a handler. When it fails, the others have their time of grace."""
        try:
            consumer = client.consumer(self._worker.group, handler.topics, **handler.consumer)
            await AsyncHandlerRunner(consumer, handler.function, handler.options).run(self._signals)
        except Exception as error:
            self._fail(error)

    def _keep_schedules(self) -> None:
        topic, jobs = self._worker.group + SCHEDULES, self._worker._jobs
        defaults, consumer_options = _split(self._worker._defaults)
        options = replace(defaults, concurrency=min(len(jobs), _CONCURRENT_SCHEDULES))
        with Client(**self._connect) as client, closing(ScheduleChain(client, topic, jobs)) as chain:
            while not self._signals.count:
                try:
                    chain.start()
                    break
                except TransientError as error:
                    LOG.warning("the broker cannot be reached: %s; trying again", error.sentence)
            chosen = {**consumer_options, "order": "key", "start": "earliest"}
            HandlerRunner(client.consumer(topic, [topic], **chosen), chain.handle, options).run(self._signals)


def function_name(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _split(options: Mapping[str, Any]) -> tuple[HandlerOptions, dict[str, Any]]:
    """Return the options of a handler and those of its consumer, checked."""
    known = [*_HANDLER_OPTIONS, *_CONSUMER_OPTIONS]
    for name in options:
        if name not in known:
            guess = nearest(name, known)
            hint = f"did you mean {guess}?" if guess else f"known are {', '.join(known)}"
            raise RequestInvalid(f"a handler has no option {name}", hint=hint)
    own = {name: given for name, given in options.items() if name in _HANDLER_OPTIONS}
    rest = {name: given for name, given in options.items() if name not in _HANDLER_OPTIONS}
    parse_consumer_options(rest)
    return parse_handler_options(own), rest
