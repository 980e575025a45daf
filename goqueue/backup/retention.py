"""Retention of backups: which are kept, by hours, days, weeks and months."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from goqueue.backup.catalog import BackupSummary
from goqueue.clock import NANOSECONDS


@dataclass(frozen=True, slots=True)
class BackupRetention:
    """The number of hours, days, weeks and months that keep their newest backup."""

    hourly: int
    daily: int
    weekly: int
    monthly: int

    def expired(self, backups: Sequence[BackupSummary]) -> list[BackupSummary]:
        """Return the backups to delete, the oldest first.

        Hours and days without a backup do not count, so a broker that was off for long loses none. The newest backup is
        kept, and the newest one whose verification found nothing. A backup that lacks a log counts beside those that
        have it. A damaged manifest has no time, and is left alone.
        """
        dated = sorted((one for one in backups if one.problem is None), key=lambda one: one.cut_ns, reverse=True)
        kept = {*_newest(dated), *_newest(one for one in dated if one.is_verified)}
        for period, count in (
            ("%Y-%m-%dT%H", self.hourly),
            ("%Y-%m-%d", self.daily),
            ("%G-W%V", self.weekly),
            ("%Y-%m", self.monthly),
        ):
            periods: dict[str, list[BackupSummary]] = {}
            for one in dated:
                moment = datetime.fromtimestamp(one.cut_ns // NANOSECONDS, UTC)
                periods.setdefault(moment.strftime(period), []).append(one)
            for found in list(periods.values())[:count]:
                kept |= _newest(found)
        return [one for one in reversed(dated) if one.id not in kept]


def _newest(newest_first: Iterable[BackupSummary]) -> set[str]:
    """Return the id of the newest backup, and those of earlier ones that have what all newer ones lack."""
    found: list[BackupSummary] = []
    for one in newest_first:
        if not any(_has_all_of(newer, one) for newer in found):
            found.append(one)
    return {one.id for one in found}


def _has_all_of(newer: BackupSummary, older: BackupSummary) -> bool:
    """Return whether a backup lacks no log that an older one has, and is not more damaged."""
    return newer.damages <= older.damages and set(newer.unavailable) <= set(older.unavailable)
