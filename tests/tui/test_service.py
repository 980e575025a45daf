"""Rounds of questions: one at a time, nothing stale, and patience with a broker that is away."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from goqueue.errors import BrokerUnreachable, GoQueueError, PermissionDenied, TenantsOff, TopicNotFound
from goqueue_admin.dashboard.broker.service import (
    BACKOFF_SECONDS,
    REFUSED_SECONDS,
    STATS,
    TOPICS,
    BrokerCall,
    CallResults,
    Service,
    broker_call,
)
from tests.tui.fakes import ADDRESS, FrozenClock


class Gate:
    """A broker that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, asyncio.Future[Any]] = {}

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        if method.startswith("_"):
            raise AttributeError(method)

        async def ask(*arguments: Any) -> Any:
            self.asked.append(" ".join((method, *arguments)))
            future = self.answers[method] = asyncio.get_running_loop().create_future()
            return await future

        return ask

    async def close(self) -> None:
        pass


async def turn(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def connected(clock: FrozenClock | None = None, **options: Any) -> AsyncIterator[tuple[Service, Gate]]:
    """Yield a service and the broker that it asks."""
    gate = Gate()
    service = Service(gate, ADDRESS, clock or FrozenClock(), **options)
    yield service, gate
    await service.close()


async def test_questions_are_asked_in_their_order_one_after_the_other() -> None:
    async with connected() as (service, gate):
        service.look([TOPICS, STATS])
        await turn()
        assert gate.asked == ["topic_details"]
        gate.answers["topic_details"].set_result([1])
        await turn()
        assert gate.asked == ["topic_details", "stats"]
        assert service.known.get(TOPICS) == [1]


async def test_requests_during_a_round_make_one_more_round() -> None:
    async with connected() as (service, gate):
        for _ in range(5):
            service.look([STATS])
            await turn()
        assert gate.asked == ["stats"]
        gate.answers["stats"].set_result({})
        await turn()
        assert gate.asked == ["stats", "stats"]
        gate.answers["stats"].set_result({})
        await turn()
        assert gate.asked == ["stats", "stats"]


async def test_fresh_round_cancels_the_current_one() -> None:
    async with connected() as (service, gate):
        service.look([TOPICS])
        await turn()
        stale = gate.answers["topic_details"]
        service.look([STATS], fresh=True)
        await turn()
        assert gate.asked == ["topic_details", "stats"]
        assert stale.cancelled()
        assert service.known.get(TOPICS) is None


async def test_a_refusal_is_kept_in_place_of_the_answer_and_the_others_are_asked() -> None:
    async with connected() as (service, gate):
        service.look([TOPICS, STATS])
        await turn()
        gate.answers["topic_details"].set_exception(TopicNotFound("there is none"))
        await turn()
        error = service.known.error(TOPICS)
        assert error is not None
        assert error.sentence == "there is none"
        assert gate.asked[-1] == "stats"
        assert service.link.state == "here"


async def test_a_broker_that_is_away_is_asked_less_and_less_often() -> None:
    clock = FrozenClock()
    async with connected(clock) as (service, gate):
        began = clock.now
        for seconds in (*BACKOFF_SECONDS, BACKOFF_SECONDS[-1]):
            service.look([STATS, TOPICS])
            await turn()
            gate.answers["stats"].set_exception(BrokerUnreachable("no broker"))
            await turn()
            assert service.link.state == "away"
            assert service.link.since_ns == began
            assert service.link.retry_ns == clock.now + seconds * 10**9
            assert not service.is_due
            clock.pass_seconds(seconds)
            assert service.is_due
        service.look([STATS])
        await turn()
        gate.answers["stats"].set_result({})
        await turn()
        assert service.link.state == "here"
        assert "topic_details" not in gate.asked


async def test_probe_reports_an_unreachable_broker_while_an_answer_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue_admin.dashboard.broker.service.PROBE_SECONDS", 0.001)

    async def probe() -> str | None:
        return "Connection refused"

    async with connected(probe=probe) as (service, gate):
        with pytest.raises(BrokerUnreachable, match="Connection refused"):
            await service.do(STATS)
        assert gate.answers["stats"].cancelled()


async def test_each_result_and_connection_change_is_reported() -> None:
    told: list[BrokerCall | None] = []
    async with connected() as (service, gate):
        service.told = told.append
        service.look([STATS])
        await turn()
        gate.answers["stats"].set_result({})
        await turn()
        assert told == [None, STATS]


def test_an_answer_is_known_with_the_one_before() -> None:
    known = CallResults()
    asked = broker_call("partitions", "orders", limit=3)
    assert asked == broker_call("partitions", "orders", limit=3)
    assert known.get(asked) is None
    assert known.facts(asked) == {}
    known.take(asked, {"a": 1}, 1)
    known.take(asked, {"a": 2}, 2)
    assert (known.get(asked), known.before(asked), known.facts(asked)["a"]) == ({"a": 2}, {"a": 1}, 2)


def test_the_oldest_answers_are_forgotten_first() -> None:
    known = CallResults()
    for number in range(5):
        known.take(broker_call("topic", str(number)), number, number)
    known.take(broker_call("topic", "0"), 9, 9)
    known.keep(2)
    assert [known.get(broker_call("topic", str(number))) for number in range(5)] == [9, None, None, None, 4]


async def test_refused_call_is_not_repeated_by_the_round_that_waited() -> None:
    async with connected() as (service, gate):
        for _ in range(2):
            service.look([STATS, TOPICS])
        await turn()
        gate.answers["stats"].set_exception(PermissionDenied("no right"))
        await turn()
        gate.answers["topic_details"].set_result([])
        await turn()
        assert gate.asked == ["stats", "topic_details", "topic_details"]


async def test_refused_call_is_not_repeated_before_it_may_be_answered_otherwise() -> None:
    clock = FrozenClock()
    async with connected(clock) as (service, gate):

        async def look(error: GoQueueError | None = None) -> bool:
            """Return whether the broker was asked."""
            gate.asked.clear()
            service.look([STATS])
            await turn()
            was_asked = bool(gate.asked)
            if was_asked:
                future = gate.answers["stats"]
                future.set_exception(error) if error else future.set_result({})
                await turn()
            clock.pass_seconds(1)
            return was_asked

        assert await look(PermissionDenied("no right"))
        assert not await look()
        clock.pass_seconds(REFUSED_SECONDS)
        assert await look(TenantsOff("off"))
        clock.pass_seconds(REFUSED_SECONDS)
        assert not await look()
        service.known.forget_refusals()
        assert await look(PermissionDenied("of a tenant", tenant="a"))
        clock.pass_seconds(REFUSED_SECONDS)
        assert not await look()
        service.known.forget_refusals()
        assert await look()
        assert await look()
