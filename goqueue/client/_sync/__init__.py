# Generated from goqueue/client/_async/__init__.py; edit that and run `make fmt`.
"""The half of the client that waits. `_sync` is generated from `_async`: `make fmt`."""

from collections.abc import Callable
from typing import Any, TypeVar

from goqueue.client.api_request import ApiRequest, RequestSequence
from goqueue.client.connection import Connection
from goqueue.client.request_attempts import RequestAttempts
from goqueue.client.threads import sleep
from goqueue.errors import GoQueueError

T = TypeVar("T")


def exchange(connection: Connection, call: ApiRequest[T], timeout: float, attempt_seconds: float = float("inf")) -> T:
    """Send a request, and retry it where that is safe. One attempt takes at most `attempt_seconds`."""
    attempts = RequestAttempts(call, timeout)
    while True:
        try:
            answer = connection.exchange(call, min(attempts.left(), attempt_seconds))
            return connection.decode(call, answer)
        except GoQueueError as error:
            delay = attempts.after(error)
            attempts.report(error, delay)
            sleep(delay)


def run_sequence(script: RequestSequence[T], ask: Callable[[ApiRequest[Any]], Any]) -> T:
    """Send the requests of a procedure. It gets their answers, and their errors."""
    outcome: Any = None
    while True:
        try:
            call = script.throw(outcome) if isinstance(outcome, GoQueueError) else script.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result
        try:
            outcome = ask(call)
        except GoQueueError as error:
            outcome = error
