"""A bad bit in what the broker records for itself: in the catalog, in groups' records, in transactions."""

from collections.abc import Iterator
from functools import cache

import msgspec
import pytest

from goqueue.broker.internal_topics import CATALOG, GROUPS, TRANSACTIONS
from goqueue.errors import LogExists, LogFenced, TransactionNotOpen
from goqueue.storage import frame
from goqueue.testing.disk import FaultyDisk
from tests.broker.brokers import Running
from tests.broker.groupwork import Team
from tests.broker.transactions.scene import NAME, ORDERS, Scene
from tests.broker.transactions.traffic import read_messages

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
    groups = [record for one in broker.groups for record in one.store.group_log.state.records()]
    transactions = [record for one in broker.transactions for record in one.register.records()]
    return [msgspec.to_builtins(record) for record in (*records, *groups, *transactions)]


def internal_logs(disk: FaultyDisk) -> Iterator[str]:
    """Those with something in them."""
    for path in disk.paths():
        if path.endswith(".log") and any(f"/{name}/" in path for name in INTERNAL) and disk.read_file(path):
            yield path


@pytest.mark.parametrize("end", ["killed", "stopped"])
@pytest.mark.parametrize("name", INTERNAL)
def test_flipped_bit_in_internal_log_is_repaired_from_its_copy(name: str, end: str) -> None:
    before = lived(end)
    expected = state(Running(before.after_crash("everything")))
    paths = [path for path in internal_logs(before) if f"/{name}/" in path]
    assert paths
    for path in paths:
        for position in range(0, len(before.read_file(path)), 61):
            disk = before.after_crash("everything")
            disk.flip(path, position, position % 8)
            running = Running(disk)
            assert state(running) == expected, (path, position)
            assert any(found.restored for found in running.store.recovered.values())


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_bad_block_in_internal_log_is_repaired_from_its_copy(end: str) -> None:
    before = lived(end)
    expected = state(Running(before.after_crash("everything")))
    for path in internal_logs(before):
        for position in range(0, len(before.read_file(path)), 4096):
            disk = before.after_crash("everything")
            size = min(4096, len(disk.read_file(path)) - position)
            disk.overwrite(path, position, b"\xa5" * size)
            assert state(Running(disk)) == expected, (path, position)


# --- the same place of log and copy ---


def damage_both(disk: FaultyDisk, path: str, position: int, size: int = 1) -> None:
    """As if a block of the device were bad under both files."""
    for one in (path, path.replace(".log", ".copy")):
        content = disk.read_file(one)[position : position + size]
        disk.overwrite(one, position, bytes(byte ^ 0xA5 for byte in content))


def lose_topic(disk: FaultyDisk, name: bytes) -> None:
    """Damage all records of a topic, in the log and in its copy."""
    path = next(path for path in internal_logs(disk) if CATALOG in path)
    content = disk.read_file(path)
    for start in frames_in(content):
        if frame.key_at(memoryview(content), start) == name:
            damage_both(disk, path, start + 20)


def frames_in(content: bytes) -> list[int]:
    """Where the frames start."""
    return list(frame.walk(memoryview(content)))


def shown(scene: Scene) -> list[bytes]:
    return [message.value for message in read_messages(scene.partition())]


def floors(running: Running) -> dict[tuple[str, str, int], int]:
    known = running.broker.groups
    groups = ("team", "other")
    return {(name, *place): one.floor for name in groups for place, one in known.cursors(name).items()}


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_broker_starts_after_loss_of_any_internal_record(end: str) -> None:
    before = lived(end)
    expected = floors(Running(before.after_crash("everything")))
    for path in internal_logs(before):
        for start in frames_in(before.read_file(path)):
            disk = before.after_crash("everything")
            damage_both(disk, path, start + 20)
            scene = Scene(Running(disk)).recover()
            scene.flush()
            for place, floor in floors(scene.running).items():
                assert floor <= expected.get(place, floor), "no message is passed over"
            again = Scene(scene.running.crash("everything")).recover()
            assert floors(again.running) == floors(scene.running), "what was mended stays so"


def test_logs_of_topic_with_lost_record_are_unclaimed_and_its_cursors_stay() -> None:
    disk = lived("killed").after_crash("everything")
    lose_topic(disk, b"orders")
    running = Running(disk)
    assert running.names() == {"events"}
    assert running.broker.unclaimed == ["orders/0"]
    Team(running).due(60)
    assert floors(running).keys() == floors(Running(lived("killed").after_crash("everything"))).keys()
    with pytest.raises(LogExists):
        running.ask_to_create("orders")


def test_members_rejoin_after_loss_of_a_group_record() -> None:
    disk = lived("killed").after_crash("everything")
    intact = Team(Running(disk.after_crash("everything")))
    number = intact.running.broker.groups.number("team")
    path = next(path for path in internal_logs(disk) if f"{GROUPS}/{number}/" in path)
    last = frames_in(disk.read_file(path))[-1]
    damage_both(disk, path, last + 20)
    team = Team(Running(disk), life=1)
    group_log = team.coordinator.store.group_log
    assert group_log.affected_groups == ["team"]
    team.running.flush()
    assert team.group.generation > intact.group.generation
    assert not team.group.members
    team.due(60)  # what others had in hand
    batches = team.poll(team.join("new"))
    assert min(portion.grant.first for portion in batches) == intact.cursor().floor


def test_lost_commit_record_is_rebuilt_from_partition_markers() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"one")
    scene.touch(whose, ORDERS)
    scene.is_carrying = False
    ended = scene.coordinator.end(whose, NAME, is_commit=True)
    next(ended)
    scene._settle()
    scene.is_carrying = True
    scene.do(scene.coordinator.completer.complete(NAME))
    disk = scene.running.disk.crash("everything")
    path = next(path for path in internal_logs(disk) if TRANSACTIONS in path)
    ongoing = [start for start in frames_in(disk.read_file(path)) if b'"ongoing"' in disk.read_file(path)[start:]][-1]
    size = len(disk.read_file(path))
    behind = next((start for start in frames_in(disk.read_file(path)) if start > ongoing), size)
    damage_both(disk, path, behind, size - behind)
    again = Scene(Running(disk)).recover()
    assert again.coordinator.lost.hit == [NAME]
    assert again.known().state == "complete_commit"
    assert shown(again) == [b"one"]
    assert again.known().epoch > whose.epoch + 1
    with pytest.raises(TransactionNotOpen, match="was committed before"):
        again.begin(whose)


def test_messages_of_a_lost_transaction_stay_invisible() -> None:
    scene = Scene()
    whose = scene.init("lost")
    scene.send(whose, b"one", b"two")
    disk = scene.running.disk.crash("everything")
    path = next(path for path in internal_logs(disk) if TRANSACTIONS in path)
    damage_both(disk, path, 0, len(disk.read_file(path)))
    again = Scene(Running(disk))
    assert shown(again) == []
    again.recover()
    again.flush()
    assert shown(again) == []
    assert not len(again.partition().open)


@pytest.mark.parametrize("name", INTERNAL)
def test_broker_starts_without_an_internal_log_and_refuses_its_requests(name: str) -> None:
    disk = lived("stopped").after_crash("everything")
    for path in [path for path in disk.paths() if f"/{name}/" in path]:
        disk.remove(path)
    running = Running(disk)
    assert any(log.startswith(name) for log in running.store.unopened)
    if name == CATALOG:
        assert running.broker.unclaimed == ["events/0", "events/1", "orders/0"]
        assert isinstance(running.ask_to_create("new").refusal, LogFenced)
    elif name == GROUPS:
        with pytest.raises(LogFenced):
            running.broker.groups.of("team").membership.group("team")
    else:
        with pytest.raises(LogFenced):
            Scene(running).init()
