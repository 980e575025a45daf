"""Backups and their logs as rows, and what runs as lines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from goqueue.console.backups import ACTIVITIES, progress_text
from goqueue.console.formatting import format_to_second
from goqueue.console.rows import struct_to_row
from goqueue.drawing.bars import bar
from goqueue.quantities import format_count, format_duration, parse_time
from goqueue_admin.dashboard.views import formats
from goqueue_admin.dashboard.views.formats import LabeledNumber
from goqueue_admin.dashboard.views.groups import format_whole_seconds
from goqueue_admin.dashboard.views.table import TableColumn

if TYPE_CHECKING:
    from goqueue.client import BackupInfo, BackupLog, BackupOverview, BackupScheduleInfo, BackupVerificationInfo

Fact = tuple[str, str, str]
"""A name, a text and a tone."""

_STATES = {
    "complete": ("●", "good"),
    "incomplete": ("◇", "warn"),
    "running": ("◐", "accent"),
    "failed": ("◆", "bad"),
    "cancelled": ("○", "muted"),
    "damaged": ("◆", "bad"),
    "locked": ("◇", "warn"),
}
STORED_STATES = {"complete", "incomplete", "damaged"}
"""Those of backups whose logs can be listed and verified, at least in part."""
_SENTENCES = 1
"""Problems of a verification that the screen names; a window shows the others."""
_BAR_CELLS = 20


def state_text(state: str) -> str:
    return f"{_STATES.get(state, ('●', ''))[0]} {state}"


def state_tone(state: str) -> str:
    return _STATES.get(state, ("", ""))[1]


def running_backup(found: "BackupOverview | None") -> "BackupInfo | None":
    """Return the backup that is made, verified, or restored from."""
    return next((one for one in found.backups if one.progress is not None), None) if found is not None else None


def progress_facts(one: "BackupInfo | None") -> list[Fact]:
    """Return what runs, with a bar; nothing where nothing runs."""
    if one is None or one.progress is None:
        return []
    found = one.progress
    filled = bar(found.bytes_done, found.bytes_total, _BAR_CELLS)
    told = f"{filled:░<{_BAR_CELLS}} {progress_text(struct_to_row(found))}"
    return [("running", f"◐ {ACTIVITIES[found.activity]} {one.id}", "accent"), ("", told, "")]


# --- the list ---


@dataclass(frozen=True)
class BackupRow:
    """A backup with its age, and what is known of its verification."""

    told: "BackupInfo"
    age_seconds: float | None
    verified: str | None
    verified_tone: str


def backup_rows(found: "BackupOverview | None", now_ns: int) -> list[BackupRow] | None:
    return None if found is None else [_backup_row(one, now_ns) for one in found.backups]


def _backup_row(one: "BackupInfo", now_ns: int) -> BackupRow:
    age = None if one.cut_at is None else formats.age_seconds(one.cut_at, now_ns)
    if one.progress is not None and one.progress.activity == "verification":
        return BackupRow(one, age, ACTIVITIES["verification"], "accent")
    if one.verification_problem is not None:
        return BackupRow(one, age, "◆ failed", "bad")
    if one.verification is None:
        return BackupRow(one, age, None, "muted")
    return BackupRow(one, age, *_verified(one.verification, now_ns))


def _verified(found: "BackupVerificationInfo", now_ns: int) -> tuple[str, str]:
    if found.problems:
        return "◆ unsound", "bad"
    return f"{format_whole_seconds(formats.age_seconds(found.verified_at, now_ns))} ago", "good"


def backup_columns() -> tuple[TableColumn[BackupRow], ...]:
    return (
        TableColumn("ID", lambda line: line.told.id, width=25),
        TableColumn("AGE", lambda line: line.age_seconds, format_whole_seconds, 6, right=True, rank=1),
        TableColumn(
            "STATE", lambda line: line.told.state, state_text, 12, tone=lambda line: state_tone(line.told.state)
        ),
        TableColumn("SIZE", lambda line: line.told.bytes, formats.size, 7, right=True),
        TableColumn("NEW", lambda line: line.told.new_bytes, formats.size, 7, right=True),
        TableColumn(
            "VERIFIED", lambda line: line.verified, width=8, grows=True, most=20, tone=lambda line: line.verified_tone
        ),
        TableColumn("LOGS", lambda line: line.told.logs or None, formats.count, 6, right=True, rank=3),
        TableColumn(
            "DAMAGED", lambda line: line.told.damaged_ranges or None, formats.count, 7, right=True, rank=2, tone="warn"
        ),
        TableColumn("CREATED", lambda line: line.told.cut_at, format_to_second, 20, rank=4, tone="muted"),
        TableColumn("PROBLEM", lambda line: line.told.problem, width=10, grows=True, most=90, rank=5, tone="bad"),
    )


def overview_numbers(found: "BackupOverview", now_ns: int) -> list[LabeledNumber]:
    """Return the numbers above the list; the ages are those of the cuts."""
    if found.target is None:
        return []
    whole = [one for one in found.backups if one.state == "complete"]
    verified = [one for one in whole if is_verified(one)]
    numbers = [LabeledNumber(formats.count(len(whole)), "backup" if len(whole) == 1 else "backups")]
    if whole:
        numbers.append(LabeledNumber(_age(whole[0], now_ns), "since the newest"))
        numbers.append(
            LabeledNumber(_age(verified[0], now_ns), "since the newest verified one")
            if verified
            else LabeledNumber("none", "is verified", "warn")
        )
    for state in ("incomplete", "failed", "damaged", "locked"):
        count = sum(one.state == state for one in found.backups)
        if count:
            numbers.append(LabeledNumber(formats.count(count), state, state_tone(state)))
    return numbers


def is_verified(one: "BackupInfo") -> bool:
    return one.verification is not None and not one.verification.problems


def _age(one: "BackupInfo", now_ns: int) -> str:
    return "-" if one.cut_at is None else format_whole_seconds(formats.age_seconds(one.cut_at, now_ns))


def overview_facts(found: "BackupOverview", now_ns: int) -> list[Fact]:
    """Return where backups are, and when they are made and deleted."""
    if found.target is None:
        return []
    schedule = found.schedule
    return [("target", found.target, ""), _schedule_fact(found, now_ns), ("keeps", _kept(schedule), "")]


def _schedule_fact(found: "BackupOverview", now_ns: int) -> Fact:
    schedule, running = found.schedule, running_backup(found)
    if schedule.next_at is None:
        return "schedule", "none: `backup.interval` makes one", "muted"
    every = f"every {format_duration(schedule.interval_seconds)}"
    if running is not None and running.state == "running":
        return "schedule", f"{every}, counted from the one that is running", ""
    left = parse_time(schedule.next_at) - now_ns
    when = f"in {format_whole_seconds(left / 1e9)}" if left > 0 else "due now"
    return "schedule", f"{every}, next at {format_to_second(schedule.next_at)}, {when}", ""


def _kept(schedule: "BackupScheduleInfo") -> str:
    counts = (
        (schedule.keep_hourly, "hour"),
        (schedule.keep_daily, "day"),
        (schedule.keep_weekly, "week"),
        (schedule.keep_monthly, "month"),
    )
    told = ", ".join(format_count(count, noun) for count, noun in counts if count)
    return f"the newest of {told}" if told else "the newest, and the newest verified one"


# --- one backup ---


def backup_numbers(one: "BackupInfo") -> list[LabeledNumber]:
    if one.state in {"failed", "cancelled"}:
        return [LabeledNumber(state_text(one.state), "", state_tone(one.state))]
    damaged = one.damaged_ranges
    return [
        LabeledNumber(state_text(one.state), "", state_tone(one.state)),
        LabeledNumber(formats.size(one.bytes), "of logs"),
        LabeledNumber(formats.size(one.new_bytes), "new"),
        *([LabeledNumber(formats.count(one.logs), "logs")] if one.logs else []),
        *([LabeledNumber(formats.count(damaged), "damaged ranges", "warn")] if damaged else []),
    ]


def backup_facts(one: "BackupInfo", now_ns: int, sentences: int = _SENTENCES) -> Iterator[Fact]:
    """Yield what is known of a backup, with so many problems of its verification."""
    if one.problem is not None:
        yield "problem", one.problem, "bad"
    if one.cut_at is not None:
        ended = "" if one.finished_at is None else f", finished at {format_to_second(one.finished_at)}"
        yield "created", f"{format_to_second(one.cut_at)}{ended}", ""
    if one.key is not None:
        yield "encrypted", f"with key {one.key}", ""
    if one.state in STORED_STATES:
        yield from _verification_facts(one.verification, now_ns, sentences)
    if one.verification_problem is not None:
        yield "", f"its last verification failed: {one.verification_problem}", "bad"
    if one.damaged_ranges:
        told = format_count(one.damaged_ranges, "range")
        yield "damages", f"{told} damaged when copied; ⏎ on a log shows where", "warn"
    if one.unavailable:
        yield "not in it", f"{', '.join(one.unavailable)}: the broker could not open them", "warn"
    if one.restore is not None:
        size = "" if one.restore.bytes is None else f", {formats.size(one.restore.bytes)}"
        problem = "" if one.restore.problem is None else f": {one.restore.problem}"
        tone = {"complete": "good", "running": "accent"}.get(one.restore.state, "bad")
        yield "restored", f"{one.restore.topic}, {one.restore.state}{size}{problem}", tone


def _verification_facts(found: "BackupVerificationInfo | None", now_ns: int, sentences: int) -> Iterator[Fact]:
    if found is None:
        yield "verified", "never", "warn"
        return
    ago = format_whole_seconds(formats.age_seconds(found.verified_at, now_ns))
    result = f"◆ {format_count(found.problems, 'problem')}" if found.problems else "sound"
    yield "verified", f"{ago} ago: {result}", "bad" if found.problems else "good"
    for sentence in found.sentences[:sentences]:
        yield "", sentence, "bad"
    if found.problems > sentences:
        more = format_count(found.problems - min(sentences, len(found.sentences)), "problem")
        yield (
            "",
            f"and {more} more" + ("; i shows some" if len(found.sentences) > sentences else ""),
            "bad",
        )


def log_columns() -> "tuple[TableColumn[BackupLog], ...]":
    return (
        TableColumn("LOG", lambda one: one.name, width=20, grows=True),
        TableColumn("FIRST", lambda one: one.first_offset, formats.count, 12, right=True, rank=1),
        TableColumn("NEXT", lambda one: one.next_offset, formats.count, 12, right=True),
        TableColumn("SIZE", lambda one: one.bytes, formats.size, 8, right=True),
        TableColumn("SEGMENTS", lambda one: one.segments, formats.count, 8, right=True, rank=2),
        TableColumn("DAMAGED", lambda one: len(one.damages) or None, formats.count, 7, right=True, tone="warn"),
    )


def log_facts(one: "BackupLog") -> list[Fact]:
    """Return everything that is known of a log in a backup."""
    ends = f"{one.first_offset:,} to {one.next_offset - 1:,}" if one.next_offset > one.first_offset else "none"
    return [
        ("offsets", ends, ""),
        ("size", formats.size(one.bytes), ""),
        ("segments", formats.count(one.segments), ""),
        *(
            ("damaged", f"segment {each.base_offset:,}, bytes {each.position:,} to {each.end:,}: {each.reason}", "warn")
            for each in one.damages
        ),
    ]


def restorable_topic(logs: "Sequence[BackupLog]", name: str) -> str:
    """Return the topic of a log; empty for logs of the broker itself."""
    topic = name.partition("/")[0]
    return "" if topic.startswith("__") or all(one.name != name for one in logs) else topic
