"""Readers with filters: the broker gives what fits, and the reader misses nothing on its way."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from crc32c import crc32c

from goqueue.client import AsyncClient, Client
from goqueue.errors import BrokerUnreachable, RequestInvalid
from goqueue.limits import FILTER_SCAN_BYTES, MIB
from goqueue.testing.broker import LocalBroker
from tests.brokers import broker
from tests.client.peers import Asked, peer, reply

__all__ = ["broker"]


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


def test_a_reader_gets_what_fits_all_filters(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client)
        assert ids(client.reader("t", filters=["json.order.total>=90", "key=customer-3"])) == [91, 95, 99]
        assert ids(client.reader("t", filters="json.id=7")) == [7]
        assert ids(client.reader("t", filters=())) == list(range(100))
        assert ids(client.reader("t", filters=["key=nobody"])) == []


def test_a_reader_counts_what_was_looked_at_and_what_fitted(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client)
        with client.reader("t", filters=["json.order.total>=90"]) as reader:
            assert (reader.scanned, reader.matched) == (0, 0)
            assert len(list(reader)) == 10
            assert (reader.scanned, reader.matched) == (100, 10)
            assert reader.positions == {0: 50, 1: 50}
        with client.reader("t") as reader:
            assert len(list(reader)) == 100
            assert (reader.scanned, reader.matched) == (100, 100)


def test_a_loop_reads_with_filters_as_well(broker: LocalBroker) -> None:
    async def main() -> tuple[list[int], int, int]:
        async with AsyncClient(broker.url) as client:
            reader = await client.reader("t", filters=["json.order.total>=90"])
            found = [message async for message in reader]
            return ids(found), reader.scanned, reader.matched

    with Client(broker.url) as client:
        fill(client)
    assert asyncio.run(main()) == (list(range(90, 100)), 100, 10)


def test_a_reader_goes_on_where_answers_are_empty(broker: LocalBroker) -> None:
    count = FILTER_SCAN_BYTES // MIB + 3
    with Client(broker.url) as client:
        client.create_topic("t", partitions=1)
        with client.producer() as producer:
            for number in range(count):
                producer.send("t", b"%02d" % number + bytes(MIB - 1000))
        with client.reader("t", filters=[f"value^={count - 1}"]) as reader:
            (found,) = [message.offset for message in reader]
        assert (found, reader.scanned, reader.matched) == (count - 1, count, 1)


@pytest.mark.parametrize(
    ("start", "until", "expected"),
    [
        (10, 20, [12, 16]),
        ({0: 95}, None, [96]),
        ("earliest", {0: 5}, [0, 4]),
        ("latest", None, []),
        (0, "now", range(0, 100, 4)),
    ],
)
def test_every_place_to_begin_and_to_end_is_kept_to(broker: LocalBroker, start: Any, until: Any, expected: Any) -> None:
    with Client(broker.url) as client:
        fill(client, partitions=1)
        assert ids(client.reader("t", start=start, until=until, filters=["key=customer-0"])) == list(expected)


def test_positions_lead_another_reader_on(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client)
        with client.reader("t", filters=["key=customer-1"], max_bytes=1) as reader:
            first = [message for batch in islice(reader.batches(), 5) for message in batch]
            stored = reader.positions
        rest = list(client.reader("t", start=stored, filters=["key=customer-1"]))
        assert ids([*first, *rest]) == list(range(1, 100, 4))


def test_a_reader_that_follows_is_given_what_fits_as_it_comes(broker: LocalBroker) -> None:
    with Client(broker.url) as client, ThreadPoolExecutor() as pool:
        client.create_topic("t", partitions=2)
        with client.reader("t", filters=["value~yes"], follow=True, wait="1s") as reader:
            ready = threading.Event()

            def take() -> list[bytes | None]:
                ready.set()
                return [message.value for message in islice(reader, 3)]

            found = pool.submit(take)
            ready.wait()
            for number in range(30):
                client.publish("t", f"{'yes' if number % 10 == 9 else 'no'} {number}")
            assert sorted(value or b"" for value in found.result()) == [b"yes 19", b"yes 29", b"yes 9"]


def test_a_reader_outlives_a_restart_of_the_broker(tmp_path: Path) -> None:
    first = LocalBroker(str(tmp_path)).start()
    with Client(first.url) as client, ThreadPoolExecutor() as pool:
        fill(client, partitions=1)
        with client.reader("t", filters=["key=customer-1"], follow=True, wait="200ms") as reader:
            messages = iter(reader)
            before = list(islice(messages, 25))
            last = pool.submit(next, messages)
            first.stop()
            with LocalBroker(str(tmp_path), server__port=first.url.rpartition(":")[2]) as second:
                with Client(second.url) as other:
                    other.publish("t", order(101), key="customer-1")
                found = ids([*before, last.result()])
    assert found == list(range(1, 102, 4))


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (["kye=4"], "'kye' is no field"),
        (["key=a", "json.a<null"], "neither before nor behind"),
        (["key=a"] * 11, "at most 10"),
        (["value~" + "x" * 500], "500 are allowed"),
        (["key=\ud800"], "UTF-8"),
        ([""], "a filter is ''"),
        ([4], "a filter is 4"),
    ],
)
def test_a_filter_that_cannot_be_read_is_refused(broker: LocalBroker, filters: list[Any], said: str) -> None:
    with Client(broker.url) as client:
        fill(client, 1)
        with pytest.raises(RequestInvalid, match=said):
            list(client.reader("t", filters=filters))


def test_any_character_arrives_as_it_is(broker: LocalBroker) -> None:
    text = "a&b=c #%25+é\n\"'\\;/?日本"
    with Client(broker.url) as client:
        client.create_topic("t", partitions=1)
        client.publish("t", text, key=text, headers={"h": text})
        client.publish("t", "another")
        for field in ("key", "value", "header.h"):
            assert [message.offset for message in client.reader("t", filters=[f"{field}={text}"])] == [0]


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

    with peer(answer) as server, Client(server.url, timeout="200ms") as client:
        reader = client.reader("t", filters=["key=a", "value~b c"])
        with pytest.raises(BrokerUnreachable, match="not numbers"):
            list(reader)


def test_dead_letters_are_looked_at_and_sent_back_by_filters(broker: LocalBroker) -> None:
    with Client(broker.url) as client:
        fill(client, 6, partitions=1)
        with client.consumer("g", ["t"]) as consumer:
            for message in islice(consumer, 6):
                message.reject(reason="late" if message.offset % 2 else "lost", wait=True)
        late = client.dead_letters("t", filters=["header.dlq.error=late", "json.id>1"])
        assert [json.loads(one["value"])["id"] for one in late["messages"]] == [3, 5]
        assert client.redrive("t", filters=["json.id>=4"], dry_run=True)["matched"] == 2
        assert client.redrive("t", filters="json.id>=4")["moved"] == 2
        assert client.redrive("t", filters=["json.id>=4"])["moved"] == 0

    async def main() -> int:
        async with AsyncClient(broker.url) as client:
            return len((await client.dead_letters("t", filters=["json.id<4"]))["messages"])

    assert asyncio.run(main()) == 4


def test_the_example_of_the_page_runs(broker: LocalBroker) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "filters.md"
    (example,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    with Client(broker.url) as client:
        client.create_topic("parcels", partitions=1)
        for city, grams in (("Bern", 300), ("Basel", 2500), ("Chur", 10)):
            client.publish("parcels", json.dumps({"to": {"city": city}, "grams": grams}))
    environment = {**os.environ, "GOQUEUE_SERVER": broker.url}
    done = subprocess.run([sys.executable, "-c", example], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ['0 {"to": {"city": "Bern"}, "grams": 300}', "1 of 3"]
