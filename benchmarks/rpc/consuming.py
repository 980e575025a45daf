"""Messages received on one stream: by a member that acknowledges all of them, and by position."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

from benchmarks.harness.suite import Bench, Figure, Sample, at_least, measurement
from benchmarks.rpc.broker import TOPIC, RpcBroker, rpc_broker
from benchmarks.rpc.publishing import FRAMES, framed, publish

_groups = itertools.count()


def _fill(broker: RpcBroker, bench: Bench, batches: int) -> int:
    from goqueue.rpc.v1 import publish_pb2  # noqa: PLC0415

    request = publish_pb2.PublishBatchRequest(topic=TOPIC, frames=framed(bench, FRAMES))
    broker.with_channel(publish(request, batches))
    return batches * FRAMES


@measurement("receive and acknowledge as a member, frames", Figure("messages/s", budget=at_least(3e5)))
def member(bench: Bench) -> Iterator[Sample]:
    with rpc_broker(bench) as broker:
        count = _fill(broker, bench, bench.size(200, 40))
        while True:
            yield count / broker.with_channel(_consumed(f"group-{next(_groups)}", count))


def _consumed(group: str, count: int) -> Any:
    """Return what receives so many messages and returns the seconds until all are acknowledged."""

    async def run(channel: Any) -> float:
        from goqueue.rpc.stubs import Stub  # noqa: PLC0415
        from goqueue.rpc.v1 import ack_pb2, consume_pb2  # noqa: PLC0415

        consumer = Stub(channel, "ConsumeService")
        acks = Stub(channel, "AckService")
        waiting: asyncio.Queue[Any] = asyncio.Queue()

        async def settlements() -> AsyncIterator[Any]:
            while (entry := await waiting.get()) is not None:
                yield entry

        async def settle() -> int:
            settled = 0
            async for response in acks.SettleStream(settlements()):
                assert not response.acks[0].error.reason, response.acks[0].error
                settled += 1
            return settled

        start, received, leases, member = time.perf_counter(), 0, 0, ""
        settling = asyncio.create_task(settle())
        request = consume_pb2.SubscribeRequest(
            topics=[TOPIC], group_id=group, frames=True, max_in_flight=20_000, max_messages=5_000
        )
        stream = consumer.Subscribe(request)
        async for response in stream:
            if response.WhichOneof("payload") == "assignment":
                member = response.assignment.member_id
            elif response.WhichOneof("payload") == "messages":
                lease = response.messages.lease
                entry = ack_pb2.SettleRequest(group=group, member_id=member)
                ranges = [ack_pb2.OffsetRange(first=lease.first, end=lease.end)]
                entry.acks.add(topic=TOPIC, partition=0, lease=lease.id, ranges=ranges)
                waiting.put_nowait(entry)
                received, leases = received + lease.end - lease.first, leases + 1
                if received >= count:
                    break
        waiting.put_nowait(None)
        assert await settling == leases
        seconds = time.perf_counter() - start
        stream.cancel()
        return seconds

    return run


@measurement("read by position, frames", Figure("messages/s"))
def frames(bench: Bench) -> Iterator[Sample]:
    with rpc_broker(bench) as broker:
        count = _fill(broker, bench, bench.size(200, 40))
        while True:
            yield count / broker.with_channel(_read(frames=True))


@measurement("read by position, typed messages", Figure("messages/s"))
def typed(bench: Bench) -> Iterator[Sample]:
    with rpc_broker(bench) as broker:
        count = _fill(broker, bench, bench.size(40, 10))
        while True:
            yield count / broker.with_channel(_read(frames=False))


def _read(*, frames: bool) -> Any:
    async def run(channel: Any) -> float:
        from goqueue.rpc.stubs import Stub  # noqa: PLC0415
        from goqueue.rpc.v1 import consume_pb2  # noqa: PLC0415

        consumer = Stub(channel, "ConsumeService")
        start = time.perf_counter()
        async for _ in consumer.Consume(consume_pb2.ConsumeRequest(topic=TOPIC, frames=frames, until_end=True)):
            pass
        return time.perf_counter() - start

    return run
