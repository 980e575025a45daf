"""Single publishes over HTTP, alone and beside streams that wait."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.harness.suite import Bench, Figure, Sample, measurement
from benchmarks.rpc.broker import RpcBroker, rpc_broker

STREAMS = 1_000
CONNECTIONS = 64
SETTLE_SECONDS = 1
"""For streams to begin and to end."""


@measurement(
    f"publish over HTTP beside {STREAMS:,} idle streams",
    Figure("us of processor a request", less_is_better=True),
    Figure("ms", "99 of 100 within", less_is_better=True),
    Figure("us of processor a request", "without streams", less_is_better=True),
    Figure("ms", "99 of 100 within, without streams", less_is_better=True),
)
def idle(bench: Bench) -> Iterator[Sample]:
    count, streams = bench.size(30_000, 5_000), bench.size(STREAMS, STREAMS // 10)
    with rpc_broker(bench) as broker:
        broker.create("busy", 1)
        broker.create("quiet", 1)
        broker.publish_json("busy", 1, 1_000, CONNECTIONS)
        while True:
            alone = _published(broker, count)
            with _waiting(broker, streams):
                beside = _published(broker, count)
            yield *beside, *alone


def _published(broker: RpcBroker, count: int) -> tuple[float, float]:
    """Publish over HTTP; return microseconds of the broker's processor a request, and the p99 in milliseconds."""
    time.sleep(SETTLE_SECONDS)
    before = broker.server.processor_seconds()
    found = broker.publish_json("busy", 1, count, CONNECTIONS)
    return 1e6 * (broker.server.processor_seconds() - before) / count, found.most


@contextmanager
def _waiting(broker: RpcBroker, count: int) -> Iterator[None]:
    """Hold streams that wait for messages of a topic without any."""
    import grpc  # noqa: PLC0415 - as in the broker

    from goqueue.rpc.stubs import Stub  # noqa: PLC0415
    from goqueue.rpc.v1 import consume_pb2  # noqa: PLC0415

    with grpc.insecure_channel(broker.rpc_address) as channel:
        consumer = Stub(channel, "ConsumeService")
        request = consume_pb2.ConsumeRequest(topic="quiet")
        streams = [consumer.Consume(request) for _ in range(count)]
        for stream in streams:
            stream.initial_metadata()  # it has begun
        yield
        for stream in streams:
            stream.cancel()
