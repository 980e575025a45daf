"""Messages that a member works on."""

from collections.abc import Iterable

from goqueue.broker.delivery.changes import Grant, Range
from goqueue.broker.ranges import RangeMap


class Lease:
    """`left` are those of its messages that the member has not answered for."""

    __slots__ = ("grant", "left", "until_ns")

    def __init__(self, grant: Grant, until_ns: int, left: Iterable[Range] | None = None) -> None:
        """Of all its messages, unless it is said what is left."""
        self.grant = grant
        self.until_ns = until_ns
        self.left: RangeMap[bool]
        if left is None:
            self.left = RangeMap.of(*grant.edges(), True)
        else:
            self.left = RangeMap((first, end, True) for first, end in left)

    @property
    def id(self) -> str:
        return self.grant.id

    def ranges(self) -> list[Range]:
        return [(first, end) for first, end, _ in self.left.runs()]

    def __repr__(self) -> str:
        grant = self.grant
        return f"<Lease {grant.id} {grant.first}..{grant.end} of {grant.member}, {self.left.count} left>"
