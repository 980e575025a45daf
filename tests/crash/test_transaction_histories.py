"""Transactions of real processes, some of them killed or stopped for too long, and the broker as well."""

from pathlib import Path

from tests.crash.life import telling
from tests.crash.transaction_run import TransactionRun

SHARE = 5
"""Kills of the storage engine alone for each kill here."""
NOTES_MAX = 60
TIMEOUT = "1s"
PAUSE_SECONDS = 1.5
"""Of the broker: longer than the timeout of a transaction."""


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


def test_transactions_stay_atomic_and_exactly_once_while_processes_are_killed(
    tmp_path: Path, seed: str, kills: int
) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), TransactionRun(tmp_path, seed, partitions=3) as run:
        run.read("read_committed")
        run.read("read_uncommitted")
        feeders = [run.start("group_producer", "feeder")]
        for number in range(3):
            run.write(f"writer-{number}", timeout=TIMEOUT, aborts=0.2)
            options = {"session": "2s", "visibility": "3s", "timeout": TIMEOUT, "aborts": 0.05}
            run.write(f"transformer-{number}", "transaction_transformer", **options)
        for _ in range(kills):
            disturb(run)
        run.await_outcomes()
        run.end(feeders)
        run.end([worker for worker in run.workers if worker.job.transactional_id])
        run.finish()
        run.drain()
        _, report = run.judge()
        assert report.counts.committed
        assert report.counts.aborted
        assert report.counts.acked
