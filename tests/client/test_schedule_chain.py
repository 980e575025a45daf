"""Chains of schedules: begun once, continued once, changed, removed, and late."""

import json
import time
from collections.abc import Callable

import pytest

from goqueue.client import Client
from goqueue.client.schedule import Schedule, cron, every
from goqueue.client.schedule_chain import Job, ScheduleChain, following
from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_time, parse_time

TOPIC = "g.schedules"
HOUR = 3_600 * NANOSECONDS
DAY = 24 * HOUR
NOON = (time.time_ns() // DAY + 2) * DAY + 12 * HOUR  # of a day that the broker's own clock has not reached


class Work:
    """A worker process with a clock that is set: everything that is due is handled on demand."""

    def __init__(self, client: Client, **schedules: Schedule) -> None:
        self.now_ns = NOON + 1
        self.runs: list[str] = []
        jobs = {name: Job(schedule, self._record(name)) for name, schedule in schedules.items()}
        self.chain = ScheduleChain(client, TOPIC, jobs, lambda: self.now_ns)
        self._client = client
        self.chain.start()

    def _record(self, name: str) -> Callable[[], None]:
        return lambda: self.runs.append(name)

    def handle(self) -> None:
        """Handle everything that was delivered."""
        with self._client.consumer(TOPIC, [TOPIC], order="key", start="earliest", until_idle="50ms") as consumer:
            for message in consumer:
                with message:
                    self.chain.handle(message)
        self.chain.close()

    def pending(self) -> list[tuple[str, str]]:
        listed = self._client.delayed(TOPIC)["messages"]
        return [(one["key"], one["deliver_at"][11:19]) for one in listed]

    def deliver(self) -> None:
        """Deliver what is pending, as the broker does when it is due."""
        self._client.deliver_delayed_where(TOPIC, limit=100)


@pytest.fixture
def work(blocking: Client) -> Work:
    return Work(blocking, cleanup=every(3_600))


def test_tick_runs_its_function_and_publishes_the_next_one(work: Work) -> None:
    work.handle()
    assert (work.runs, work.pending()) == ([], [("cleanup", "13:00:00")])
    work.now_ns = NOON + HOUR
    work.deliver()
    work.handle()
    assert (work.runs, work.pending()) == (["cleanup"], [("cleanup", "14:00:00")])


def test_chain_is_begun_once_by_several_workers(work: Work, blocking: Client) -> None:
    work.chain.start()
    Work(blocking, cleanup=every(3_600)).handle()
    work.chain.start()
    work.handle()
    assert work.pending() == [("cleanup", "13:00:00")]


def test_start_beside_a_tick_on_its_way_neither_doubles_nor_ends_the_chain(work: Work) -> None:
    work.handle()
    work.deliver()
    work.chain.start()  # its clock is behind: it computes the time that has come already
    work.handle()
    work.now_ns = NOON + HOUR
    work.deliver()
    work.handle()
    work.deliver()
    work.handle()
    assert len(work.pending()) == 1
    assert work.pending()[0][1] == "14:00:00"


def test_occurrences_that_were_missed_run_once(work: Work) -> None:
    work.handle()
    work.deliver()
    work.now_ns = NOON + 5 * HOUR + 1
    work.handle()
    assert (work.runs, work.pending()) == (["cleanup"], [("cleanup", "18:00:00")])


def test_changed_schedule_replaces_the_pending_tick(work: Work, blocking: Client) -> None:
    work.handle()
    changed = Work(blocking, cleanup=cron("30 12 * * *"))
    changed.handle()
    assert changed.pending() == [("cleanup", "12:30:00")]
    changed.now_ns = NOON + HOUR
    changed.deliver()
    changed.handle()
    assert (changed.runs, changed.pending()) == (["cleanup"], [("cleanup", "12:30:00")])


def test_tick_of_a_removed_schedule_waits_for_another_version_of_the_worker(
    work: Work, blocking: Client, caplog: pytest.LogCaptureFixture
) -> None:
    work.handle()
    work.deliver()
    other = Work(blocking, report=every(3_600))
    other.handle()
    assert (other.runs, other.pending()) == ([], [("report", "13:00:00")])
    assert "schedule cleanup is not in this worker" in caplog.text
    (waiting,) = blocking.group(TOPIC)["lag"][TOPIC].values()
    assert waiting["waiting"] == 1


def test_schedule_that_is_due_in_years_waits_in_steps_of_a_year() -> None:
    schedule, now_ns, kinds = cron("0 0 29 2 *"), parse_time("2026-03-01T00:00:00Z"), []
    for _ in range(2):
        value, now_ns = following(schedule, now_ns)
        kinds.append(json.loads(value)["kind"])
    assert kinds == ["start", "tick"]
    assert format_time(now_ns) == "2028-02-29T00:00:00.000000000Z"
