"""Rules that need files, or have to wait: promises, and carrying such a rule out on one thread."""

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.broker.core.work import Promise, Work, run_work
from goqueue.errors import DiskFull, GoQueueError


def raises(error: Exception) -> Callable[[], Any]:
    def job() -> Any:
        raise error

    return job


def test_listener_is_called_at_once_or_later() -> None:
    heard: list[int | GoQueueError] = []
    early: Promise[int] = Promise()
    early.then(heard.append)
    assert heard == []
    early(1)
    late: Promise[int] = Promise()
    late(2)
    late.then(heard.append)
    assert heard == [1, 2]


def test_promise_is_kept_exactly_once() -> None:
    promise: Promise[int] = Promise()
    with pytest.raises(AssertionError):
        promise.result()
    promise(1)
    with pytest.raises(AssertionError):
        promise(2)


def test_promise_repr() -> None:
    promise: Promise[int] = Promise()
    assert repr(promise) == "<Promise open>"
    promise(7)
    assert repr(promise) == "<Promise 7>"


def test_job_error_is_raised_at_its_yield() -> None:
    def rule() -> Work[str]:
        try:
            yield raises(DiskFull("no room"))
        except DiskFull:
            found: str = yield lambda: "another way"
            return found
        return "never"

    assert run_work(rule()) == "another way"


def test_work_waits_only_for_open_promises() -> None:
    open_one: Promise[int] = Promise()
    kept: Promise[int] = Promise()
    kept(1)
    settled: list[str] = []

    def settle() -> None:
        settled.append("settle")
        open_one(2)

    def rule() -> Work[int]:
        one: int = yield kept
        two: int = yield open_one
        return one + two

    assert run_work(rule(), settle) == 3
    assert settled == ["settle"]


def test_refused_promise_is_raised_at_its_yield() -> None:
    def rule() -> Work[str]:
        promise: Promise[int] = Promise()
        promise(DiskFull("no room"))
        try:
            yield promise
        except DiskFull:
            return "refused"
        return "never"

    assert run_work(rule()) == "refused"
