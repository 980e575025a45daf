"""Rules that need files or have to wait, as generators.

A generator yields jobs (functions that only touch files and may run on any thread) and is sent their results on the
owner's thread; a job that raises, raises where it was yielded. It may also yield a promise and continues when that
is kept. So a rule stays in one piece, the caller chooses the thread, and at each yield all invariants hold.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast

from goqueue.errors import GoQueueError, LogClosed
from goqueue.storage.log import Log

T = TypeVar("T")

Callback = Callable[[T | GoQueueError], None]
"""Called once: with the durable result, or with the error."""


class Promise(Generic[T]):
    """A result that will be there once it is durable, or an error. Called once, with either."""

    def __init__(self) -> None:
        self.is_kept = False
        self._result: T | GoQueueError | None = None
        self._listener: Callable[[T | GoQueueError], None] | None = None

    def __call__(self, result: T | GoQueueError) -> None:
        assert not self.is_kept, "a promise is kept only once"
        self.is_kept, self._result = True, result
        if self._listener is not None:
            self._listener(result)

    def then(self, listener: Callable[[T | GoQueueError], None]) -> None:
        """Call this with the result, at once if it is there."""
        self._listener = listener
        if self.is_kept:
            listener(cast(T | GoQueueError, self._result))

    def result(self) -> T:
        assert self.is_kept, "the result is not there yet"
        if isinstance(self._result, GoQueueError):
            raise self._result
        return cast(T, self._result)

    def __repr__(self) -> str:
        return f"<Promise {self._result!r}>" if self.is_kept else "<Promise open>"


Job = Callable[[], Any]
Work = Generator[Job | Promise[Any], Any, T]


def run_work(work: Work[T], settle: Callable[[], object] = lambda: None) -> T:
    """Run all jobs on this thread; `settle` makes durable what a promise waits for."""
    try:
        job = next(work)
        while True:
            try:
                result = _done(job, settle)
            except Exception as error:
                job = work.throw(error)
            else:
                job = work.send(result)
    except StopIteration as end:
        value: T = end.value
        return value


def _done(job: Job | Promise[Any], settle: Callable[[], object]) -> Any:
    if not isinstance(job, Promise):
        return job()
    if not job.is_kept:
        settle()
    return job.result()


class SyncWaiter:
    """Waits until appended messages are on the device, where a publish is answered before that (`flush: interval`)."""

    def __init__(self, later: Callable[[Promise[None]], object] = lambda promise: promise(None)) -> None:
        self.later = later
        """Keeps a promise a moment later. At once would not let the flusher report."""

    def wait(self, log: Log, end: int) -> Work[None]:
        """Wait until everything below this offset is on the device."""
        while log.durable_end < end:
            log.refuse_unless_open()
            log.sync_soon()
            moment: Promise[None] = Promise()
            self.later(moment)
            yield moment

    def wait_all(self, logs: Iterable[Log]) -> Work[None]:
        """Wait for all visible messages of these logs; skip deleted ones."""
        ends = [(log, log.readable_end) for log in logs if not log.is_closed]
        for log, end in ends:
            if log.durable_end < end:
                log.sync_soon()
        for log, end in ends:
            with suppress(LogClosed):
                yield from self.wait(log, end)
