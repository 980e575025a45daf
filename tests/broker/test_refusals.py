"""What a full disk refused stays refused, whenever the power goes afterwards: lives that the simulation has found."""

import errno

from goqueue.errors import DiskFull, GoQueueError
from goqueue.testing.disk import Crashed
from tests.broker.brokers import Running, Told, frames_of, offer_batch, values

POWER_LOSSES = 40
LARGE, SMALL = bytes(3000), bytes(250)


def test_a_refused_deletion_is_not_carried_out_by_a_loss_of_power() -> None:
    running = Running()
    running.create()
    told = running.ask_to_delete()
    running.disk.fail("write", errno.ENOSPC, path="*/__metadata/*", after_bytes=10_000)  # all of it, and then no
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    for _ in range(POWER_LOSSES):
        assert Running(running.disk.after_crash("some")).names() == {"orders"}


def test_a_refused_message_is_not_stored_by_a_loss_of_power() -> None:
    running = Running()
    running.create()
    running.publish(frames_of([b"kept"]))
    told = offer_batch(running.partition(), frames_of([b"refused"]))
    running.disk.fail("write", errno.ENOSPC, path="*/orders/*", after_bytes=10_000)
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    for _ in range(POWER_LOSSES):
        assert values(Running(running.disk.after_crash("some")).partition()) == [b"kept"]


def test_a_refused_segment_leaves_no_damage_when_the_power_goes_while_it_is_removed() -> None:
    operation, is_over = 0, False
    while not is_over:
        running, operation = Running(), operation + 1
        running.create()
        running.publish(frames_of([b"kept" + LARGE]))
        offer_batch(running.partition(), frames_of([b"refused" + SMALL] * 10))
        running.disk.fail("write", errno.ENOSPC, path="*/orders/*", after_bytes=2500)
        running.disk.crash_at(running.disk.operations + operation)
        try:
            running.flush()
            is_over = True
        except Crashed:
            pass
        for _ in range(POWER_LOSSES):
            after = Running(running.disk.after_crash("some", torn=True))
            assert after.store.recovered["orders/0"].damages == []
            found = [value[:4] for value in values(after.partition())]
            assert found[:1] == [b"kept"]
            assert not is_over or found == [b"kept"], "who was refused must not find it stored"


def test_whoever_waits_is_told_although_the_disk_cannot_even_be_read_any_more() -> None:
    running = Running().restart()
    told: Told[int] = Told()
    running.broker.producer_ids.give(told)
    creation = running.ask_to_create()
    running.disk.fail("open", errno.EMFILE, times="forever")
    running.flush()
    assert isinstance(told.refusal, GoQueueError)
    assert isinstance(creation.refusal, GoQueueError)
    running.disk.heal()
    running.create()
