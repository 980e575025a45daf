"""Trace context: W3C's rules for `traceparent` and `tracestate`, and ids derived from positions."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.wire.trace_context import (
    TraceContext,
    derived_span_id,
    derived_trace_id,
    format_traceparent,
    log_hash,
    offset_of,
    parse_traceparent,
    parse_tracestate,
    read_trace_context,
    trace_headers,
)

TRACE = "12345678901234567890123456789012"  # digits alone are an id as well
SPAN = "1234567890123456"
PARENT = f"00-{TRACE}-{SPAN}-01"
CONTEXT = TraceContext(bytes.fromhex(TRACE), bytes.fromhex(SPAN), 1)


@pytest.mark.parametrize(
    "text",
    [
        PARENT,
        f" {PARENT}",
        f"\t {PARENT} \t",
        f"cc-{TRACE}-{SPAN}-01",
        f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like",
        f"01-{TRACE}-{SPAN}-fd",  # of the flags, those of version 00 are known
    ],
)
def test_valid_traceparent_is_read(text: str) -> None:
    assert parse_traceparent(text) == CONTEXT


@pytest.mark.parametrize(
    "text",
    [
        "",
        f"{PARENT}.",
        f"{PARENT}-more",
        f"{PARENT}\n",
        f"cc-{TRACE}-{SPAN}-01.what-the-future-will-be-like",
        f"ff-{TRACE}-{SPAN}-01",
        f".0-{TRACE}-{SPAN}-01",
        f"0.-{TRACE}-{SPAN}-01",
        f"000-{TRACE}-{SPAN}-01",
        f"0000-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-.{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE[:-1]}.-{SPAN}-01",
        f"00-{TRACE}3-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-.{SPAN[1:]}-01",
        f"00-{TRACE}-{SPAN[:-1]}.-01",
        f"00-{TRACE}-{SPAN}7-01",
        f"00-{TRACE}-{SPAN[:-1]}-01",
        f"00-{TRACE}-{SPAN}-.0",
        f"00-{TRACE}-{SPAN}-0.",
        f"00-{TRACE}-{SPAN}-001",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}A-{SPAN}-01",  # upper case
        f"00-{TRACE[:-1]}\N{ARABIC-INDIC DIGIT TWO}-{SPAN}-01",
        f"00_{TRACE}_{SPAN}_01",
    ],
)
def test_invalid_traceparent_is_refused(text: str) -> None:
    assert parse_traceparent(text) is None


ALL_KEY = f"{string.ascii_lowercase}{string.digits}_-*/"
ALL_VALUE = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in ",=")


@pytest.mark.parametrize(
    ("headers", "state"),
    [
        (["foo=1,bar=2"], "foo=1,bar=2"),
        (["foo=1,bar=2", "rojo=1,congo=2", "baz=3"], "foo=1,bar=2,rojo=1,congo=2,baz=3"),
        ([""], ""),
        (["foo=1", ""], "foo=1"),
        (["", "foo=1"], "foo=1"),
        (["foo=1,foo=1"], "foo=1"),
        (["foo=1", "foo=2"], "foo=1"),
        ([f"{ALL_KEY}={ALL_VALUE}"], f"{ALL_KEY}={ALL_VALUE}"),
        ([f"{ALL_KEY}@a-z0-9_-*/={ALL_VALUE}"], f"{ALL_KEY}@a-z0-9_-*/={ALL_VALUE}"),
        (["foo=1 \t , \t bar=2, \t baz=3"], "foo=1,bar=2,baz=3"),
        (["\t foo=1 \t"], "foo=1"),
        (["foo =1"], ""),
        (["FOO=1"], ""),
        (["foo.bar=1"], ""),
        (["foo@=1,bar=2"], "foo@=1,bar=2"),
        (["@foo=1,bar=2"], ""),
        (["foo@bar@baz=1,bar=2"], "foo@bar@baz=1,bar=2"),
        (["foo=bar=baz"], ""),
        (["foo=,bar=3"], ""),
        (["foo=\N{LATIN SMALL LETTER E WITH ACUTE}"], ""),
        (["foo=1", f"{'z' * 256}=1"], f"foo=1,{'z' * 256}=1"),
        (["foo=1", f"{'z' * 257}=1"], ""),
        ([f"a={'v' * 256}"], f"a={'v' * 256}"),
        ([f"a={'v' * 257}"], ""),
    ],
)
def test_tracestate_is_joined_or_discarded(headers: list[str], state: str) -> None:
    assert parse_tracestate(headers) == state


def test_tracestate_has_at_most_32_members_and_512_characters() -> None:
    members = [f"bar{number:02}={number:02}" for number in range(1, 34)]
    assert parse_tracestate([",".join(members[:16]), ",".join(members[16:32])]) == ",".join(members[:32])
    assert parse_tracestate([",".join(members)]) == ""
    long = f"long={'x' * 150}"
    medium = [f"m{number}={'y' * 97}" for number in range(6)]  # 100 characters each
    assert parse_tracestate([",".join([medium[0], long, *medium[1:4]])]) == ",".join(medium[:4])  # the long one first
    assert parse_tracestate([",".join(medium)]) == ",".join(medium[:5])  # then from the end


@given(st.lists(st.text(st.sampled_from("ab=, \t@A1"), max_size=200), max_size=6))
def test_any_tracestate_gives_one_that_is_read_the_same(headers: list[str]) -> None:
    state = parse_tracestate(headers)
    assert len(state) <= 512
    assert parse_tracestate([state]) == state


@pytest.mark.parametrize(
    ("headers", "context"),
    [
        ([], None),
        ([("trace-parent", PARENT)], None),
        ([("TraceParent", PARENT.encode())], CONTEXT),
        ([("traceparent", PARENT), ("traceparent", PARENT)], None),
        ([("traceparent", PARENT), ("TRACEPARENT", "broken")], None),
        ([("tracestate", "foo=1")], None),
        ([("traceparent", PARENT), ("TraceState", b"foo=1"), ("tracestate", "bar=2")], (*CONTEXT[:3], "foo=1,bar=2")),
        ([("traceparent", PARENT), ("tracestate", "foo=1,FOO=2")], CONTEXT),
        ([("traceparent", b"\xff" * 55)], None),
        ([("traceparent", PARENT), ("tracestate", b"a=\xff")], CONTEXT),
    ],
)
def test_context_is_read_from_headers(headers: list[tuple[str, bytes | str]], context: tuple[object, ...]) -> None:
    assert read_trace_context(headers) == context


@given(
    st.binary(min_size=16, max_size=16).filter(any),
    st.binary(min_size=8, max_size=8).filter(any),
    st.integers(0, 3),
    st.sampled_from(["", "a=1", "a=1,b@c=2"]),
)
def test_context_survives_headers(trace_id: bytes, span_id: bytes, flags: int, state: str) -> None:
    context = TraceContext(trace_id, span_id, flags, state)
    assert read_trace_context(trace_headers(context)) == context
    assert format_traceparent(context._replace(flags=flags | 0xFC)) == format_traceparent(context)
    assert context.is_sampled == bool(flags & 1)


@given(st.text(max_size=20), st.integers(0, 10_000), st.integers(0, 2**63 - 1))
def test_derived_trace_id_leads_back_to_its_position(topic: str, partition: int, offset: int) -> None:
    trace_id = derived_trace_id(topic, partition, offset)
    assert len(trace_id) == 16
    assert trace_id[:8] == log_hash(topic, partition) != bytes(8)
    assert offset_of(trace_id) == offset


def test_derived_ids_are_the_same_in_every_version() -> None:
    assert derived_trace_id("orders", 3, 42).hex() == "d1435b47f4c0d488bdd732262feb6e95"
    assert derived_span_id("orders", 3, 42, "deliver", 2).hex() == "dded084815cf816e"
    spans = {
        derived_span_id(topic, partition, offset, role, number)
        for topic in ("orders", "orders.dlq")
        for partition in (0, 1)
        for offset in (0, 1)
        for role in ("", "publish")
        for number in (0, 1)
    }
    assert len(spans) == 32
