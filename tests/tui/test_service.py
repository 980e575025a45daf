"""Rounds of questions: one at a time, nothing stale, and patience with a broker that is away."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from goqueue.errors import BrokerUnreachable, TopicNotFound
from goqueue_admin.dashboard.questions import STATS, TOPICS, Known, Question, question
from goqueue_admin.dashboard.service import BACKOFF_SECONDS, Service
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


def play(
    steps: Callable[[Service, Gate], Coroutine[Any, Any, None]], clock: FrozenClock | None = None, **options: Any
) -> None:
    async def run() -> None:
        gate = Gate()
        service = Service(gate, ADDRESS, clock or FrozenClock(), **options)
        await steps(service, gate)
        await service.close()

    asyncio.run(run())


def test_questions_are_asked_in_their_order_one_after_the_other() -> None:
    async def steps(service: Service, gate: Gate) -> None:
        service.look([TOPICS, STATS])
        await turn()
        assert gate.asked == ["topic_details"]
        gate.answers["topic_details"].set_result([1])
        await turn()
        assert gate.asked == ["topic_details", "stats"]
        assert service.known.get(TOPICS) == [1]

    play(steps)


def test_many_wishes_during_a_round_make_one_more() -> None:
    async def steps(service: Service, gate: Gate) -> None:
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

    play(steps)


def test_a_fresh_look_does_not_wait_for_what_nobody_wants_any_more() -> None:
    async def steps(service: Service, gate: Gate) -> None:
        service.look([TOPICS])
        await turn()
        stale = gate.answers["topic_details"]
        service.look([STATS], fresh=True)
        await turn()
        assert gate.asked == ["topic_details", "stats"]
        assert stale.cancelled()
        assert service.known.get(TOPICS) is None

    play(steps)


def test_a_refusal_is_kept_in_place_of_the_answer_and_the_others_are_asked() -> None:
    async def steps(service: Service, gate: Gate) -> None:
        service.look([TOPICS, STATS])
        await turn()
        gate.answers["topic_details"].set_exception(TopicNotFound("there is none"))
        await turn()
        error = service.known.error(TOPICS)
        assert error is not None
        assert error.sentence == "there is none"
        assert gate.asked[-1] == "stats"
        assert service.link.state == "here"

    play(steps)


def test_a_broker_that_is_away_is_asked_less_and_less_often() -> None:
    clock = FrozenClock()

    async def steps(service: Service, gate: Gate) -> None:
        began = clock.now
        for seconds in (*BACKOFF_SECONDS, BACKOFF_SECONDS[-1]):
            service.look([STATS, TOPICS])
            await turn()
            gate.answers["stats"].set_exception(BrokerUnreachable("nobody"))
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

    play(steps, clock)


def test_where_an_answer_is_slow_a_probe_finds_out_that_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goqueue_admin.dashboard.service.PROBE_SECONDS", 0.001)

    async def probe() -> str | None:
        return "Connection refused"

    async def steps(service: Service, gate: Gate) -> None:
        with pytest.raises(BrokerUnreachable, match="Connection refused"):
            await service.do(STATS)
        assert gate.answers["stats"].cancelled()

    play(steps, probe=probe)


def test_whoever_draws_is_told_of_each_answer_and_of_the_link() -> None:
    told: list[Question | None] = []

    async def steps(service: Service, gate: Gate) -> None:
        service.told = told.append
        service.look([STATS])
        await turn()
        gate.answers["stats"].set_result({})
        await turn()
        assert told == [None, STATS]

    play(steps)


def test_an_answer_is_known_with_the_one_before() -> None:
    known = Known()
    asked = question("partitions", "orders", limit=3)
    assert asked == question("partitions", "orders", limit=3)
    assert known.get(asked) is None
    assert known.facts(asked) == {}
    known.take(asked, {"a": 1}, 1)
    known.take(asked, {"a": 2}, 2)
    assert (known.get(asked), known.before(asked), known.facts(asked)["a"]) == ({"a": 2}, {"a": 1}, 2)


def test_the_oldest_answers_are_forgotten_first() -> None:
    known = Known()
    for number in range(5):
        known.take(question("topic", str(number)), number, number)
    known.take(question("topic", "0"), 9, 9)
    known.keep(2)
    assert [known.get(question("topic", str(number))) for number in range(5)] == [9, None, None, None, 4]
