"""The traffic of a shop that is not there: orders, payments and page views, as they might come."""

import json
import math
import random
from collections.abc import Callable
from typing import Any

from goqueue.client import Producer

TOPICS = {"orders": 3, "payments": 3, "page-views": 6}
"""How many partitions each has."""

_WARES = {"tea": 450, "honey": 790, "pepper": 320, "saffron": 1290, "salt": 120, "olive oil": 990}
_PAGES = ("/", "/sale", "/basket", *(f"/wares/{name.replace(' ', '-')}" for name in _WARES))
_CUSTOMERS = 200
_SHARE = {"page-views": 0.8, "orders": 0.2}  # a payment follows most orders


class Traffic:
    """Publishes what has become due: busier and quieter by turns, and `rate` messages in each whole second."""

    def __init__(self, producer: Producer, rate: int, chance: random.Random | None = None) -> None:
        self.count = 0
        self._producer = producer
        self._rate = rate
        self._chance = chance or random.Random()  # noqa: S311 - nobody must not guess it
        self._orders = 0
        self._kinds: dict[str, Callable[[], None]] = {"page-views": self._view, "orders": self._order}

    def catch_up(self, seconds: float) -> None:
        """Publish what is due this long after the beginning."""
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

    def _payment(self, number: str, cents: int) -> dict[str, Any]:
        """Some of them cannot be worked with."""
        method = self._chance.choices(("card", "transfer", "cash", "voucher"), (50, 30, 15, 3))[0]
        return {"order": number, "cents": None if self._chance.random() < 0.01 else cents, "method": method}

    def _customer(self) -> str:
        return f"customer-{min(int(self._chance.expovariate(1 / 40)), _CUSTOMERS):03d}"  # some come often

    def _send(self, topic: str, key: str, value: dict[str, Any], headers: dict[str, str]) -> None:
        self._producer.send(topic, json.dumps(value), key, headers)
        self.count += 1
