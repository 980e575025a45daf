"""Clients that publish to a broker over HTTP whatever becomes of it, and remember what they were told.

Each runs on a thread of its own, for as long as the test lasts: when the broker dies they wait for the next one.
"""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from random import Random
from typing import Any
from urllib.parse import urlsplit

from tests.api.wire import FRAMES, frames, section

TOPIC, PARTITIONS = "t", 3
PATIENCE_SECONDS = 60


class Lives:
    """Which broker there is now. Everybody waits here: clients for the next one, the killer for their answers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._url: str | None = None
        self._number = 0
        self._answers = 0
        self.is_over = False
        """Nothing new is begun, what was begun is finished."""
        self.failures: list[BaseException] = []

    def begin(self, url: str) -> None:
        with self._changed:
            self._url, self._number, self._answers = url, self._number + 1, 0
            self._changed.notify_all()

    def end(self) -> None:
        self._url = None

    def finish(self) -> None:
        self.is_over = True

    def next_after(self, number: int) -> tuple[int, str]:
        """A later life than this one."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._number > number and self._url, PATIENCE_SECONDS)
            assert self._url is not None
            return self._number, self._url

    def answered(self) -> None:
        with self._changed:
            self._answers += 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        with self._changed:
            self.failures.append(error)
            self._changed.notify_all()

    def await_answers(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._answers >= count or self.failures, PATIENCE_SECONDS)
        assert not self.failures, self.failures


@dataclass
class Ledger:
    """What clients sent, and what they were told. Shared: each entry is made under the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    answered: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """By partition and offset."""
    sent: set[bytes] = field(default_factory=set)
    marked: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)
    """All that a producer sent to a partition, in its order."""
    producers: set[int] = field(default_factory=set)
    duplicates: int = 0

    def send(self, values: Iterable[bytes]) -> None:
        with self.lock:
            self.sent.update(values)

    def note(self, partition: int, offsets: Iterable[int], values: Iterable[bytes]) -> None:
        with self.lock:
            for offset, value in zip(offsets, values, strict=True):
                before = self.answered.setdefault((partition, offset), value)
                assert before == value, f"offset {offset} of {partition} was given to {before!r} and to {value!r}"

    def enrol(self, producer: int) -> None:
        with self.lock:
            assert producer not in self.producers, f"producer {producer} was given out twice"
            self.producers.add(producer)


class Client(threading.Thread, ABC):
    """Does one thing again and again."""

    def __init__(self, name: str, lives: Lives, ledger: Ledger, seed: str) -> None:
        super().__init__(name=name, daemon=True)
        self.lives = lives
        self.ledger = ledger
        self.chance = Random(seed)
        self.count = 0
        self._connection: HTTPConnection

    @property
    def has_unfinished(self) -> bool:
        """Whether something was sent whose answer is still to be had."""
        return False

    @abstractmethod
    def step(self) -> None:
        """Ask something, and take note of the answer."""

    def run(self) -> None:
        life = 0
        try:
            while not self.lives.is_over or self.has_unfinished:
                life, url = self.lives.next_after(life)
                address = urlsplit(url)
                connection = HTTPConnection(address.hostname or "", address.port, timeout=PATIENCE_SECONDS)
                with closing(connection), suppress(OSError, HTTPException):
                    self._connection = connection
                    while not self.lives.is_over or self.has_unfinished:
                        self.step()
        except BaseException as error:
            self.lives.fail(error)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        self._connection.request(method, path, content, {"content-type": "application/json"} | given)
        response = self._connection.getresponse()
        answer = response.status, json.loads(response.read())
        self.lives.answered()
        return answer

    def values(self, count: int) -> list[bytes]:
        """Such as nobody else sends, and nobody sends twice."""
        first, self.count = self.count, self.count + count
        made = [b"%s %d %s" % (self.name.encode(), number, bytes(number % 300)) for number in range(first, self.count)]
        self.ledger.send(made)
        return made


class Writer(Client):
    """Publishes JSON and never sends anything again."""

    def step(self) -> None:
        values, partition = self.values(self.chance.randrange(1, 4)), self.chance.randrange(PARTITIONS)
        messages = [{"value": value.decode(), "partition": partition} for value in values]
        status, answer = self.ask("POST", f"/topics/{TOPIC}/messages", {"messages": messages})
        assert status == 200, answer
        self.ledger.note(partition, [result["offset"] for result in answer["results"]], values)


class Producer(Client):
    """Publishes frames with marks, and sends each batch again until it is answered."""

    def __init__(self, name: str, lives: Lives, ledger: Ledger, seed: str) -> None:
        super().__init__(name, lives, ledger, seed)
        self._id: int | None = None
        self._sequences = dict.fromkeys(range(PARTITIONS), 0)
        self._batches: dict[int, list[bytes]] = {}

    @property
    def has_unfinished(self) -> bool:
        return bool(self._batches)

    def step(self) -> None:
        if self._id is None:
            self._begin()
        elif not self._batches and not self.chance.randrange(20):
            self._id = None
        else:
            self._publish(self._id)

    def _begin(self) -> None:
        status, answer = self.ask("POST", "/producers/init", {})
        assert status == 200, answer
        self._id = int(answer["producer_id"])
        self.ledger.enrol(self._id)
        self._sequences = dict.fromkeys(range(PARTITIONS), 0)

    def _publish(self, producer: int) -> None:
        if not self._batches:
            for partition in self.chance.sample(range(PARTITIONS), self.chance.randrange(1, PARTITIONS + 1)):
                values = self._batches[partition] = self.values(self.chance.randrange(1, 12))
                self.ledger.marked.setdefault((producer, partition), []).extend(values)
        body = b"".join(
            section(partition, frames(values, (producer, 0, self._sequences[partition])))
            for partition, values in self._batches.items()
        )
        status, answer = self.ask("POST", f"/topics/{TOPIC}/messages", body, content_type=FRAMES)
        assert status == 200, answer
        for result in answer["results"]:
            self._settle(result["partition"], result)

    def _settle(self, partition: int, result: Any) -> None:
        assert "error" not in result, result
        values = self._batches.pop(partition)
        pieces = result.get("pieces", [[result["first_offset"], result["next_offset"]]])
        self.ledger.note(partition, [offset for piece in pieces for offset in range(*piece)], values)
        self.ledger.duplicates += result["duplicate"]
        self._sequences[partition] += len(values)


class Founder(Client):
    """Makes a topic and deletes it, and looks whether that is still so."""

    def __init__(self, name: str, lives: Lives, ledger: Ledger, seed: str) -> None:
        super().__init__(name, lives, ledger, seed)
        self._is_there: bool | None = False
        """None where a broker died over the question."""

    def step(self) -> None:
        status, answer = self.ask("GET", f"/topics/{self.name}")
        found = status == 200
        assert self._is_there in (found, None), f"{answer}, although the opposite was answered"
        self._is_there = None
        if found:
            status, answer = self.ask("DELETE", f"/topics/{self.name}")
            assert status == 200, answer
        else:
            status, answer = self.ask("POST", "/topics", {"name": self.name, "num_partitions": 2})
            assert status == 201, answer
        self._is_there = not found
