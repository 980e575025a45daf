"""A bad bit in what the broker records for itself: in the catalog, in groups' records, in transactions."""

from collections.abc import Iterator
from functools import cache

import msgspec
import pytest

from goqueue.broker.broker import CATALOG, GROUPS, TRANSACTIONS
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import Running
from tests.broker.groupwork import Team
from tests.broker.transactions.scene import Scene

INTERNAL = (CATALOG, GROUPS, TRANSACTIONS)


@cache
def lived(end: str) -> FaultyDisk:
    """A disk with two topics, a group with leases, retries and done messages, and transactions in every state."""
    scene = Scene()
    running = scene.running
    running.create("events", partitions=2, retention_hours=5)
    running.create("gone")
    running.delete("gone")
    done, going_on = scene.init("done"), scene.init("going-on")
    scene.send(done, b"one", b"two")
    scene.end(done, "done")
    team = Team(running, "team")
    member = team.join("one", topics=("orders", "events"))
    team.publish("a", "b", "c", "d", "e")
    first, second = team.take(member, 2), team.take(member, 2)
    team.ack(first)
    team.nack(second, (second.grant.end - 1, second.grant.end))
    other = Team(running, "other")
    other.ack(other.take(other.join("two"), 1))
    scene.send(going_on, b"three")
    if end == "stopped":
        running.broker.close()
        running.store.close()
    return running.disk.crash("everything")


def state(running: Running) -> list[object]:
    """All that the internal logs say."""
    broker = running.broker
    records = [*broker._catalog.records()]
    shelves = [record for shelf in broker.coordinator.ledger.shelves for record in shelf.state.records()]
    return [msgspec.to_builtins(record) for record in (*records, *shelves, *broker.transactions.register.records())]


def internal_logs(disk: FaultyDisk) -> Iterator[str]:
    """Those with something in them."""
    for path in disk.paths():
        if path.endswith(".log") and any(f"/{name}/" in path for name in INTERNAL) and disk.read_file(path):
            yield path


@pytest.mark.parametrize("end", ["killed", "stopped"])
@pytest.mark.parametrize("name", INTERNAL)
def test_a_flipped_bit_anywhere_in_an_internal_log_costs_nothing(name: str, end: str) -> None:
    before = lived(end)
    expected = state(Running(before.after_crash("everything")))
    paths = [path for path in internal_logs(before) if f"/{name}/" in path]
    assert paths
    for path in paths:
        for position in range(0, len(before.read_file(path)), 23):
            disk = before.after_crash("everything")
            disk.flip(path, position, position % 8)
            running = Running(disk)
            assert state(running) == expected, (path, position)
            assert any(found.healed for found in running.store.recovered.values())


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_a_bad_block_of_any_internal_log_costs_nothing(end: str) -> None:
    before = lived(end)
    expected = state(Running(before.after_crash("everything")))
    for path in internal_logs(before):
        for position in range(0, len(before.read_file(path)), 4096):
            disk = before.after_crash("everything")
            size = min(4096, len(disk.read_file(path)) - position)
            disk.overwrite(path, position, b"\xa5" * size)
            assert state(Running(disk)) == expected, (path, position)
