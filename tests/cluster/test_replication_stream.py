"""The high watermark on the connection of two nodes: with the data that follows it, or in a message of its own."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from goqueue.cluster.partitions import PartitionId
from goqueue.cluster.replication_messages import DataHeader, ReplicaPosition, decode_positions
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.replication_stream import DATA, HIGH_WATERMARKS, ReplicationStream, ReplicaTraffic
from goqueue.storage import frame, scan
from goqueue.storage.log import AppendResult

LOG = PartitionId(1, 0)


class Replica:
    """A replica of the leader."""

    def __init__(self, **attributes: object) -> None:
        self.__dict__ |= attributes


class Stream:
    """A stream of the leader of one partition to the node n2, and what it has sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.timers: list[Callable[[], None]] = []
        link: Any = SimpleNamespace(node="n2", send_parts=lambda kind, parts, _: self.sent.append((kind, parts[0])))
        tasks: Any = SimpleNamespace(call_later=lambda _, callback: self.timers.append(callback))
        nothing: Any = None  # neither a loop nor threads are needed, and no replica catches up
        self.traffic = ReplicaTraffic()
        self.stream = ReplicationStream(link, nothing, nothing, tasks, nothing, self.traffic)
        self.end = self.high_watermark = 0
        self.cursor = SimpleNamespace(next=0, is_open=True)
        self.replica: Any = Replica(
            partition=SimpleNamespace(log=SimpleNamespace(first_offset=0)),
            leader=SimpleNamespace(log=LOG, epoch=1, common_end=0, followers={"n2": self.cursor}, sent=self._note_sent),
            position=lambda: ReplicaPosition(LOG, 1, self.high_watermark),
        )

    def _note_sent(self, _: str, end: int) -> None:
        self.cursor.next = end

    def push(self) -> None:
        frames = scan.walk(bytearray(frame.encode(b"x", offset=self.end)))
        self.replica.leader.high_watermark = self.high_watermark
        self.stream.push(self.replica, frames, AppendResult(self.end, self.end + 1, 1))
        self.end += 1

    def commit(self) -> None:
        self.high_watermark = self.end
        self.stream.tell_higher(self.replica)

    def pass_time(self) -> None:
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()

    def told(self) -> list[int]:
        """Return the high watermarks in messages of their own."""
        return [row.end for kind, content in self.sent if kind == HIGH_WATERMARKS for row in decode_positions(content)]


@pytest.fixture
def stream() -> Stream:
    return Stream()


def test_high_watermark_is_told_after_a_moment_without_data(stream: Stream) -> None:
    stream.push()
    stream.commit()
    assert stream.told() == []
    stream.pass_time()
    assert stream.told() == [1]
    stream.push()
    stream.commit()
    stream.pass_time()
    assert stream.told() == [1, 2], "a later one is told as well"


def test_high_watermark_that_data_has_carried_is_not_told_again(stream: Stream) -> None:
    stream.push()
    stream.commit()
    stream.push()
    stream.pass_time()
    headers = [DataHeader.decode(content) for kind, content in stream.sent if kind == DATA]
    assert [header.high_watermark for header in headers] == [0, 1]
    assert stream.told() == []


def test_nothing_is_told_on_a_connection_that_has_ended(stream: Stream) -> None:
    stream.push()
    stream.commit()
    stream.stream.end()
    stream.pass_time()
    assert stream.told() == []


def test_frames_are_counted_in_both_directions(stream: Stream) -> None:
    stream.push()
    stream.push()
    size = len(frame.encode(b"x"))
    assert (stream.traffic.sent, stream.traffic.received) == (2 * size, 0)
    header = DataHeader(LOG, 1, 0, 1, 0, 0).encode()
    stream.stream.receive(DATA, memoryview(header + frame.encode(b"x")), lambda *_: None, lambda *_: None)
    assert (stream.traffic.sent, stream.traffic.received) == (2 * size, size)


def test_replicas_that_catch_up_are_looked_at_again_on_the_loop_of_the_broker() -> None:
    """On uvloop a wait below a millisecond is not a timer."""
    waits, looked = [1e-4, 1e-4], list[str]()

    def follower(name: str) -> Any:
        def pending(_: str) -> tuple[int, int] | None:
            looked.append(name)
            return (0, 1) if looked.count(name) == 1 else None

        return Replica(leader=SimpleNamespace(pending=pending))

    async def main() -> None:
        link: Any = SimpleNamespace(node="n2")
        catch_up: Any = SimpleNamespace(wait_seconds=lambda *_: waits.pop())
        tasks = OwnedTasks("the stream of this test", lambda: looked.append("a defect"))
        threads: Any = None  # nothing is read
        loop = asyncio.get_running_loop()
        stream = ReplicationStream(link, loop, threads, tasks, catch_up, ReplicaTraffic())
        stream.want(follower("a"))
        stream.want(follower("b"))
        async with asyncio.timeout(30):
            while len(looked) < 4:
                await asyncio.sleep(0)

    uvloop.run(main())
    assert looked == ["a", "b", "a", "b"]
