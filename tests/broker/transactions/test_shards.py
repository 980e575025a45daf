"""Shards of transactions: the number of logs, and shards that are closed and opened while the others go on."""

import gc
import weakref

import pytest

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.internal_topics import TRANSACTIONS
from goqueue.errors import LogClosed, ProducerNotFound, TransactionNotOpen
from goqueue.limits import TRANSACTION_LOGS
from goqueue.testing.disk import Crashed, FaultyDisk, Keep
from tests.broker.brokers import KEEPS, Running
from tests.broker.transactions.scene import NAME, ORDERS, Scene


def close(scene: Scene, name: str = NAME) -> None:
    closed = scene.shards.close(scene.shards.number(name))
    scene.running.flush()
    assert closed.is_kept


def reopen(scene: Scene, name: str = NAME) -> None:
    close(scene, name)
    shard = scene.shards.open(scene.shards.number(name))
    shard.on_decided.subscribe(scene.decided.append)
    scene.do(shard.completer.recover())


def other_than(scene: Scene, name: str = NAME) -> str:
    """An id of another shard."""
    names = (f"id-{number}" for number in range(99))
    return next(one for one in names if scene.shards.number(one) != scene.shards.number(name))


# --- the number of logs ---


def log_names(running: Running) -> list[str]:
    return sorted(name for name in running.store.logs if name.startswith(f"{TRANSACTIONS}/"))


def test_new_directory_has_several_logs_and_ids_are_spread_over_them() -> None:
    scene = Scene()
    whose = {name: scene.init(name) for name in map(str, range(20))}
    assert len(log_names(scene.running)) == TRANSACTION_LOGS
    assert all(len(shard.register) for shard in scene.shards)
    for name, one in whose.items():
        assert scene.shards.of_transaction(one) is scene.shards.of(name)
    again = scene.restart()
    assert {name: again.known(name).whose for name in whose} == whose


def with_logs(monkeypatch: pytest.MonkeyPatch, count: int, disk: FaultyDisk) -> Running:
    """A start of a version that makes so many logs."""
    with monkeypatch.context() as other:
        other.setattr("goqueue.broker.transactions.shards.TRANSACTION_LOGS", count)
        return Running(disk)


def test_directory_with_one_log_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As earlier versions made it, which recorded no number."""
    disk = with_logs(monkeypatch, 1, FaultyDisk()).disk.crash("synced")
    scene = Scene(Running(disk))
    scene.init()
    for _ in range(2):
        assert log_names(scene.running) == ["__transactions/0"]
        assert scene.running.broker.unclaimed == []
        scene = scene.restart()
        assert scene.known().state == "empty"


@pytest.mark.parametrize("keep", KEEPS)
def test_interrupted_first_start_does_not_change_the_number_of_logs(
    keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, path = FaultyDisk(), f"/data/logs/{TRANSACTIONS}"
    Running(whole)
    numbers = [int(entry.split()[0]) for entry in whole.journal if TRANSACTIONS in entry]
    for operation in range(numbers[0], numbers[-1] + 1):
        disk = FaultyDisk()
        disk.crash_at(operation)
        with pytest.raises(Crashed):
            Running(disk)
        disk = disk.crash(keep)
        has_begun = disk.kind(path) == "directory" and bool(disk.entries(path))
        assert len(log_names(with_logs(monkeypatch, 7, disk))) == (TRANSACTION_LOGS if has_begun else 7)


def test_number_of_logs_is_recorded() -> None:
    scene = Scene()
    scene.flush()
    assert scene.running.broker._catalog.internal == {TRANSACTIONS: TRANSACTION_LOGS}
    assert scene.crash().running.broker._catalog.internal == {TRANSACTIONS: TRANSACTION_LOGS}


# --- several shards at a start ---


@pytest.mark.parametrize("keep", KEEPS)
def test_start_ends_transactions_of_several_shards_in_one_partition(keep: Keep) -> None:
    scene = Scene()
    other = other_than(scene)
    whose, theirs = scene.init(), scene.init(other)
    scene.send(whose, b"a")
    scene.touch(theirs, ORDERS)
    told = scene.ask_to_send(theirs, b"b")
    scene.flush()
    assert told.result.first_offset == 1
    scene.is_carrying = False
    scene.ask(scene.shards.of(other).end(theirs, other, is_commit=True))
    for _ in range(3):
        scene.flush()
    again = scene.crash(keep)
    recoveries = [again.ask(shard.completer.recover()) for shard in again.shards]
    for _ in range(8):
        again.flush()
    assert [recovery.result for recovery in recoveries] == [None] * TRANSACTION_LOGS
    assert (again.known().state, again.known(other).state) == ("complete_abort", "complete_commit")
    assert again.seen() == [b"b"]
    assert not again.is_held_back()


# --- close and open ---


def test_open_transaction_continues_in_reopened_shard(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    reopen(scene)
    assert scene.known().state == "ongoing"
    scene.send(whose, b"b", sequence=1)
    assert scene.commit(whose).state == "complete_commit"
    assert scene.seen() == [b"a", b"b"]


def test_transaction_of_reopened_shard_times_out(scene: Scene) -> None:
    whose = scene.init(timeout=10)
    scene.send(whose, b"a")
    reopen(scene)
    scene.due(11)
    scene.due(1)
    assert scene.known().state == "complete_abort"


def test_decided_end_is_carried_out_by_reopened_shard(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    scene.is_carrying = False
    told = scene.ask(scene.coordinator.end(whose, NAME, is_commit=True))
    for _ in range(3):
        scene.flush()
    assert scene.known().state == "prepare_commit"
    close(scene)
    assert isinstance(told.refusal, LogClosed)
    shard = scene.shards.open(scene.shards.number(NAME))
    scene.do(shard.completer.recover())
    assert scene.known().state == "complete_commit"
    assert scene.seen() == [b"a"]
    assert scene.commit(whose).state == "complete_commit", "a repeated call gets the answer"


def test_calls_under_way_are_refused_when_their_shard_is_closed(scene: Scene, whose: TransactionId) -> None:
    begun = scene.ask(scene.coordinator.begin(whose, NAME))
    inits = scene.ask(scene.coordinator.init(NAME, 10**10))
    close(scene)
    assert {type(one.refusal) for one in (begun, inits)} == {LogClosed}


def test_transaction_ongoing_at_start_is_aborted_by_reopened_shard(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    again = scene.crash()
    reopen(again)
    assert again.known().state == "complete_abort"
    assert not again.is_held_back()


def test_producer_of_closed_shard_is_refused_with_retryable_error(scene: Scene, whose: TransactionId) -> None:
    other = other_than(scene)
    theirs = scene.init(other)
    close(scene)
    for ask in (
        lambda: scene.shards.of_transaction(whose),
        lambda: scene.shards.of_transaction(whose, NAME),
        lambda: scene.shards.refuse_outside(ProducerMark(whose.producer, 0, 0, 1)),
    ):
        with pytest.raises(LogClosed, match="will be opened again"):
            ask()
    scene.send(theirs, b"b")
    assert scene.end(theirs, other).state == "complete_commit", "other shards go on"
    scene.shards.open(scene.shards.number(NAME))
    with pytest.raises(TransactionNotOpen):
        scene.shards.refuse_outside(ProducerMark(whose.producer, 0, 0, 1))
    with pytest.raises(ProducerNotFound):
        scene.shards.of_transaction(TransactionId(whose.producer + 9, 0)).current(
            TransactionId(theirs.producer, 0), "x"
        )


def test_closed_shard_leaves_nothing_in_memory(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    scene.ask(scene.coordinator.end(whose, NAME, is_commit=True))
    coordinator = scene.coordinator
    left = [
        weakref.ref(found) for found in (coordinator, coordinator.register, coordinator.journal, coordinator.deadlines)
    ]
    partition = scene.shards.partitions[scene.shards.number(NAME)]
    close(scene)
    scene.running.flush()
    assert coordinator.deadlines.next_ns is None
    assert partition.derived == []
    assert whose.producer not in scene.shards.by_producer
    del coordinator
    gc.collect()
    assert [found() for found in left] == [None] * len(left)
