"""A broker that is stopped and goes on, as with its virtual machine: its own pause is no failure of its clients."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from subprocess import TimeoutExpired

import pytest

from tests.api.members import Member, of, told, values
from tests.api.wire import until
from tests.brokers import Answer, ask, create, publish, read
from tests.processes import Served

SHORTEST = 3.0
"""Seconds of a session, a visibility timeout and a transaction: a busy machine takes one for their requests."""
PAUSE = 4.0


@contextmanager
def paused(served: Served, seconds: float = PAUSE) -> Iterator[ThreadPoolExecutor]:
    """The broker does nothing for so long. What is asked for meanwhile waits in its sockets."""
    served.process.send_signal(SIGSTOP)
    with ThreadPoolExecutor() as pool:
        try:
            yield pool
            with pytest.raises(TimeoutExpired):
                served.process.wait(seconds)
        finally:
            served.process.send_signal(SIGCONT)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served("--data-dir", str(tmp_path / "data")) as running:
        create(running.url, "orders")
        create(running.url, "paid")
        publish(running.url, "orders", "a", "b")
        yield running


def test_broker_pause_is_counted_and_expires_no_member_lease_or_transaction(served: Served) -> None:
    url = served.url
    member = Member(url, session_timeout=SHORTEST).join()
    leases = member.lease(visibility_timeout=SHORTEST, max_messages=1), member.lease(visibility_timeout=SHORTEST)
    (lease, later) = [one for (one,) in leases]
    options = {"transactional_id": "till", "transaction_timeout_ms": round(SHORTEST * 1000)}
    known = told(ask(url, "POST", "/producers/init", options))
    whose = {name: known[name] for name in ("producer_id", "epoch", "transactional_id")}
    told(ask(url, "POST", "/transactions/begin", whose))
    written = {"topic": "paid", "partition": 0, "value": "a and b"}
    told(ask(url, "POST", "/transactions/publish", {**whose, **written}))

    with paused(served) as pool:
        waiting: list[Future[Answer]] = [
            pool.submit(member.ask, "POST", "/settle", {"member_id": member.id, "acks": [of(lease)]}),
            pool.submit(ask, url, "POST", "/transactions/commit", whose),
            pool.submit(member.ask, "POST", "/heartbeat", {"member_id": member.id, "generation": member.generation}),
        ]
    settled, committed, beaten = [told(one.result()) for one in waiting]

    assert "error" not in settled["acks"][0], settled
    assert committed["state"] == "complete_commit"
    assert (beaten["rebalance_required"], beaten["generation"]) == (False, member.generation)
    assert values(read(url, "paid")) == ["a and b"]
    assert member.poll() == []
    assert "error" not in member.settle(acks=[of(later)])["acks"][0]
    metrics = ask(url, "GET", "/metrics").body.decode()
    found = dict(line.rsplit(" ", 1) for line in metrics.splitlines() if line.startswith("goqueue_stall"))
    assert float(found["goqueue_stalls_total"]) >= 1
    assert float(found["goqueue_stalled_seconds_total"]) >= 1.0


def test_member_lost_during_a_pause_is_removed_after_it(served: Served) -> None:
    gone = Member(served.url, session_timeout=SHORTEST).join()
    gone.lease()
    with paused(served):
        pass
    left = Member(served.url, client_id="other").join()
    until(served.url, lambda: left.assignment()["partitions"])
    (message, _) = left.poll(timeout="30s")
    assert (message["value"], message["attempt"]) == ("a", 2)


def test_a_member_outlasts_a_restart_that_takes_longer_than_its_session(tmp_path: Path) -> None:
    words = ("--data-dir", str(tmp_path / "data"))
    with Served(*words) as served:
        create(served.url, "orders")
        member = Member(served.url, session_timeout=SHORTEST).join()
        served.process.send_signal(SIGSTOP)
        with pytest.raises(TimeoutExpired):
            served.process.wait(SHORTEST * 1.5)
        served.kill()
    with Served(*words) as served:
        member.url = served.url
        assert not member.beat()["rebalance_required"]
