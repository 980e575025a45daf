"""Work whose jobs are done one by one while the broker goes on."""

from collections.abc import Callable
from typing import Any, Protocol

from goqueue.broker.work import Job, Promise, Work
from goqueue.errors import GoQueueError


class Workplace(Protocol):
    """Where work is under way."""

    works: "list[Doing]"

    def tell(self, *words: object) -> None: ...


class Doing:
    """Something that was asked for, and that nobody goes on with but `step`."""

    def __init__(
        self,
        world: Workplace,
        name: str,
        work: Work[Any],
        done: Callable[[Any], object] = lambda _: None,
        refused: Callable[[GoQueueError], object] = lambda _: None,
    ) -> None:
        self.name = name
        self._world = world
        self._work = work
        self._done = done
        self._refused = refused
        self._job: Job | Promise[Any] | None = None
        self.is_over = False
        world.works.append(self)

    @property
    def is_ready(self) -> bool:
        """Whether it can go on: it is not over, and waits for nobody."""
        return not self.is_over and not (isinstance(self._job, Promise) and not self._job.is_kept)

    def step(self) -> None:
        """Do the job that was decided last, and decide the next one."""
        try:
            self._job = self._next_job()
        except StopIteration as end:
            self._end()
            self._done(end.value)
        except GoQueueError as error:
            self._end()
            self._world.tell(self.name, "was refused:", error)
            self._refused(error)

    def _next_job(self) -> Job | Promise[Any]:
        if self._job is None:
            return next(self._work)
        try:
            result = self._job.result() if isinstance(self._job, Promise) else self._job()
        except Exception as error:
            return self._work.throw(error)
        return self._work.send(result)

    def close(self) -> None:
        """Whoever asked has gone."""
        if not self.is_over:
            self._end()
            self._work.close()

    def _end(self) -> None:
        self.is_over = True
        if self in self._world.works:
            self._world.works.remove(self)

    def __repr__(self) -> str:
        return f"<{self.name} {self._job!r}>"
