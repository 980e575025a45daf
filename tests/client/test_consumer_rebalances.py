"""Partitions come and go under a consumer: what is told when, what goes on, and what is not handed out any more."""

import threading
from itertools import islice
from typing import Any

import pytest

from goqueue.client import Client, Delivered, TopicPartition
from goqueue.errors import LeaseExpired
from tests.client.group_peers import Group
from tests.client.peers import Asked, Reply, refusal

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def group() -> Group:
    made = Group()
    made.publish(b"a", b"b", b"c")
    made.publish(b"x", b"y", b"z", partition=1)
    return made


class Told:
    """The calls of the callbacks, in order, among the requests of the group."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def options(self) -> dict[str, Any]:
        return {f"on_{word}": self._note(word) for word in ("assigned", "revoked", "lost")}

    def _note(self, word: str) -> Any:
        def note(partitions: list[TopicPartition]) -> None:
            with self._group.news:
                self._group.events.append(f"{word} {' '.join(str(one.partition) for one in partitions)}")

        return note

    def after(self, event: str) -> list[str]:
        """The callbacks, and the changes that the group heard of, since the first such event."""
        words = ("assigned", "revoked", "lost", "revoke", "join", "settle")
        found = [one for one in self._group.events if one.startswith(words)]
        return found[found.index(event) + 1 :]


def test_what_is_assigned_is_told_before_its_messages(group: Group, client: Client) -> None:
    told = Told(group)
    with client.consumer("g", ["t"], **told.options()) as consumer:
        assert group.events == ["join/cooperative", "assigned 0 1"]
        assert consumer.assignment == [ZERO, ONE]
        assert repr(consumer) == "<Consumer g m1 t/0 t/1>"
        assert consumer.generation == 1


def test_a_partition_is_given_up_between_two_messages(group: Group, client: Client) -> None:
    told, order = Told(group), []
    with client.consumer("g", ["t"], until_idle=0, heartbeat_interval=0.01, **told.options()) as consumer:
        for message in consumer:
            order.append(message.value)
            message.ack()
            if message.value == b"a":
                group.change(revoke=[("t", 0)])
                group.wait_for(lambda: consumer._attention)
        assert consumer.assignment == [ONE]
        revoking = [one for one in told.after("assigned 0 1") if one != "settle"]
        assert revoking == ["revoked 0", "revoke"]
    assert order == [b"a", b"x", b"y", b"z"]
    assert (group.offsets("acks"), group.offsets("acks", 1)) == ([0], [0, 1, 2])


def test_what_is_settled_while_a_partition_goes_is_durable_before_it_is_gone(group: Group, client: Client) -> None:
    held: list[Delivered] = []
    told: list[list[TopicPartition]] = []

    def finish(partitions: list[TopicPartition]) -> None:
        told.append(partitions)
        for message in held:
            message.ack()

    with client.consumer("g", ["t"], on_revoked=finish, until_idle=0) as consumer:
        for message in consumer:
            held.append(message)
            if len(held) == 6:
                group.change(revoke=[("t", 0)])
        assert told == [[ZERO]]
        assert group.offsets("acks") == [0, 1, 2]
        consumer.flush()
        assert consumer.stats.refused == 0


def test_a_partition_that_stays_goes_on_with_what_was_fetched_ahead(group: Group, client: Client) -> None:
    with client.consumer("g", ["t"], max_messages=1, heartbeat_interval=0.01) as consumer:
        messages = iter(consumer)
        first, second = next(messages), next(messages)
        assert (first.value, second.value) == (b"a", b"x")
        group.wait_for(lambda: len(group.leases) == 4)  # the next of each is fetched ahead
        group.change(revoke=[("t", 0)])
        group.wait_for(lambda: consumer._attention)
        assert [message.value for message in islice(messages, 2)] == [b"y", b"z"]


def test_a_new_partition_is_told_and_read(group: Group, client: Client) -> None:
    told = Told(group)
    with client.consumer("g", ["t"], until_idle=0, **told.options()) as consumer:
        found = []
        for message in consumer:
            found.append(message.value)
            if len(found) == 6:
                group.publish(b"new", partition=2)
                group.change(gain=[("t", 2)])
        assert found[6:] == [b"new"]
        assert told.after("assigned 0 1") == ["assigned 2"]
        assert consumer.generation == 2


def test_a_partition_that_was_taken_is_lost(group: Group, client: Client) -> None:
    told = Told(group)
    with client.consumer("g", ["t"], until_idle=0, heartbeat_interval=0.01, **told.options()) as consumer:
        messages = iter(consumer)
        message = next(messages)
        group.change(lose=[("t", 0)])
        group.wait_for(lambda: consumer._attention)
        assert [other.value for other in messages] == [b"x", b"y", b"z"]
        assert told.after("assigned 0 1") == ["lost 0"]
        group.expired |= set(group.leases)
        with pytest.raises(LeaseExpired):
            message.ack(wait=True)


@pytest.mark.parametrize("where", ["/poll", "/heartbeat"])
def test_a_stale_generation_is_looked_up(group: Group, client: Client, where: str) -> None:
    times = [True]

    def stale(asked: Asked) -> Reply | bool:
        if where in asked.target and times:
            times.pop()
            return refusal("generation_stale", 409, details={"generation": 2})
        return False

    group.before = stale
    with client.consumer("g", ["t"], heartbeat_interval=0.01) as consumer:
        if where == "/heartbeat":
            group.wait_for(lambda: not times)
        assert next(iter(consumer)).value == b"a"
        assert "assignment" in group.events
        assert consumer.assignment == [ZERO, ONE]


def test_unknown_member_joins_again(group: Group, client: Client) -> None:
    told = Told(group)
    with client.consumer("g", ["t"], heartbeat_interval=0.01, **told.options()) as consumer:
        messages = iter(consumer)
        assert next(messages).value == b"a"
        group.forget_members()
        group.wait_for(lambda: consumer._attention)
        assert next(messages).value == b"a"  # the rest of what it had is not handed out
        assert consumer.member_id != "m1"
        assert [one for one in told.after("assigned 0 1") if one != "settle"] == [
            "lost 0 1",
            "join/cooperative",
            "assigned 0 1",
        ]


@pytest.mark.parametrize("protocol", ["cooperative", "eager"])
def test_a_poll_that_does_not_end_by_itself_is_not_waited_for(group: Group, client: Client, protocol: Any) -> None:
    group.wakes = False
    told = Told(group)
    options: Any = {"until_idle": "200ms", "heartbeat_interval": 0.01, "protocol": protocol, "wait": "60s"}
    with client.consumer("g", ["t"], **options, **told.options()) as consumer:
        for message in islice(consumer, 6):
            message.ack(wait=True)
        changing = threading.Timer(0.1, group.change, kwargs={"revoke": [("t", 0)]})
        changing.start()
        assert list(consumer) == []
        changing.join()
        assert [one for one in told.after("assigned 0 1") if "revoked" in one]


def test_an_eager_member_gives_everything_back_and_joins_again(group: Group, client: Client) -> None:
    told = Told(group)
    with client.consumer("g", ["t"], protocol="eager", heartbeat_interval=0.01, **told.options()) as consumer:
        messages = iter(consumer)
        next(messages).ack()
        member = consumer.member_id
        group.change()
        group.wait_for(lambda: consumer._attention)
        assert next(messages).value in {b"b", b"c", b"x"}
        assert consumer.member_id == member
        changes = [one for one in told.after("assigned 0 1") if one != "settle"]
        assert changes == ["revoked 0 1", "join", "assigned 0 1"]
        released = [(partition, offset) for action, _, partition, offset in group.settled if action == "releases"]
        assert sorted(released) == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
        assert group.offsets("acks") == [0]


def test_what_a_callback_raises_is_raised_when_all_is_done(group: Group, client: Client) -> None:
    def fail(partitions: list[TopicPartition]) -> None:
        if partitions == [ZERO]:
            raise ZeroDivisionError

    with client.consumer("g", ["t"], on_revoked=fail, heartbeat_interval=0.01) as consumer:
        messages = iter(consumer)
        next(messages)
        group.change(revoke=[("t", 0)])
        group.wait_for(lambda: consumer._attention)
        with pytest.raises(ZeroDivisionError):
            next(messages)
        assert consumer.assignment == [ONE]
        assert next(iter(consumer)).value == b"x"


def test_a_callback_may_close(group: Group, thread_client: Client) -> None:
    def close(_: list[TopicPartition]) -> None:
        consumer.close()

    with thread_client.consumer("g", ["t"], on_revoked=close, heartbeat_interval=0.01) as consumer:
        messages = iter(consumer)
        next(messages)
        group.change(revoke=[("t", 0)])
        group.wait_for(lambda: consumer._attention)
        assert list(messages) == []
    assert [event for event in group.events if event.startswith(("join", "leave"))] == [
        "join/cooperative",
        "leave/cooperative",
    ]


def test_what_interrupts_a_callback_is_done_later(group: Group, thread_client: Client) -> None:
    interruptions = [KeyboardInterrupt()]

    def interrupt(_: list[TopicPartition]) -> None:
        if interruptions:
            raise interruptions.pop()

    with thread_client.consumer("g", ["t"], on_revoked=interrupt, heartbeat_interval=0.01) as consumer:
        messages = iter(consumer)
        next(messages)
        group.change(revoke=[("t", 0)])
        group.wait_for(lambda: consumer._attention)
        with pytest.raises(KeyboardInterrupt):
            next(messages)
        assert next(iter(consumer)).value == b"x"
        assert consumer.assignment == [ONE]


# --- an eager member releases what it has, to join again ---

EAGER: dict[str, Any] = {"protocol": "eager", "heartbeat_interval": 0.01, "until_idle": "200ms"}


def test_what_was_given_back_comes_with_a_new_lease_and_once(group: Group, client: Client) -> None:
    with client.consumer("g", ["t"], **EAGER) as consumer:
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


def test_ack_of_a_released_message_is_refused(group: Group, client: Client) -> None:
    with client.consumer("g", ["t"], **EAGER) as consumer:
        messages = iter(consumer)
        acked, unsaid = next(messages), next(messages)
        acked.ack()
        group.change()
        group.wait_for(lambda: consumer._attention)
        next(messages)
        acked.ack(wait=True)
        with pytest.raises(LeaseExpired, match="t/0 were released"):
            unsaid.ack(wait=True)
