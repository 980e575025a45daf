"""Placement: the same key goes to the same partition, on the client and on the broker."""

import pytest

from goqueue.partitioner import murmur2, murmur3, partition_of
from tests.broker.brokers import Running


@pytest.mark.parametrize(("partitioner", "hash_key"), [("murmur2", murmur2), ("murmur3", murmur3)])
def test_key_is_placed_by_the_topic_partitioner(partitioner: str, hash_key: object) -> None:
    assert callable(hash_key)
    topic = Running().create(partitions=5, partitioner=partitioner)
    for key in (b"a", b"21", b"foobar", bytes(100)):
        assert topic.place(key).number == partition_of(key, 5, hash_key)


def test_changed_partitioner_applies_to_later_messages() -> None:
    running = Running()
    topic = running.create(partitions=7)
    running.broker.alter_topic("orders", {"partitioner": "murmur2"}, lambda _: None)
    running.flush()
    assert topic.place(b"foobar").number == partition_of(b"foobar", 7, murmur2)


@pytest.mark.parametrize("key", [None, b""])
def test_messages_without_key_are_spread_round_robin(key: bytes | None) -> None:
    topic = Running().create(partitions=3)
    turns = [topic.place(key).number for _ in range(9)]
    assert turns[:3] == turns[3:6] == turns[6:]
    assert set(turns) == {0, 1, 2}
