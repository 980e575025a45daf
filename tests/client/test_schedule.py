"""What both clients ask about delayed messages, word for word."""

import asyncio
import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from goqueue.client import AsyncClient, Client, Nanoseconds, delays
from goqueue.client.async_schedule import AsyncSchedule
from goqueue.client.schedule import Schedule
from goqueue.errors import BrokerUnreachable, RequestInvalid
from goqueue.limits import DELAY_SECONDS_FOR_REQUEST
from tests.client.peers import Asked, Reply, peer, reply

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
NOON_TEXT = "2026-03-01T12:00:00.000000000Z"
NOON_IN_URL = "2026-03-01T12%3A00%3A00.000000000Z"


async def settled(found: Any) -> Any:
    return await found if inspect.isawaitable(found) else found


@pytest.fixture(params=[Client, AsyncClient], ids=["threads", "loop"])
def ask(request: pytest.FixtureRequest) -> Any:
    """Call one method of a client of either kind."""

    def call(url: str, method: str, *given: Any, **wishes: Any) -> Any:
        async def main() -> Any:
            client = request.param(url, timeout=5)
            try:
                return await settled(getattr(client, method)(*given, **wishes))
            finally:
                await settled(client.close())

        return asyncio.run(main())

    return call


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
]


@pytest.mark.parametrize(("method", "given", "wishes", "asked", "body"), CALLS)
def test_a_call_is_what_the_broker_understands(
    ask: Any, method: str, given: tuple[Any, ...], wishes: dict[str, Any], asked: str, body: Any
) -> None:
    with peer(lambda _: reply({"answered": 1})) as server:
        assert ask(server.url, method, *given, **wishes) == {"answered": 1}
        (seen,) = server.asked
    assert f"{seen.method} {seen.target}" == asked
    assert (msgspec.json.decode(seen.body) if seen.body else None) == body


def test_what_may_look_at_all_messages_waits_as_long_as_the_broker_may_look() -> None:
    patient = [
        delays.listed("t", 1, 0, {}, "key=x"),
        delays.cancel_where("t", (), {}),
        delays.deliver_where("t", (), {}),
        delays.reschedule_where("t", (), {}, 1, None, None),
    ]
    assert {call.patience for call in patient} == {DELAY_SECONDS_FOR_REQUEST}
    assert delays.listed("t", 1, 0, {}, ()).patience == delays.cancel("t", 0, 0).patience == 0


def test_every_call_is_tried_above() -> None:
    for kind in (Schedule, AsyncSchedule):
        assert {call[0] for call in CALLS} | {"call"} == {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("method", "given", "wishes", "why"),
    [
        ("reschedule_delayed", ("t", 0, 0), {}, "nothing says when"),
        ("reschedule_delayed", ("t", 0, 0), {"delay": 1, "deliver_at": NOON}, "say one of them"),
        ("reschedule_delayed_where", ("t",), {}, "nothing says when"),
        ("reschedule_delayed_where", ("t",), {"shift": "1h", "delay": 1}, "shifted, or all moved"),
        ("reschedule_delayed_where", ("t",), {"shift": "an hour"}, "shift"),
        ("cancel_delayed_where", ("t",), {"due_to": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001
    ],
)
def test_what_can_not_be_meant_is_not_asked(
    ask: Any, method: str, given: tuple[Any, ...], wishes: dict[str, Any], why: str
) -> None:
    with peer(lambda _: reply({})) as server:
        with pytest.raises(RequestInvalid, match=why):
            ask(server.url, method, *given, **wishes)
        assert server.asked == []


@pytest.mark.parametrize(
    ("method", "given", "wishes", "hint"),
    [
        ("cancel_delayed", ("t", 0, 0), {}, "refused with delayed_not_pending if that was done"),
        ("deliver_delayed", ("t", 0, 0), {}, "refused with delayed_not_pending if that was done"),
        ("reschedule_delayed", ("t", 0, 0), {"delay": 1}, "look at the due times"),
        ("reschedule_delayed_where", ("t",), {"shift": 1}, "look at the due times"),
        ("cancel_delayed_where", ("t",), {}, "the rest goes on"),
    ],
)
def test_without_an_answer_nothing_is_done_twice_and_the_hint_says_what_to_do(
    ask: Any, method: str, given: tuple[Any, ...], wishes: dict[str, Any], hint: str
) -> None:
    def silence(_: Asked) -> Reply:
        return None

    with peer(silence) as server:
        with pytest.raises(BrokerUnreachable) as error:
            ask(server.url, method, *given, **wishes)
        assert hint in str(error.value.hint)
        assert len(server.asked) == 1
