"""The difference of two backups, from their manifests alone."""

from collections.abc import Iterator
from dataclasses import dataclass

from goqueue.backup.manifest import LogEntry, Manifest


@dataclass(frozen=True, slots=True)
class LogDifference:
    """A log that is not the same in two backups. Offsets are those behind its last message; None where it is absent."""

    name: str
    before: int | None
    after: int | None
    new_bytes: int
    """Of pieces that only the later backup has."""
    gone_bytes: int
    """Of pieces that only the earlier one has."""


def compare_backups(earlier: Manifest, later: Manifest) -> Iterator[LogDifference]:
    """Yield the logs that differ, by name."""
    before, after = ({log.name: log for log in one.logs} for one in (earlier, later))
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        old_pieces, new_pieces = _pieces(old), _pieces(new)
        if old is None or new is None or old_pieces != new_pieces or old.next_offset != new.next_offset:
            yield LogDifference(
                name,
                None if old is None else old.next_offset,
                None if new is None else new.next_offset,
                sum(size for piece, size in new_pieces.items() if piece not in old_pieces),
                sum(size for piece, size in old_pieces.items() if piece not in new_pieces),
            )


def _pieces(log: LogEntry | None) -> dict[str, int]:
    """The pieces of a log's segments with their sizes, by hash."""
    return {} if log is None else {piece.sha256: piece.size for one in log.segments for piece in one.pieces}
