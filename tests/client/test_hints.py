"""Hints of errors speak the language of who reads them: Python in programs, commands on the command line."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.client.api_request import error_classes
from goqueue.client.hints import _HINTS, hint_of
from goqueue.console.failure import command_hint
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.testing.broker import LocalBroker

PYTHON = ("client.", "consumer.", "producer.", "Client(", " as tx")
HTTP = ("GET /", "POST /", "/topics/", "call init")
DETAILS: dict[str, Any] = {"operation": 17, "topic": "orders", "group": "billing", "partitions": [0, 1]}


@pytest.mark.parametrize(
    ("code", "act", "hint"),
    [
        ("topic_not_found", lambda client: client.topic("wombats"), 'client.create_topic("wombats") creates it'),
        ("topic_not_found", lambda client: client.topic("order"), "did you mean orders?"),
        ("topic_exists", lambda client: client.create_topic("orders"), "exist_ok=True"),
        ("group_not_found", lambda client: client.group("wombats"), 'client.consumer("wombats", [...]) makes it'),
        ("partition_not_found", lambda client: client.publish("orders", "x", partition=7), "the partitions 0 to 2"),
        ("message_too_large", lambda client: client.publish("orders", "x" * 2_000_000), "client.alter_topic("),
        ("producer_not_found", lambda client: client.transaction("wombats"), 'client.transactions("all")'),
        ("request_invalid", lambda client: client.create_topic("t", retention_hour=1), "did you mean retention_hours?"),
    ],
)
def test_hints_of_refusals_are_calls_of_the_client(
    module_broker: LocalBroker, code: str, act: Callable[[Client], object], hint: str
) -> None:
    with Client(module_broker.url) as client:
        client.create_topic("orders", partitions=3, exist_ok=True)
        with pytest.raises(GoQueueError) as refusal:
            act(client)
    assert refusal.value.code == code
    assert hint in (refusal.value.hint or "")
    assert not [word for word in HTTP if word in (refusal.value.hint or "")]


def test_a_refused_argument_has_its_own_name(module_broker: LocalBroker) -> None:
    with Client(module_broker.url) as client, pytest.raises(RequestInvalid, match=r"^partitions is 0, "):
        client.create_topic("t", partitions=0)


@pytest.mark.parametrize("code", _HINTS)
def test_commands_never_show_hints_in_python(code: str) -> None:
    error = error_classes()[code]("no", **DETAILS)
    error.hint = hint_of(error)
    assert error.hint
    shown = command_hint(error)
    assert shown
    assert not [word for word in PYTHON if word in shown]


def test_a_traceback_ends_with_the_hint() -> None:
    script = "from goqueue.client import Client\nClient('http://127.0.0.1:1', timeout=0.01).topics()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    *_, error, hint = done.stderr.splitlines()
    assert error.startswith("goqueue.errors.BrokerUnreachable: no answer from the broker at http://127.0.0.1:1")
    assert hint.startswith("Hint: is it running there?")
