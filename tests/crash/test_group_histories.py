"""Groups of real processes, some of them killed, and the broker as well; what all of them saw is judged as a whole."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from goqueue.testing.history import Event, Nacked, Received
from tests.crash.group_run import GroupRun, Worker
from tests.crash.life import telling

SHARE = 10
"""One kill here for so many of the storage engine alone."""
STYLES = ("batches", "in passing", "one by one", "slowly")
NOTES_MAX = 80
PAUSE_SECONDS = 3.2
"""Of the broker: longer than any session or lease here."""
SHORT_PAUSE_SECONDS = 2.5
MANY = 75  # of a hundred, of which some are just coming or going


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """Of what is chosen; how processes take turns is theirs."""
    given: int | None = request.config.getoption("--seed")
    return str(random.getrandbits(32) if given is None else given)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return max(int(request.config.getoption("--kills")) // SHARE, 1)


def start_consumers(run: GroupRun, protocol: str, order: str) -> None:
    """Eight consumers of all styles, some of which nack and reject."""
    for number in range(8):
        fails = number % 3 == 0
        run.start(
            "group_consumer",
            f"consumer-{number}",
            style=STYLES[number % len(STYLES)],
            session="2s",
            visibility=f"{2 + number % 2}s",
            protocol=protocol,
            order=order,
            nacks=0.03 if fails else 0.0,
            rejects=0.03 if fails else 0.0,
        )


def kill_somebody(run: GroupRun) -> None:
    """The broker, or a consumer; or one of them is stopped for longer than sessions and leases last."""
    group = run.look_on(run.chance.randint(1, NOTES_MAX))
    kind = run.chance.choices(("consumer", "broker", "stopped", "paused"), (10, 6, 4, 1))[0]
    consumers = [worker for worker in run.workers if worker.kind == "group_consumer"]
    chosen = run.chance.choice(consumers)
    if kind == "broker":
        run.kill_broker()
    elif kind == "paused":
        run.pause_broker(PAUSE_SECONDS)
    elif kind == "stopped" and is_at_work(group, chosen):  # who waits for messages is a member while it does
        with chosen.stopped():
            run.await_that("given up", lambda group: not is_at_work(group, chosen))
    else:
        run.kill(chosen)


def is_at_work(group: dict[str, Any], worker: Worker) -> bool:
    return any(member["assigned_partitions"] for member in group["members"] if member["client_id"] == worker.job.name)


def test_nothing_is_lost_or_done_twice_while_consumers_and_the_broker_are_killed(
    tmp_path: Path, seed: str, kills: int
) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), GroupRun(tmp_path, seed, partitions=6) as run:
        producers = [run.start("group_producer", f"producer-{number}") for number in range(3)]
        protocol, order = run.chance.choice(("cooperative", "eager")), run.chance.choice(("none", "key"))
        start_consumers(run, protocol, order)
        for _ in range(kills):
            kill_somebody(run)
        run.end(producers)
        run.end([*run.workers])
        run.drain(protocol=protocol)
        _, report = run.judge(in_order=order == "none")
        assert report.ok, str(report)
        assert report.counts.acked


def test_a_hundred_members_that_come_and_go_lose_nothing(tmp_path: Path, seed: str, kills: int) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), GroupRun(tmp_path, seed, partitions=12) as run:
        producers = [run.start("group_producer", f"producer-{number}") for number in range(2)]
        crowds = [
            run.start("group_members", f"crowd-{number}", members=20, quits=True, session="2s", visibility="3s")
            for number in range(5)
        ]
        run.await_that("a hundred", lambda group: len(group["members"]) >= MANY)
        for _ in range(max(kills // 4, 1)):
            run.look_on(run.chance.randint(20, 200))
            if run.chance.random() < 0.2:
                run.kill_broker()
            else:
                crowds.append(run.kill(crowds.pop(run.chance.randrange(len(crowds)))))
        run.end(producers)
        run.end(crowds)
        run.drain()
        _, report = run.judge()
        assert report.ok, str(report)
        assert report.counts.redelivered


def test_a_broker_that_is_restarted_disturbs_nobody(tmp_path: Path, seed: str, kills: int) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), GroupRun(tmp_path, seed, partitions=6) as run:
        consumers = [
            run.start("group_members", f"consumer-{number}", forgives=False, nacks=0.02) for number in range(4)
        ]
        run.await_that("shared out among four", lambda group: group["state"] == "stable" and len(group["members"]) == 4)
        producers = [run.start("group_producer", f"producer-{number}") for number in range(2)]
        for _ in range(max(kills // 4, 1)):
            run.look_on(run.chance.randint(1, NOTES_MAX))
            run.restart_broker()
        run.end(producers)
        run.await_that("all done", lambda group: group["total_lag"] == 0)
        run.end(consumers)
        events, report = run.judge()
        assert report.ok, str(report)
        assert received_again(events) == nacked(events)


def test_pause_of_the_broker_disturbs_no_client(tmp_path: Path, seed: str) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), GroupRun(tmp_path, seed, partitions=4) as run:
        wishes = {"session": "2s", "visibility": "2s", "forgives": False, "members": 2}
        consumers = [run.start("group_members", f"consumer-{number}", **wishes) for number in range(2)]
        run.await_that("shared out", lambda group: group["state"] == "stable" and len(group["members"]) == 4)
        producer = run.start("group_producer", "producer")
        generation = run.look_on(run.chance.randint(1, NOTES_MAX))["generation"]
        run.pause_broker(SHORT_PAUSE_SECONDS)
        assert run.look_on(NOTES_MAX)["generation"] == generation
        run.end([producer])
        run.await_that("all done", lambda group: group["total_lag"] == 0)
        run.end(consumers)
        events, report = run.judge()
        assert report.ok, str(report)
        assert not received_again(events)


def received_again(events: list[Event]) -> Counter[tuple[int, int]]:
    """How often each message came once more."""
    received = Counter((event.partition, event.offset) for event in events if isinstance(event, Received))
    return received - Counter(received.keys())


def nacked(events: list[Event]) -> Counter[tuple[int, int]]:
    return Counter(
        (event.partition, offset)
        for event in events
        if isinstance(event, Nacked)
        for offset in range(event.first, event.end)
    )
