"""A partition's log through both clients, as the bytes that it is."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goqueue.client import Client, PartitionSegments
from goqueue.errors import BrokerUnreachable, ChecksumMismatch, PartitionNotFound, SegmentNotFound
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.brokers import publish
from tests.client.peers import peer, reply

VALUES = [b"%04d" % number + b"x" * 200 for number in range(100)]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with a topic of several segments."""
    path: Path = tmp_path_factory.mktemp("data")
    with LocalBroker(str(path)) as broker, Client(broker.url) as client:
        client.create_topic("orders", partitions=2, segment_bytes=4096)
        for value in VALUES:
            client.publish("orders", value, partition=1)
        yield broker.url


@pytest.fixture
def ask(ask: Any, url: str) -> Any:
    """Call one method of a client of either kind, with this broker or another peer."""
    return lambda method, *given, at=url, **options: ask(at, method, *given, **options)


def test_all_messages_are_in_the_bytes_of_the_segments(ask: Any) -> None:
    found: PartitionSegments = ask("segments", "orders", 1)
    assert (found.topic, found.partition, found.earliest, found.high_watermark) == ("orders", 1, 0, 100)
    assert len(found.segments) > 3
    values = []
    for one in found.segments:
        whole = ask("segment_bytes", "orders", 1, one.base_offset)
        assert type(whole) is bytes
        assert len(whole) == one.size_bytes
        values += [frame.decode(whole, position).value for position in frame.walk(whole)]
        pieces = [ask("segment_bytes", "orders", 1, one.base_offset, 2000 * n, 2000, one.version) for n in range(4)]
        assert (b"".join(pieces), pieces[3]) == (whole, b"")
    assert values == VALUES


def test_the_index_is_entries_of_three_numbers(ask: Any) -> None:
    one = ask("segments", "orders", 1).segments[1]
    index = ask("segment_index", "orders", 1, one.base_offset, one.version)
    assert next(struct.iter_unpack(">qqq", index)) == (one.base_offset, 0, one.first_time_ns)


def test_segments_of_a_delayed_log_are_listed_on_request(ask: Any, url: str) -> None:
    assert ask("segments", "orders", 1, delayed=True).segments == []
    with pytest.raises(SegmentNotFound, match="nothing was ever scheduled in partition 1 of orders"):
        ask("segment_bytes", "orders", 1, 0, delayed=True)
    publish(url, "orders", "later", delay="1h", partition=0)
    (one,) = ask("segments", "orders", 0, delayed=True).segments
    whole = ask("segment_bytes", "orders", 0, 0, version=one.version, delayed=True)
    assert len(whole) == one.size_bytes
    assert {frame.decode(whole, position).value for position in frame.walk(whole)} == {b"later"}
    index = ask("segment_index", "orders", 0, 0, one.version, delayed=True)
    assert next(struct.iter_unpack(">qqq", index)) == (0, 0, one.first_time_ns)


def test_what_is_refused_is_raised(ask: Any) -> None:
    for method in ("segment_bytes", "segment_index"):
        with pytest.raises(SegmentNotFound, match="replaced"):
            ask(method, "orders", 1, 0, version="0-0")
    with pytest.raises(PartitionNotFound):
        ask("segments", "orders", 2)


def answers(answer: bytes) -> Any:
    return peer(lambda _: answer)


def test_bytes_that_are_not_what_was_sent_are_refused(ask: Any) -> None:
    for answer in (reply(b"abc", x_goqueue_checksum="00000001"), reply(b"abc")):
        with answers(answer) as server, pytest.raises(ChecksumMismatch):
            ask("segment_bytes", "t", 0, 0, at=server.url)
    with answers(reply(b"[]")) as server, pytest.raises(BrokerUnreachable, match="cannot be read"):
        ask("segments", "t", 0, at=server.url)
