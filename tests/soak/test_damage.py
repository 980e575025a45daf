"""The damage of the soak run costs exactly what the broker reports."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from goqueue.client import Client
from tests.brokers import ask, publish
from tests.crash.group_run import TOPIC
from tests.crash.power_run import PowerRun
from tests.soak.damage import Damager, Flip, FlipKind

SENT = [f"value {number}" for number in range(150)]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[PowerRun]:
    """A broker with messages in several segments."""
    run = PowerRun(tmp_path, "1", partitions=1)
    run.settings = "--storage-segment-bytes", "4KiB"
    with run:
        publish(run.url, TOPIC, *SENT[:100])
        publish(run.url, TOPIC, *SENT[100:])
        yield run


def damage(run: PowerRun, kind: FlipKind, seed: int = 0) -> Flip:
    flip = Damager(run.device, Random(seed), (TOPIC,), (kind,)).damage()
    assert flip is not None
    return flip


def values(run: PowerRun) -> list[str]:
    with Client(run.url) as client, client.reader(TOPIC, skip_damage=True) as reader:
        return [(message.value or b"").decode() for message in reader]


def test_flipped_bit_costs_one_message_which_the_broker_names(run: PowerRun) -> None:
    left = SENT.copy()
    for kind in ("sealed", "active"):
        run.end_broker("killed")
        flip = damage(run, kind)
        run.begin_broker()
        named = ask(run.url, "GET", f"/topics/{TOPIC}/partitions/0/messages?offset={flip.offset}")
        assert named.code == "range_damaged"
        left.remove(flip.value)
        assert values(run) == left


def test_flip_and_lost_index_cost_nothing_in_a_cache(run: PowerRun) -> None:
    for seed in range(3):
        run.end_broker("stopped")
        damage(run, "cache", seed)
        run.begin_broker()
        assert values(run) == SENT
