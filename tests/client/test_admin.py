"""Requests of the client about delayed messages and transactions, word for word."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from goqueue.client import Nanoseconds
from goqueue.client.api_request import ApiRequest
from goqueue.client.delayed_requests import DelayedMessageAdmin
from goqueue.client.transaction_requests import TransactionAdmin
from goqueue.errors import BrokerUnreachable, RequestInvalid
from goqueue.limits import DELAY_SECONDS_FOR_REQUEST
from tests.client.peers import Asked, Reply, peer, reply

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_TEXT = "2026-03-01T12:00:00.000000000Z"
IDENTITY = {"transactional_id": "p", "producer_id": 7, "epoch": 3}
NOON_IN_URL = "2026-03-01T12%3A00%3A00.000000000Z"


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str, Any]] = [
    ("delayed", ("t",), {}, "GET /topics/t/delayed?limit=100&skip=0", None),
    (
        "delayed",
        ("a b", 5, 10, 2, "cancelled"),
        {"filters": ["key=x&y", "size>3"], "due_from": NOON, "due_to": Nanoseconds(0)},
        "GET /topics/a%20b/delayed?limit=5&skip=10&partition=2&state=cancelled"
        f"&from={NOON_IN_URL}&to=1970-01-01T00%3A00%3A00.000000000Z&filter=key%3Dx%26y&filter=size%3E3",
        None,
    ),
    ("delayed", ("t", 1), {"filters": "key=x"}, "GET /topics/t/delayed?limit=1&skip=0&filter=key%3Dx", None),
    ("delayed_message", ("t", 2, 7), {}, "GET /topics/t/delayed/2/7", None),
    ("delayed_message", ("t", None, 7), {}, "GET /topics/t/delayed/7", None),
    ("cancel_delayed", ("t", 2, 7), {}, "DELETE /topics/t/delayed/2/7", None),
    ("reschedule_delayed", ("t", 2, 7), {"delay": "5m"}, "PATCH /topics/t/delayed/2/7", {"delay": 300.0}),
    ("reschedule_delayed", ("t", 2, 7), {"delay": 0}, "PATCH /topics/t/delayed/2/7", {"delay": 0.0}),
    ("reschedule_delayed", ("t", 2, 7), {"deliver_at": NOON}, "PATCH /topics/t/delayed/2/7", {"deliver_at": NOON_TEXT}),
    ("deliver_delayed", ("t", 2, 7), {}, "POST /topics/t/delayed/2/7/deliver", {}),
    (
        "cancel_delayed_where",
        ("t", ["key=x"]),
        {"partition": 0, "due_from": NOON_TEXT, "limit": 3, "dry_run": True},
        "POST /topics/t/delayed/cancel",
        {"filter": ["key=x"], "partition": 0, "from": NOON_TEXT, "limit": 3, "dry_run": True},
    ),
    (
        "reschedule_delayed_where",
        ("t", "key=x"),
        {"shift": timedelta(minutes=-5), "due_to": NOON},
        "POST /topics/t/delayed/reschedule",
        {"filter": ["key=x"], "to": NOON_TEXT, "dry_run": False, "shift": "-5m"},
    ),
    (
        "reschedule_delayed_where",
        ("t",),
        {"deliver_at": NOON},
        "POST /topics/t/delayed/reschedule",
        {"filter": [], "dry_run": False, "deliver_at": NOON_TEXT},
    ),
    (
        "deliver_delayed_where",
        ("t",),
        {"filters": ("priority=high",)},
        "POST /topics/t/delayed/deliver",
        {"filter": ["priority=high"], "dry_run": False},
    ),
    ("delayed_timeline", ("t",), {}, "GET /topics/t/delayed/timeline", None),
    ("delayed_timeline", ("t", 5), {}, "GET /topics/t/delayed/timeline?buckets=5", None),
    ("delay_stats", (), {}, "GET /delay/stats", None),
    ("transactions", (), {}, "GET /transactions", None),
    ("transactions", ("ongoing",), {"limit": 3}, "GET /transactions?state=ongoing&limit=3", None),
    ("transactions", (), {"transactional_id": "a b&c"}, "GET /transactions?transactional_id=a%20b%26c", None),
    ("transaction", ("a/b",), {}, "GET /transactions/a%2Fb", None),
    ("abort_transaction", ("p", 7, 3), {"reason": "why"}, "POST /transactions/abort", {**IDENTITY, "reason": "why"}),
    ("abort_transaction", ("p", 7, 3), {}, "POST /transactions/abort", IDENTITY),
    ("transaction_stats", (), {}, "GET /transactions/stats", None),
]


@pytest.mark.parametrize(("method", "given", "options", "asked", "body"), CALLS)
def test_a_call_is_what_the_broker_understands(
    ask: Any, method: str, given: tuple[Any, ...], options: dict[str, Any], asked: str, body: Any
) -> None:
    answer = {"transactions": [{"epoch": 1}]}
    with peer(lambda _: reply(answer)) as server:
        found = ask(server.url, method, *given, **options)
        assert found == (answer["transactions"] if method == "transactions" else answer)
        (seen,) = server.asked
    assert f"{seen.method} {seen.target}" == asked
    assert (msgspec.json.decode(seen.body) if seen.body else None) == body


class _Requests(DelayedMessageAdmin):
    """A client that returns requests instead of sending them."""

    def call(self, call: ApiRequest[Any]) -> Any:
        return call


def test_requests_with_filters_wait_for_a_whole_scan() -> None:
    client: Any = _Requests()
    scans = [
        client.delayed("t", filters="key=x"),
        client.cancel_delayed_where("t"),
        client.deliver_delayed_where("t"),
        client.reschedule_delayed_where("t", delay=1),
    ]
    assert {call.patience for call in scans} == {DELAY_SECONDS_FOR_REQUEST}
    assert client.delayed("t").patience == client.cancel_delayed("t", 0, 0).patience == 0


def test_every_call_is_tried_above() -> None:
    methods = [*vars(DelayedMessageAdmin), *vars(TransactionAdmin)]
    assert {call[0] for call in CALLS} == {name for name in methods if not name.startswith("_")}


@pytest.mark.parametrize(
    ("method", "given", "options", "why"),
    [
        ("reschedule_delayed", ("t", 0, 0), {}, "nothing says when"),
        ("reschedule_delayed", ("t", 0, 0), {"delay": 1, "deliver_at": NOON}, "give one of them"),
        ("reschedule_delayed_where", ("t",), {}, "nothing says when"),
        ("reschedule_delayed_where", ("t",), {"shift": "1h", "delay": 1}, "shifted, or all moved"),
        ("reschedule_delayed_where", ("t",), {"shift": "an hour"}, "shift"),
        ("cancel_delayed_where", ("t",), {"due_to": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001
        ("abort_transaction", ("p", 7, 3), {"reason": 7}, "the reason is int"),
    ],
)
def test_what_can_not_be_meant_is_not_asked(
    ask: Any, method: str, given: tuple[Any, ...], options: dict[str, Any], why: str
) -> None:
    with peer(lambda _: reply({})) as server:
        with pytest.raises(RequestInvalid, match=why):
            ask(server.url, method, *given, **options)
        assert server.asked == []


@pytest.mark.parametrize(
    ("method", "given", "options", "hint"),
    [
        ("cancel_delayed", ("t", 0, 0), {}, "refused with delayed_not_pending if that was done"),
        ("deliver_delayed", ("t", 0, 0), {}, "refused with delayed_not_pending if that was done"),
        ("reschedule_delayed", ("t", 0, 0), {"delay": 1}, "look at the due times"),
        ("reschedule_delayed_where", ("t",), {"shift": 1}, "look at the due times"),
        ("cancel_delayed_where", ("t",), {}, "the rest goes on"),
    ],
)
def test_without_an_answer_nothing_is_done_twice_and_the_hint_says_what_to_do(
    ask: Any, method: str, given: tuple[Any, ...], options: dict[str, Any], hint: str
) -> None:
    def silence(_: Asked) -> Reply:
        return None

    with peer(silence) as server:
        with pytest.raises(BrokerUnreachable) as error:
            ask(server.url, method, *given, **options)
        assert hint in str(error.value.hint)
        assert len(server.asked) == 1
