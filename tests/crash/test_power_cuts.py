"""Real brokers that lose their power: the device keeps what was synced, and of the rest any part, torn anywhere."""

from pathlib import Path

from tests.brokers import publish, read
from tests.crash.device import LOCK
from tests.crash.group_run import TOPIC
from tests.crash.life import telling
from tests.crash.power_run import PowerRun

SHARE = 10
"""Kills of the storage engine alone for each power cut here."""
NOTES_MAX = 60


def values(run: PowerRun) -> list[str]:
    return [message["value"] for message in read(run.url, TOPIC)]


def files(path: Path) -> dict[str, bytes]:
    return {f"/{one.relative_to(path)}": one.read_bytes() for one in path.rglob("*") if one.is_file()}


def test_power_cut_takes_what_was_not_synced_and_a_kill_does_not(tmp_path: Path, seed: str) -> None:
    run = PowerRun(tmp_path, seed, partitions=1)
    run.settings = "--storage-flush", "interval", "--storage-flush-interval", "1m"
    with run:
        publish(run.url, TOPIC, "synced at the stop")
        run.restart_broker()
        publish(run.url, TOPIC, "written")
        run.kill_broker()
        assert values(run) == ["synced at the stop", "written"]
        publish(run.url, TOPIC, "written later")
        run.cut_power("synced")
        assert values(run)[-1] != "written later"


def test_journal_tells_all_that_is_in_the_files(tmp_path: Path, seed: str) -> None:
    with PowerRun(tmp_path, seed, partitions=3) as run:
        run.start("group_producer", "producer")
        run.start("group_consumer", "consumer")
        run.go_on(NOTES_MAX)
        run.end([*run.workers])
        code, said = run.broker.stop()
        assert code == 0, said
        real = files(run.device.data)
        del real[LOCK]  # which is held on the real disk alone
        run.device.process_ended()
        assert {path: run.device.read(path) for path in run.device.files()} == real


def disturb(run: PowerRun) -> None:
    """Mostly the power goes; or the broker is killed, or a client is."""
    run.go_on(run.chance.randint(1, NOTES_MAX))
    kind = run.chance.choices(("cut", "killed", "client"), (4, 1, 1))[0]
    if kind == "cut":
        run.cut_power()
    elif kind == "killed":
        run.kill_broker()
    else:
        run.kill(run.chance.choice([worker for worker in run.workers if worker.kind != "transaction_reader"]))


def test_nothing_answered_is_lost_when_the_power_goes(tmp_path: Path, seed: str, kills: int) -> None:
    with telling(f"seed {seed}, in {tmp_path}"), PowerRun(tmp_path, seed, partitions=3) as run:
        run.read("read_committed")
        run.read("read_uncommitted")
        run.start("group_producer", "producer")
        run.start("group_consumer", "consumer", style="batches", session="2s", visibility="2s", nacks=0.03)
        run.write("transformer", "transaction_transformer", session="2s", visibility="3s", timeout="1s", aborts=0.05)
        run.write("writer", timeout="1s", aborts=0.1)
        for _ in range(kills):
            disturb(run)
        run.await_outcomes()
        run.end([worker for worker in run.workers if worker.kind != "transaction_reader"])
        run.finish()
        run.drain()
        _, report = run.judge()
        assert report.counts.acked
        assert report.counts.committed
