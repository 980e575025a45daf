"""Retention of backups by hours, days, weeks and months."""

from datetime import UTC, datetime, timedelta

from goqueue.backup.catalog import BackupSummary
from goqueue.backup.retention import BackupRetention

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def made(
    hours: float, *lacking: str, verified: bool = False, problem: str | None = None, damages: int = 0
) -> BackupSummary:
    """A backup of so many hours ago, which lacks some logs."""
    moment = NOW - timedelta(hours=hours)
    ns = round(moment.timestamp()) * 10**9
    return BackupSummary(
        f"{hours:g}", ns, ns, verified_ns=ns if verified else None, problem=problem, unavailable=lacking,
        damages=damages,
    )  # fmt: skip


def kept(retention: BackupRetention, *backups: BackupSummary) -> list[str]:
    expired = {one.id for one in retention.expired(backups)}
    return [one.id for one in backups if one.id not in expired]


def test_each_hour_day_week_and_month_keeps_its_newest_backup() -> None:
    hourly = [made(hours) for hours in range(24 * 400)]
    expired = BackupRetention(24, 7, 4, 12).expired(hourly)
    gone = {one.id for one in expired}
    left = [one for one in hourly if one.id not in gone]
    assert [one.id for one in left[:25]] == [*map(str, range(24)), "37"], "hours, then the ends of days"
    days = [datetime.fromtimestamp(one.cut_ns / 10**9, UTC) for one in left]
    assert len({day.date() for day in days}) < 7 + 4 + 12
    assert len({(day.year, day.month) for day in days}) == 12
    assert all(day.hour == 23 for day in days if day.date() < days[24].date())
    assert expired == sorted(expired, key=lambda one: one.cut_ns)


def test_newest_and_newest_verified_backup_are_kept_and_damaged_ones_are_left_alone() -> None:
    nothing = BackupRetention(0, 0, 0, 0)
    backups = (made(0), made(1), made(2, verified=True), made(3, verified=True), made(4, problem="torn"))
    assert kept(nothing, *backups) == ["0", "2", "4"]
    assert kept(nothing) == []


def test_pauses_without_backups_do_not_count() -> None:
    assert kept(BackupRetention(2, 0, 0, 0), made(0), made(1000), made(2000)) == ["0", "1000"]
    assert kept(BackupRetention(0, 2, 0, 0), made(0), made(1), made(1000)) == ["0", "1000"]


def test_backup_that_lacks_a_log_displaces_none_that_has_it() -> None:
    hourly, nothing = BackupRetention(1, 0, 0, 0), BackupRetention(0, 0, 0, 0)
    lost = (made(0, "a"), made(0.1, "a"), made(0.2), made(0.3))
    assert kept(hourly, *lost) == kept(nothing, *lost) == ["0", "0.2"]
    assert kept(nothing, made(0, "a", "b"), made(0.1, "a"), made(0.2, "b"), made(0.3), made(0.4)) == [
        "0", "0.1", "0.2", "0.3"
    ]  # fmt: skip
    assert kept(nothing, made(0, "a", verified=True), made(900, verified=True), made(901)) == ["0", "900"]
    later_days = [made(24 * day, "a") for day in range(30)]
    assert kept(BackupRetention(0, 2, 0, 0), *later_days, made(24 * 30)) == ["0", "24", "720"]
    assert kept(nothing, made(0, damages=1), made(1, damages=1), made(2)) == ["0", "2"]


def test_complete_backup_displaces_those_that_lack_logs() -> None:
    assert kept(BackupRetention(24, 7, 4, 12), made(0.5), made(0.6, "a"), made(0.7, "b")) == ["0.5"]
