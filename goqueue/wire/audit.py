"""Records of the audit trail, and the chain that connects them.

Each record holds the SHA-256 of the record before it, as bytes in the log: a record that was changed, removed or
inserted breaks the chain there. The end of the chain is not signed: what is cut off at the end does not show.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Literal, NamedTuple

import msgspec

AuditOutcome = Literal["done", "failed", "refused"]
NOTHING_BEFORE = "0" * 64
"""What the first record holds."""


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An administrative change, or requests that were refused."""

    number: int
    time: str
    principal: str
    """Empty for a request without a valid key."""
    action: str
    """Method and path template of the endpoint, or what was denied."""
    subject: str
    """The resource."""
    outcome: AuditOutcome
    code: str = ""
    """The code of the error."""
    address: str = ""
    client: str = ""
    request_id: str = ""
    """Of the first request, if there are several."""
    count: int = 1
    """Requests that this record stands for."""
    previous: str


class BrokenLink(NamedTuple):
    """A record that does not follow the one before it."""

    number: int
    problem: str


def encode_record(record: AuditRecord) -> bytes:
    return msgspec.json.encode(record)


def decode_record(text: bytes) -> AuditRecord:
    return msgspec.json.decode(text, type=AuditRecord)


def hash_of(text: bytes) -> str:
    return sha256(text).hexdigest()


def broken_links(texts: Iterable[bytes]) -> Iterator[BrokenLink]:
    """Yield where a chain is broken. Its first record may follow records that retention has removed."""
    expected: str | None = None
    number = 0
    for text in texts:
        try:
            record = decode_record(text)
        except msgspec.MsgspecError as error:
            yield BrokenLink(number + 1, f"it is not a record: {error}")
            expected, number = hash_of(text), number + 1
            continue
        if expected is None and record.number == 1 and record.previous != NOTHING_BEFORE:
            yield BrokenLink(1, "the first record names a record before it")
        if expected is not None and record.number != number + 1:
            yield BrokenLink(record.number, f"it follows record {number}: records between them are missing")
        elif expected is not None and record.previous != expected:
            yield BrokenLink(record.number, "the record before it was changed")
        expected, number = hash_of(text), record.number
