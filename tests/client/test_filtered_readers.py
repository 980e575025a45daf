"""Readers with filters: the broker gives what fits, and the reader misses nothing on its way."""

import json
import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from crc32c import crc32c

from goqueue.client import Client
from goqueue.errors import BrokerUnreachable, RequestInvalid
from goqueue.limits import FILTER_SCAN_BYTES, MIB
from goqueue.testing.broker import LocalBroker
from tests.client.peers import Asked, peer, reply


def fill(client: Client, count: int = 100, partitions: int = 2) -> None:
    """Orders 0 to `count` in the topic `t`, each in the partition of its number."""
    client.create_topic("t", partitions=partitions)
    with client.producer() as producer:
        for number in range(count):
            producer.send("t", order(number), key=f"customer-{number % 4}", partition=number % partitions)


def order(number: int) -> bytes:
    return json.dumps({"id": number, "order": {"total": number}}).encode()


def ids(messages: Any) -> list[int]:
    return sorted(json.loads(message.value)["id"] for message in messages)


def test_a_reader_gets_what_fits_all_filters(blocking: Client) -> None:
    fill(blocking)
    assert ids(blocking.reader("t", filters=["json.order.total>=90", "key=customer-3"])) == [91, 95, 99]
    assert ids(blocking.reader("t", filters="json.id=7")) == [7]
    assert ids(blocking.reader("t", filters=())) == list(range(100))
    assert ids(blocking.reader("t", filters=["key=missing"])) == []


def test_a_reader_counts_what_was_looked_at_and_what_fitted(connected: Client) -> None:
    fill(connected)
    with connected.reader("t", filters=["json.order.total>=90"]) as reader:
        assert (reader.scanned, reader.matched) == (0, 0)
        assert len(list(reader)) == 10
        assert (reader.scanned, reader.matched) == (100, 10)
        assert reader.positions == {0: 50, 1: 50}
    with connected.reader("t") as reader:
        assert len(list(reader)) == 100
        assert (reader.scanned, reader.matched) == (100, 100)


def test_a_reader_goes_on_where_answers_are_empty(connected: Client) -> None:
    count = FILTER_SCAN_BYTES // MIB + 3
    connected.create_topic("t", partitions=1)
    with connected.producer() as producer:
        for number in range(count):
            producer.send("t", b"%02d" % number + bytes(MIB - 1000))
    with connected.reader("t", filters=[f"value^={count - 1}"]) as reader:
        (found,) = [message.offset for message in reader]
    assert (found, reader.scanned, reader.matched) == (count - 1, count, 1)


def test_positions_lead_another_reader_on(connected: Client) -> None:
    fill(connected)
    with connected.reader("t", filters=["key=customer-1"], max_bytes=1) as reader:
        first = [message for batch in islice(reader.batches(), 5) for message in batch]
        stored = reader.positions
    rest = list(connected.reader("t", start=stored, filters=["key=customer-1"]))
    assert ids([*first, *rest]) == list(range(1, 100, 4))


WRONG_FILTERS: list[tuple[list[Any], str]] = [
    (["kye=4"], "'kye' is not a field"),
    (["key=a", "json.a<null"], "null has no order"),
    (["key=a"] * 11, "at most 10"),
    (["value~" + "x" * 500], "500 are allowed"),
    (["key=\ud800"], "UTF-8"),
    ([""], "a filter is ''"),
    ([4], "a filter is 4"),
]


def test_a_filter_that_cannot_be_read_is_refused(blocking: Client) -> None:
    fill(blocking, 1)
    for filters, said in WRONG_FILTERS:
        with pytest.raises(RequestInvalid, match=said):
            list(blocking.reader("t", filters=filters))


def test_any_character_arrives_as_it_is(blocking: Client) -> None:
    text = "a&b=c #%25+é\n\"'\\;/?日本"
    blocking.create_topic("t", partitions=1)
    blocking.publish("t", text, key=text, headers={"h": text})
    blocking.publish("t", "another")
    for field in ("key", "value", "header.h"):
        assert [message.offset for message in blocking.reader("t", filters=[f"{field}={text}"])] == [0]


def test_a_peer_that_does_not_say_how_much_it_looked_at_is_not_believed() -> None:
    topic = {"name": "t", "partitions": 1, "partition_offsets": {"0": {"earliest": 0, "latest": 5}}}

    def answer(asked: Asked) -> bytes:
        if "messages" not in asked.target:
            return reply(topic)
        assert parse_qs(urlsplit(asked.target).query)["filter"] == ["key=a", "value~b c"]
        return reply(
            b"",
            x_goqueue_next_offset="5",
            x_goqueue_high_watermark="5",
            x_goqueue_first_offset="0",
            x_goqueue_checksum=f"{crc32c(b''):08x}",
        )

    with peer(answer) as server, Client(server.url) as client:
        reader = client.reader("t", filters=["key=a", "value~b c"])
        with pytest.raises(BrokerUnreachable, match="not numbers"):
            list(reader)


def test_the_example_of_the_page_runs(broker: LocalBroker, blocking: Client) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "filters.md"
    (example,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    (topic,) = set(re.findall(r'reader\(\s*"(\w+)"', example))
    blocking.create_topic(topic, partitions=1)
    for city, grams in (("Bern", 300), ("Basel", 2500), ("Chur", 10)):
        blocking.publish(topic, json.dumps({"to": {"city": city}, "grams": grams}))
    environment = {**os.environ, "GOQUEUE_SERVER": broker.url}
    done = subprocess.run([sys.executable, "-c", example], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ['0 {"to": {"city": "Bern"}, "grams": 300}', "1 of 3"]
