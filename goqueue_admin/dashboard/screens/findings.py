"""Where a finding of the doctor leads: the screen of its subject, and the keys that repair it there."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from textual.content import Content

from goqueue.console.terminal import escape_unprintable
from goqueue_admin.dashboard.screens import windows
from goqueue_admin.dashboard.screens.routes import Location, location_above, location_title
from goqueue_admin.dashboard.screens.windows import DetailWindow

FindingJson = Mapping[str, Any]


class FindingRoute(NamedTuple):
    """The screen of a finding's subject, the row to begin at, and what its keys do about the problem."""

    place: Location
    row: str = ""
    repair: str = ""


_RESET, _DELETE = "o resets its offsets", "x deletes it"

_SUBJECTS = {
    "backup_damaged": ("backup", "x deletes it"),
    "backup_incomplete": ("backup", ""),
    "group_stuck": ("group", _RESET),
    "group_abandoned": ("group", f"{_DELETE}, {_RESET}"),
    "group_falling_behind": ("group", _RESET),
    "group_ranges_many": ("group", _RESET),
    "group_rebalancing_long": ("group", ""),
    "messages_expire_soon": ("group", _RESET),
    "quota_near": ("tenant", "e changes its quota"),
    "quota_throttled": ("tenant", "e changes its quota"),
    "poison_message": ("group", _RESET),
    "dead_letters_stuck": ("group", ""),
    "dead_letters_waiting": ("errors", "d sends them back"),
    "transaction_hung": ("transaction", "x aborts it"),
    "transaction_stuck": ("transaction", ""),
}
"""The screens of findings whose subject is the name of a group, tenant, dead-letter topic or transaction."""

_LISTS = {
    "backup_failed": ("backups", "n makes another one"),
    "backup_key_missing": ("backups", ""),
    "backup_old": ("backups", "n makes one, v verifies one"),
    "backup_target_gone": ("backups", ""),
    "disk_filling": ("topics", "e shortens a retention, x deletes a topic"),
    "disk_full_soon": ("topics", "e shortens a retention, x deletes a topic"),
    "writes_refused": ("topics", "e shortens a retention, x deletes a topic"),
    "groups_near_limit": ("groups", "x deletes groups"),
    "flush_slow": ("logs", ""),
    "subject_empty": ("schemas", ""),
    "sync_failed": ("logs", ""),
    "tenant_refused": ("tenants", "x activates it"),
}
"""The screens of findings that are about all of a kind, or the broker."""

_PARTITIONS = {"partition_fenced", "log_closed", "range_damaged", "range_healed", "records_lost"}
"""Findings whose subject is a log; that of a partition is TOPIC/PARTITION."""


def finding_route(finding: FindingJson) -> FindingRoute | None:
    """Return where a finding leads; None if only its text says more."""
    code, subject, details = str(finding.get("code")), str(finding.get("subject")), finding.get("details") or {}
    if code in _LISTS:
        page, repair = _LISTS[code]
        return FindingRoute(Location(page), repair=repair)
    if code in _PARTITIONS or code == "delayed_late":
        return _of_partition(code, subject)
    if code == "messages_lost_to_retention" and details.get("topics"):
        return FindingRoute(Location("topic", (str(details["topics"][0]),)), repair="e changes its retention")
    if code not in _SUBJECTS:
        return None
    page, repair = _SUBJECTS[code]
    place = Location(page, (subject,))
    if "more" in details:  # it counts the findings beyond the first ones
        above = location_above(place)
        return None if above is None else FindingRoute(above)
    return FindingRoute(place, _row(details), repair)


def _of_partition(code: str, subject: str) -> FindingRoute | None:
    topic, slash, partition = subject.rpartition("/")
    if not slash or not partition.isdecimal() or topic.startswith("__"):
        return None
    if code == "delayed_late":
        return FindingRoute(Location("schedule", (topic,)), repair="d delivers now")
    return FindingRoute(Location("topic", (topic,)), partition)


def _row(details: Mapping[str, Any]) -> str:
    """Return the partition that a group's finding is about: the first of its list, or that of its message."""
    partitions, messages = details.get("partitions"), details.get("messages")
    if isinstance(partitions, list) and partitions:
        return str(partitions[0])
    if isinstance(messages, list) and messages:
        return f"{messages[0].get('topic')}/{messages[0].get('partition')}"
    return ""


def finding_advice(finding: FindingJson, *, read_only: bool) -> list[str]:
    """Return the lines below the findings: what to do, and what enter opens."""
    lines = [f"what to do  {finding.get('hint') or '-'}"]
    route = finding_route(finding)
    if route is not None:
        place = route.place
        target = f"{place.page} {place.about[0]}" if place.about else location_title(place)
        repair = f": {route.repair}" if route.repair and not read_only else ""
        lines.append(f"⏎ opens     {target}{repair}")
    return lines


def finding_reason(finding: FindingJson, repair: str) -> str:
    """Return the line that stays on the screen that was opened from a finding."""
    return f"{finding.get('sentence')}{f' · {repair}' if repair else ''}"


def finding_window(finding: FindingJson) -> DetailWindow:
    """Return the window with everything that a finding says; `c` copies its hint."""
    details = finding.get("details") or {}
    facts = {"what to do": finding.get("hint"), "code": finding.get("code"), **details}
    lines = [Content.styled(escape_unprintable(str(finding.get("sentence", ""))), "bold"), Content("")]
    lines += windows.fact_lines([(name, str(text), "") for name, text in facts.items() if text])
    title = escape_unprintable(str(finding.get("subject", "")))
    return DetailWindow(title, Content("\n").join(lines), str(finding.get("hint") or ""))
