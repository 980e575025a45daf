"""A leader begins an epoch in a log that is at work: groups, delays, transactions and journals go on."""

import pytest

from goqueue.broker.core.epochs import begin_epoch, load_epochs
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import run_work
from goqueue.broker.delay.cleanup import clean_delayed_log
from goqueue.broker.internal_topics import CATALOG
from goqueue.errors import LogFenced
from goqueue.storage import frame
from goqueue.storage.check import check_segment, plan_check
from goqueue.storage.epoch_frame import is_epoch_frame
from goqueue.storage.log import Log
from tests.broker.brokers import KEEPS, Running, offer_batch
from tests.broker.delay.delaywork import Scene as DelayScene
from tests.broker.groupwork import team_with, values_of
from tests.broker.transactions.scene import Scene as TransactionScene
from tests.storage.stores import messages


def lead(running: Running, *partitions: Partition) -> None:
    """Begin the next epoch in these partitions."""
    for partition in partitions:
        epoch = run_work(load_epochs(partition.log, running.disk)).last + 1
        begin_epoch(partition, epoch, "node-1", running.clock.now_ns(), lambda _: None)
    running.flush()


def epoch_offsets(log: Log) -> list[int]:
    return [message.offset for message in messages(log) if is_epoch_frame(message)]


@pytest.mark.parametrize("restart", [False, True])
def test_group_passes_over_epoch_frames(restart: bool) -> None:
    team, member = team_with("a", "b")
    lead(team.running, team.running.partition())
    team.publish("c")
    lead(team.running, team.running.partition())
    first = team.take(member, 1)
    if restart:
        team = team.crash()
    batches = team.poll(member)
    assert [*values_of([first]), *values_of(batches)] == ["a", "b", "c"]
    for batch in (first, *batches):
        team.ack(batch)
    assert team.poll(member) == []
    team.publish("d")
    assert values_of(team.poll(member)) == ["d"]


def test_transaction_over_an_epoch_frame_commits() -> None:
    scene = TransactionScene()
    whose = scene.init()
    scene.send(whose, b"one", b"two")
    lead(scene.running, scene.partition())
    scene.send(whose, b"three", sequence=2)
    lead(scene.running, scene.partition())
    scene.commit(whose)
    assert epoch_offsets(scene.partition().log) == [2, 4]
    assert scene.seen() == scene.crash().recover().seen() == [b"one", b"two", b"three"]


def test_transaction_over_an_epoch_frame_is_aborted_after_a_crash() -> None:
    scene = TransactionScene()
    whose = scene.init()
    scene.send(whose, b"one", b"two")
    lead(scene.running, scene.partition())
    scene.send(whose, b"three", sequence=2)
    scene.running.publish(frame.encode(b"plain"))
    scene = scene.crash().recover()
    assert scene.seen() == [b"plain"]
    assert not scene.is_held_back()
    assert run_work(scene.partition().aborted.within(0, 9)) == [(0, 2), (3, 4)]


def test_cleanup_of_a_delayed_log_keeps_epoch_frames() -> None:
    scene = DelayScene()
    scene.fill(30, 1)
    log = scene.delays.delayed_log.log
    lead(scene.running, scene.delays.delayed_log)
    (pending,) = scene.schedule((b"a", 3600 * 30.0))
    lead(scene.running, scene.delays.delayed_log)
    scene.fill(60, 1)
    scene.deliver(200)
    before, epochs = log.size, epoch_offsets(log)
    scene.do(clean_delayed_log(scene.delays, scene.running.disk))
    assert log.size < before / 4
    assert [offset for offset in epochs if offset >= log.first_offset] == epoch_offsets(log) != []
    tasks, findings = plan_check(scene.running.disk, log.name, log.directory)
    assert not findings
    assert not [finding for task in tasks for finding in check_segment(scene.running.disk, task).findings]
    after = scene.crash()
    assert after.state(pending) == "pending"
    assert run_work(load_epochs(after.delays.delayed_log.log, after.running.disk)).last == 2
    after.deliver(3600 * 30.0)
    assert after.delivered.count(b"a") == 1


def test_journals_replay_the_same_state_with_epoch_frames() -> None:
    running = Running()
    running.create("orders", retention_hours=5)
    internal = [partition for topic, partition in running.broker.partitions() if topic.name.startswith("__")]
    lead(running, *internal)
    running.create("payments")
    lead(running, *internal)
    for following in [*(running.after_crash(keep) for keep in KEEPS), running.restart()]:
        assert sorted(name for name in following.broker.topics if not name.startswith("__")) == ["orders", "payments"]
        assert len(epoch_offsets(following.store.logs[f"{CATALOG}/0"])) == 2
        following.create("more")


def test_replicated_log_takes_nothing_after_a_refused_write_until_it_is_read_again() -> None:
    running = Running()
    running.create("orders")
    lead(running, running.partition())
    running.refuse_writes("*/orders/*.log")
    refused = offer_batch(running.partition(), frame.encode(b"refused, although a replica may have it"))
    running.flush()
    assert "no space left" in refused.refusal.sentence
    with pytest.raises(LogFenced, match="no space left"):
        offer_batch(running.partition(), frame.encode(b"at the same offset"))
    after = running.restart()
    lead(after, after.partition())
    assert after.publish(frame.encode(b"x")).first_offset == 2
