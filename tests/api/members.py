"""Members of groups as any client could be one: over HTTP, one request after the other."""

import json
import struct
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import urlencode

from crc32c import crc32c

from goqueue.storage import frame
from goqueue.testing.broker import LocalBroker
from goqueue.wire.headers import LEASES
from tests.api.wire import messages, until
from tests.brokers import Answer, ask

PATIENCE = "60s"
"""Of a poll that is to be answered long before: a request that takes so long is given up by who asks."""


def told(answer: Answer) -> Any:
    """Return the JSON of a successful answer."""
    assert answer.status == 200, answer.body
    return answer.json


class Member:
    """One member of one group. What it does is asked for in the order in which it is written."""

    def __init__(self, url: str, group: str = "billing", *, cooperative: bool = False, **options: Any) -> None:
        self.url = url
        self.group = group
        self.id = ""
        self.generation = 0
        self._way = "/cooperative" if cooperative else ""
        self._options = {"topics": ["orders"], "client_id": "till", **options}

    def ask(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        return ask(self.url, method, f"/groups/{self.group}{path}", body, headers)

    def say(self, path: str, **body: Any) -> Any:
        """Post a request as this member and return the answer."""
        return told(self.ask("POST", path, {"member_id": self.id, **body}))

    def join(self, **options: Any) -> Self:
        self.joined(**options)
        return self

    def joined(self, **options: Any) -> Any:
        answer = told(self.ask("POST", f"/join{self._way}", {**self._options, **options}))
        self.id, self.generation = answer["member_id"], answer["generation"]
        return answer

    def leave(self) -> Any:
        return self.say(f"/leave{self._way}")

    def beat(self) -> Any:
        return self.say(f"/heartbeat{self._way}", generation=self.generation)

    def assignment(self) -> Any:
        return told(self.ask("GET", f"/assignment?{urlencode({'member_id': self.id})}"))

    def polled(self, headers: dict[str, str] | None = None, **query: Any) -> Answer:
        fields = {"member_id": self.id, "timeout": 0, **query}
        return self.ask("GET", f"/poll?{urlencode(fields)}", headers=headers)

    def poll(self, **query: Any) -> list[dict[str, Any]]:
        """The messages that there are now, or, with `timeout`, the first to come."""
        found: list[dict[str, Any]] = told(self.polled(**query))["messages"]
        return found

    def lease(self, **query: Any) -> list[dict[str, Any]]:
        """The heads of the leases."""
        found: list[dict[str, Any]] = leases(self.polled({"accept": LEASES}, **query))[0]["leases"]
        return found

    def settle(self, **statements: Any) -> Any:
        return self.say("/settle", **statements)


def leases(answer: Answer) -> tuple[dict[str, Any], list[list[frame.StoredMessage]]]:
    """The head, and the messages of each lease; every byte of the body is accounted for."""
    assert (answer.status, answer.headers["content-type"]) == (200, LEASES), answer.body
    body = answer.body
    assert answer.headers["x-goqueue-checksum"] == f"{crc32c(body):08x}"
    (length,) = struct.unpack_from(">I", body)
    head = json.loads(body[4 : 4 + length])
    position, found = 4 + length, []
    for lease in head["leases"]:
        found.append(messages(body[position : position + lease["bytes"]]))
        position += lease["bytes"]
    assert position == len(body)
    return head, found


def of(lease: dict[str, Any], *ranges: tuple[int, int], **more: Any) -> dict[str, Any]:
    """Return a settle entry for ranges of a lease; without ranges, for all of it."""
    place = {name: lease[name] for name in ("topic", "partition", "lease")}
    return {**place, "ranges": ranges or [(lease["first"], lease["end"])], **more}


def values(found: list[dict[str, Any]]) -> list[str]:
    return [message["value"] for message in found]


def receipts(found: list[dict[str, Any]]) -> list[str]:
    return [message["receipt_handle"] for message in found]


@contextmanager
def waiting(broker: LocalBroker, member: Member, **query: Any) -> Iterator["Future[Answer]"]:
    """A poll that the broker lets wait."""
    presence = broker.daemon.runtime.broker.groups.of(member.group).membership.session(member.group, member.id)
    before = presence.polls
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(member.polled, **{"timeout": PATIENCE, **query})
        until(broker.url, lambda: presence.polls > before)
        yield answer
