"""A call that is interrupted from outside, and a reader that is left alone for a while: what comes next is right."""

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c

from goqueue.client import Client, request_attempts
from goqueue.errors import BrokerUnreachable, RequestTimedOut
from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from tests.client.bridge import Interruption
from tests.client.peers import Asked, Reply, peer, reply


def described(name: str, **more: Any) -> bytes:
    return reply({"name": name, "partitions": 1, **more})


def test_an_interrupted_call_leaves_no_answer_to_the_next_one(interrupts: int) -> None:
    release = threading.Event()

    def answer(asked: Asked) -> Reply:
        name = asked.target.rpartition("/")[2]
        if name == "slow":
            os.kill(os.getpid(), interrupts)
            release.wait()
        return described(name)

    with peer(answer) as server, Client(server.url, timeout="60s") as client:
        try:
            with pytest.raises(Interruption):
                client.topic("slow")
            assert client.topic("quick").name == "quick"
            assert server.connections == 2
        finally:
            release.set()


# --- readers ---


@pytest.mark.parametrize("partitions", [1, 3])
def test_who_reads_slowly_is_not_out_of_time(
    broker: LocalBroker, partitions: int, pass_time: Callable[[float], None]
) -> None:
    with Client(broker.url, timeout="30s") as client:
        client.create_topic("t", partitions=partitions)
        with client.producer() as producer:
            for partition in range(partitions):
                producer.send_many("t", [bytes(1000)] * 100, partition=partition)
        found = 0
        for messages in client.reader("t", max_bytes=50_000).batches():
            if not found:
                pass_time(60)
            found += len(messages)
        assert found == 100 * partitions


def fetched(offset: int) -> bytes:
    """An answer with one message."""
    content = frame.encode(b"%d" % offset, offset=offset)
    names = {
        "x_goqueue_next_offset": str(offset + 1),
        "x_goqueue_high_watermark": "3",
        "x_goqueue_first_offset": "0",
        "x_goqueue_checksum": f"{crc32c(content):08x}",
    }
    return reply(content, 200, **names)


def test_a_slow_reader_whose_connection_was_cut_asks_again(pass_time: Callable[[float], None]) -> None:
    troubles: list[Reply] = [None]

    def answer(asked: Asked) -> Reply:
        if "offset=" not in asked.target:
            return described("t", partition_offsets={"0": {"earliest": 0, "latest": 3}})
        offset = int(asked.target.partition("offset=")[2].partition("&")[0])
        return troubles.pop() if offset == 1 and troubles else fetched(offset)

    with peer(answer) as server, Client(server.url, timeout="30s") as client:
        values: list[bytes | None] = []
        for message in client.reader("t"):
            if not values:
                pass_time(60)
            values.append(message.value)
    assert values == [b"0", b"1", b"2"]


def test_reader_waits_before_it_connects_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FIRST_SECONDS", "LONGEST_SECONDS"):
        monkeypatch.setattr(request_attempts, name, 3600.0)
    monkeypatch.setattr(request_attempts, "_random", lambda: 1.0)
    topic = described("t", partition_offsets={"0": {"earliest": 0, "latest": 3}})
    with peer(lambda _: topic) as server, Client(server.url, timeout="3h") as client:
        reader = client.reader("t").open()
    (stream,) = reader._streams
    stream.ask()  # without a broker
    assert stream.take() == []
    assert stream.ready_in > 60
    reader.close()


def test_who_waits_for_an_answer_does_run_out_of_time() -> None:
    release = threading.Event()

    def answer(asked: Asked) -> Reply:
        if "offset=" not in asked.target:
            return described("t", partition_offsets={"0": {"earliest": 0, "latest": 3}})
        if "offset=0" in asked.target:
            return fetched(0)
        release.wait()
        return None

    with peer(answer) as server, Client(server.url, timeout="100ms") as client:
        try:
            with pytest.raises((RequestTimedOut, BrokerUnreachable)):
                list(client.reader("t"))
        finally:
            release.set()


@pytest.mark.parametrize("wait", [1e-5, 1e-10, "250us", 59.5])
def test_however_short_a_follower_waits_it_gets_what_is_there(blocking: Client, wait: Any) -> None:
    blocking.create_topic("t", partitions=1)
    blocking.publish("t", "x")
    with blocking.reader("t", follow=True, wait=wait) as reader:
        assert next(iter(reader)).value == b"x"
