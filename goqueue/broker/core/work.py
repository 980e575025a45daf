"""Rules that need files or have to wait, as generators.

A generator yields jobs (functions that only touch files and may run on any thread) and is sent their results on the
owner's thread; a job that raises, raises where it was yielded. It may also yield a promise and continues when that
is kept. So a rule stays in one piece, the caller chooses the thread, and at each yield all invariants hold.
"""

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

from goqueue.errors import GoQueueError

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

    def kept(self) -> "Work[T]":
        """Wait for the result, without a pause if it is there."""
        if not self.is_kept:
            yield self
        return self.result()

    def __repr__(self) -> str:
        return f"<Promise {self._result!r}>" if self.is_kept else "<Promise open>"


Job = Callable[[], Any]
Work = Generator[Job | Promise[Any], Any, T]


def no_work(*_: object) -> Work[None]:
    """Do nothing."""
    yield from ()


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
