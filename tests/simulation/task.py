"""Work of which a simulated world does one job after another, so that anything may happen in between."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from goqueue.broker.core.work import Job, Promise, Work
from goqueue.errors import GoQueueError

if TYPE_CHECKING:
    from tests.simulation.world import World


class Task:
    """One piece of work."""

    def __init__(
        self,
        world: "World",
        name: str,
        work: Work[Any],
        done: Callable[[Any], object],
        refused: Callable[[GoQueueError], object],
    ) -> None:
        self.name = name
        self._world = world
        self._work = work
        self._done = done
        self._refused = refused
        self._job: Job | Promise[Any] | None = None
        self.is_over = False
        world.tasks.append(self)

    @property
    def is_ready(self) -> bool:
        """Return whether it can go on: it is not over, and waits for no promise."""
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
        """End it because its caller is gone."""
        if not self.is_over:
            self._end()
            self._work.close()

    def _end(self) -> None:
        self.is_over = True
        if self in self._world.tasks:
            self._world.tasks.remove(self)

    def __repr__(self) -> str:
        return f"<{self.name} {self._job!r}>"
