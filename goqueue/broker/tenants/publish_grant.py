"""Charges the single publishes of one turn of the loop together.

The first single publish of a turn takes more than it needs from the buckets; it and the ones after it only count that
down, and the rest returns to the buckets at the end of the turn. So a turn is charged at the time of its first publish,
and what passes is what the buckets give. Whatever else looks at the buckets or the storage ends the grant first.
"""

from typing import Final

from goqueue.broker.tenants.bucket import TokenBucket
from goqueue.limits import KIB

MESSAGES_MAX: Final = 256
BYTES_MAX: Final = 256 * KIB
"""For a turn; more begins another grant."""


class PublishGrant:
    """Messages and bytes that are taken and not used yet: none while there is no grant."""

    __slots__ = ("_by_count", "_by_size", "messages", "size")

    def __init__(self) -> None:
        self.messages = 0
        self.size = 0
        self._by_count: TokenBucket | None = None
        self._by_size: TokenBucket | None = None

    def change(self, by_count: TokenBucket | None, by_size: TokenBucket | None) -> None:
        """Take from other buckets from now on, where None is unlimited. No grant is under way."""
        self._by_count, self._by_size = by_count, by_size

    def begin(self, size: int, size_max: float, now_ns: int) -> None:
        """Take what the buckets have: at least one message of this size, or nothing."""
        by_count, by_size, most = self._by_count, self._by_size, int(min(BYTES_MAX, size_max))
        held = most if by_size is None else by_size.hold(most, now_ns)
        if held >= size:
            self.messages = MESSAGES_MAX if by_count is None else by_count.hold(MESSAGES_MAX, now_ns)
        if self.messages:
            self.size = held
        elif by_size is not None:
            by_size.give_back(held)

    def end(self) -> int:
        """Give back what was not used, and return how many bytes that is."""
        messages, size = self.messages, self.size
        self.messages = self.size = 0
        if self._by_count is not None:
            self._by_count.give_back(messages)
        if self._by_size is not None:
            self._by_size.give_back(size)
        return size
