"""The voters of a cluster, as the records of its log change them.

What must stay true: a change counts from the moment when its record is in the log, committed or not, and no more when
the record is cut off. Each change adds one voter or takes one out, and the next one waits until it is committed: so any
majority before it and any majority after it have a node in common, and never are there two leaders in a term.

A lost voter is replaced by two changes, out and in. One change for both would allow two majorities without a common
node: that of a, b and the old c, and that of a, b and the new c are {b, old c} and {a, new c}.
"""

from collections.abc import Iterable

from goqueue.cluster.messages import NodeIdentity

VoterRow = tuple[int, tuple[NodeIdentity, ...]]
"""The offset of a record that changes the voters, and who they are from there on."""


class VoterHistory:
    """The voters at each offset of a log."""

    def __init__(self, first: Iterable[NodeIdentity], rows: Iterable[VoterRow] = ()) -> None:
        """`first` are those of the cluster's formation; `rows` are the changes in the log, in their order."""
        self._first = frozenset(first)
        self.rows = list(rows)

    @property
    def now(self) -> frozenset[NodeIdentity]:
        return frozenset(self.rows[-1][1]) if self.rows else self._first

    def at(self, end: int) -> frozenset[NodeIdentity]:
        """Return the voters by the records below an offset."""
        found = next((voters for offset, voters in reversed(self.rows) if offset < end), None)
        return self._first if found is None else frozenset(found)

    @property
    def changed_at(self) -> int:
        """Return the offset of the latest change, or -1."""
        return self.rows[-1][0] if self.rows else -1

    def between(self, base: int, end: int) -> tuple[VoterRow, ...]:
        """Return the changes in a range of offsets."""
        if not self.rows or self.rows[-1][0] < base:  # nearly always
            return ()
        return tuple(row for row in self.rows if base <= row[0] < end)

    def extend(self, rows: Iterable[VoterRow]) -> None:
        self.rows += rows

    def cut(self, end: int) -> None:
        while self.rows and self.rows[-1][0] >= end:
            self.rows.pop()


def is_one_step(before: frozenset[NodeIdentity], after: frozenset[NodeIdentity]) -> bool:
    """Return whether a change adds one voter or takes one out, and no node has two votes."""
    return len(before ^ after) == 1 and len({one.node for one in after}) == len(after) > 0
