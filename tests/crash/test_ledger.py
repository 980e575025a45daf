"""`goqueue serve` killed with SIGKILL again and again while many clients publish over HTTP."""

import random
import subprocess
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.api.wire import fetch, messages
from tests.brokers import ask, create
from tests.crash.clients import PARTITIONS, PATIENCE_SECONDS, TOPIC, Client, Founder, Ledger, Lives, Producer, Writer
from tests.crash.life import telling
from tests.processes import Served

PARTS = 2
SHARE = 4
"""One kill here for so many of the storage engine alone: a broker takes that much longer to start."""
ANSWERS_MAX = 60
START_SECONDS = 0.4  # longer than a start takes: a kill within comes anywhere in it
WORDS = ("--storage-segment-bytes", "64KiB")


def gathered(lives: Lives, ledger: Ledger, seed: str) -> list[Client]:
    kinds: list[type[Client]] = [Writer, Writer, Writer, Producer, Producer, Producer, Founder]
    return [kind(f"{kind.__name__}-{number}", lives, ledger, f"{seed} {number}") for number, kind in enumerate(kinds)]


def live_and_die(path: str, lives: Lives, chance: Random) -> None:
    """Kill a broker while it starts, or after some of its answers."""
    served = Served("--data-dir", path, *WORDS).launch()
    if not chance.randrange(6):
        with suppress(subprocess.TimeoutExpired):
            served.process.wait(timeout=chance.uniform(0, START_SECONDS))
        served.kill()
        return
    lives.begin(served.await_start().url)
    try:
        lives.await_answers(chance.randrange(1, ANSWERS_MAX))
    finally:
        lives.end()
        served.kill()


def stored(url: str, partition: int) -> list[bytes]:
    """All values of a partition; offsets begin at 0 and have no gaps."""
    values: list[bytes] = []
    while True:
        answer = fetch(url, f"offset={len(values)}", TOPIC, partition)
        assert answer.status == 200, answer.body
        found = messages(answer.body)
        if not found:
            return values
        assert [message.offset for message in found] == [*range(len(values), len(values) + len(found))]
        values += [message.value for message in found]


def check(url: str, ledger: Ledger) -> None:
    there = [stored(url, partition) for partition in range(PARTITIONS)]
    lost = {place: value for place, value in ledger.answered.items() if there[place[0]][place[1] :][:1] != [value]}
    assert lost == {}
    every = [value for values in there for value in values]
    assert len(set(every)) == len(every), "nothing is stored twice"
    assert set(every) <= ledger.sent, "nothing is stored that was not sent"
    for (producer, partition), sent in ledger.marked.items():
        mine = set(sent)
        assert [value for value in there[partition] if value in mine] == sent, f"of producer {producer}"


@pytest.mark.parametrize("part", range(PARTS))
def test_what_was_answered_over_http_survives_every_kill(
    part: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kills: int = request.config.getoption("--kills") // SHARE
    seed, path = f"{random.getrandbits(32)} {part}", str(tmp_path / "data")
    chance, lives, ledger = Random(seed), Lives(), Ledger()
    clients = gathered(lives, ledger, seed)
    with telling(f"seed {seed}, in {tmp_path}"):
        with Served("--data-dir", path, *WORDS) as served:
            create(served.url, TOPIC, PARTITIONS)
        for client in clients:
            client.start()
        for _ in range(kills * part // PARTS, kills * (part + 1) // PARTS):
            live_and_die(path, lives, chance)
        with Served("--data-dir", path, *WORDS) as served:
            assert not [line for line in served.banner if line.startswith(("DAMAGE", "CLOSED"))]
            lives.begin(served.url)
            lives.finish()
            for client in clients:
                client.join(PATIENCE_SECONDS)
            assert lives.failures == []
            assert not any(client.has_unfinished for client in clients)
            check(served.url, ledger)
            assert ask(served.url, "GET", "/health").json["status"] == "ok"
