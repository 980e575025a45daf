"""Those who work in the shop that is not there: groups that keep up, one that does not, and one that never came."""

import json
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from goqueue.client import Client
from goqueue.errors import GoQueueError

ABANDONED = "archive"
"""A group that has a place and no members."""

_TELLERS = 2
_SLOW_SHARE = 0.5
"""Of all messages that are published, so many does the slow group look at: page views are more."""
_STOP_SECONDS = 5.0

_Consumer = Any


class Staff:
    """Members of groups, each with a thread and a connection of its own."""

    def __init__(self, server: str, rate: int) -> None:
        self._server = server
        self._rate = rate
        self._closing = threading.Event()
        self._members: list[_Consumer] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "Staff":
        with Client(self._server) as client:
            client.reset_offsets(ABANDONED, "orders", "earliest")
        for _ in range(_TELLERS):
            self._employ("billing", "payments", self._bill)
        self._employ("shipping", "orders", self._ship)
        self._employ("statistics", "page-views", self._count)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for member in self._members:
            member.stop()
        for thread in self._threads:
            thread.join(_STOP_SECONDS)

    def _employ(self, group: str, topic: str, work: Callable[[_Consumer], None]) -> None:
        thread = threading.Thread(target=partial(self._attend, group, topic, work), name=group, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _attend(self, group: str, topic: str, work: Callable[[_Consumer], None]) -> None:
        """Until the demo ends, or its broker does."""
        with (
            suppress(GoQueueError),
            Client(self._server) as client,
            client.consumer(group, [topic], client_id=group, max_messages=100) as consumer,
        ):
            self._members.append(consumer)
            if not self._closing.is_set():
                work(consumer)

    def _bill(self, consumer: _Consumer) -> None:
        """A payment that can never work is rejected; one in a hundred is tried again because nobody answered."""
        chance = random.Random()  # noqa: S311 - nobody must not guess it
        for message in consumer:
            payment = json.loads(message.value)
            if payment["method"] == "voucher":
                message.reject("no rule for the method 'voucher'")
            elif payment["cents"] is None:
                message.reject("cents is null")
            elif chance.random() < 0.01:
                message.nack("2s", "the bank does not answer")
            else:
                message.ack()

    def _ship(self, consumer: _Consumer) -> None:
        for batch in consumer.batches():
            batch.ack()

    def _count(self, consumer: _Consumer) -> None:
        """Too slowly, so that there is something to see."""
        for batch in consumer.batches():
            batch.ack()
            self._closing.wait(len(batch) / (self._rate * _SLOW_SHARE))
