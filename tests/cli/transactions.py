"""Transactional producers over plain HTTP, and the description of a transaction."""

import json
from typing import Any

from tests.brokers import Answer, ask
from tests.cli.programs import cli


class Producer:
    """Its transaction begins at once."""

    def __init__(self, url: str, name: str, *, begins: bool = True, timeout: float = 600.0) -> None:
        self.url = url
        given = {"transactional_id": name, "transaction_timeout_ms": round(timeout * 1000)}
        found = ask(url, "POST", "/producers/init", given).json
        self.identity = {name: found[name] for name in ("producer_id", "epoch", "transactional_id")}
        if begins:
            self.begin()

    @property
    def id(self) -> str:
        return f"{self.identity['producer_id']}-{self.identity['epoch']}"

    def begin(self) -> None:
        self.call("begin")

    def put(self, topic: str, partition: int = 0, value: str = "x", **fields: Any) -> None:
        self.call("publish", topic=topic, partition=partition, value=value, **fields)

    def ack(self, group: str, topic: str, count: int) -> None:
        """Acknowledge so many messages as the only member of this group."""
        member = ask(self.url, "POST", f"/groups/{group}/join", {"topics": [topic]}).json["member_id"]
        path = f"/groups/{group}/poll?member_id={member}&max_messages={count}"
        leased = ask(self.url, "GET", path).json["messages"]
        self.call("acks", receipts=[message["receipt_handle"] for message in leased])

    def commit(self, note: str = "") -> None:
        self._next(self.call("commit", note=note))

    def abort(self, reason: str = "") -> None:
        self._next(self.call("abort", reason=reason))

    def _next(self, ended: Answer) -> None:
        self.identity |= {"producer_id": ended.json["producer_id"], "epoch": ended.json["epoch"]}

    def call(self, what: str, **fields: Any) -> Answer:
        answer = self.try_to(what, **fields)
        assert answer.status == 200, answer.body
        return answer

    def try_to(self, what: str, **fields: Any) -> Answer:
        return ask(self.url, "POST", f"/transactions/{what}", {**self.identity, **fields})


def described(url: str, name: str) -> dict[str, Any]:
    """Return the JSON description of a transactional id."""
    (row,) = json.loads(cli(url, "transaction", "describe", name, "-o", "json").out)
    found: dict[str, Any] = row
    return found
