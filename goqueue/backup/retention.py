"""Retention of backups: which are kept, by hours, days, weeks and months."""

from collections.abc import Sequence
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
        kept, and the newest one whose verification found nothing. A damaged manifest has no time, and is left alone.
        """
        dated = sorted((one for one in backups if one.problem is None), key=lambda one: one.cut_ns, reverse=True)
        kept = {one.id for one in dated[:1]}
        kept |= {one.id for one in [one for one in dated if one.is_verified][:1]}
        for period, count in (
            ("%Y-%m-%dT%H", self.hourly),
            ("%Y-%m-%d", self.daily),
            ("%G-W%V", self.weekly),
            ("%Y-%m", self.monthly),
        ):
            newest: dict[str, str] = {}
            for one in dated:
                moment = datetime.fromtimestamp(one.cut_ns // NANOSECONDS, UTC)
                newest.setdefault(moment.strftime(period), one.id)
            kept |= set(list(newest.values())[:count])
        return [one for one in reversed(dated) if one.id not in kept]
