"""What a full disk still allows: deleting topics, and with that everything else again."""

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
        running.store.look_for_room()
    space = running.disk.space(DATA)
    running.disk.capacity_bytes = space.total_bytes - space.free_bytes
    return running


def test_a_topic_is_deleted_on_a_full_disk_and_its_space_returns() -> None:
    running = filled(reserve=True)
    running.delete("orders")
    running.store.empty_trash()
    assert running.disk.space(DATA).free_bytes > 20_000
    running.publish(frames_of([b"y" * 1000]), "prices")
    assert running.store.refusal is None
    assert running.crash().names() == {"prices"}


def test_without_a_reserve_a_deletion_is_refused_and_the_topic_stays() -> None:
    running = filled(reserve=False)
    told = running.ask_to_delete("orders")
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    assert running.names() == {"orders", "prices"}
    assert running.store.reserve.deletions == 0


def test_a_new_topic_does_not_take_the_reserve() -> None:
    running = filled(reserve=True)
    told = running.ask_to_create("more")
    running.flush()
    assert isinstance(told.refusal, DiskFull)
    running.delete("orders")
    assert running.names() == {"prices"}
