"""The broker in numbers: of now, and of the last seconds."""

from typing import Annotated

import msgspec

from goqueue.api.call import Call
from goqueue.api.health import NODE, uptime
from goqueue.broker.name import is_internal
from goqueue.broker.work import Work
from goqueue.errors import GoQueueError
from goqueue.limits import HISTORY_SECONDS, SAMPLE_SECONDS
from goqueue.observe.history import History
from goqueue.quantities import format_time
from goqueue.runtime.memory import memory_bytes
from goqueue.runtime.slices import Slices
from goqueue.storage.disk import Space


class TopicStats(msgspec.Struct):
    partitions: int
    messages: int
    size_bytes: int


class Rates(msgspec.Struct, kw_only=True):
    published_per_second: float
    published_bytes_per_second: float
    read_per_second: float
    read_bytes_per_second: float
    settled_per_second: float
    requests_per_second: float


class DiskStats(msgspec.Struct):
    total_bytes: int
    free_bytes: int


class Stats(msgspec.Struct, kw_only=True):
    node_id: str
    uptime: float
    topics: int
    partitions: int
    groups: int
    total_size_bytes: int
    rates: Annotated[Rates, msgspec.Meta(description="Over the last seconds.")]
    disk: Annotated[
        DiskStats | None, msgspec.Meta(description="The file system of the data directory; null if it does not say.")
    ]
    connections: int
    memory_bytes: int
    loop_lag_ms: Annotated[float, msgspec.Meta(description="How late the event loop was when it last looked.")]
    topic_stats: dict[str, TopicStats]


class HistoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    seconds: Annotated[
        int, msgspec.Meta(ge=1, le=HISTORY_SECONDS, description="How far back, where so much is remembered.")
    ] = HISTORY_SECONDS


class HistoryAnswer(msgspec.Struct, kw_only=True):
    interval_seconds: int
    end: Annotated[str, msgspec.Meta(description="Of the last second.")]
    series: Annotated[
        dict[str, list[float]],
        msgspec.Meta(description="A number for each second, oldest first; all are of one length."),
    ]


async def stats(call: Call) -> Stats:
    broker, slices, found = call.runtime.broker, Slices(), dict[str, TopicStats]()
    for name, topic in list(broker.topics.items()):
        if not is_internal(name):
            found[name] = TopicStats(len(topic.partitions), topic.message_count, topic.size)
            await slices.rest()
    groups = (group.group for group in broker.coordinator.ledger.groups())
    return Stats(
        node_id=NODE,
        uptime=uptime(call),
        topics=len(found),
        partitions=sum(topic.partitions for topic in found.values()),
        groups=sum(not is_internal(name) for name in groups),
        total_size_bytes=sum(topic.size_bytes for topic in found.values()),
        rates=_rates(call.app.history),
        disk=await _disk(call),
        connections=call.app.metrics.connections_open,
        memory_bytes=memory_bytes(),
        loop_lag_ms=round(call.app.metrics.loop_lag * 1000, 3),
        topic_stats=found,
    )


def _rates(history: History) -> Rates:
    return Rates(
        published_per_second=history.rate("published"),
        published_bytes_per_second=history.rate("published_bytes"),
        read_per_second=history.rate("read"),
        read_bytes_per_second=history.rate("read_bytes"),
        settled_per_second=history.rate("settled"),
        requests_per_second=history.rate("requests"),
    )


async def _disk(call: Call) -> DiskStats | None:
    def look() -> Work[Space]:
        space: Space = yield lambda: call.runtime.disk.space(call.runtime.store.path)
        return space

    try:
        space = await call.runtime.perform(look())
    except GoQueueError:
        return None
    return DiskStats(space.total_bytes, space.free_bytes)


async def history(call: Call) -> HistoryAnswer:
    kept = call.app.history
    return HistoryAnswer(
        interval_seconds=round(SAMPLE_SECONDS),
        end=format_time(kept.end_ns or call.runtime.clock.now_ns()),
        series=kept.last(call.query.seconds),
    )
