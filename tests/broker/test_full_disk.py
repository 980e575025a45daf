"""A full disk still allows deleting topics."""

from goqueue.errors import DiskFull
from tests.broker.brokers import Running, frames_of
from tests.storage.stores import DATA


def filled(*, reserve: bool) -> Running:
    """Two topics with messages on a disk without a free byte."""
    running = Running()
    for name in ("orders", "prices"):
        running.create(name)
        running.publish(frames_of([b"x" * 20_000]), name)
    if reserve:
        running.store.probe_disk_space()
    space = running.disk.space(DATA)
    running.disk.capacity_bytes = space.total_bytes - space.free_bytes
    return running


def test_deleting_a_topic_on_a_full_disk_frees_its_space() -> None:
    running = filled(reserve=True)
    running.delete("orders")
    running.store.empty_trash()
    assert running.disk.space(DATA).free_bytes > 20_000
    running.publish(frames_of([b"y" * 1000]), "prices")
    assert running.store.refusal is None
    assert running.crash().names() == {"prices"}


def test_deletion_is_refused_on_a_full_disk_without_reserve() -> None:
    running = filled(reserve=False)
    told = running.ask_to_delete("orders")
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    assert running.names() == {"orders", "prices"}
    assert running.store.reserve.deletions == 0


def test_creating_a_topic_does_not_use_the_reserve() -> None:
    running = filled(reserve=True)
    told = running.ask_to_create("more")
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    running.delete("orders")
    assert running.names() == {"prices"}
