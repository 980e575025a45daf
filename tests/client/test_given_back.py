"""What an eager member has given back to join again is not its own any more, whatever it has in hand of it."""

from collections.abc import Iterator
from typing import Any

import pytest

from goqueue.client import Client
from goqueue.errors import LeaseExpired
from tests.client.group_peers import Group, group_of

OPTIONS: dict[str, Any] = {"protocol": "eager", "heartbeat_interval": 0.01, "until_idle": "200ms"}


@pytest.fixture
def group() -> Group:
    made = Group()
    made.publish(b"a", b"b", b"c")
    made.publish(b"x", b"y", b"z", partition=1)
    return made


@pytest.fixture
def client(group: Group) -> Iterator[Client]:
    with group_of(group) as server, Client(server.url, timeout="5s") as made:
        yield made


def test_what_was_given_back_comes_with_a_new_lease_and_once(group: Group, client: Client) -> None:
    with client.consumer("g", ["t"], **OPTIONS) as consumer:
        messages = iter(consumer)
        next(messages).ack()
        group.change()
        group.wait_for(lambda: consumer._attention)
        rest = []
        for message in messages:
            rest.append(message.value)
            message.ack(wait=True)
        assert sorted(map(bytes, filter(None, rest))) == [b"b", b"c", b"x", b"y", b"z"]
        assert sorted(group.offsets("acks")) == sorted(group.offsets("acks", partition=1)) == [0, 1, 2]


def test_a_word_about_what_was_given_back_is_refused_to_whoever_waits(group: Group, client: Client) -> None:
    with client.consumer("g", ["t"], **OPTIONS) as consumer:
        messages = iter(consumer)
        acked, unsaid = next(messages), next(messages)
        acked.ack()
        group.change()
        group.wait_for(lambda: consumer._attention)
        next(messages)
        acked.ack(wait=True)
        with pytest.raises(LeaseExpired, match="t/0 were given back"):
            unsaid.ack(wait=True)
