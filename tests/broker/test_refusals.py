"""Appends refused by a full disk stay refused after a power loss: lives that the simulation found."""

import errno

from goqueue.errors import DiskFull, GoQueueError
from tests.broker.brokers import Running, Told, frames_of, offer_batch, values
from tests.broker.crashes import crash_points

POWER_LOSSES = 15
LARGE, SMALL = bytes(3000), bytes(250)


def test_refused_deletion_does_not_happen_after_power_loss(running: Running) -> None:
    told = running.ask_to_delete()
    running.disk.fail("write", errno.ENOSPC, path="*/__metadata/*", after_bytes=10_000)  # all of it, and then no
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    for _ in range(POWER_LOSSES):
        assert Running(running.disk.after_crash("some")).names() == {"orders"}


def test_refused_message_is_not_stored_after_power_loss(running: Running) -> None:
    running.publish(frames_of([b"kept"]))
    told = offer_batch(running.partition(), frames_of([b"refused"]))
    running.disk.fail("write", errno.ENOSPC, path="*/orders/*", after_bytes=10_000)
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    for _ in range(POWER_LOSSES):
        assert values(Running(running.disk.after_crash("some")).partition()) == [b"kept"]


def test_power_loss_while_removing_a_refused_segment_leaves_no_damage() -> None:
    for point in crash_points():
        running = Running()
        running.create()
        running.publish(frames_of([b"kept" + LARGE]))
        offer_batch(running.partition(), frames_of([b"refused" + SMALL] * 10))
        running.disk.fail("write", errno.ENOSPC, path="*/orders/*", after_bytes=2500)
        with point.during(running.disk):
            running.flush()
        for _ in range(POWER_LOSSES):
            after = Running(running.disk.after_crash("some", torn=True))
            assert after.store.recovered["orders/0"].damages == []
            found = [value[:4] for value in values(after.partition())]
            assert found[:1] == [b"kept"]
            assert not point.is_over or found == [b"kept"], "a refused message must not be stored"


def test_waiting_callers_are_refused_when_files_cannot_be_opened() -> None:
    running = Running().restart()
    told: Told[int] = Told()
    running.broker.producer_ids.give(told)
    creation = running.ask_to_create()
    running.disk.fail("open", errno.EMFILE, times="forever")
    running.flush()
    assert isinstance(told.refusal, GoQueueError)
    assert isinstance(creation.refusal, GoQueueError)
    running.disk.end_faults()
    running.create()
