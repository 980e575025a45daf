"""Workers: declared handlers and schedules, run as processes that are stopped and killed."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from goqueue.client import Client, Delivered, Worker
from goqueue.errors import GroupMismatch, RequestInvalid, TopicNotFound
from goqueue.testing.broker import LocalBroker
from tests.cli.programs import environment
from tests.forked import Program

PAGE = Path(__file__).resolve().parents[2] / "docs" / "workers.md"
TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ", re.MULTILINE)

APP = """
import os, time
from goqueue.client import Worker

app = Worker("g", session_timeout="1s", grace="200ms")

def note(line):
    with open("notes", "a") as file:
        file.write(line + "\\n")

@app.handler("t")
def handle(message):
    note(f"{message.offset} {message.attempt} {message.failures}")
    if message.value == b"slow" and message.attempt == 1:
        time.sleep(600)

@app.every("1s")
async def tick():
    note(f"tick {os.getpid()} {round(time.time())}")
"""


class Running:
    """`goqueue-cli worker` in a directory with its module."""

    def __init__(self, server: str, directory: Path) -> None:
        self.notes = directory / "notes"
        self.process = Program(
            [sys.executable, "-m", "goqueue_cli.main", "worker", "workers:app"],
            cwd=directory,
            env=environment(GOQUEUE_SERVER=server),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def end(self, number: int) -> tuple[int, str]:
        os.kill(self.process.pid, number)
        said, _ = self.process.communicate()
        return self.process.returncode, said.decode()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "workers.py").write_text(APP)
    (tmp_path / "notes").touch()
    return tmp_path


def until(reached: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not reached():
        assert time.monotonic() < deadline
        threading.Event().wait(0.02)


def test_sigterm_releases_and_sigkill_loses_nothing(blocking: Client, broker: LocalBroker, directory: Path) -> None:
    notes = directory / "notes"
    blocking.create_topic("t", partitions=1)
    blocking.publish("t", "slow")
    first = Running(broker.url, directory)
    until(lambda: "0 1 0" in notes.read_text())
    code, said = first.end(signal.SIGTERM)
    assert code == 0
    assert "releasing 1 unfinished message: t/0@0" in said
    second = Running(broker.url, directory)
    until(lambda: "0 2 0" in notes.read_text())  # at once, and without a failure
    blocking.publish("t", "slow")
    until(lambda: "1 1 0" in notes.read_text())
    second.end(signal.SIGKILL)
    third = Running(broker.url, directory)
    until(lambda: "1 2 1" in notes.read_text())
    assert third.end(signal.SIGINT)[0] == 0
    assert blocking.group("g")["total_lag"] == 0


def test_schedule_runs_once_in_two_processes_of_which_one_is_killed(
    blocking: Client, broker: LocalBroker, directory: Path
) -> None:
    def ticks() -> list[list[str]]:
        return [line.split()[1:] for line in (directory / "notes").read_text().splitlines() if "tick" in line]

    blocking.create_topic("t", partitions=1)
    workers = [Running(broker.url, directory) for _ in range(2)]
    until(lambda: len(ticks()) >= 2)
    (owner,) = [one for one in workers if str(one.process.pid) == ticks()[-1][0]]
    owner.end(signal.SIGKILL)
    seen = ticks()
    last = next(time for process, time in reversed(seen) if process == str(owner.process.pid))
    until(lambda: len(ticks()) >= len(seen) + 2)
    workers.remove(owner)
    assert workers[0].end(signal.SIGTERM)[0] == 0
    times = Counter(time for _, time in ticks())
    # What the killed process ran last is run again if its ack was not stored yet.
    assert [(time, count) for time, count in times.items() if count > 1] in ([], [(last, 2)])
    assert len(blocking.delayed("g.schedules")["messages"]) == 1


def test_handlers_of_both_kinds_share_a_worker(blocking: Client, broker: LocalBroker) -> None:
    blocking.create_topic("plain", partitions=1)
    blocking.create_topic("loop", partitions=1)
    worker = Worker("g")
    found: list[tuple[str, bytes | None]] = []

    @worker.handler("plain", concurrency=2)
    def plain(message: Delivered) -> None:
        found.append((message.topic, message.value))

    class InLoop:
        async def __call__(self, message: Delivered) -> None:
            found.append((message.topic, message.value))

    worker.handler("loop", max_retries=0)(InLoop())

    thread = threading.Thread(target=worker.run, args=(broker.url,))
    thread.start()
    blocking.publish("plain", "1")
    blocking.publish("loop", "2")
    until(lambda: len(found) == 2)
    worker.stop()
    thread.join()
    assert sorted(found) == [("loop", b"2"), ("plain", b"1")]
    assert blocking.group("g")["total_lag"] == 0


def test_failure_of_a_consumer_ends_the_worker(blocking: Client, broker: LocalBroker) -> None:
    blocking.create_topic("t", partitions=1)
    with blocking.consumer("g", "t", protocol="eager"):
        worker = Worker("g")
        worker.handler("t")(print)
        worker.every("1h", name="hourly")(print)
        with pytest.raises(GroupMismatch):
            worker.run(broker.url)


def test_failures_of_coroutine_handlers_end_the_worker_with_the_first_one(broker: LocalBroker) -> None:
    worker = Worker("g")

    async def handle(message: Delivered) -> None: ...

    worker.handler("missing-1")(handle)
    worker.handler("missing-2")(handle)
    with pytest.raises(TopicNotFound, match="missing"):
        worker.run(broker.url)


def test_declaration_that_cannot_work_is_refused() -> None:
    worker = Worker("g")
    with pytest.raises(RequestInvalid, match="the worker g has no handlers"):
        worker.run()
    with pytest.raises(RequestInvalid, match="a handler has no option conurrency") as refusal:
        worker.handler("t", conurrency=3)  # type: ignore[call-arg]
    assert refusal.value.hint == "did you mean concurrency?"
    with pytest.raises(RequestInvalid, match="a handler needs a topic"):
        worker.handler(print)  # type: ignore[arg-type]
    with pytest.raises(RequestInvalid, match="a consumer needs at least one topic"):
        worker.handler()
    worker.every("1m", name="a")(print)
    with pytest.raises(RequestInvalid, match="there are two schedules a"):
        worker.cron("@daily", name="a")(print)
    with pytest.raises(RequestInvalid, match="cannot be called with a message: too many positional arguments"):
        worker.handler("t")(lambda: None)  # type: ignore[type-var]
    with pytest.raises(RequestInvalid, match="cannot be called without arguments: missing a required argument"):
        worker.every("1m", name="b")(lambda _: None)  # type: ignore[type-var]
    with pytest.raises(RequestInvalid, match="cannot name a schedule"):
        worker.every("1m", name="a b")(print)


def test_worker_of_the_page_prints_what_the_page_shows(blocking: Client, broker: LocalBroker, tmp_path: Path) -> None:
    module, *examples = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shown = re.findall(r"^```text\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "workers.py").write_text(module)
    blocking.create_topic("payments", partitions=1)
    worker = Running(broker.url, tmp_path)
    for customer in ("anna", "mallory", "ben"):
        blocking.publish("payments", customer)
    until(lambda: "payments.dlq" in blocking.topics())
    until(lambda: blocking.group("billing")["total_lag"] == 0)
    _, said = worker.end(signal.SIGTERM)
    printed = iter(TIME.sub("", said).splitlines())
    for line in TIME.sub(
        "", shown.replace("/home/anna", str(tmp_path)).replace("billing.py", "workers.py")
    ).splitlines():
        assert line == "..." or line in printed, line
    for example in examples[:2]:
        subprocess.run(
            [sys.executable, "-c", example], cwd=tmp_path, env=environment(GOQUEUE_SERVER=broker.url), check=True
        )
    compile(examples[2], "schedules", "exec")
