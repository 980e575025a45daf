"""Sampling of traces: by position, so that all records of a message are kept or none, and always what fails."""

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.tracing.records import TraceEventType, TraceRecord
from goqueue.broker.tracing.ring import TraceRing
from goqueue.broker.tracing.sampling import Sampling, SlowThreshold
from goqueue.limits import TRACE_BLOCK_OFFSETS as BLOCK
from goqueue.limits import TRACE_KEPT_RANGES, TRACE_SLOW_SAMPLES

REF = LogRef("orders", 0)


def record(event: TraceEventType, first: int, end: int, time_ns: int = 1) -> TraceRecord:
    return TraceRecord(event, "orders", 0, first, end, time_ns)


def ring_with(rate: float, records: int = 10_000) -> TraceRing:
    return TraceRing(records, Sampling(lambda _: rate), lambda: 0, has_outbox=True)


def test_share_of_sampled_messages_is_the_rate() -> None:
    for rate in (0.0, 0.1, 0.5, 1.0):
        sampling = Sampling(lambda _, rate=rate: rate)  # type: ignore[misc]
        kept = sum(sampling.keeps_message(REF, block * BLOCK) for block in range(2_000)) / 2_000
        assert abs(kept - rate) < 0.04


def test_sampling_keeps_all_records_of_a_message_or_none() -> None:
    ring = ring_with(0.3)
    for block in range(200):
        first = block * BLOCK
        ring.add(record("publish.persisted", first, first + BLOCK))
        ring.add(record("consume.fetched", first, first + 500))
        ring.add(record("consume.acked", first + 20, first + 500))
    written = ring.take()
    by_block = {block: [one for one in written if one.first // BLOCK == block] for block in range(200)}
    assert {len(found) for found in by_block.values()} == {0, 3}
    assert ring.sampled_out + len(written) == 600


def test_failed_messages_are_kept_with_what_was_recorded_before() -> None:
    ring = ring_with(0.0)
    for first in (0, BLOCK):
        ring.add(record("publish.persisted", first, first + 10))
        ring.add(record("consume.fetched", first, first + 10))
    assert ring.take() == []
    ring.add(record("consume.nacked", 3, 4), always=True)
    ring.add(record("consume.acked", 3, 4))
    events = [(one.event, one.first) for one in ring.take()]
    assert events == [("publish.persisted", 0), ("consume.fetched", 0), ("consume.nacked", 3), ("consume.acked", 3)]
    assert ring.sampled_out == 2
    assert [one.event for one in ring.covering(REF, BLOCK + 1)] == ["publish.persisted", "consume.fetched"]


def test_neighbors_of_a_message_that_is_kept_are_left_out() -> None:
    ring = ring_with(0.0)
    for offset in range(BLOCK):
        ring.add(record("publish.persisted", offset, offset + 1), always=offset == 100)
        ring.add(record("consume.fetched", offset, offset + 1))
    gaps = TraceRecord("consume.nacked", "orders", 0, 200, 401, 1, runs=(1, 199, 1))
    ring.add(gaps, always=True)
    ring.add(record("consume.acked", 300, 301))
    ring.add(record("consume.acked", 400, 401))
    ring.add(TraceRecord("consume.acked", "orders", 0, 99, 102, 1, runs=(1, 1, 1)))
    kept = sorted((one.first, one.event) for one in ring.take())
    assert kept == [
        (100, "consume.fetched"), (100, "publish.persisted"),
        (200, "consume.fetched"), (200, "consume.nacked"), (200, "publish.persisted"),
        (400, "consume.acked"), (400, "consume.fetched"), (400, "publish.persisted"),
    ]  # fmt: skip
    assert [offset for offset in range(BLOCK) if ring.sampling.keeps_message(REF, offset)] == [100, 200, 400]


def test_oldest_kept_messages_are_forgotten_first() -> None:
    sampling = Sampling(lambda _: 0.0)
    assert sampling.keep(record("consume.nacked", 0, 10))
    assert not sampling.keep(record("consume.nacked", 3, 4))
    for number in range(TRACE_KEPT_RANGES - 1):
        assert sampling.keep(record("consume.nacked", 100 + 2 * number, 101 + 2 * number))
    assert sampling.keeps_message(REF, 9)
    sampling.keep(record("consume.nacked", 8, 12))
    kept = [offset for offset in range(14) if sampling.keeps_message(REF, offset)]
    assert (kept, sampling.keeps_message(REF, 100)) == ([8, 9, 10, 11], True)


def test_ring_keeps_the_latest_records() -> None:
    ring = ring_with(1.0, records=100)
    for first in range(250):
        ring.add(record("publish.persisted", first, first + 1, first))
    assert (len(ring), ring.oldest_ns) == (100, 150)
    assert [one.first for one in ring.newest()] == list(range(249, 149, -1))
    assert ring.covering(REF, 149) == []
    assert len(ring.covering(REF, 150)) == 1


def test_slowest_hundredth_is_slow() -> None:
    threshold = SlowThreshold()
    assert not any(threshold.is_slow(duration) for duration in range(TRACE_SLOW_SAMPLES))
    assert (threshold.is_slow(TRACE_SLOW_SAMPLES), threshold.is_slow(TRACE_SLOW_SAMPLES // 2)) == (True, False)
