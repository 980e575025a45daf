"""Groups of real processes, some of them killed, and the broker as well; what all of them saw is judged as a whole."""

from collections import Counter
from pathlib import Path
from typing import Any

from goqueue.testing.history.events import Event, NackedEvent, ReceivedEvent
from tests.brokers import ask
from tests.crash.group_run import GroupRun, WorkerProcess
from tests.crash.life import telling

SHARE = 5
"""Kills of the storage engine alone for each kill here."""
STYLES = ("batches", "in passing", "one by one", "slowly")
NOTES_MAX = 80
PAUSE_SECONDS = 3.2
"""Of the broker: longer than any session or lease here."""
MANY = 75  # of a hundred, of which some are just coming or going


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


def kill_a_process(run: GroupRun) -> None:
    """The broker, or a consumer; or one of them is stopped for longer than sessions and leases last."""
    run.go_on(run.chance.randint(1, NOTES_MAX))
    kind = run.chance.choices(("consumer", "broker", "stopped", "paused"), (10, 6, 4, 1))[0]
    consumers = [worker for worker in run.workers if worker.kind == "group_consumer"]
    chosen = run.chance.choice(consumers)
    if kind == "broker":
        run.kill_broker()
    elif kind == "paused":
        run.pause_broker(PAUSE_SECONDS)
    elif kind == "stopped" and is_at_work(run.observe(), chosen):  # who waits for messages is a member while it does
        with chosen.stopped():
            run.await_that("given up", lambda group: not is_at_work(group, chosen))
    else:
        run.kill(chosen)


def is_at_work(group: dict[str, Any] | None, worker: WorkerProcess) -> bool:
    members = group["members"] if group is not None else []
    return any(member["assigned_partitions"] for member in members if member["client_id"] == worker.job.name)


def test_no_message_is_lost_or_done_twice_while_consumers_and_the_broker_are_killed(
    tmp_path: Path, seed: str, kills: int
) -> None:
    run = GroupRun(tmp_path, seed, partitions=6)
    run.settings = "--storage-segment-bytes", "64KiB"
    with telling(f"seed {seed}, in {tmp_path}"), run:
        priorities = run.chance.choice((True, False))
        producers = [
            run.start("group_producer", f"producer-{number}", mixed=True, priorities=priorities) for number in range(3)
        ]
        protocol, order = run.chance.choice(("cooperative", "eager")), run.chance.choice(("none", "key"))
        start_consumers(run, protocol, order)
        for _ in range(kills):
            kill_a_process(run)
        run.end(producers)
        run.end([*run.workers])
        run.drain(protocol=protocol)
        _, report = run.judge(in_order=order == "none" and not priorities)
        assert report.counts.acked
        assert ask(run.url, "GET", "/health").json["status"] == "ok"


def test_a_hundred_changing_members_lose_no_message(tmp_path: Path, seed: str, kills: int) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), GroupRun(tmp_path, seed, partitions=12) as run:
        producers = [run.start("group_producer", f"producer-{number}") for number in range(2)]
        crowds = [
            run.start("group_members", f"crowd-{number}", members=20, quits=True, session="2s", visibility="3s")
            for number in range(5)
        ]
        run.await_that("a hundred", lambda group: len(group["members"]) >= MANY)
        for _ in range(max(kills // 4, 1)):
            run.go_on(run.chance.randint(20, 200))
            if run.chance.random() < 0.2:
                run.kill_broker()
            else:
                crowds.append(run.kill(crowds.pop(run.chance.randrange(len(crowds)))))
        run.end(producers)
        run.end(crowds)
        run.drain()
        _, report = run.judge()
        assert report.counts.redelivered


def test_restart_of_the_broker_disturbs_no_client(tmp_path: Path, seed: str, kills: int) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), GroupRun(tmp_path, seed, partitions=6) as run:
        consumers = [
            run.start("group_members", f"consumer-{number}", forgives=False, nacks=0.02) for number in range(4)
        ]
        run.await_that("shared out among four", lambda group: group["state"] == "stable" and len(group["members"]) == 4)
        producers = [run.start("group_producer", f"producer-{number}") for number in range(2)]
        for _ in range(max(kills // 4, 1)):
            run.go_on(run.chance.randint(1, NOTES_MAX))
            run.restart_broker()
        run.end(producers)
        run.await_that("all done", lambda group: group["total_lag"] == 0)
        run.end(consumers)
        events, _ = run.judge()
        assert received_again(events) == nacked(events)


def received_again(events: list[Event]) -> Counter[tuple[int, int]]:
    """Return how often each message came once more."""
    received = Counter((event.partition, event.offset) for event in events if isinstance(event, ReceivedEvent))
    return received - Counter(received.keys())


def nacked(events: list[Event]) -> Counter[tuple[int, int]]:
    return Counter(
        (event.partition, offset)
        for event in events
        if isinstance(event, NackedEvent)
        for offset in range(event.first, event.end)
    )
