"""Keys in their order for who reads ahead: nothing in hand overtakes an earlier message that is to come again."""

from collections import defaultdict
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goqueue.client import Client, Delivered
from goqueue.testing.broker import LocalBroker

OPTIONS: dict[str, Any] = {"order": "key"}


def fill(client: Client, count: int = 12, keys: int = 2) -> None:
    client.create_topic("t", partitions=1)
    for number in range(count):
        client.publish("t", str(number), key=f"k{number % keys}")


class Handler:
    """Does something else than to acknowledge each of some messages once, and keeps what it got."""

    def __init__(self, fails: dict[int, str]) -> None:
        self.fails = dict(fails)
        self.found: dict[bytes | None, list[int]] = defaultdict(list)

    def handle(self, message: Delivered) -> None:
        number = int(message.value or b"")
        self.found[message.key].append(number)
        how = self.fails.pop(number, "ack")
        if how == "nack":
            message.nack(delay=0)
        elif how == "raise":
            with pytest.raises(ZeroDivisionError), message:
                raise ZeroDivisionError
        elif how == "ack, nack":
            message.ack()
            message.nack()
        else:
            getattr(message, how)()


MORE = [{}, {"prefetch": False}, {"max_messages": 1, "max_in_flight": 6}, {"max_messages": 5}]


@pytest.mark.parametrize(("how", "more"), [*(("nack", more) for more in MORE), ("raise", {}), ("release", {})])
def test_later_ones_of_the_key_wait_for_what_comes_again(connected: Client, how: str, more: dict[str, Any]) -> None:
    handler = Handler({2: how})
    fill(connected)
    with connected.consumer("g", ["t"], **OPTIONS, **more) as consumer:
        for message in islice(consumer, 13):
            handler.handle(message)
    assert connected.group_offsets("g") == {"t": {0: 12}}
    assert connected.topics() == ["t"]
    assert handler.found == {b"k0": [0, 2, 2, 4, 6, 8, 10], b"k1": [1, 3, 5, 7, 9, 11]}


def test_what_was_said_too_late_keeps_nothing_waiting(blocking: Client) -> None:
    handler = Handler({2: "ack, nack"})
    fill(blocking)
    with blocking.consumer("g", ["t"], **OPTIONS) as consumer:
        for message in islice(consumer, 12):
            handler.handle(message)
        consumer.flush()
        assert (consumer.stats.received, consumer.stats.released) == (12, 0)
    assert handler.found[b"k0"] == [0, 2, 4, 6, 8, 10]


def test_without_the_order_nothing_waits(blocking: Client) -> None:
    handler = Handler({2: "nack"})
    fill(blocking)
    with blocking.consumer("g", ["t"], until_idle="200ms") as consumer:
        for message in consumer:
            handler.handle(message)
    assert handler.found[b"k0"] == [0, 2, 4, 6, 8, 10, 2]


def test_batches_keep_the_order_too(connected: Client) -> None:
    found: list[tuple[int, bytes | None]] = []
    fill(connected, 9, keys=1)
    with connected.consumer("g", ["t"], **OPTIONS, max_messages=3, until_idle="200ms") as consumer:
        for batch in consumer.batches():
            found += [(message.attempt, message.value) for message in batch]
            if batch.attempt == 1 and batch[0].value == b"3":
                batch.nack(delay=0)
            else:
                batch.ack()
    again = [value for attempt, value in found if attempt > 1 or value not in {b"3", b"4", b"5"}]
    assert again == [b"%d" % number for number in range(9)]


@settings(max_examples=8, deadline=None)
@given(
    st.dictionaries(st.integers(0, 39), st.sampled_from(["nack", "release"]), max_size=12),
    st.integers(1, 15),
    st.booleans(),
)
def test_whatever_fails_once_each_key_is_done_in_its_order(fails: dict[int, str], most: int, prefetch: bool) -> None:
    handler = Handler(fails)
    with TemporaryDirectory() as directory, LocalBroker(directory) as local, Client(local.url) as client:
        fill(client, 40, keys=3)
        options = OPTIONS | {"max_messages": most, "max_in_flight": 30, "prefetch": prefetch}
        with client.consumer("g", ["t"], **options) as consumer:
            for message in islice(consumer, 40 + len(fails)):
                handler.handle(message)
    for key, found in handler.found.items():
        assert found == sorted([*dict.fromkeys(found), *(one for one in fails if f"k{one % 3}".encode() == key)])
