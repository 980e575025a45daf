"""Copies of messages from other nodes: stored by the leader of the target, each once."""

from collections.abc import Iterator
from typing import Any

import pytest

from goqueue.broker.core.copies import Copy
from goqueue.broker.core.leadership import Leadership
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.publish_port import PublishPort
from goqueue.broker.core.work import Promise, Work, run_work
from goqueue.errors import LeadershipLost, LeaderUnavailable, NotLeader
from goqueue.storage import frame
from goqueue.wire.sections import ORIGIN_HEADER
from tests.broker.brokers import Running, values

TARGET = PartitionRef("dead", 0)


def copy(value: str, origin: str = "", since: int = 0) -> Copy:
    source = (origin or f"billing/orders/0/{value}").encode()
    return Copy(frame.encode(value.encode(), None, frame.encode_headers([(ORIGIN_HEADER, source)])), source, since)


class Target:
    """A node that leads the target, or follows it."""

    def __init__(self, *, leads: bool = True) -> None:
        self.running = Running()
        self.running.create("dead")
        self.port = PublishPort(self.running.broker.log)
        self.leadership = Leadership("dead", 0, "n1")
        self.leadership.leader = "n1" if leads else "n2"
        self.leadership.is_leading = self.leadership.is_settled = leads
        self.partition.leadership = self.leadership

    @property
    def partition(self) -> Any:
        return self.running.partition("dead")

    def store(self, *copies: Copy) -> None:
        run_work(self.port.store_here(TARGET, copies), self.running.flush)

    def begin(self, *copies: Copy) -> Iterator[Any]:
        """Run up to where it waits for the append."""
        work: Work[None] = self.port.store_here(TARGET, copies)
        job = next(work)
        while not isinstance(job, Promise):
            job = work.send(job())
        return work

    def values(self) -> list[bytes]:
        self.running.flush()
        return values(self.partition)


def test_copy_is_stored_once_however_often_it_is_sent() -> None:
    target = Target()
    target.store(copy("a"), copy("b"))
    target.store(copy("b"), copy("c"))
    assert target.values() == [b"a", b"b", b"c"]


def test_copy_that_is_on_its_way_is_waited_for() -> None:
    target = Target()
    target.begin(copy("a"))
    second = target.begin(copy("a"), copy("b"))
    assert target.values() == [b"a", b"b"]
    with pytest.raises(StopIteration):
        next(second)


def test_earlier_copy_of_the_same_origin_is_another_one() -> None:
    target = Target()
    target.store(copy("a"))
    target.store(copy("a", since=1))
    assert target.values() == [b"a", b"a"]


def test_target_that_was_created_anew_is_searched_from_its_beginning() -> None:
    target = Target()
    target.store(copy("a", since=100))
    target.store(copy("a", since=100))
    assert target.values() == [b"a"]


def test_refused_append_is_reported_and_tried_again() -> None:
    target = Target()
    target.running.refuse_writes()
    with pytest.raises(LeadershipLost):  # its followers may have it
        target.store(copy("a"))
    target.store(copy("a"))
    assert target.values() == [b"a"]


def test_follower_refuses_and_names_the_leader() -> None:
    with pytest.raises(NotLeader):
        Target(leads=False).store(copy("a"))


def test_leader_refuses_before_it_knows_what_it_inherited() -> None:
    target = Target()
    target.leadership.is_settled = False
    with pytest.raises(LeaderUnavailable):
        target.store(copy("a"))


def test_copies_for_another_leader_are_sent_to_it() -> None:
    target = Target(leads=False)
    sent: list[Any] = []

    def send(node: str, ref: PartitionRef, copies: Any) -> Work[None]:
        sent.append((node, ref, list(copies)))
        yield from ()

    target.port.send_copies = send
    run_work(target.port.store(TARGET, [copy("a")]))
    assert sent == [("n2", TARGET, [copy("a")])]
