# Generated from goqueue/client/_async/handler_runner.py; edit that and run `make fmt`.
"""Runs a handler for each message of a consumer, until the consumer is stopped.

Each thread takes a message, handles it, settles it, and takes the next one. They take turns at the consumer, so
nothing is in hand but what is being handled, what waits for its key, and what the consumer has fetched ahead. That is
little: the consumer asks for as much as was handled in the last quarter of a second.

What must stay true: an exception of a handler ends neither its thread nor the run. Everything that was taken is
settled, or released when the consumer is closed.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from goqueue.client import propagation
from goqueue.client.consumer_core import ConsumerCore
from goqueue.client.handler_options import (
    LOG,
    HandlerOptions,
    check_handler,
    parse_handler_options,
    place_of,
)
from goqueue.client.key_queues import KeyQueues
from goqueue.client.leased_message import Delivered
from goqueue.client.member_requests import TopicPartition
from goqueue.client.stop_signals import StopSignals
from goqueue.client.threads import (
    HANDLES_COROUTINES,
    Event,
    Lock,
    TimeLimit,
    Worker,
    invoke,
    is_failure,
    sleep,
)
from goqueue.client.times import seconds
from goqueue.errors import HandlerStuck, TransientError
from goqueue.quantities import format_count

if TYPE_CHECKING:
    from typing import Unpack

    from goqueue.client.arguments import HandlerArguments

Handler = Callable[[Delivered], object]

TICK_SECONDS = 0.1
"""How often the caller of `run` looks for signals, and for calls that take too long."""

REVOKED_SECONDS_MAX = 45.0
"""How long a rebalance waits for running calls: the broker takes a partition after 60 s."""

AHEAD_SECONDS = 0.25
"""The work that one poll asks for, in seconds."""

_GROWTH_MAX = 4
"""The factor by which a poll asks for more than the one before: one quick message promises little."""


class RunnableConsumer(ConsumerCore):
    """A consumer that can run a handler."""

    _runner: "HandlerRunner | None" = None
    """The run that must finish with messages before their partitions are revoked."""

    def run(self, handler: Handler, **options: "Unpack[HandlerArguments]") -> None:
        """Call `handler` with each message, acknowledge it when the call returns, and leave the group at the end.

        A message whose call raises is retried or dead-lettered, and logged by "goqueue.worker"; the run goes on. It
        ends with `stop()`, when the consumer is idle for `until_idle`, or in the main thread with SIGTERM or SIGINT:
        calls then have the time of `grace` to return, and what is left is released. `docs/workers.md` has the options.
        """
        self._check_open()
        check_handler(handler, coroutine=HANDLES_COROUTINES)
        with StopSignals() as signals:
            HandlerRunner(self, handler, parse_handler_options(options)).run(signals)

    def _messages_wanted(self) -> int:
        most = super()._messages_wanted()
        return most if self._runner is None else min(self._runner.messages_wanted(time.monotonic()), most)

    @abstractmethod
    def __iter__(self) -> Iterator[Delivered]: ...

    @abstractmethod
    def close(self) -> None: ...


class HandlerRunner:
    """One run. `run` returns when the consumer was stopped or is idle, and leaves the group."""

    def __init__(
        self,
        consumer: RunnableConsumer,
        handler: Handler,
        options: HandlerOptions,
    ) -> None:
        self._consumer = consumer
        self._handler = _in_trace(handler)
        self._options = options
        self._before, self._after = options.hooks("before"), options.hooks("after")[::-1]
        self._limit = TimeLimit(options.time_limit)
        self._messages: Iterator[Delivered] = iter(consumer)
        self._turn = Lock()
        """Held by the thread that takes a message."""
        self._lock = Lock()
        self._queues = KeyQueues(consumer._may_handle) if self._keeps_order else None
        self._handled = Event()
        self._changed = Event()
        """Set when a thread has ended."""
        self._workers: list[Worker] = []
        self._running: set[Delivered] = set()
        self._alive = self._stuck = 0
        self._wanted = options.concurrency
        """The number of messages that the next poll asks for."""
        self._taken, self._taken_since = 0, time.monotonic()
        self._ended = False
        self._failure: BaseException | None = None

    @property
    def _keeps_order(self) -> bool:
        return self._options.concurrency > 1 and self._consumer._leases.order is not None

    @property
    def _is_plain(self) -> bool:
        """True if each thread does no more than to take messages, call the handler, and settle."""
        options = self._options
        return options.concurrency == 1 and options.time_limit is None and not (self._before or self._after)

    def run(self, signals: StopSignals) -> None:
        self._consumer._runner = self
        try:
            for _ in range(self._options.concurrency):
                self._start()
            self._watch(signals)
        finally:
            self._finish()
        if self._failure is not None:
            raise self._failure

    # --- the thread that called `run` ---

    def _start(self, first: Delivered | None = None) -> None:
        with self._lock:
            self._alive += 1
        name = f"goqueue-handler-{len(self._workers) + 1}"
        self._workers.append(Worker(partial(self._work, first), self._fail, name))

    def _fail(self, error: BaseException) -> None:
        self._failure = self._failure or error

    def _watch(self, signals: StopSignals) -> None:
        """Wait until all threads have ended; after a stop for the time of grace, and after a second signal no more."""
        stopped_at: float | None = None
        while self._alive:
            self._changed.wait(TICK_SECONDS)
            self._changed.clear()
            self._abandon_overdue()
            if signals.count or self._failure is not None:
                self._consumer.stop()
            if not self._consumer._stopped:
                continue
            if stopped_at is None:
                stopped_at = time.monotonic()
                self._log_stop()
            if signals.count > 1 or time.monotonic() - stopped_at >= seconds(self._options.grace, "grace"):
                return

    def _log_stop(self) -> None:
        running = len(self._running)
        if running:
            grace = seconds(self._options.grace, "grace")
            count, topics = format_count(running, "message"), ", ".join(self._consumer.topics)
            LOG.info("stopping: %s of %s in hand, released after %g s", count, topics, grace)

    def _abandon_overdue(self) -> None:
        """Settle messages whose calls take too long, and replace the threads of these calls."""
        for message, error in self._limit.overdue():
            self._running.discard(message)
            self._options.settle_failure(message, error)
            with self._lock:
                self._alive -= 1
                self._stuck += 1
            if self._stuck > self._options.concurrency:
                count = format_count(self._stuck, "call")
                self._fail(
                    HandlerStuck(
                        f"{count} of handlers of {', '.join(self._consumer.topics)} did not return in time,"
                        " and a thread cannot be cancelled",
                        hint="start the worker again, and give what handlers call a shorter timeout than they have",
                    )
                )
            else:
                self._start(self._next_of_key(message))

    def _finish(self) -> None:
        """Give up what is still running, release it, and leave the group."""
        self._consumer._runner = None
        left = list(self._running)
        if left:
            LOG.warning(
                "releasing %s: %s", format_count(len(left), "unfinished message"), " ".join(map(place_of, left))
            )
        for message in left:
            message.release()
        for worker in self._workers:
            worker.stop(_nothing, limit=0)
        self._consumer.close()

    def finish_with(self, revoked: Iterable[TopicPartition]) -> None:
        """Wait for the calls of messages of these partitions. Their next member gets what is left after a while."""
        going, until = set(revoked), time.monotonic() + REVOKED_SECONDS_MAX
        while any(message._lease.held.place in going for message in list(self._running)):
            if time.monotonic() > until or self._consumer._runner is None:
                return
            sleep(TICK_SECONDS / 4)

    # --- the threads ---

    def _work(self, message: Delivered | None) -> None:
        replaced = False
        try:
            if self._is_plain:
                self._handle_in_turn()
                return
            message = message or self._take()
            while message is not None:
                self._running.add(message)
                replaced = not self._handle(message)
                self._running.discard(message)
                message = None if replaced else self._next_of_key(message) or self._take()
        except Exception as error:
            self._fail(error)
        finally:
            with self._lock:
                if replaced:
                    self._stuck -= 1
                else:
                    self._alive -= 1
            self._changed.set()

    def _handle_in_turn(self) -> None:
        """Do what `_take` and `_handle` do when there is one call at a time, without hooks and limit.

        For a quick handler everything else is most of the work, so there is little else here.
        """
        handler, started, ended = self._handler, self._running.add, self._running.discard
        while True:
            try:
                for message in self._messages:
                    self._taken += 1
                    started(message)
                    try:
                        handler(message)
                    except BaseException as error:
                        if not is_failure(error):
                            raise
                        self._options.settle_failure(message, error)
                    else:
                        message.ack()
                    ended(message)
                return
            except TransientError as error:
                self._wait_for_broker(error)

    def _take(self) -> Delivered | None:
        """Return the next message; None when there are no more."""
        with self._turn:
            while not self._ended and (self._queues is None or self._has_room(self._queues)):
                message = self._pull()
                if message is None:
                    self._ended = True
                elif self._queues is None or self._may_handle(self._queues, message):
                    return message
        return None

    def _has_room(self, queues: KeyQueues) -> bool:
        """Wait until few enough messages wait for their keys. Return False when the consumer was stopped."""
        while queues.waiting >= self._options.concurrency and not self._consumer._stopped:
            self._handled.clear()
            self._handled.wait(TICK_SECONDS)
        return not self._consumer._stopped

    def _pull(self) -> Delivered | None:
        while True:
            try:
                message = next(self._messages, None)
            except TransientError as error:
                self._wait_for_broker(error)
            else:
                self._taken += 1
                return message

    def _wait_for_broker(self, error: TransientError) -> None:
        if error.details.get("foreign"):
            raise error
        LOG.warning("the broker cannot be reached: %s; trying again", error.sentence)
        sleep(TICK_SECONDS)
        self._messages = iter(self._consumer)

    def messages_wanted(self, now: float) -> int:
        """Return how many messages the next poll asks for: as many as were handled lately."""
        elapsed = now - self._taken_since
        if self._taken >= self._wanted or elapsed >= AHEAD_SECONDS:
            lately = int(self._taken / max(elapsed, 1e-6) * AHEAD_SECONDS)
            most = min(self._wanted * _GROWTH_MAX, self._consumer._options.max_messages)
            self._wanted = max(min(lately, most), self._options.concurrency)
            self._taken, self._taken_since = 0, now
        return self._wanted

    def _may_handle(self, queues: KeyQueues, message: Delivered) -> bool:
        with self._lock:
            return queues.admit(message)

    def _next_of_key(self, message: Delivered) -> Delivered | None:
        if self._queues is None:
            return None
        with self._lock:
            following = None if self._consumer._stopped else self._queues.next_after(message)
        self._handled.set()
        return following

    def _handle(self, message: Delivered) -> bool:
        """Call the handler, and settle the message. Return False if the call took too long and was abandoned."""
        started, in_time = time.monotonic(), True
        error: BaseException | None = None
        try:
            for hook in self._before:
                invoke(hook, message)
            in_time = self._limit.call(self._handler, message)
        except BaseException as failure:
            if not is_failure(failure):
                raise
            error = failure
        if not in_time:
            LOG.warning("%s returned after %.1f s, too late", place_of(message), time.monotonic() - started)
            error = TimeoutError("too late")
        elif error is None:
            message.ack()
        else:
            self._options.settle_failure(message, error)
        for hook in self._after:
            try:
                invoke(hook, message, error, time.monotonic() - started)
            except Exception:
                LOG.exception("a hook failed after %s", place_of(message))
        return in_time


def _in_trace(handler: Handler) -> Handler:
    """Return a handler that runs in the trace context of its message, if OpenTelemetry is installed."""
    if not propagation.is_available():
        return handler

    def handle(message: Delivered) -> None:
        with propagation.processing(message):
            handler(message)

    return handle


def _nothing() -> None:
    """Interrupt no thread: those that handle messages end by themselves."""
