"""Rules that need files, or have to wait: promises, and carrying such a rule out on one thread."""

from collections.abc import Callable
from typing import Any

import pytest

from goqueue.broker.work import Promise, Work, run
from goqueue.errors import DiskFull, GoQueueError


def raises(error: Exception) -> Callable[[], Any]:
    def job() -> Any:
        raise error

    return job


def test_a_promise_tells_what_it_was_told() -> None:
    promise: Promise[int] = Promise()
    assert not promise.is_kept
    promise(7)
    assert (promise.is_kept, promise.result()) == (True, 7)


def test_a_promise_that_was_refused_raises_the_refusal() -> None:
    promise: Promise[int] = Promise()
    promise(DiskFull("no room"))
    with pytest.raises(DiskFull):
        promise.result()


def test_who_listens_hears_later_or_at_once() -> None:
    heard: list[int | GoQueueError] = []
    early: Promise[int] = Promise()
    early.then(heard.append)
    assert heard == []
    early(1)
    late: Promise[int] = Promise()
    late(2)
    late.then(heard.append)
    assert heard == [1, 2]


def test_nothing_can_be_told_twice_and_nothing_is_there_before() -> None:
    promise: Promise[int] = Promise()
    with pytest.raises(AssertionError):
        promise.result()
    promise(1)
    with pytest.raises(AssertionError):
        promise(2)


def test_a_promise_shows_whether_it_is_kept() -> None:
    promise: Promise[int] = Promise()
    assert repr(promise) == "<Promise open>"
    promise(7)
    assert repr(promise) == "<Promise 7>"


def test_jobs_are_done_one_after_the_other_and_their_results_come_back() -> None:
    def rule() -> Work[int]:
        one: int = yield lambda: 1
        two: int = yield lambda: one + 1
        return one + two

    assert run(rule()) == 3


def test_what_needs_no_job_is_done_at_once() -> None:
    def rule() -> Work[str]:
        yield from ()
        return "done"

    assert run(rule()) == "done"


def test_a_job_that_raises_raises_where_it_was_asked_for() -> None:
    def rule() -> Work[str]:
        try:
            yield raises(DiskFull("no room"))
        except DiskFull:
            found: str = yield lambda: "another way"
            return found
        return "never"

    assert run(rule()) == "another way"


def test_what_a_rule_does_not_catch_comes_out() -> None:
    def rule() -> Work[None]:
        yield raises(KeyError("mistake"))

    with pytest.raises(KeyError):
        run(rule())


def test_a_promise_that_is_open_is_settled_and_one_that_is_kept_is_not_waited_for() -> None:
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

    assert run(rule(), settle) == 3
    assert settled == ["settle"]


def test_a_promise_that_is_refused_raises_where_it_was_waited_for() -> None:
    def rule() -> Work[str]:
        promise: Promise[int] = Promise()
        promise(DiskFull("no room"))
        try:
            yield promise
        except DiskFull:
            return "refused"
        return "never"

    assert run(rule()) == "refused"
