"""Messages that a member works on."""

from collections.abc import Iterable

from goqueue.broker.delivery.changes import Grant, Range
from goqueue.broker.ranges import RangeMap


class Lease:
    """`left` are those of its messages that the member has not answered for.

    What must stay true: `gaps` do not change once the lease was handed out.
    """

    __slots__ = ("gaps", "grant", "left", "until_ns")

    def __init__(
        self, grant: Grant, until_ns: int, left: Iterable[Range] | None = None, gaps: tuple[Range, ...] = ()
    ) -> None:
        """Of all its messages, unless it is said what is left."""
        self.grant = grant
        self.until_ns = until_ns
        self.gaps = gaps
        """Of the grant's range, the offsets that were not leased with it."""
        self.left: RangeMap[bool]
        if left is None:
            self.left = RangeMap.of(*grant.edges(), True)
        else:
            self.left = RangeMap((first, end, True) for first, end in left)

    @property
    def id(self) -> str:
        return self.grant.id

    def leave_out(self, ranges: Iterable[Range]) -> None:
        """Before it is handed out: these offsets are not leased with it."""
        left_out = tuple((one, other) for first, end in ranges for one, other, _ in self.left.cut(first, end))
        if left_out:
            self.gaps += left_out

    def messages(self) -> RangeMap[bool]:
        """The offsets that were leased, those included that are settled by now."""
        found = RangeMap[bool].of(*self.grant.edges(), True)
        for first, end in self.gaps:
            found.cut(first, end)
        return found

    def ranges(self) -> list[Range]:
        return [(first, end) for first, end, _ in self.left.runs()]

    def __repr__(self) -> str:
        grant = self.grant
        return f"<Lease {grant.id} {grant.first}..{grant.end} of {grant.member}, {self.left.count} left>"
