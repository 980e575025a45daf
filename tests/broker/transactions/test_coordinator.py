"""Transactions and epochs, and their state after the disk refuses a record."""

import errno

import pytest

from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.transactions.records import MEANINGS, OPEN, PREPARED, TRANSITIONS, TransactionMetadata, next_state
from goqueue.clock import NANOSECONDS
from goqueue.errors import (
    DiskFull,
    FrameInvalid,
    LogFenced,
    ProducerFenced,
    RequestInvalid,
    TransactionAborted,
    TransactionFull,
    TransactionNotOpen,
    TransactionPending,
    UnknownProducer,
)
from goqueue.limits import EPOCH_MAX, TRANSACTION_HUNG_SECONDS, TRANSACTION_PARTICIPANTS_MAX, TRANSACTION_SECONDS_MAX
from tests.broker.brokers import Running
from tests.broker.transactions.scene import NAME, ORDERS, Scene
from tests.broker.transactions.traffic import read_messages

TRANSACTIONS = "*__transactions*.log"
ALMOST_A_WEEK = 7 * 24 * 3600 - 60.0


# --- states ---


def test_prepared_states_only_complete() -> None:
    assert {(state, event) for state, event in TRANSITIONS if state in PREPARED} == {
        ("prepare_commit", "complete"),
        ("prepare_abort", "complete"),
    }
    assert TRANSITIONS["prepare_commit", "complete"] == "complete_commit"
    assert TRANSITIONS["prepare_abort", "complete"] == "complete_abort"


def test_only_ongoing_transactions_end_and_only_ended_ones_begin() -> None:
    assert {state for state, event in TRANSITIONS if event in ("commit", "abort")} == {"ongoing"}
    assert {state for state, event in TRANSITIONS if event == "begin"} == MEANINGS.keys() - OPEN
    with pytest.raises(AssertionError, match="does not commit"):
        next_state("empty", "commit")


# --- epochs ---


def test_epoch_increases_with_every_init_and_end(scene: Scene) -> None:
    first = scene.init()
    assert scene.init() == TransactionId(first.producer, 1)
    scene.begin(TransactionId(first.producer, 1))
    scene.commit(TransactionId(first.producer, 1))
    assert scene.known().epoch == 2
    scene.begin(scene.known().whose)
    scene.abort(scene.known().whose)
    assert scene.init() == TransactionId(first.producer, 4)


@pytest.mark.parametrize("is_known", [False, True])
def test_concurrent_inits_get_different_epochs(scene: Scene, is_known: bool) -> None:
    if is_known:
        scene.init()
    told = [scene.ask(scene.coordinator.init(NAME, NANOSECONDS)) for _ in range(2)]
    for _ in range(3):
        scene.flush()
    one, other = (one.result.whose for one in told)
    assert one != other
    assert scene.known().whose == max(one, other)


def test_init_waits_for_abort_of_open_transaction(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    scene.is_carrying = False
    told = scene.ask(scene.coordinator.init(NAME, NANOSECONDS))
    scene.flush()
    assert told.all == []
    scene.is_carrying = True
    for _ in range(3):
        scene.flush()
    assert told.result.whose == TransactionId(whose.producer, 2)
    assert scene.seen() == []
    with pytest.raises(ProducerFenced):
        scene.commit(whose)


def aged(scene: Scene, epoch: int) -> TransactionId:
    """A transactional id that was used very often."""
    known = scene.coordinator.register.by_id.get(NAME)
    producer = known.producer if known is not None else scene.init().producer
    record = TransactionMetadata(NAME, producer, epoch, "empty", 60 * NANOSECONDS, scene.running.clock.now_ns())
    scene.coordinator.record([record], lambda _: None)
    scene.flush()
    return record.whose


def test_init_gives_new_producer_id_when_epochs_are_exhausted(scene: Scene) -> None:
    whose = aged(scene, EPOCH_MAX)
    following = scene.init()
    assert following.producer != whose.producer
    assert following.epoch == 0
    with pytest.raises(ProducerFenced):
        scene.coordinator.current(whose)
    with pytest.raises(ProducerFenced):
        scene.begin(whose)


def test_end_gives_new_producer_id_when_epochs_are_exhausted(scene: Scene) -> None:
    whose = aged(scene, EPOCH_MAX)
    scene.send(whose, b"a")
    ended = scene.commit(whose)
    assert scene.commit(whose) == ended
    following = scene.known().whose
    assert following.epoch == 0
    scene.send(following, b"b")
    scene.commit(following)
    assert scene.seen() == [b"a", b"b"]


def test_new_producer_id_is_answered_only_when_durable(scene: Scene) -> None:
    whose = aged(scene, EPOCH_MAX)
    scene.begin(whose)
    told = scene.ask(scene.coordinator.end(whose, NAME, is_commit=True))
    scene.running.disk.fail("write", errno.ENOSPC, path=TRANSACTIONS, skip=1)
    for _ in range(3):
        scene.flush()
    assert isinstance(told.refusal, TransactionPending)
    scene.due(2)
    scene.flush()
    assert scene.commit(whose).whose == whose


def test_issued_producer_id_is_not_reissued_after_crash() -> None:
    scene = Scene(flush="interval")
    whose = scene.init()
    assert scene.crash().init() > whose


# --- late calls ---


def test_calls_with_old_epoch_are_fenced(scene: Scene) -> None:
    old = scene.init()
    scene.begin(old)
    new = scene.init()
    scene.begin(new)
    before = scene.known()
    for late in (
        lambda: scene.begin(old),
        lambda: scene.touch(old, ORDERS, groups=["team"]),
        lambda: scene.commit(old),
        lambda: scene.do(scene.coordinator.join(old, NAME, begin=True)),
        lambda: scene.coordinator.current(old, NAME),
        lambda: scene.coordinator.check_mark(old, ProducerMark(*old, 0, 1)),
    ):
        with pytest.raises(ProducerFenced):
            late()
    assert scene.known() is before


def test_future_epoch_is_refused(scene: Scene, whose: TransactionId) -> None:
    with pytest.raises(UnknownProducer):
        scene.begin(TransactionId(whose.producer, 1))


def test_init_after_restart_fences_earlier_producer(scene: Scene) -> None:
    before = scene.init()
    scene = scene.restart()
    after = scene.init()
    assert (after.producer == before.producer, after.epoch) == (False, 0)
    for name in (NAME, None):
        with pytest.raises(ProducerFenced):
            scene.coordinator.current(before, name)
    with pytest.raises(TransactionNotOpen):
        scene.coordinator.refuse_outside(ProducerMark(*before, 0, 1))
    assert scene.crash().known().earlier == [before.producer]


def test_repeated_end_gets_the_first_answer(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    ended = scene.commit(whose)
    scene.begin(scene.known().whose)
    assert scene.commit(whose) == ended
    with pytest.raises(TransactionNotOpen):
        scene.abort(whose)
    assert scene.known().state == "ongoing"


def test_concurrent_commits_count_once(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    told = [scene.ask(scene.coordinator.end(whose, NAME, is_commit=True)) for _ in range(2)]
    for _ in range(3):
        scene.flush()
    assert told[0].result == told[1].result
    assert scene.coordinator.counts.committed == 1


def test_abort_is_refused_during_commit(scene: Scene, whose: TransactionId) -> None:
    scene.begin(whose)
    scene.is_carrying = False
    scene.ask(scene.coordinator.end(whose, NAME, is_commit=True))
    with pytest.raises(TransactionNotOpen, match="is being committed"):
        scene.abort(whose)
    with pytest.raises(TransactionNotOpen):
        scene.touch(whose, ORDERS)


# --- what it touches ---


def test_enlisted_partitions_are_durable_before_the_answer(scene: Scene, whose: TransactionId) -> None:
    told = scene.ask(scene.coordinator.enlist(whose, [ORDERS], begin=True, groups=["team"]))
    assert told.all == []
    scene.flush()
    assert [one.log_ref for one in told.result.partitions] == [ORDERS]
    (record,) = scene.crash().coordinator.register.open_ones()
    assert ([one.log_ref for one in record.partitions], record.groups) == ([ORDERS], ["team"])


def test_recreated_topic_is_enlisted_again(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    scene.running.delete("orders")
    scene.running.clock.advance(1)
    scene.running.create("orders")
    scene.send(whose, b"b")
    assert [one.topic_ns for one in scene.known().partitions] == sorted(
        {one.topic_ns for one in scene.known().partitions}
    )
    assert scene.is_held_back()
    scene.commit(whose)
    assert scene.seen() == [b"b"]


def test_transaction_commits_after_its_topic_was_deleted(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    scene.running.delete("orders")
    assert scene.commit(whose).state == "complete_commit"


def test_fenced_partition_cannot_be_enlisted(scene: Scene, whose: TransactionId) -> None:
    scene.partition().log.fence_off(DiskFull("no space left"))
    with pytest.raises(LogFenced):
        scene.touch(whose, ORDERS)
    assert scene.known().state == "empty"


def test_enlisting_beyond_the_participant_limit_is_refused(scene: Scene, whose: TransactionId) -> None:
    groups = [f"group-{number}" for number in range(TRANSACTION_PARTICIPANTS_MAX)]
    scene.touch(whose, groups=groups)
    with pytest.raises(TransactionFull):
        scene.touch(whose, ORDERS)
    assert scene.known().partitions == []


def test_batch_mark_must_belong_to_the_transaction(scene: Scene, whose: TransactionId) -> None:
    _, member = scene.do(scene.coordinator.join(whose, NAME, begin=True))
    scene.coordinator.check_mark(whose, ProducerMark(*whose, 0, 1))
    scene.coordinator.check_mark(whose, ProducerMark(member, 0, 0, 1))
    for mark in (
        ProducerMark(member, 1, 0, 1),
        ProducerMark(member + 1, 0, 0, 1),
        ProducerMark(whose.producer, 7, 0, 1),
    ):
        with pytest.raises(FrameInvalid):
            scene.coordinator.check_mark(whose, mark)
    with pytest.raises(TransactionNotOpen):
        scene.coordinator.refuse_outside(ProducerMark(member, 0, 0, 1))


def test_commit_naming_unknown_member_is_refused(scene: Scene, whose: TransactionId) -> None:
    scene.begin(whose)
    with pytest.raises(RequestInvalid):
        scene.commit(whose, counted=[99])
    assert scene.known().state == "ongoing"


# --- the disk refuses ---


def test_begin_refused_by_disk_changes_nothing(scene: Scene, whose: TransactionId) -> None:
    scene.running.refuse_writes(TRANSACTIONS)
    with pytest.raises(DiskFull):
        scene.begin(whose)
    assert scene.known().state == "empty"
    with pytest.raises(TransactionNotOpen):
        scene.commit(whose)
    scene.send(whose, b"a")
    scene.commit(whose)
    assert scene.seen() == [b"a"]


def test_commit_refused_by_disk_changes_nothing(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    scene.running.refuse_writes(TRANSACTIONS)
    with pytest.raises(DiskFull):
        scene.commit(whose)
    assert (scene.known().state, scene.seen()) == ("ongoing", [])
    scene.abort(whose)
    assert scene.partition().last_stable == scene.partition().high_watermark
    assert scene.seen() == []


def test_unrecorded_completion_is_repeated_without_second_marker(scene: Scene, whose: TransactionId) -> None:
    scene.send(whose, b"a")
    scene.running.disk.fail("write", errno.ENOSPC, path=TRANSACTIONS, skip=1)
    assert scene.commit(whose).state == "complete_commit"
    following = TransactionId(whose.producer, whose.epoch + 1)
    scene.flush()
    assert scene.known().state == "prepare_commit"
    with pytest.raises(TransactionPending):
        scene.begin(following)
    end = scene.partition().log_end
    scene.due(2)
    scene.flush()
    scene.begin(following)
    assert scene.partition().log_end == end, "there is one marker"
    assert scene.seen() == [b"a"]


def test_transaction_on_fenced_log_ends_after_restart(scene: Scene, whose: TransactionId) -> None:
    scene.touch(whose, ORDERS)
    scene.running.disk.fail("sync", path="*orders*")
    told = scene.ask_to_send(whose, b"a")
    scene.flush()
    assert isinstance(told.refusal, LogFenced)
    with pytest.raises(TransactionPending):
        scene.abort(whose)
    scene = scene.crash("everything").recover()
    assert scene.seen() == []
    assert scene.known().state == "complete_abort"


def test_unreadable_transaction_log_refuses_init_and_hides_open_messages(scene: Scene) -> None:
    scene.send(scene.init(), b"a")
    disk = scene.running.disk.crash()
    disk.fail("open", path=f"*__transactions/{scene.shards.number(NAME)}/*.log")
    again = Scene(Running(disk, scene.running.clock)).recover()
    with pytest.raises(LogFenced):
        again.init()
    assert not list(read_messages(again.partition()))
    recovered = again.crash().recover()
    assert recovered.known().state == "complete_abort"


# --- by time ---


def test_silent_transaction_is_aborted_after_its_timeout(scene: Scene) -> None:
    whose = scene.init(timeout=10)
    scene.send(whose, b"a")
    scene.due(6)
    scene.coordinator.current(whose, NAME)
    scene.due(6)
    assert scene.known().state == "ongoing"
    scene.due(5)
    assert scene.known().state == "complete_abort"
    with pytest.raises(TransactionAborted) as refusal:
        scene.commit(whose)
    assert refusal.value.details["reason"] == "timeout"
    assert scene.coordinator.counts.aborted == {"timeout": 1}


def test_transaction_is_aborted_at_its_maximum_duration(scene: Scene) -> None:
    whose = scene.init(timeout=100)
    scene.begin(whose)
    for _ in range(int(TRANSACTION_SECONDS_MAX // 90) - 1):
        scene.due(90)
        scene.coordinator.current(whose, NAME)
    scene.due(80)
    assert scene.known().state == "ongoing"
    scene.due(20)
    assert scene.known().state == "complete_abort"


def test_timeout_abort_refused_by_disk_is_retried(scene: Scene) -> None:
    scene.begin(scene.init(timeout=1))
    scene.running.refuse_writes(TRANSACTIONS)
    scene.due(2)
    assert scene.known().state == "ongoing"
    scene.due(2)
    assert scene.known().state == "complete_abort"


def test_a_long_transaction_is_reported_once() -> None:
    scene, hung = Scene(), list[str]()
    scene.coordinator.timeouts.on_hung.subscribe(lambda record: hung.append(record.id))
    scene.begin(scene.init(timeout=900))
    scene.due(TRANSACTION_HUNG_SECONDS - 1)
    assert hung == []
    scene.due(2)
    scene.due(100)
    assert hung == [NAME]


def test_an_unused_id_is_forgotten_after_a_week(scene: Scene) -> None:
    scene.init("used")
    scene.init("unused")
    scene.begin(scene.init("open", timeout=900), "open")
    scene.running.clock.advance(ALMOST_A_WEEK)
    scene.init("used")
    scene.running.clock.advance(120)
    scene.shards.forget_unused()
    scene.flush()
    assert ids_of(scene) == ids_of(scene.restart()) == {"used", "open"}


def ids_of(scene: Scene) -> set[str]:
    return {record.id for record in (*scene.shards.open_ones(), *scene.shards.closed_ones())}


# --- a start ---


def test_transaction_open_at_start_is_refused_before_recovery_ends(scene: Scene, whose: TransactionId) -> None:
    """Even before it is aborted: a crash may have taken a part of it."""
    scene.send(whose, b"a")
    scene = scene.crash()
    scene.running.refuse_writes(TRANSACTIONS)
    with pytest.raises(DiskFull):
        scene.recover()
    assert scene.known().state == "ongoing"
    for late in (lambda: scene.send(whose, b"b", sequence=1), lambda: scene.commit(whose)):
        with pytest.raises(TransactionAborted):
            late()
    assert scene.recover().known().state == "complete_abort"


def test_repeated_recovery_keeps_transactions_begun_since_start(scene: Scene) -> None:
    scene.send(scene.init("old"), b"a")
    scene = scene.crash()
    scene.running.refuse_writes(TRANSACTIONS)
    with pytest.raises(DiskFull):
        scene.recover()
    whose = scene.init()
    scene.send(whose, b"b")
    scene.recover()
    scene.commit(whose)
    assert scene.seen() == [b"b"]


def test_callers_waiting_for_recovery_get_its_refusal(scene: Scene) -> None:
    scene.begin(scene.init())
    scene = scene.crash()
    recovery = scene.ask(scene.shards.recover())
    told = scene.ask(scene.coordinator.init(NAME, NANOSECONDS))
    scene.running.refuse_writes(TRANSACTIONS)
    scene.flush()
    assert isinstance(recovery.refusal, DiskFull)
    assert isinstance(told.refusal, DiskFull)


def crashed_after_commit(scene: Scene) -> tuple[Scene, TransactionId]:
    """Crash after a commit is answered and before its end is recorded; return the epoch that it has given."""
    whose = scene.init()
    scene.send(whose, b"a")
    told = scene.ask(scene.coordinator.end(whose, NAME, is_commit=True))
    scene.flush()
    assert told.result.state == "complete_commit"
    return scene.crash(), TransactionId(whose.producer, whose.epoch + 1)


def test_answered_next_epoch_is_valid_after_crash_lost_its_record() -> None:
    scene, following = crashed_after_commit(Scene())
    with pytest.raises(TransactionPending):
        scene.begin(following)
    scene.recover()
    scene.send(following, b"b")
    scene.commit(following)
    assert scene.seen() == [b"a", b"b"]


def test_init_accepts_epoch_whose_record_was_lost_in_a_crash() -> None:
    scene, following = crashed_after_commit(Scene())
    begun = scene.ask(scene.coordinator.init(NAME, NANOSECONDS, following))
    scene.recover()
    for _ in range(3):
        scene.flush()
    assert begun.result.former == following
    scene.send(begun.result.whose, b"b")
    scene.commit(begun.result.whose)
    assert scene.seen() == [b"a", b"b"]
