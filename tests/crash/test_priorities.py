"""Eight producers, five priorities, a group that reads them, and a broker that is killed: nobody is forgotten."""

import threading
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import NamedTuple

from goqueue.client import Client
from goqueue.errors import GoQueueError
from tests.crash.test_delayed import serving

PRODUCERS = 8
LIVES = 3
MESSAGES = 150


def produce(url: str, name: str, seed: int, answered: dict[str, int], killed: threading.Event) -> None:
    """Messages of any priority, until the broker is gone; what was answered is noted."""
    random = Random(seed)
    try:
        with Client(url, timeout=5) as client:
            for number in range(MESSAGES):
                value, priority = f"{name}-{number}", random.randrange(5)
                client.publish("t", value, priority=priority)
                answered[value] = priority
    except GoQueueError:
        assert killed.is_set(), "nothing is refused while the broker lives"


class Handed(NamedTuple):
    value: str
    priority: int
    offset: int
    attempt: int


def consume(url: str, acked: dict[str, int], most: int) -> list[Handed]:
    """The next messages, acknowledged durably; none when there are no more."""
    found: list[Handed] = []
    with Client(url) as client, client.consumer("g", "t", max_messages=40, until_idle=0.5) as consumer:
        for batch in consumer.batches():
            for message in batch:
                assert message.value is not None
                found.append(Handed(message.value.decode(), message.priority, message.offset, message.attempt))
            batch.ack()
            consumer.flush()
            acked.update((one.value, one.offset) for one in found)
            if len(found) >= most:
                break
    return found


def test_every_message_of_every_priority_is_handed_out_and_what_was_acked_stays_so(tmp_path: Path) -> None:
    answered: dict[str, int] = {}
    acked: dict[str, int] = {}
    for life in range(LIVES):
        with serving(tmp_path / "data") as (url, process):
            if not life:
                with Client(url) as client:
                    client.create_topic("t", 1)
            killed = threading.Event()
            threads = [
                threading.Thread(target=produce, args=(url, f"{life}-{number}", life * 100 + number, answered, killed))
                for number in range(PRODUCERS)
            ]
            for thread in threads:
                thread.start()
            before = dict(acked)
            again = {one.value for one in consume(url, acked, 200)} & before.keys()
            assert not again, "what was acknowledged does not come again"
            killed.set()
            process.kill()
            for thread in threads:
                thread.join()
    with serving(tmp_path / "data") as (url, _):
        before = dict(acked)
        rest = consume(url, acked, 10**6)
        assert not before.keys() & {one.value for one in rest}
        with Client(url) as client:
            with client.reader("t", start="earliest", until="now") as reader:
                stored = {message.value.decode(): message.priority for message in reader if message.value is not None}
            left = client.group("g")["lag"]["t"]["0"]["messages"]
    assert answered.items() <= stored.items(), "what was answered is there, with its priority"
    assert acked.keys() == stored.keys(), "every offset is reachable"
    assert left == 0
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    for one in rest:
        assert stored[one.value] == one.priority
        if one.attempt == 1:  # what somebody had and gave back comes again in the order in which it was given back
            offsets[one.priority].append(one.offset)
    for lane in offsets.values():
        assert lane == sorted(lane), "a lane keeps its order"
