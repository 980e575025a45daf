"""Who may do what in which transaction, by the epochs, and what is left of it when the disk refuses to record it."""

import errno

import pytest

from goqueue.broker.producers import Mark
from goqueue.broker.transactions.records import Registered
from goqueue.broker.transactions.states import MEANINGS, OPEN, PREPARED, TABLE, following
from goqueue.broker.transactions.whose import Whose
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


def test_a_decision_is_never_taken_back() -> None:
    assert {(state, event) for state, event in TABLE if state in PREPARED} == {
        ("prepare_commit", "complete"),
        ("prepare_abort", "complete"),
    }
    assert TABLE["prepare_commit", "complete"] == "complete_commit"
    assert TABLE["prepare_abort", "complete"] == "complete_abort"


def test_only_what_was_begun_is_decided_and_only_what_is_over_begins_again() -> None:
    assert {state for state, event in TABLE if event in ("commit", "abort")} == {"ongoing"}
    assert {state for state, event in TABLE if event == "begin"} == MEANINGS.keys() - OPEN
    with pytest.raises(AssertionError, match="does not commit"):
        following("empty", "commit")


# --- epochs ---


def test_an_epoch_rises_with_every_init_and_every_end() -> None:
    scene = Scene()
    first = scene.init()
    assert scene.init() == Whose(first.producer, 1)
    scene.begin(Whose(first.producer, 1))
    scene.commit(Whose(first.producer, 1))
    assert scene.known().epoch == 2
    scene.begin(scene.known().whose)
    scene.abort(scene.known().whose)
    assert scene.init() == Whose(first.producer, 4)


@pytest.mark.parametrize("is_known", [False, True])
def test_two_inits_at_once_get_an_epoch_each(is_known: bool) -> None:
    scene = Scene()
    if is_known:
        scene.init()
    told = [scene.ask(scene.coordinator.init(NAME, NANOSECONDS)) for _ in range(2)]
    for _ in range(3):
        scene.flush()
    one, other = (one.result.whose for one in told)
    assert one != other
    assert scene.known().whose == max(one, other)


def test_an_init_waits_until_what_is_open_has_been_aborted() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    scene.is_carrying = False
    told = scene.ask(scene.coordinator.init(NAME, NANOSECONDS))
    scene.flush()
    assert told.all == []
    scene.is_carrying = True
    for _ in range(3):
        scene.flush()
    assert told.result.whose == Whose(whose.producer, 2)
    assert scene.seen() == []
    with pytest.raises(ProducerFenced):
        scene.commit(whose)


def aged(scene: Scene, epoch: int) -> Whose:
    """A transactional id that was used very often."""
    known = scene.coordinator.register.by_id.get(NAME)
    producer = known.producer if known is not None else scene.init().producer
    record = Registered(NAME, producer, epoch, "empty", 60 * NANOSECONDS, scene.running.clock.now_ns())
    scene.coordinator.record([record], lambda _: None)
    scene.flush()
    return record.whose


def test_when_the_epochs_of_a_producer_are_used_up_it_gets_another_number_with_init() -> None:
    scene = Scene()
    whose = aged(scene, EPOCH_MAX)
    following = scene.init()
    assert following.producer != whose.producer
    assert following.epoch == 0
    with pytest.raises(ProducerFenced):
        scene.coordinator.current(whose)
    with pytest.raises(ProducerFenced):
        scene.begin(whose)


def test_when_the_epochs_of_a_producer_are_used_up_it_gets_another_number_with_an_end() -> None:
    scene = Scene()
    whose = aged(scene, EPOCH_MAX)
    scene.send(whose, b"a")
    ended = scene.commit(whose)
    assert scene.commit(whose) == ended
    following = scene.known().whose
    assert following.epoch == 0
    scene.send(following, b"b")
    scene.commit(following)
    assert scene.seen() == [b"a", b"b"]


def test_the_other_number_is_told_when_it_is_durable_since_a_crash_would_give_another_one() -> None:
    scene = Scene()
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


def test_what_was_given_out_is_not_given_out_again_by_a_crash_even_where_nobody_waits_for_the_device() -> None:
    scene = Scene(flush="interval")
    whose = scene.init()
    assert scene.crash().init() > whose


# --- late calls ---


def test_a_call_with_an_old_epoch_changes_nothing() -> None:
    scene = Scene()
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
        lambda: scene.coordinator.heartbeat(old, NAME),
        lambda: scene.coordinator.check_mark(old, Mark(*old, 0, 1)),
    ):
        with pytest.raises(ProducerFenced):
            late()
    assert scene.known() is before


def test_an_epoch_that_is_not_given_out_yet_is_refused() -> None:
    scene = Scene()
    whose = scene.init()
    with pytest.raises(UnknownProducer):
        scene.begin(Whose(whose.producer, 1))


def test_whoever_had_the_id_before_a_start_is_fenced_by_the_next_one() -> None:
    scene = Scene()
    before = scene.init()
    scene = scene.restart()
    after = scene.init()
    assert (after.producer == before.producer, after.epoch) == (False, 0)
    for name in (NAME, None):
        with pytest.raises(ProducerFenced):
            scene.coordinator.current(before, name)
    with pytest.raises(TransactionNotOpen):
        scene.coordinator.refuse_outside(Mark(*before, 0, 1))
    assert scene.crash().known().earlier == [before.producer]


def test_an_end_that_is_asked_for_again_is_answered_as_the_first_time() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    ended = scene.commit(whose)
    scene.begin(scene.known().whose)
    assert scene.commit(whose) == ended
    with pytest.raises(TransactionNotOpen):
        scene.abort(whose)
    assert scene.known().state == "ongoing"


def test_two_commits_at_once_are_one() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    told = [scene.ask(scene.coordinator.end(whose, NAME, is_commit=True)) for _ in range(2)]
    for _ in range(3):
        scene.flush()
    assert told[0].result == told[1].result
    assert scene.coordinator.counts.committed == 1


def test_while_a_commit_is_on_its_way_an_abort_is_refused() -> None:
    scene = Scene()
    whose = scene.init()
    scene.begin(whose)
    scene.is_carrying = False
    scene.ask(scene.coordinator.end(whose, NAME, is_commit=True))
    with pytest.raises(TransactionNotOpen, match="is being committed"):
        scene.abort(whose)
    with pytest.raises(TransactionNotOpen):
        scene.touch(whose, ORDERS)


# --- what it touches ---


def test_what_is_touched_is_durable_before_anything_is_written_there() -> None:
    scene = Scene()
    whose = scene.init()
    told = scene.ask(scene.coordinator.enlist(whose, [ORDERS], begin=True, groups=["team"]))
    assert told.all == []
    scene.flush()
    assert [one.spot for one in told.result.partitions] == [ORDERS]
    (record,) = scene.crash().coordinator.register.open_ones()
    assert ([one.spot for one in record.partitions], record.groups) == ([ORDERS], ["team"])


def test_a_topic_that_was_made_anew_is_touched_anew() -> None:
    scene = Scene()
    whose = scene.init()
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


def test_a_transaction_whose_topics_are_gone_ends() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    scene.running.delete("orders")
    assert scene.commit(whose).state == "complete_commit"


def test_nothing_is_touched_that_takes_nothing() -> None:
    scene = Scene()
    whose = scene.init()
    scene.partition().log.fence_off(DiskFull("no space left"))
    with pytest.raises(LogFenced):
        scene.touch(whose, ORDERS)
    assert scene.known().state == "empty"


def test_a_transaction_has_room_for_so_many_and_stays_as_it_was_when_it_is_full() -> None:
    scene = Scene()
    whose = scene.init()
    groups = [f"group-{number}" for number in range(TRANSACTION_PARTICIPANTS_MAX)]
    scene.touch(whose, groups=groups)
    with pytest.raises(TransactionFull):
        scene.touch(whose, ORDERS)
    assert scene.known().partitions == []


def test_a_batch_is_of_the_transaction_or_of_a_member() -> None:
    scene = Scene()
    whose = scene.init()
    _, member = scene.do(scene.coordinator.join(whose, NAME, begin=True))
    scene.coordinator.check_mark(whose, Mark(*whose, 0, 1))
    scene.coordinator.check_mark(whose, Mark(member, 0, 0, 1))
    for mark in (Mark(member, 1, 0, 1), Mark(member + 1, 0, 0, 1), Mark(whose.producer, 7, 0, 1)):
        with pytest.raises(FrameInvalid):
            scene.coordinator.check_mark(whose, mark)
    with pytest.raises(TransactionNotOpen):
        scene.coordinator.refuse_outside(Mark(member, 0, 0, 1))


def test_at_the_commit_only_members_can_be_named() -> None:
    scene = Scene()
    whose = scene.init()
    scene.begin(whose)
    with pytest.raises(RequestInvalid):
        scene.commit(whose, counted=[99])
    assert scene.known().state == "ongoing"


# --- the disk refuses ---


def test_a_begin_that_was_not_recorded_has_not_happened() -> None:
    scene = Scene()
    whose = scene.init()
    scene.running.disk.fail("write", errno.ENOSPC, path=TRANSACTIONS)
    with pytest.raises(DiskFull):
        scene.begin(whose)
    assert scene.known().state == "empty"
    with pytest.raises(TransactionNotOpen):
        scene.commit(whose)
    scene.send(whose, b"a")
    scene.commit(whose)
    assert scene.seen() == [b"a"]


def test_a_commit_that_was_not_recorded_is_not_decided() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    scene.running.disk.fail("write", errno.ENOSPC, path=TRANSACTIONS)
    with pytest.raises(DiskFull):
        scene.commit(whose)
    assert (scene.known().state, scene.seen()) == ("ongoing", [])
    scene.abort(whose)
    assert scene.partition().last_stable == scene.partition().high_watermark
    assert scene.seen() == []


def test_an_end_that_was_carried_out_and_not_recorded_is_carried_out_again() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    scene.running.disk.fail("write", errno.ENOSPC, path=TRANSACTIONS, skip=1)
    assert scene.commit(whose).state == "complete_commit"
    following = Whose(whose.producer, whose.epoch + 1)
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


def test_a_log_that_has_no_room_for_a_marker_is_asked_again() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    scene.running.disk.fail("write", errno.ENOSPC, path="*orders*")
    with pytest.raises(TransactionPending):
        scene.commit(whose)
    assert scene.is_held_back()
    scene.due(2)
    assert scene.seen() == [b"a"]
    assert scene.commit(whose).state == "complete_commit"


def test_where_a_log_is_fenced_nothing_has_ended_until_it_is_known_what_it_holds() -> None:
    scene = Scene()
    whose = scene.init()
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


def test_without_its_log_no_transaction_begins_and_what_may_not_be_committed_is_held_back() -> None:
    scene = Scene()
    scene.send(scene.init(), b"a")
    disk = scene.running.disk.crash()
    disk.fail("open", path=TRANSACTIONS)
    again = Scene(Running(disk, scene.running.clock)).recover()
    with pytest.raises(LogFenced):
        again.init()
    assert not list(read_messages(again.partition()))
    healed = again.crash().recover()
    assert healed.known().state == "complete_abort"


# --- by time ---


def test_a_transaction_of_which_nothing_is_heard_is_aborted() -> None:
    scene = Scene()
    whose = scene.init(timeout=10)
    scene.send(whose, b"a")
    scene.due(6)
    scene.coordinator.heartbeat(whose, NAME)
    scene.due(6)
    assert scene.known().state == "ongoing"
    scene.due(5)
    assert scene.known().state == "complete_abort"
    with pytest.raises(TransactionAborted) as refusal:
        scene.commit(whose)
    assert refusal.value.details["reason"] == "timeout"
    assert scene.coordinator.counts.aborted == {"timeout": 1}


def test_however_much_is_heard_of_it_a_transaction_lasts_so_long() -> None:
    scene = Scene()
    whose = scene.init(timeout=100)
    scene.begin(whose)
    for _ in range(int(TRANSACTION_SECONDS_MAX // 90) - 1):
        scene.due(90)
        scene.coordinator.heartbeat(whose, NAME)
    scene.due(80)
    assert scene.known().state == "ongoing"
    scene.due(20)
    assert scene.known().state == "complete_abort"


def test_an_abort_by_time_that_the_disk_refuses_is_tried_again() -> None:
    scene = Scene()
    scene.begin(scene.init(timeout=1))
    scene.running.disk.fail("write", errno.ENOSPC, path=TRANSACTIONS)
    scene.due(2)
    assert scene.known().state == "ongoing"
    scene.due(2)
    assert scene.known().state == "complete_abort"


def test_somebody_hears_once_of_a_transaction_that_is_open_for_long() -> None:
    scene, hung = Scene(), list[str]()
    scene.coordinator.patience.on_hung = lambda record: hung.append(record.id)
    scene.begin(scene.init(timeout=900))
    scene.due(TRANSACTION_HUNG_SECONDS - 1)
    assert hung == []
    scene.due(2)
    scene.due(100)
    assert hung == [NAME]


def test_an_id_that_nobody_uses_is_forgotten_after_a_week() -> None:
    scene = Scene()
    scene.init("used")
    scene.init("unused")
    scene.begin(scene.init("open", timeout=900), "open")
    scene.running.clock.advance(ALMOST_A_WEEK)
    scene.init("used")
    scene.running.clock.advance(120)
    scene.coordinator.forget_unused()
    scene.flush()
    assert set(scene.coordinator.register.by_id) == {"used", "open"}
    assert set(scene.restart().coordinator.register.by_id) == {"used", "open"}


# --- a start ---


def test_what_a_start_has_found_open_cannot_go_on() -> None:
    """Even before it is aborted: a crash may have taken a part of it."""
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    scene = scene.crash()
    scene.running.disk.fail("write", errno.ENOSPC, path=TRANSACTIONS)
    with pytest.raises(DiskFull):
        scene.recover()
    assert scene.known().state == "ongoing"
    for late in (lambda: scene.send(whose, b"b", sequence=1), lambda: scene.commit(whose)):
        with pytest.raises(TransactionAborted):
            late()
    assert scene.recover().known().state == "complete_abort"


def test_a_recovery_that_is_tried_again_leaves_alone_what_has_begun_since() -> None:
    scene = Scene()
    scene.send(scene.init("old"), b"a")
    scene = scene.crash()
    scene.running.disk.fail("write", errno.ENOSPC, path=TRANSACTIONS)
    with pytest.raises(DiskFull):
        scene.recover()
    whose = scene.init()
    scene.send(whose, b"b")
    scene.recover()
    scene.commit(whose)
    assert scene.seen() == [b"b"]


def test_who_waits_for_the_recovery_hears_that_it_was_refused() -> None:
    scene = Scene()
    scene.begin(scene.init())
    scene = scene.crash()
    recovery = scene.ask(scene.running.broker.ending.recover())
    told = scene.ask(scene.coordinator.init(NAME, NANOSECONDS))
    scene.running.disk.fail("write", errno.ENOSPC, path=TRANSACTIONS)
    scene.flush()
    assert isinstance(recovery.refusal, DiskFull)
    assert isinstance(told.refusal, DiskFull)


def test_a_producer_that_was_told_its_next_epoch_goes_on_after_a_crash_that_took_the_record_of_it() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    told = scene.ask(scene.coordinator.end(whose, NAME, is_commit=True))
    scene.flush()
    assert told.result.state == "complete_commit"
    scene = scene.crash()  # before another flush
    following = Whose(whose.producer, whose.epoch + 1)
    with pytest.raises(TransactionPending):
        scene.begin(following)
    scene.recover()
    scene.send(following, b"b")
    scene.commit(following)
    assert scene.seen() == [b"a", b"b"]


def test_init_after_a_crash_goes_on_with_the_epoch_whose_record_the_crash_took() -> None:
    scene = Scene()
    whose = scene.init()
    scene.send(whose, b"a")
    told = scene.ask(scene.coordinator.end(whose, NAME, is_commit=True))
    scene.flush()
    assert told.result.state == "complete_commit"
    scene = scene.crash()  # before another flush
    following = Whose(whose.producer, whose.epoch + 1)
    begun = scene.ask(scene.coordinator.init(NAME, NANOSECONDS, following))
    scene.recover()
    for _ in range(3):
        scene.flush()
    assert begun.result.former == following
    scene.send(begun.result.whose, b"b")
    scene.commit(begun.result.whose)
    assert scene.seen() == [b"a", b"b"]
