"""Decisions that need files: they say what is to be read or done, and go on with what came of it.

A rule that needs the disk is a generator. It yields jobs, functions that touch files only and may run on any
thread, and is sent their results on the owner's thread; a job that raises raises where it was yielded. So the
rule stays in one piece, the shell chooses the thread, and between two jobs all invariants hold.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

T = TypeVar("T")

Job = Callable[[], Any]
Work = Generator[Job, Any, T]


def run(work: Work[T]) -> T:
    """All of it on this thread."""
    try:
        job = next(work)
        while True:
            try:
                result = job()
            except Exception as error:
                job = work.throw(error)
            else:
                job = work.send(result)
    except StopIteration as end:
        value: T = end.value
        return value
