"""Trace records: the offsets that they cover, and their lines."""

from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.partition_ref import LogRef
from goqueue.broker.tracing.journey import TracedMessage, events_of
from goqueue.broker.tracing.records import TraceEventType, TraceRecord, as_runs, decode_line, encode_lines, in_parts
from goqueue.limits import TRACE_RANGES_MAX


@given(st.sets(st.integers(0, 60), min_size=1))
def test_record_covers_exactly_the_offsets_of_its_ranges(offsets: set[int]) -> None:
    ranges = [(offset, offset + 1) for offset in sorted(offsets)]
    first, end, runs = as_runs(ranges)
    record = TraceRecord("consume.acked", "orders", 0, first, end, 1, runs=runs)
    assert {offset for offset in range(-2, 63) if record.covers(offset)} == offsets
    assert record.messages == len(offsets)
    assert decode_line(encode_lines([record])) == record


def test_many_ranges_become_several_records() -> None:
    ranges = [(2 * number, 2 * number + 1) for number in range(3 * TRACE_RANGES_MAX)]
    assert [len(part) for part in in_parts(ranges)] == [TRACE_RANGES_MAX] * 3


def test_torn_and_foreign_lines_are_skipped() -> None:
    (whole,) = encode_lines([TraceRecord("consume.acked", "orders", 0, 1, 2, 3)]).splitlines()
    for line in (whole[:-1], b"", b"{}", b"\xff\x00", whole.replace(b"consume.acked", b"consume.eaten")):
        assert decode_line(line) is None
    assert decode_line(whole[:-1] + b',"added":1}') is not None


def test_ack_that_names_a_rejected_message_is_no_event_of_it() -> None:
    one = TracedMessage(LogRef("orders", 0), 3, "start")
    names: list[TraceEventType] = ["consume.fetched", "consume.rejected", "consume.acked"]
    records = [
        TraceRecord(event, "orders", 0, 3, 5, time_ns, group="billing", attempt=1)
        for time_ns, event in enumerate(names, start=1)
    ]
    assert [found.event for found in events_of(one, records)] == ["consume.fetched", "consume.rejected"]
