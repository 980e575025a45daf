"""Messages published on one stream of batches, and by calls of their own."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from benchmarks.broker.latency import Answers
from benchmarks.harness.suite import Bench, Figure, Sample, at_least, measurement
from benchmarks.rpc.broker import TOPIC, VALUE_BYTES, rpc_broker
from goqueue.storage import frame
from goqueue.wire.sections import SECTION

FRAMES = 5_000
MESSAGES = 1_000
UNDER_WAY = 4
"""Batches that are sent before the first of them is answered."""
CALLS = 32


def framed(bench: Bench, count: int) -> bytes:
    """Return a section with so many messages."""
    frames = b"".join(frame.encode(bench.random.randbytes(VALUE_BYTES)) for _ in range(count))
    return SECTION.pack(0, len(frames)) + frames


def publish(request: Any, times: int) -> Callable[[Any], Awaitable[float]]:
    """Return what sends a batch so many times on a stream and returns the seconds until all are answered."""

    async def run(channel: Any) -> float:
        from goqueue.rpc.stubs import Stub  # noqa: PLC0415

        room = asyncio.Semaphore(UNDER_WAY)

        async def requests() -> AsyncIterator[Any]:
            for _ in range(times):
                await room.acquire()
                yield request

        start, answered = time.perf_counter(), 0
        stub = Stub(channel, "PublishService")
        async for response in stub.PublishBatches(requests()):
            assert not response.error.reason, response.error
            answered += 1
            room.release()
        assert answered == times, f"{answered} answers instead of {times}"
        return time.perf_counter() - start

    return run


@measurement(f"publish on a stream, {FRAMES:,} messages a batch as frames", Figure("messages/s", budget=at_least(5e5)))
def frames(bench: Bench) -> Iterator[Sample]:
    from goqueue.rpc.v1 import publish_pb2  # noqa: PLC0415

    request, times = publish_pb2.PublishBatchRequest(topic=TOPIC, frames=framed(bench, FRAMES)), bench.size(300, 50)
    with rpc_broker(bench) as broker:
        broker.with_channel(publish(request, 5))
        while True:
            yield FRAMES * times / broker.with_channel(publish(request, times))


@measurement(f"publish on a stream, {MESSAGES:,} typed messages a batch", Figure("messages/s", budget=at_least(1e5)))
def typed(bench: Bench) -> Iterator[Sample]:
    from goqueue.rpc.v1 import publish_pb2  # noqa: PLC0415

    messages = [publish_pb2.OutgoingMessage(value=bench.random.randbytes(VALUE_BYTES)) for _ in range(MESSAGES)]
    request, times = publish_pb2.PublishBatchRequest(topic=TOPIC, messages=messages), bench.size(300, 50)
    with rpc_broker(bench) as broker:
        broker.with_channel(publish(request, 5))
        while True:
            yield MESSAGES * times / broker.with_channel(publish(request, times))


@measurement(
    f"publish 1 message a call, {CALLS} calls under way",
    Figure("calls/s", budget=at_least(4_000)),
    Figure("ms", "99 of 100 within", less_is_better=True),
)
def calls(bench: Bench) -> Iterator[Sample]:
    from goqueue.rpc.stubs import Stub  # noqa: PLC0415
    from goqueue.rpc.v1 import publish_pb2  # noqa: PLC0415

    request = publish_pb2.PublishRequest(topic=TOPIC, value=bench.random.randbytes(VALUE_BYTES))
    count = bench.size(20_000, 4_000) // CALLS

    async def run(channel: Any) -> Answers:
        stub = Stub(channel, "PublishService")
        times: list[float] = []

        async def caller() -> None:
            for _ in range(count):
                begin = time.perf_counter()
                await stub.Publish(request)
                times.append(time.perf_counter() - begin)

        start = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(CALLS)))
        return Answers.of(times, time.perf_counter() - start)

    with rpc_broker(bench) as broker:
        while True:
            found = broker.with_channel(run)
            yield found.rate, found.most
