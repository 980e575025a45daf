"""Publish schedules, with a clock that advances only in sleep."""

from collections.abc import Iterator

from goqueue_cli.publishing.rate import PublishSchedule, paced
from goqueue_cli.publishing.sources import MessageChunk, Shared


class Day:
    """A clock whose sleepers wake up late."""

    def __init__(self, *, oversleeps: float = 0.0) -> None:
        self.now = 1000.0
        self._oversleeps = oversleeps

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + self._oversleeps


def chunk(count: int) -> MessageChunk:
    return MessageChunk([b"x"] * count, None, Shared())


def moments(day: Day, chunks: Iterator[MessageChunk], rate: float) -> list[float]:
    """When each message went out, counted from the first."""
    start = day.now
    return [day.now - start for part in paced(chunks, rate, clock=day.clock, sleep=day.sleep) for _ in part.values]


def test_messages_go_out_evenly() -> None:
    assert [round(moment, 6) for moment in moments(Day(), iter([chunk(3), chunk(2)]), 2)] == [0, 0.5, 1, 1.5, 2]


def test_delays_do_not_add_up() -> None:
    found = moments(Day(oversleeps=0.03), iter([chunk(1000)]), 100)
    assert all(-1e-6 < moment - number / 100 < 0.05 for number, moment in enumerate(found))


def test_a_source_that_was_silent_is_not_made_up_for() -> None:
    day = Day()

    def slow() -> Iterator[MessageChunk]:
        yield chunk(2)
        day.now += 10
        yield chunk(3)

    assert [round(moment, 6) for moment in moments(day, slow(), 10)] == [0, 0.1, 10.1, 10.2, 10.3]


def test_a_source_that_is_slower_than_the_rate_is_not_slowed_down() -> None:
    day = Day()

    def slow() -> Iterator[MessageChunk]:
        for _ in range(4):
            yield chunk(1)
            day.now += 0.5

    assert [round(moment, 6) for moment in moments(day, slow(), 100)] == [0, 0.5, 1, 1.5]


def test_without_a_rate_nothing_waits() -> None:
    given = [chunk(3), chunk(2)]
    assert list(paced(iter(given), None)) == given


def test_a_schedule_says_how_many_are_due() -> None:
    schedule = PublishSchedule(10, 0.0)
    assert [schedule.due(now) for now in (0.0, 0.05, 0.15, 1.05)] == [1, 1, 2, 11]
    schedule.take(2)
    assert (schedule.due(0.15), round(schedule.next, 6)) == (0, 0.2)


def test_a_tiny_rate_sleeps_no_longer_than_a_clock_can_count() -> None:
    day = Day()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        day.now = 1e306

    assert len(list(paced(iter([chunk(2)]), 1e-300, clock=lambda: day.now, sleep=sleep))) == 2
    assert slept == [3600.0]
