"""The answer to a poll in frames: the length of a JSON head as u32, the head, then the frames of all leases.

The frames of the leases stand back to back, in the order of the leases, each with as many bytes as its lease says.
"""

import struct
from collections.abc import Sequence

import msgspec

LENGTH = struct.Struct(">I")


class LeaseDescription(msgspec.Struct, frozen=True):
    """The offsets from `first` up to `end` of one partition, leased to one member."""

    topic: str
    partition: int
    lease: str
    first: int
    end: int
    attempt: int
    visibility: float
    """Seconds."""
    bytes: int
    failures: int = 0
    retry_delay: float | msgspec.UnsetType | None = msgspec.UNSET
    """Seconds until the retry after a nack without a delay; None if the next failure dead-letters it."""


class PollHead(msgspec.Struct, frozen=True, omit_defaults=True):
    """The JSON head of the answer."""

    generation: int
    rebalance_required: bool
    leases: Sequence[LeaseDescription]
    retry_after: float = 0.0
    """Seconds after which the quotas of a tenant let it have more messages; 0 where they do not delay the next poll."""
    quota: str = ""
    """The quota that delays the next poll."""


def receipt_handle(topic: str, partition: int, offset: int, attempt: int, lease: str) -> str:
    """Return the name of one delivery of one message."""
    return f"{topic}:{partition}:{offset}:{attempt}:{lease}"
