"""A consumer for threads: polls ahead like a reader, settles on its way, and has a thread for what cannot wait."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from types import TracebackType
from typing import Any, Self

from goqueue.client.attempts import Attempts
from goqueue.client.blocking import Connection
from goqueue.client.calls import Call
from goqueue.client.companion import Companion
from goqueue.client.consuming import (
    AWAY_SECONDS,
    CLOSE_SECONDS,
    TICK_SECONDS,
    Consuming,
    Patience,
    failure_of,
)
from goqueue.client.delivered import Batch, Delivered
from goqueue.client.intervals import Range
from goqueue.client.lease import Fate, Held
from goqueue.client.membership import Errand, Told
from goqueue.client.options import ConsumerOptions
from goqueue.client.polls import Beat
from goqueue.client.times import seconds
from goqueue.client.wires import Poller, Settler
from goqueue.errors import ChecksumMismatch, GoQueueError, OperatorError, TransientError


class Consumer(Consuming):
    """A member of a group. Iterate it for messages, or `batches()` for the messages of one lease together.

    Every message is settled by the application: acknowledged, or one of the other things that `Delivered` can do.
    What is not comes back when its lease is over. Leases of messages that the application still has are extended, so
    that it may take its time. It joins with its `with` block or with the first message, and leaves at the end of the
    block, which gives back what was not settled.

    One thread iterates; any thread may settle.
    """

    def __init__(
        self,
        group: str,
        topics: Iterable[str],
        connect: Callable[[], Connection],
        options: ConsumerOptions,
        timeout: float,
    ) -> None:
        super().__init__(group, topics, options)
        self._timeout = timeout
        self._poller = Poller(connect(), timeout)
        self._settler = Settler(connect(), self._leases, self, timeout)
        self._companion: Companion | None = None
        self._stopped = False
        self._left_at: float | None = None
        """Since when the application has been busy with what it got, if it is."""
        self._rest: Iterator[Delivered] = iter(())

    # --- for the application ---

    def __iter__(self) -> Iterator[Delivered]:
        """Messages. A new iteration goes on where the last one was left."""
        self._check_open()
        while True:
            for message in self._rest:
                if self._attention and not self._look_up(message):
                    break
                yield message
            else:
                batch = self._next()
                if batch is None:
                    return
                self._rest = iter(batch.messages)

    def _look_up(self, message: Delivered) -> bool:
        """See to what needs attention first; whether the message is to be handed out all the same. If not, what is
        left to be handed out may be something else."""
        try:
            if not self._stopped:
                self._attend()
        except BaseException:
            self._rest = chain((message,), self._rest)
            raise
        if message._lease.held.over or self._stopped:
            self._rest = iter(())
            return False
        if self._leases.order is None:
            return True
        with self._settler.lock:
            self._rest = iter(self._sifted(chain((message,), self._rest)))
        return False

    def batches(self) -> Iterator[Batch]:
        """The messages of one lease at a time: of one partition, in their order."""
        self._check_open()
        while (batch := self._next()) is not None:
            yield batch

    def flush(self, timeout: str | float | None = None) -> None:
        """Wait until everything that was settled so far is durable; raises what was refused since the last time."""
        self._check_open()
        self._flush(self._timeout if timeout is None else seconds(timeout, "timeout"))
        error = self._leases.failure()
        if error is not None:
            raise error

    def durable(self, held: Held, first: int, end: int) -> None:
        self._check_open()
        self._flush(self._timeout)
        error = failure_of(held, first, end)
        if error is not None:
            raise error

    def pledge(self, held: Held, ranges: Iterable[Range]) -> tuple[list[Range], tuple[str, str]]:
        with self._settler.lock:
            return super().pledge(held, ranges)

    def redeem(self, held: Held, ranges: list[Range], fate: Fate, reason: str | None = None) -> None:
        with self._settler.lock:
            super().redeem(held, ranges, fate, reason)

    def stop(self) -> None:
        """End the iteration; for another thread or a signal's handler. What is left is closed as usual."""
        self._stopped = True  # a flag, and no lock: a signal's handler may interrupt whoever holds it
        self._alert()
        if self._belongs_here:
            self._poller.interrupt()

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Send what was settled, give back what was not, and leave the group; a broker that is gone costs `timeout`."""
        if self._closed:
            return
        self.stop()
        failure: BaseException | None = None
        try:
            if self._belongs_here:
                failure = self._say_goodbye()
                if not self._closed:  # which a callback may have done
                    self._closed = True
                    self._leave(time.monotonic() + timeout)
        finally:
            self._closed = True
            self._poller.abandon()
            self._settler.close()
            self._leases.forget()
            self._rest = iter(())
        if failure is not None:
            raise failure

    def _say_goodbye(self) -> BaseException | None:
        """Tell of the partitions that go, while their leases still hold. What that raises is raised when all is
        done."""
        with self._settler.lock:
            going = self._membership.give_up_all()
        try:
            self._tell("on_revoked", going)
        except Exception as error:
            return error
        return None

    def _leave(self, deadline: float) -> None:
        if self._companion is not None and not self._companion.stop(timeout=(deadline - time.monotonic()) / 2):
            self._settler.interrupt()
            self._companion.stop(timeout=1.0)
        if self._membership.member_id is None:
            return
        with suppress(GoQueueError):
            self._flush(max(deadline - time.monotonic(), 0.1))
        with suppress(GoQueueError):
            self._settler.call(self._membership.leave(), max(deadline - time.monotonic(), 0.5))
        self._tell("on_expired", self._leases.refused())

    def __enter__(self) -> Self:
        self._check_open()
        try:
            self._attend()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- between two messages ---

    def _next(self) -> Batch | None:
        """The next batch; None is the end."""
        if self._refusal is not None:
            raise self._refusal
        self._left_at = None
        patience = Patience(self._timeout, self._idle_seconds)
        while not self._stopped:
            if self._attention:
                self._pause(patience.before_attending())
                self._attend()
            if self._leases.has_unread:
                batch = self._read()
                if batch is not None:
                    return batch
                continue
            with self._settler.lock:
                self._settler.settle()
            try:
                if self._take(patience.idle_left) and patience.is_over:
                    return None
                patience.answered()
            except (TransientError, ChecksumMismatch) as error:
                if not self._stopped:
                    self._pause(patience.after(error))
        return None

    def _take(self, idle_left: float | None) -> bool:
        """Wait for an answer, and ask for the next one before anybody reads it. Whether it was asked for just now,
        and brought nothing."""
        with self._poller.lock:
            asked = not self._poller.is_under_way
            if asked:
                self._poller.ask(self._poll(idle_left))
            self._receive()
        self._ask_ahead()
        return asked and not self._leases.has_unread and not self._attention

    def _receive(self) -> None:
        """The answer that is under way; the poller's lock is held."""
        try:
            polled = self._poller.take()
        except GoQueueError as error:
            if isinstance(error, ChecksumMismatch):
                self._poller.abandon()
            with self._settler.lock:
                if not self._membership.refused(error):
                    raise
            return
        if polled is not None:
            with self._settler.lock:
                self._polled(*polled)

    def _ask_ahead(self) -> None:
        if self._leases.has_unread and self._may_ask_ahead() and not self._poller.is_under_way:
            with self._poller.lock:
                self._poller.ask(self._poll())

    def _read(self) -> Batch | None:
        """The next lease as messages, with the next answer under way."""
        self._ask_ahead()
        with self._settler.lock:
            part = self._leases.next()
        if part is None:
            return None
        batch, gaps = self._batch(part)
        if gaps:
            with self._settler.lock:
                part[0].held.skip(gaps)
            if not batch.messages:
                return None
        if self._leases.order is not None:
            with self._settler.lock:
                batch.messages = self._sifted(batch.messages)
            if not batch.messages:
                return None
        self._left_at = time.monotonic()
        if self._companion is not None:
            self._companion.wake()
        return batch

    def _pause(self, delay: float) -> None:
        until = time.monotonic() + delay
        while not self._stopped and (left := until - time.monotonic()) > 0:
            threading.Event().wait(min(left, TICK_SECONDS))

    def _attend(self) -> None:
        """Whatever needs the consuming thread: joining, changes of the assignment, callbacks."""
        self._check_open()
        self._attention = False
        self._tell("on_expired", self._leases.refused())
        steps = self._membership.attend(self._leases)
        failure: BaseException | None = None
        outcome: Any = None
        try:
            while not self._closed:  # which a callback may have done
                with self._settler.lock:
                    step = steps.throw(outcome) if isinstance(outcome, GoQueueError) else steps.send(outcome)
                outcome = None
                try:
                    if isinstance(step, Told):
                        self._tell(step.name, step.partitions)
                    else:
                        outcome = self._carry_out(step)
                except Exception as error:
                    if isinstance(step, Told):
                        failure = failure or error  # the application's own, raised when all is done
                    elif isinstance(error, GoQueueError):
                        outcome = error
                    else:
                        raise
        except StopIteration:
            self._accompany()
        except TransientError:
            if not self._stopped:  # else the iteration ends, whatever was to be done
                raise
        finally:
            steps.close()
        if failure is not None:
            raise failure

    def _carry_out(self, step: Call[Any] | Errand) -> Any:
        if isinstance(step, Call):
            return self._call(step)
        if step is Errand.SETTLE:
            with suppress(GoQueueError):  # what did not get through is refused later, and told then
                self._flush(self._timeout)
        else:
            with self._poller.lock:
                if step is Errand.ABANDON:
                    self._poller.abandon()
                else:
                    with suppress(GoQueueError):
                        self._receive()
        return None

    def _call(self, call: Call[Any]) -> Any:
        attempts = Attempts(call, self._timeout)
        while True:
            try:
                return self._settler.call(call, attempts.left())
            except GoQueueError as error:
                self._pause(attempts.after(error))
                if self._stopped:
                    raise

    def _flush(self, timeout: float) -> None:
        if self._membership.member_id is not None:
            self._settler.flush(timeout)

    def _tell(self, name: str, about: list[Any]) -> None:
        callback = getattr(self._options, name)
        if about and callback is not None:
            callback(about)

    # --- the companion's ---

    def _accompany(self) -> None:
        if self._companion is None:
            self._companion = Companion(self._beat, self._tick, self._fail)
            self._companion.start(self._beat_seconds())

    def _beat(self) -> float:
        """Send a heartbeat; gives the seconds to the next one."""
        with self._settler.lock:
            spoken_as, call = self._membership.spoken_as, self._membership.heartbeat()
        try:
            beat: Beat | GoQueueError = self._settler.call(call)
        except TransientError:
            raise
        except GoQueueError as error:
            beat = error
        with self._settler.lock:
            ignored = self._beaten(spoken_as, beat)
        if ignored and self._poller.lock.locked():
            self._poller.interrupt()
        return self._beat_seconds()

    def _tick(self) -> bool:
        """Do what the consuming thread is too busy for; whether to come again soon."""
        left_at = self._left_at
        away = left_at is not None and time.monotonic() - left_at > AWAY_SECONDS
        if self._poller.lock.acquire(blocking=False):  # else somebody waits for the answer
            try:
                if self._poller.look() and away:
                    self._receive()
            except GoQueueError:
                self._poller.abandon()  # the consuming thread asks again
            finally:
                self._poller.lock.release()
        if not self._settler.lock.acquire(blocking=False):
            return True  # whoever has it does the same
        try:
            self._settler.settle(patient=False)
            return not (self._leases.is_idle and self._settler.is_idle) or self._poller_unwatched()
        finally:
            self._settler.lock.release()

    def _fail(self, error: BaseException) -> None:
        self._refusal = OperatorError(f"the consumer's thread has ended: {error!r}")
        self.stop()

    def _poller_unwatched(self) -> bool:
        """An answer may come that nobody waits for."""
        return self._left_at is not None and self._poller.is_under_way
