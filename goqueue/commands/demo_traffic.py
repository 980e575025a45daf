"""The traffic of the demo: an imaginary shop whose customers order, pay and ask, and the groups that consume it."""

import json
import math
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from goqueue.client import Client, Producer
from goqueue.errors import GoQueueError

TOPICS = {"orders": 3, "payments": 3, "page-views": 6, "reminders": 3, "tickets": 2, "invoices": 3}
"""The number of partitions of each topic."""

_WARES = {"tea": 450, "honey": 790, "pepper": 320, "saffron": 1290, "salt": 120, "olive oil": 990}
_PAGES = ("/", "/sale", "/basket", *(f"/wares/{name.replace(' ', '-')}" for name in _WARES))
_COMPLAINTS = ("where is my order?", "the honey has crystallized", "the invoice is wrong", "the lid does not open")
_CUSTOMERS = 200
_SHARE = {"page-views": 0.78, "orders": 0.2, "tickets": 0.02}  # most orders have a payment, some a reminder
_REMINDER_SECONDS = (30.0, 300.0, 3600.0, 86400.0)
"""The longest delays of reminders."""
_PRIORITIES = {"critical": 5, "high": 15, "normal": 60, "low": 20}


class DemoTraffic:
    """Publishes messages at a varying rate, `rate` messages in each whole second."""

    def __init__(self, producer: Producer, rate: int) -> None:
        self.count = 0
        self._producer = producer
        self._rate = rate
        self._chance = random.Random()  # noqa: S311 - not a secret
        self._orders = 0
        self._kinds: dict[str, Callable[[], None]] = {
            "page-views": self._view,
            "orders": self._order,
            "tickets": self._ticket,
        }

    def catch_up(self, seconds: float) -> None:
        """Publish the messages that are due `seconds` after the start."""
        due = self._rate * (seconds + math.sin(2 * math.pi * seconds) / 10)  # never less than before, as 2π/10 < 1
        while self.count < due:
            (kind,) = self._chance.choices(list(_SHARE), list(_SHARE.values()))
            self._kinds[kind]()

    def _view(self) -> None:
        page, milliseconds = self._chance.choice(_PAGES), round(self._chance.lognormvariate(3, 0.6), 1)
        self._send("page-views", self._customer(), {"page": page, "ms": milliseconds}, {"source": "web"})

    def _order(self) -> None:
        self._orders += 1
        customer, ware = self._customer(), self._chance.choice(list(_WARES))
        pieces = self._chance.randint(1, 5)
        cents, number = _WARES[ware] * pieces, f"order-{self._orders:06d}"
        source = self._chance.choice(("web", "app", "till-3"))
        order = {"order": number, "customer": customer, "ware": ware, "pieces": pieces, "cents": cents}
        self._send("orders", customer, order, {"source": source, "version": "2"})
        if self._chance.random() < 0.9:
            self._send("payments", number, self._payment(number, cents), {"source": source})
        if self._chance.random() < 0.1:
            delay = round(self._chance.choice(_REMINDER_SECONDS) * self._chance.random(), 1)
            self._send("reminders", customer, {"order": number, "text": "how was it?"}, {"source": source}, delay=delay)

    def _ticket(self) -> None:
        (priority,) = self._chance.choices(list(_PRIORITIES), list(_PRIORITIES.values()))
        ticket = {"customer": self._customer(), "text": self._chance.choice(_COMPLAINTS)}
        self._send("tickets", ticket["customer"], ticket, {"source": "web"}, priority=priority)

    def _payment(self, number: str, cents: int) -> dict[str, Any]:
        """Return a payment, which is sometimes invalid."""
        method = self._chance.choices(("card", "transfer", "cash", "voucher"), (50, 30, 15, 3))[0]
        return {"order": number, "cents": None if self._chance.random() < 0.01 else cents, "method": method}

    def _customer(self) -> str:
        return f"customer-{min(int(self._chance.expovariate(1 / 40)), _CUSTOMERS):03d}"  # some more often than others

    def _send(self, topic: str, key: str, value: dict[str, Any], headers: dict[str, str], **options: Any) -> None:
        self._producer.send(topic, json.dumps(value), key, headers, **options)
        self.count += 1


# --- groups ---

UNATTENDED = "archive"
"""A group with offsets and without members."""

_BILLING_MEMBERS = 2
_SLOW_SHARE = 0.5
"""The share of all messages that the slow group processes; there are more page views."""
_MESSAGES_MAX = 100
"""In one poll."""
_TRANSACTIONS_PER_ABORT = 25
"""One of so many transactions is aborted."""
_TICKETS_PER_MESSAGE = 0.017
_TICKET_SECONDS_MAX = 5.0
_BUSY_SHARE = 0.95
"""The share of its time that the support works: tickets wait, and urgent ones overtake others."""
STOP_SECONDS = 0.5
"""Maximum time for consumers and the producer to stop, each: ^C ends the demo at once."""

_Consumer = Any


class DemoConsumers:
    """The members of the groups, each with a thread and a connection of its own."""

    def __init__(self, server: str, rate: int) -> None:
        self._server = server
        self._rate = rate
        self._closing = threading.Event()
        self._members: list[_Consumer] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> "DemoConsumers":
        for _ in range(_BILLING_MEMBERS):
            self._start("billing", "payments", self._bill)
        self._start("shipping", "orders", self._acknowledge)
        self._start("statistics", "page-views", self._count)
        self._start("mailer", "reminders", self._acknowledge)
        self._start("support", "tickets", self._help, max_messages=1)
        self._start("invoicing", "orders", self._invoice)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        for member in self._members:
            member.stop()
        deadline = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start(
        self, group: str, topic: str, work: Callable[[_Consumer], None], max_messages: int = _MESSAGES_MAX
    ) -> None:
        job = partial(self._consume, group, topic, work, max_messages)
        thread = threading.Thread(target=job, name=group, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _consume(self, group: str, topic: str, work: Callable[[_Consumer], None], max_messages: int) -> None:
        """Consume until the demo or its broker ends."""
        with (
            suppress(GoQueueError),
            Client(self._server) as client,
            client.consumer(group, [topic], client_id=group, max_messages=max_messages) as consumer,
        ):
            self._members.append(consumer)
            if not self._closing.is_set():
                work(consumer)

    def _bill(self, consumer: _Consumer) -> None:
        """Reject invalid payments, and nack one in a hundred others."""
        chance = random.Random()  # noqa: S311 - not a secret
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

    def _acknowledge(self, consumer: _Consumer) -> None:
        for batch in consumer.batches():
            batch.ack()

    def _help(self, consumer: _Consumer) -> None:
        seconds = min(_BUSY_SHARE / (self._rate * _TICKETS_PER_MESSAGE), _TICKET_SECONDS_MAX)
        for message in consumer:
            self._closing.wait(seconds)
            message.ack()

    def _invoice(self, consumer: _Consumer) -> None:
        """Publish an invoice for each order in transactions, and abort a few of them."""
        with Client(self._server) as client, client.producer(transactional_id="invoicing-1") as producer:
            for number, batch in enumerate(consumer.batches(), 1):
                with producer.transaction() as transaction:
                    for message in batch:
                        transaction.send("invoices", message.value, message.key)
                    transaction.ack(batch)
                    if number % _TRANSACTIONS_PER_ABORT == 0:
                        producer.flush()  # else it would be aborted before the broker knows of it
                        transaction.abort("the tax office does not answer")

    def _count(self, consumer: _Consumer) -> None:
        """Process messages too slowly, so that the lag grows."""
        for batch in consumer.batches():
            batch.ack()
            self._closing.wait(len(batch) / (self._rate * _SLOW_SHARE))
