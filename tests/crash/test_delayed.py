"""A real broker with delayed messages, killed again and again: each comes once, and none before its time."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from goqueue.quantities import parse_time
from tests.brokers import ask, create, publish

LIVES = 4
MESSAGES = 60


@contextmanager
def serving(data: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """A process of its own, and its address; killed at the end."""
    command = [sys.executable, "-m", "goqueue", "serve", "--data-dir", str(data), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        url = next(word for line in process.stderr for word in line.split() if word.startswith("http://"))
        yield url, process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def seen(url: str, count: int) -> list[tuple[str, str]]:
    """Values and times of the topic's messages, once there are so many, or no more come."""
    found: list[tuple[str, str]] = []
    while len(found) < count:
        path = f"/topics/t/partitions/0/messages?limit=1000&offset={len(found)}&wait=5s"
        more = ask(url, "GET", path).json["messages"]
        found += [(one["value"], one["timestamp"]) for one in more]
        if not more:
            break
    return found


def test_each_message_comes_once_and_none_before_its_time(tmp_path: Path) -> None:
    random = Random(7)
    dues: dict[str, int] = {}
    cancelled: set[str] = set()
    for life in range(LIVES):
        with serving(tmp_path / "data") as (url, _):
            if not life:
                create(url, "t")
            for number in range(MESSAGES):
                value = f"{life}-{number}"
                (result,) = publish(url, "t", value, partition=0, delay=round(random.uniform(0.01, 1.5), 3))
                dues[value] = parse_time(result["deliverAt"])
                if random.random() < 0.1:
                    answer = ask(url, "DELETE", f"/topics/t/delayed/0/{result['offset']}")
                    if answer.status == 200:
                        cancelled.add(value)
            seen(url, random.randrange(len(dues) - len(cancelled)))
    with serving(tmp_path / "data") as (url, _):
        found = seen(url, len(dues) - len(cancelled))
        assert sorted(value for value, _ in found) == sorted(dues.keys() - cancelled), json.dumps(found)
        early = [value for value, time in found if parse_time(time) < dues[value]]
        assert not early
