"""Transactions of real processes, some of them killed or stopped for too long, and the broker as well."""

import random
from pathlib import Path

import pytest

from tests.crash.life import telling
from tests.crash.transaction_run import TransactionRun

SHARE = 25
"""One kill here for so many of the storage engine alone."""
NOTES_MAX = 60
TIMEOUT = "1s"
PAUSE_SECONDS = 1.5
"""Of the broker: longer than the timeout of a transaction."""


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """Of what is chosen; how processes take turns is theirs."""
    given: int | None = request.config.getoption("--seed")
    return str(random.getrandbits(32) if given is None else given)


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> int:
    return max(int(request.config.getoption("--kills")) // SHARE, 1)


def disturb(run: TransactionRun) -> None:
    """The broker is killed or paused, or a producer is killed; or one is stopped until it is too late or replaced."""
    run.go_on(run.chance.randint(1, NOTES_MAX))
    kind = run.chance.choices(("broker", "paused", "killed", "timed out", "replaced"), (4, 1, 4, 1, 2))[0]
    chosen = run.chance.choice([worker for worker in run.workers if worker.job.transactional_id])
    if kind == "broker":
        run.kill_broker()
    elif kind == "paused":
        run.pause_broker(PAUSE_SECONDS)
    elif kind == "timed out":
        run.let_time_out(chosen)
    elif kind == "replaced" and run.has_begun(chosen):
        run.replace(chosen)
    else:
        run.kill(chosen)


def test_transactions_over_three_partitions_are_all_or_nothing_whoever_is_killed(
    tmp_path: Path, seed: str, kills: int
) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), TransactionRun(tmp_path, seed, partitions=1) as run:
        run.read("read_committed")
        run.read("read_uncommitted")
        for number in range(4):
            run.write(f"writer-{number}", timeout=TIMEOUT, aborts=0.1)
        for _ in range(kills):
            disturb(run)
        run.end([worker for worker in run.workers if worker.job.transactional_id])
        run.finish()
        _, report = run.judge()
        assert report.ok, str(report)
        assert report.counts.committed
        assert report.counts.aborted


def test_what_is_consumed_and_transformed_is_done_once_whoever_is_killed(tmp_path: Path, seed: str, kills: int) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), TransactionRun(tmp_path, seed, partitions=3) as run:
        run.read("read_committed")
        run.read("read_uncommitted")
        feeders = [run.start("group_producer", "feeder")]
        for number in range(4):
            wishes = {"session": "2s", "visibility": "3s", "timeout": TIMEOUT, "aborts": 0.05}
            run.write(f"transformer-{number}", "transaction_transformer", **wishes)
        for _ in range(kills):
            disturb(run)
        run.end(feeders)
        run.end([worker for worker in run.workers if worker.job.transactional_id])
        run.finish()
        run.drain()
        _, report = run.judge()
        assert report.ok, str(report)
        assert report.counts.committed
        assert report.counts.acked
