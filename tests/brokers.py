"""Short requests to a broker, for tests."""

import http.client
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit


class Answer:
    """A response of any kind."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["code"])


Transport = Callable[[str, str, bytes | None, dict[str, str]], Answer]
"""Sends method, path, body and headers."""
TRANSPORTS: dict[str, Transport] = {}
"""By URL: brokers that are reached in other ways than by connections."""


def ask(url: str, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
    """Send one request on its own connection; a body that is not bytes is sent as JSON."""
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    announced = ({} if content is None else {"content-type": "application/json"}) | (headers or {})
    if url in TRANSPORTS:
        return TRANSPORTS[url](method, path, content, announced)
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request(method, path, content, announced)
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): text for name, text in response.getheaders()}, response.read())
    finally:
        connection.close()


def publish(url: str, topic: str, *values: str, **fields: Any) -> list[dict[str, Any]]:
    """Publish, and return the result of each message."""
    answer = ask(url, "POST", f"/topics/{topic}/messages", {"messages": [{"value": one, **fields} for one in values]})
    assert answer.status == 200, answer.body
    results: list[dict[str, Any]] = answer.json["results"]
    return results


def read(url: str, topic: str, partition: int = 0, query: str = "") -> list[dict[str, Any]]:
    answer = ask(url, "GET", f"/topics/{topic}/partitions/{partition}/messages?{query}")
    assert answer.status == 200, answer.body
    messages: list[dict[str, Any]] = answer.json["messages"]
    return messages


def create(url: str, name: str, partitions: int = 1, **settings: Any) -> None:
    answer = ask(url, "POST", "/topics", {"name": name, "num_partitions": partitions, **settings})
    assert answer.status == 201, answer.body
