"""Requests as bytes, made before the clock runs."""

import json
from random import Random

from benchmarks.broker.server import LOOPBACK
from goqueue.storage import frame
from goqueue.wire.headers import FRAMES
from goqueue.wire.sections import SECTION

VALUE_BYTES = 100
WAIT = "5s"


def publish_request(topic: str, batch: int, header: str = "") -> bytes:
    """A publish of so many messages as JSON, with values of 100 characters. It may have one header more."""
    random = Random(1)
    messages = [{"value": random.randbytes(VALUE_BYTES // 2).hex()} for _ in range(batch)]
    body = json.dumps({"messages": messages}, separators=(",", ":")).encode()
    return _publish_head(topic, "application/json", len(body), header) + body


def frames_request(topic: str, batch: int, header: str = "") -> bytes:
    """A publish of so many messages as frames to the first partition, as the SDK sends it."""
    random = Random(1)
    frames = b"".join(frame.encode(random.randbytes(VALUE_BYTES)) for _ in range(batch))
    body = SECTION.pack(0, len(frames)) + frames
    return _publish_head(topic, FRAMES, len(body), header) + body


def _publish_head(topic: str, kind: str, size: int, header: str) -> bytes:
    head = f"POST /topics/{topic}/messages HTTP/1.1\r\nHost: {LOOPBACK}\r\nContent-Type: {kind}\r\n"
    further = f"{header}\r\n" if header else ""
    return f"{head}{further}Content-Length: {size}\r\n\r\n".encode()


def read_request(topic: str, offset: int) -> bytes:
    """A read that waits for the message at an offset."""
    path = f"/topics/{topic}/partitions/0/messages?offset={offset}&wait={WAIT}"
    return (f"GET {path} HTTP/1.1\r\nHost: {LOOPBACK}\r\nAccept: application/vnd.goqueue.frames\r\n\r\n").encode()
