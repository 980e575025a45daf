"""One partition: small publishes share an append, batches are answered once durable, readers stay behind."""

import errno

import pytest

from goqueue.broker.core.partition import Partition, Placement
from goqueue.broker.core.producer_checkpoint import save_producers
from goqueue.broker.core.work import run_work
from goqueue.errors import DiskFailed, DiskFull, FrameInvalid, GoQueueError, LogFenced, SequenceOutOfOrder
from goqueue.limits import PRODUCER_WINDOW
from goqueue.storage import frame
from goqueue.testing.disk import Crashed
from tests.broker.brokers import Running, Told, frames_of, marked, messages, offer_batch, values

TORN = marked(1, *(b"%d" % number for number in range(8)))


def offered(running: Running, *values: bytes) -> Told[Placement]:
    told: Told[Placement] = Told()
    running.partition().offer([frame.encode(value) for value in values], told)
    return told


# --- small publishes ---


def test_gathered_publishes_share_one_append_in_order(running: Running, partition: Partition) -> None:
    told = [offered(running, b"one"), offered(running, b"two", b"three"), offered(running, b"four")]
    partition.commit()
    running.flush()
    assert [one.result.pieces for one in told] == [((0, 1),), ((1, 3),), ((3, 4),)]
    assert values(partition) == [b"one", b"two", b"three", b"four"]
    assert len({message.timestamp_ns for message in messages(partition)}) == 1


def test_first_gathered_publish_requests_the_commit(partition: Partition) -> None:
    asked = [partition.offer([frame.encode(b"one")], lambda _: None) for _ in range(3)]
    assert asked == [True, False, False]
    partition.commit()
    assert partition.offer([frame.encode(b"two")], lambda _: None)


def test_gathered_publishes_are_stored_before_a_later_batch(running: Running, partition: Partition) -> None:
    small = offered(running, b"small")
    batch = offer_batch(partition, frames_of([b"batch"]))
    running.flush()
    assert (small.result.first_offset, batch.result.first_offset) == (0, 1)


def test_publish_is_answered_and_visible_when_durable(running: Running, partition: Partition) -> None:
    told = offered(running, b"one")
    partition.commit()
    assert (told.all, values(partition), partition.log_end) == ([], [], 1)
    running.flush()
    assert (len(told.all), values(partition)) == (1, [b"one"])


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_refused_append_fails_all_gathered_publishes(running: Running, partition: Partition, error: int) -> None:
    told = [offered(running, b"one"), offered(running, b"two")]
    partition.commit()
    running.disk.fail("write", error, path="*.log")
    running.flush()
    assert all(isinstance(one.refusal, (DiskFull, LogFenced)) for one in told)
    assert (partition.log_end, values(partition)) == (0, [])


def test_fenced_log_fails_gathered_publishes_at_commit(running: Running, partition: Partition) -> None:
    partition.log.fence_off(DiskFailed("the device failed"))
    told = [offered(running, b"one"), offered(running, b"two")]
    partition.commit()
    assert all(isinstance(one.refusal, LogFenced) for one in told)


# --- batches ---


def test_invalid_batch_changes_nothing(partition: Partition) -> None:
    with pytest.raises(FrameInvalid):
        offer_batch(partition, marked(0, b"one") + frames_of([b"two"]))
    assert (partition.log_end, len(partition.producers or ())) == (0, 0)


def test_retry_gets_the_first_placement(running: Running, partition: Partition) -> None:
    first = running.publish(marked(0, b"one", b"two"))
    running.publish(marked(2, b"three"))
    again = offer_batch(partition, marked(0, b"one", b"two")).result
    assert (again.pieces, again.time_ns, again.duplicate) == (first.pieces, first.time_ns, True)
    assert values(partition) == [b"one", b"two", b"three"]


def test_retry_of_pending_batch_gets_the_same_answer(running: Running, partition: Partition) -> None:
    told = [offer_batch(partition, marked(0, b"one")) for _ in range(3)]
    assert [one.all for one in told] == [[], [], []]
    running.flush()
    assert [(one.result.pieces, one.result.duplicate) for one in told] == [
        (((0, 1),), False),
        (((0, 1),), True),
        (((0, 1),), True),
    ]


def test_retry_of_pending_batch_shares_its_refusal(running: Running, partition: Partition) -> None:
    told = [offer_batch(partition, marked(0, b"one")) for _ in range(2)]
    running.refuse_writes("*.log")
    running.flush()
    assert all(isinstance(one.refusal, DiskFull) for one in told)
    assert running.publish(marked(0, b"one")).duplicate is False
    assert values(partition) == [b"one"]


# --- after a restart ---


@pytest.mark.parametrize("with_note", [True, False])
def test_retries_are_recognized_after_crash(running: Running, with_note: bool) -> None:
    running.publish(marked(0, b"one", b"two"))
    if with_note:
        run_work(save_producers(running.partition(), running.disk))
    running.publish(marked(2, b"three"))
    after = running.crash()
    assert after.publish(marked(0, b"one", b"two")).pieces == ((0, 2),)
    assert after.publish(marked(2, b"three")).pieces == ((2, 3),)
    assert values(after.partition()) == [b"one", b"two", b"three"]
    with pytest.raises(SequenceOutOfOrder):
        offer_batch(after.partition(), marked(4, b"a gap"))


def test_garbage_producer_checkpoint_is_ignored(running: Running) -> None:
    running.publish(marked(0, b"one"))
    running.disk.write_file(f"{running.partition().log.directory}/producers", b"\0" * 50)
    assert running.crash().publish(marked(0, b"one")).duplicate


def test_unreadable_producer_checkpoint_is_an_error(running: Running) -> None:
    running.publish(marked(0, b"one"))
    run_work(save_producers(running.partition(), running.disk))
    after = running.crash()
    after.disk.fail("read", errno.EIO, path="*producers")
    with pytest.raises(DiskFailed):
        after.partition()
    assert after.publish(marked(0, b"one")).duplicate


def test_producer_checkpoint_covers_only_durable_batches(running: Running) -> None:
    running.publish(marked(0, b"one"))
    offer_batch(running.partition(), marked(1, b"lost"))
    run_work(save_producers(running.partition(), running.disk))
    after = running.crash()
    assert after.publish(marked(0, b"one")).duplicate
    assert not after.publish(marked(1, b"found")).duplicate


def torn(*, kept: int) -> Running:
    """A broker after a crash that has kept so many messages of a batch."""
    running = Running()
    running.create()
    running.publish(marked(0, b"before"))
    offer_batch(running.partition(), TORN)
    places = list(frame.walk(TORN))
    running.disk.crash_at(running.disk.operations + 1, after_bytes=places[kept] + 5)
    with pytest.raises(Crashed):
        running.flush()
    after = running.crash("everything")
    assert after.partition().log_end == 1 + kept
    return after


def numbers(running: Running) -> list[bytes]:
    return values(running.partition())[1:]


def test_retry_completes_a_torn_batch() -> None:
    running = torn(kept=3)
    placement = running.publish(TORN)
    assert (placement.pieces, placement.duplicate) == (((1, 9),), False)
    assert numbers(running) == [b"%d" % number for number in range(8)]
    assert running.publish(TORN).duplicate


def test_torn_batch_is_completed_after_later_messages() -> None:
    running = torn(kept=3)
    running.publish(frames_of([b"x", b"y", b"z"]))
    running = running.crash()
    running.publish(frames_of([b"!"]))
    placement = running.publish(TORN)
    assert placement.pieces == ((1, 4), (8, 13))
    assert numbers(running) == [b"0", b"1", b"2", b"x", b"y", b"z", b"!", b"3", b"4", b"5", b"6", b"7"]
    again = running.crash().publish(TORN)
    assert (again.pieces, again.duplicate) == (((1, 4), (8, 13)), True)


def test_torn_batch_counts_once_in_the_producer_window() -> None:
    running = torn(kept=3)
    running.publish(TORN)
    for number in range(PRODUCER_WINDOW - 1):
        running.publish(marked(9 + number, b"after"))
    assert running.publish(TORN).pieces == ((1, 9),)
    running = running.crash()
    assert running.publish(TORN).pieces == ((1, 9),)
    running.publish(marked(9 + PRODUCER_WINDOW - 1, b"one more"))
    with pytest.raises(SequenceOutOfOrder):
        running.publish(TORN)


def test_append_is_refused_when_the_tear_cannot_be_recorded() -> None:
    running = torn(kept=3)
    disk = running.disk.crash("everything")
    disk.remove(f"{running.partition().log.directory}/producers")
    disk.fail("create", errno.ENOSPC, path="*producers*", times="forever")
    refused = Running(disk)
    with pytest.raises(LogFenced):
        offer_batch(refused.broker.topics["orders"].partition(0), frames_of([b"x"]))
    assert numbers(refused) == [b"0", b"1", b"2"]
    assert refused.crash().publish(TORN).pieces == ((1, 9),)


# --- reading ---


def test_watcher_is_called_once(running: Running, partition: Partition) -> None:
    woken: list[str] = []
    partition.watch(lambda: woken.append("stays"))
    partition.watch(lambda: woken.append("leaves"))()
    running.publish(frames_of([b"one"]))
    running.publish(frames_of([b"two"]))
    assert woken == ["stays"]


def test_callback_can_publish_again(running: Running, partition: Partition) -> None:
    again: list[Told[Placement]] = []

    def try_again(result: Placement | GoQueueError) -> None:
        assert isinstance(result, DiskFull)
        again.append(offer_batch(partition, marked(0, b"one")))

    partition.publish(bytearray(marked(0, b"one")), 1000, try_again)
    follows = offer_batch(partition, marked(1, b"two"))
    running.refuse_writes("*.log")
    running.flush()
    assert isinstance(follows.refusal, DiskFull)
    running.flush()
    assert again[0].result.pieces == ((0, 1),)
    assert running.publish(marked(1, b"two")).first_offset == 1
