"""Findings about the broker: its disk, logs, process, connections and clock."""

from dataclasses import asdict

from goqueue import limits
from goqueue.observe.facts import BrokerFacts, ClockJump, DiskFacts, UnwritableLog
from goqueue.observe.finding import Finding, FindingStream, Severity, finding_rule
from goqueue.quantities import format_count, format_duration, format_size

# --- the disk ---


@finding_rule("critical", "warning")
def disk_filling(facts: BrokerFacts) -> FindingStream:
    disk = facts.disk
    if disk is None or (severity := _fullness(disk)) is None:
        return
    yield Finding(
        disk.path,
        f"the disk is filling: {disk}",
        "free disk space, or delete topics or shorten their retention: `goqueue-cli topic list` shows the largest "
        "topics",
        {"free_bytes": disk.free_bytes, "used_bytes": disk.used_bytes, "total_bytes": disk.total_bytes},
        severity=severity,
    )


def _fullness(disk: DiskFacts) -> Severity | None:
    """Judge small disks by the free share, large ones by the free bytes."""
    free, total = disk.free_bytes, disk.total_bytes
    if free < min(limits.DISK_FREE_MIN_BYTES, total * limits.DISK_FREE_LOW) or free < min(
        total * limits.DISK_FREE_CRITICAL, limits.DISK_FREE_CRITICAL_BYTES
    ):
        return "critical"
    return "warning" if free < min(total * limits.DISK_FREE_LOW, limits.DISK_FREE_LOW_BYTES) else None


@finding_rule("critical", "warning")
def disk_full_soon(facts: BrokerFacts) -> FindingStream:
    disk = facts.disk
    if disk is None or disk.growth <= 0:
        return
    seconds = disk.free_bytes / disk.growth
    if seconds >= limits.DISK_FULL_SECONDS:
        return
    yield Finding(
        disk.path,
        f"the disk will be full in {format_duration(round(seconds))}: {format_size(disk.free_bytes)} are free, and "
        f"{format_size(round(disk.growth))} are written per second",
        "free disk space, or delete topics or shorten their retention: `goqueue-cli topic list` shows which topics "
        "grow",
        {"seconds": round(seconds), "bytes_per_second": round(disk.growth), "free_bytes": disk.free_bytes},
        severity="critical" if seconds < limits.DISK_FULL_CRITICAL_SECONDS else "warning",
    )


_REFUSED_NAMED_MAX = 3  # in one sentence; the details have more


@finding_rule("critical")
def data_directory_gone(facts: BrokerFacts) -> FindingStream:
    if facts.gone_directory is not None:
        yield Finding(
            facts.gone_directory,
            "the data directory was removed, moved or replaced while the broker runs, which refuses all writes",
            "read what is left, stop the broker, put the directory back or restore a backup, and start it again",
        )


@finding_rule("critical")
def writes_refused(facts: BrokerFacts) -> FindingStream:
    if facts.refusal is None:
        return
    named = ", ".join([*facts.refused[:_REFUSED_NAMED_MAX], *(["…"] if facts.refused[_REFUSED_NAMED_MAX:] else [])])
    yield Finding(
        facts.disk.path if facts.disk is not None else "the disk",
        f"writes to {format_count(len(facts.refused), 'log')} fail and are refused ({named}): {facts.refusal}",
        "remove the cause (on a full disk, delete a topic or shorten its retention); writing resumes by itself within "
        "a second",
        {"logs": len(facts.refused), "first": list(facts.refused[:10])},
    )


# --- logs ---

_NAMES_MAX = 10  # in one sentence; the details list all of them

_REFUSED = {
    "topic": "the partition accepts no messages",
    "topics": "no topic can be created, changed or deleted",
    "groups": "some consumer groups can neither poll nor ack",
    "transactions": "no transaction can begin or end",
    "operations": "changes that can be undone are refused: resets, topic settings, due times",
    "keys": "no API key, role or rule can be created, changed or deleted",
    "audit": "administrative requests are refused, because they cannot be recorded",
    "schemas": "no schema, compatibility level or mode can be registered, changed or deleted",
    "tenants": "no tenant can be created, changed or deleted",
    "usage": "the usage of tenants is not recorded, and cannot be reported",
}


@finding_rule("critical")
def partition_fenced(facts: BrokerFacts) -> FindingStream:
    for shut in facts.shut:
        if shut.is_open:
            hint = "check the device and the kernel log (`dmesg`), then restart the broker: it reads the log again"
            yield _shut(shut, hint)


@finding_rule("critical")
def log_closed(facts: BrokerFacts) -> FindingStream:
    for shut in facts.shut:
        if not shut.is_open:
            hint = "fix the cause and restart the broker; while it is stopped, `goqueue fsck` shows what is damaged"
            if facts.backups is not None:
                hint += f", and with `--repair --repair-from {facts.backups.target}` copies it from a backup"
            yield _shut(shut, f"{shut.hint}; {hint}" if shut.hint else hint)


def _shut(shut: UnwritableLog, hint: str) -> Finding:
    return Finding(shut.log, f"{_REFUSED[shut.role]}: {shut.reason}", hint, {"role": shut.role})


@finding_rule("critical")
def range_damaged(facts: BrokerFacts) -> FindingStream:
    repairing = dict(facts.cluster.damaged) if facts.cluster is not None else {}
    for place in facts.damages:
        damage = place.damage
        if place.log in repairing:  # from another replica
            continue
        count = damage.next_offset - damage.first_offset
        yield Finding(
            place.log,
            f"{format_count(count, 'offset')} from offset {damage.first_offset} cannot be read: {damage.reason}",
            "stop the broker and run `goqueue fsck` to see all damage; "
            "`goqueue-cli consume --skip-damage` skips the damaged offsets",
            {"path": place.path, **asdict(damage)},
        )


@finding_rule("note")
def log_unclaimed(facts: BrokerFacts) -> FindingStream:
    for name in facts.start.unclaimed:
        yield Finding(
            name,
            "this log belongs to no topic: it is neither served nor deleted",
            "stop the broker and run `goqueue fsck --repair` to make it a topic, or move its directory out of the data "
            "directory",
        )


_LOST = {
    "topics": (
        "topics or their settings may be missing",
        "stop the broker and run `goqueue fsck --repair`: it records topics again that still have logs; then check the "
        "settings of your topics",
    ),
    "groups": (
        "consumer groups may receive messages again, and their members must join again",
        "check the listed groups; the device damaged a log and its backup copy, so replace the device",
    ),
    "transactions": (
        "transactions without a record were aborted, except those that a partition shows as committed",
        "check the producers of the listed transactional ids; the device damaged a log and its backup copy, so replace "
        "the device",
    ),
    "operations": (
        "the list of what operators changed is incomplete, and what is missing cannot be undone",
        "nothing else is affected; the device damaged a log and its backup copy, so replace the device",
    ),
    "keys": (
        "API keys, roles or rules may be missing, and revoked keys or deleted rules may count again",
        "check `goqueue-admin key list` and `acl list`; the device damaged a log and its backup copy, so replace the "
        "device",
    ),
    "audit": (
        "the audit trail is incomplete",
        "`goqueue-admin audit verify` shows where; the device damaged a log and its backup copy, so replace the device",
    ),
    "schemas": (
        "versions of schemas may be missing, and deleted ones may be there again; lost ids are not given again",
        "check `goqueue-cli schema list`, and register what is missing with its id in the mode IMPORT",
    ),
    "tenants": (
        "tenants may be missing, whose keys are refused, and suspended ones may be active again",
        "check `goqueue-admin tenant list`; `tenant create --id ID --adopt` brings a missing one back with its data",
    ),
    "usage": (
        "hours may be missing from reports of the usage of tenants; what is in the logs was counted again",
        "nothing else is affected; the device damaged a log and its backup copy, so replace the device",
    ),
}


@finding_rule("critical")
def records_lost(facts: BrokerFacts) -> FindingStream:
    for lost in facts.start.lost:
        meaning, hint = _LOST[lost.role]
        named = f" ({', '.join(lost.names[:_NAMES_MAX])}{', …' if len(lost.names) > _NAMES_MAX else ''})"
        yield Finding(
            lost.log,
            f"{format_count(lost.count, 'record')} could not be read at startup: "
            f"{meaning}{named if lost.names else ''}",
            hint,
            {"records": lost.count, "names": list(lost.names), "role": lost.role},
        )


@finding_rule("warning")
def range_healed(facts: BrokerFacts) -> FindingStream:
    for log, ranges in facts.start.restored.items():
        size = sum(one.size for one in ranges)
        yield Finding(
            log,
            f"{format_count(len(ranges), 'damaged range')} ({format_size(size)}) were repaired from the "
            "backup copy at startup; nothing is lost",
            "check the device and the kernel log (`dmesg`): stored bytes have changed",
            {"ranges": len(ranges), "bytes": size},
        )


@finding_rule("note")
def unclean_start(facts: BrokerFacts) -> FindingStream:
    start = facts.start
    if not start.surveyed or facts.uptime_seconds >= limits.UNCLEAN_START_SECONDS:
        return
    cut = sum(one.size for one in start.cuts)
    kept = [one.kept_in for one in start.cuts if one.kept_in is not None]
    ends = (
        f", and removed {format_size(cut)} of unanswered writes from {format_count(len(start.cuts), 'log')}"
        if cut
        else ""
    )
    yield Finding(
        "startup",
        f"the last stop was not clean: recovery scanned {format_count(start.surveyed, 'log')}{ends}",
        "no acknowledged message is lost; unless a backup was restored, find out why the broker ended: "
        "check the service manager's log, and the kernel log for `Out of memory`",
        {"surveyed": start.surveyed, "cut_bytes": cut, "kept_in": kept},
    )


# --- the process ---


@finding_rule("critical", "warning")
def loop_slow(facts: BrokerFacts) -> FindingStream:
    late = facts.process.loop_seconds
    if late is None or late < limits.LOOP_SLOW_SECONDS:
        return
    yield Finding(
        "the event loop",
        f"requests wait up to {format_duration(round(late, 3))} before the broker starts on them",
        "give the broker more CPU: check what else runs on the machine, and whether clients send thousands of messages "
        "in one JSON request",
        {"seconds": round(late, 6)},
        severity="critical" if late >= limits.LOOP_STUCK_SECONDS else "warning",
    )


@finding_rule("warning")
def broker_stalled(facts: BrokerFacts) -> FindingStream:
    seconds = facts.process.stall_seconds
    if seconds < limits.STALL_LONG_SECONDS:
        return
    yield Finding(
        "the process",
        f"the broker was paused for {format_duration(round(seconds))} within the last hour; sessions, leases and "
        "transactions were extended by that time",
        "find out what paused the process: a suspended or migrated virtual machine, a stopped container, swapping "
        "(`vmstat 1`), or `kill -STOP`",
        {"seconds": round(seconds, 3)},
    )


@finding_rule("critical", "warning")
def flush_slow(facts: BrokerFacts) -> FindingStream:
    took = facts.process.flush_seconds
    if took is None or took < limits.FLUSH_SLOW_SECONDS:
        return
    yield Finding(
        "the device",
        f"writing and syncing takes up to {format_duration(round(took, 3))}; every publish waits for it",
        "check the load of the device (`iostat -x 1`) and what else writes to it",
        {"seconds": round(took, 6)},
        severity="critical" if took >= limits.FLUSH_STUCK_SECONDS else "warning",
    )


@finding_rule("warning")
def sync_failed(facts: BrokerFacts) -> FindingStream:
    count = facts.process.sync_failures
    if count:
        yield Finding(
            "the device",
            f"{format_count(count, 'write or sync', 'writes or syncs')} failed since the broker started; the affected "
            "requests were answered with an error",
            "check the kernel log (`dmesg`) and the device",
            {"failures": count},
        )


@finding_rule("critical", "warning")
def in_flight_full(facts: BrokerFacts) -> FindingStream:
    held, most = facts.process.in_flight_bytes, facts.process.in_flight_bytes_max
    if held < most * limits.IN_FLIGHT_SHARE_HIGH:
        return
    refusing = held >= most
    verdict = "publishing is refused" if refusing else "publishing will be refused at the limit"
    yield Finding(
        "publishing",
        f"{format_size(held)} are being written, of at most {format_size(most)}: {verdict}",
        "publish more slowly, check the device, or raise server.in_flight_bytes if there is enough memory",
        {"bytes": held, "limit": most},
        severity="critical" if refusing else "warning",
    )


@finding_rule("warning")
def file_limit_near(facts: BrokerFacts) -> FindingStream:
    used, most = facts.process.open_files, facts.process.open_files_max
    if used is None or most is None or used < most * limits.FILES_SHARE_HIGH:
        return
    yield Finding(
        "the process",
        f"{format_count(used)} files and connections are open, of at most {format_count(most)}",
        "start the broker with a higher limit: `ulimit -n 1048576`, or LimitNOFILE in its systemd unit",
        {"open": used, "limit": most},
    )


@finding_rule("note")
def connections_lowered(facts: BrokerFacts) -> FindingStream:
    wanted, most, files = facts.process.connections_wanted, facts.process.connections_max, facts.process.open_files_max
    if files is None or most >= wanted:
        return
    yield Finding(
        "connections",
        f"at most {format_count(most, 'connection')} can be open instead of {format_count(wanted)}: the process may "
        f"open {format_count(files)} files, and its logs need {format_count(limits.STORAGE_FILES_MAX)} of them",
        "start the broker with a higher limit: `ulimit -n 1048576`, or LimitNOFILE in its systemd unit",
        {"limit": most, "setting": wanted, "open_files_limit": files},
    )


@finding_rule("critical", "warning")
def connections_near_limit(facts: BrokerFacts) -> FindingStream:
    held, most = facts.process.connections, facts.process.connections_max
    if held < most * limits.CONNECTIONS_SHARE_HIGH:
        return
    yield Finding(
        "connections",
        f"{format_count(held, 'connection')} are open, of at most {format_count(most)}",
        "look for clients that open a connection per request, or raise server.connections",
        {"open": held, "limit": most},
        severity="critical" if held >= most else "warning",
    )


@finding_rule("warning")
def delayed_late(facts: BrokerFacts) -> FindingStream:
    for late in facts.delayed:
        if late.seconds >= limits.DELAYED_LATE_SECONDS:
            yield Finding(
                f"{late.topic}/{late.partition}",
                f"{format_count(late.messages, 'delayed message')} {'is' if late.messages == 1 else 'are'} overdue, "
                f"the oldest by {format_duration(round(late.seconds))}",
                "check the broker's log for the cause: usually the disk is full or has failed",
                {"messages": late.messages, "seconds": round(late.seconds, 3)},
            )


def _jump_cause(jump: ClockJump) -> str:
    ahead, start = (format_duration(round(seconds)) for seconds in (jump.ahead_seconds, jump.start_seconds))
    if jump.start_seconds < limits.CLOCK_JUMP_SECONDS:
        return f"the clock jumped ahead by {ahead}"
    return f"when the broker started, the newest of its data was {start} old, or the clock had jumped ahead"


def _is_short_pause(jump: ClockJump) -> bool:
    """Return whether all is explained by a restart, or a restore, of the last hour, and no message is kept for it."""
    has_jumped = jump.ahead_seconds - jump.start_seconds >= limits.CLOCK_JUMP_SECONDS
    return not has_jumped and not jump.held_back and jump.start_seconds < limits.CLOCK_JUMP_HOLD_SECONDS


@finding_rule("warning", "note")
def clock_jumped(facts: BrokerFacts) -> FindingStream:
    jump = facts.clock_jump
    if jump is None or _is_short_pause(jump):
        return
    left = format_duration(round(jump.seconds_left))
    topics = (
        f"{jump.held_back[0]} and {len(jump.held_back) - 1} more" if jump.held_back[1:] else "".join(jump.held_back)
    )
    kept = f"; messages of {topics} are kept for now" if topics else ""
    yield Finding(
        "the clock",
        f"{_jump_cause(jump)}: for the next {left}, retention deletes at most {jump.percent} % of each topic by "
        f"age{kept}",
        "check the clock (`timedatectl`); if it is right, wait, or restart with "
        "`--storage-retention-jump-percent 100` to run retention at once",
        {
            "ahead_seconds": round(jump.ahead_seconds),
            "seconds_left": round(jump.seconds_left),
            "percent": jump.percent,
            "topics": list(jump.held_back),
        },
        severity="warning" if jump.held_back else "note",
    )


@finding_rule("warning")
def clock_behind(facts: BrokerFacts) -> FindingStream:
    behind = facts.process.clock_behind_seconds
    if behind < limits.CLOCK_BEHIND_SECONDS:
        return
    yield Finding(
        "the clock",
        f"the clock is {format_duration(round(behind))} behind the newest message: until it catches up, new messages "
        "get the time of that message",
        "check the clock (`timedatectl`)",
        {"seconds": round(behind, 3)},
    )
