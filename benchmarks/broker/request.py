"""Requests as bytes, made before the clock runs."""

import json
from random import Random

from benchmarks.broker.server import LOOPBACK

VALUE_BYTES = 100
WAIT = "5s"


def publish_request(topic: str, batch: int) -> bytes:
    """A publish of so many messages as JSON, with values of 100 characters."""
    random = Random(1)
    messages = [{"value": random.randbytes(VALUE_BYTES // 2).hex()} for _ in range(batch)]
    body = json.dumps({"messages": messages}, separators=(",", ":")).encode()
    head = f"POST /topics/{topic}/messages HTTP/1.1\r\nHost: {LOOPBACK}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def read_request(topic: str, offset: int) -> bytes:
    """A read that waits for the message at an offset."""
    path = f"/topics/{topic}/partitions/0/messages?offset={offset}&wait={WAIT}"
    return (f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nAccept: application/vnd.goqueue.frames\r\n\r\n").encode()
