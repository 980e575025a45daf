"""Transactions end in every log and group that they have touched, once, and what a start finds of them ends as well."""

import errno

import pytest

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.core.work import run_work
from goqueue.errors import LogFenced, TransactionPending
from goqueue.storage import frame
from tests.broker.brokers import Running
from tests.broker.groupwork import Team
from tests.broker.transactions.scene import ORDERS, Scene

PRICES = LogRef("prices", 0)
NEVER = 7200.0


def two_topics() -> Scene:
    scene = Scene()
    scene.running.create("prices")
    return scene


def test_partition_without_messages_gets_no_marker(scene: Scene, whose: TransactionId) -> None:
    scene.touch(whose, ORDERS)
    scene.commit(whose)
    assert scene.partition().log_end == 0


def test_commit_includes_only_named_members(scene: Scene, whose: TransactionId) -> None:
    members = [scene.do(scene.coordinator.join(whose, None, begin=True))[1] for _ in range(2)]
    scene.touch(whose, ORDERS)
    for member, value in zip(members, (b"counts", b"does not"), strict=True):
        scene.ask_to_send(TransactionId(member, 0), value)
    scene.send(whose, b"its own")
    scene.commit(whose, counted=members[:1])
    assert scene.seen() == [b"counts", b"its own"]
    scene = scene.crash().recover()
    assert scene.seen() == [b"counts", b"its own"]


def test_next_start_completes_a_recorded_decision() -> None:
    for is_commit in (True, False):
        scene = Scene()
        whose = scene.init()
        _, member = scene.do(scene.coordinator.join(whose, None, begin=True))
        scene.send(whose, b"a")
        scene.ask_to_send(TransactionId(member, 0), b"b")
        scene.is_carrying = False
        scene.ask(scene.coordinator.end(whose, scene.known().id, is_commit=is_commit, counted=[]))
        scene.flush()
        assert scene.known().state in ("prepare_commit", "prepare_abort")
        scene = scene.crash()
        assert scene.is_held_back()
        assert scene.recover().seen() == ([b"a"] if is_commit else [])
        assert not scene.is_held_back()


def test_completion_waits_until_the_decision_is_recorded(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    told = scene.ask(scene.coordinator.end(whose, scene.known().id, is_commit=True))
    assert scene.known().state == "prepare_commit"
    run_work(scene.shards.recover())  # a recovery that is tried again, or a repeated end
    run_work(scene.coordinator.completer.complete(scene.known().id))
    assert (told.all, scene.known().state) == ([], "prepare_commit")
    assert scene.is_held_back()
    scene.flush()
    assert told.result.state == "complete_commit"


def test_next_start_aborts_open_transactions_without_blocking_publishes() -> None:
    scene = two_topics()
    scene.send(scene.init(), b"a")
    scene = scene.restart()
    recovery = scene.ask(scene.shards.recover())
    scene.partition().publish(bytearray(frame.encode(b"plain")), 1000, lambda _: None)
    scene.running.flush()
    assert scene.seen() == []
    for _ in range(4):
        scene.flush()
    assert recovery.result is None
    assert scene.seen() == [b"plain"]
    ended = scene.known().last
    assert ended is not None
    assert (ended.state, ended.reason) == ("complete_abort", "restart")


def test_crash_after_markers_writes_no_second_markers(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    scene.running.disk.fail("write", errno.ENOSPC, path="*__transactions*.log", skip=1)
    scene.commit(whose)
    end = scene.partition().log_end
    scene = scene.crash().recover()
    assert scene.known().state == "complete_commit"
    assert scene.partition().log_end == end


def test_failing_completion_does_not_block_other_transactions() -> None:
    scene = two_topics()
    one, other = scene.init("one"), scene.init("other")
    scene.send(one, b"a")
    scene.send(other, b"b", log_ref=PRICES)
    scene = scene.crash()
    scene.running.refuse_writes("*orders*")
    scene.recover()
    assert scene.known("one").state == "prepare_abort"
    assert scene.known("other").state == "complete_abort"
    scene.due(2)
    assert scene.known("one").state == "complete_abort"


def pledged(scene: Scene) -> tuple[Team, TransactionId]:
    """A group that has acknowledged the only message in a transaction."""
    team = Team(scene.running)
    team.publish("read")
    whose = scene.init()
    scene.touch(whose, groups=[team.name])
    team.ack_in_transaction(team.take(team.join("one", session=NEVER)), transaction_id=whose)
    return team, whose


def test_group_completion_is_retried_when_its_log_is_full(scene: Scene) -> None:
    team, whose = pledged(scene)
    scene.running.refuse_writes("*__consumer_offsets*")
    with pytest.raises(TransactionPending):
        scene.commit(whose)
    assert team.cursor().floor == 0
    scene.due(2)
    assert team.cursor().floor == 1
    assert scene.known().state == "complete_commit"


def test_messages_are_synced_before_the_decision_is_recorded() -> None:
    scene = Scene(flush="interval")
    whose = scene.init()
    scene.send(whose, b"a")
    assert scene.partition().durable_end == 0
    scene.is_carrying = False
    scene.ask(scene.coordinator.end(whose, scene.known().id, is_commit=True))
    for _ in range(5):
        scene.flush()
    assert scene.known().state == "prepare_commit"
    scene.coordinator.journal.log.sync_soon()
    scene.flush()
    assert scene.crash().recover().seen() == [b"a"]


def test_commit_is_refused_when_messages_cannot_be_synced() -> None:
    scene = Scene(flush="interval")
    whose = scene.init()
    scene.send(whose, b"a")
    scene.running.disk.fail("sync", path="*orders*")
    told = scene.ask(scene.coordinator.end(whose, scene.known().id, is_commit=True))
    for _ in range(3):
        scene.flush()
    assert isinstance(told.refusal, LogFenced)
    assert scene.known().state == "ongoing"
    assert scene.crash().recover().seen() == []


def test_marker_is_synced_before_completion_is_recorded() -> None:
    scene = Scene(flush="interval")
    whose = scene.init()
    scene.send(whose, b"a")
    scene.abort(whose)
    scene.init("another")  # has the log of transactions synced
    scene = scene.crash().recover()
    assert scene.known().state == "complete_abort"
    assert scene.seen() == []


def test_recovery_without_open_transactions_does_nothing() -> None:
    scene = Scene(Running())
    run_work(scene.shards.recover())
    assert repr(scene.coordinator.completer) == "<TransactionCompleter 0 under way>"
