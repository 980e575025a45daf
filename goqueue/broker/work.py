"""Decisions that need files, or have to wait: they say what for, and go on with what came of it.

A rule that needs the disk is a generator. It yields jobs, functions that touch files only and may run on any
thread, and is sent their results on the owner's thread; a job that raises raises where it was yielded. It may also
yield a promise, and goes on when that has been kept. So the rule stays in one piece, the shell chooses
the thread and waits, and wherever it yields all invariants hold.
"""

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

from goqueue.errors import GoQueueError

T = TypeVar("T")

Told = Callable[[T | GoQueueError], None]
"""Hears once: what came of it, durably, or why it was refused."""


class Promise(Generic[T]):
    """What somebody will be told once it is durable, or why it was refused. To be called once, with either."""

    def __init__(self) -> None:
        self.is_kept = False
        self._result: T | GoQueueError | None = None
        self._listener: Callable[[T | GoQueueError], None] | None = None

    def __call__(self, result: T | GoQueueError) -> None:
        assert not self.is_kept, "a promise is kept once"
        self.is_kept, self._result = True, result
        if self._listener is not None:
            self._listener(result)

    def then(self, listener: Callable[[T | GoQueueError], None]) -> None:
        """Have this called with the result, at once if it is there."""
        self._listener = listener
        if self.is_kept:
            listener(cast(T | GoQueueError, self._result))

    def result(self) -> T:
        """What was told; raises what was refused."""
        assert self.is_kept, "what was promised is not there yet"
        if isinstance(self._result, GoQueueError):
            raise self._result
        return cast(T, self._result)

    def __repr__(self) -> str:
        return f"<Promise {self._result!r}>" if self.is_kept else "<Promise open>"


Job = Callable[[], Any]
Work = Generator[Job | Promise[Any], Any, T]


def run(work: Work[T], settle: Callable[[], object] = lambda: None) -> T:
    """All of it on this thread; `settle` makes durable what a promise waits for."""
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
