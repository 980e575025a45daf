"""What can be wrong with the broker itself: its disk, its logs, its process."""

from goqueue.limits import (
    CLOCK_BEHIND_SECONDS,
    CONNECTIONS_SHARE_HIGH,
    DELAYED_LATE_SECONDS,
    DISK_FREE_LEAST,
    DISK_FREE_LEAST_BYTES,
    DISK_FREE_LOW,
    DISK_FREE_LOW_BYTES,
    DISK_FREE_NEEDED_BYTES,
    DISK_FULL_SECONDS,
    DISK_FULL_SECONDS_LEAST,
    FILES_SHARE_HIGH,
    FLUSH_SLOW_SECONDS,
    FLUSH_STUCK_SECONDS,
    IN_FLIGHT_SHARE_HIGH,
    LOOP_SLOW_SECONDS,
    LOOP_STUCK_SECONDS,
    STALL_LONG_SECONDS,
    STORAGE_FILES_MAX,
    UNCLEAN_START_SECONDS,
)
from goqueue.observe.facts import DiskFacts, Facts, ShutLog
from goqueue.observe.finding import Finding, Found, Severity
from goqueue.quantities import format_count, format_duration, format_size

# --- the disk ---


def disk_filling(facts: Facts) -> Found:
    disk = facts.disk
    if disk is None or (severity := _fullness(disk)) is None:
        return
    share = disk.free_bytes / disk.total_bytes if disk.total_bytes else 0.0
    yield Finding(
        "disk_filling",
        severity,
        disk.path,
        f"{format_size(disk.free_bytes)} of {format_size(disk.total_bytes)} are free ({share:.0%})",
        "free some space, or let messages go earlier: `goqueue-cli topic list` shows which topics are large",
        {"free_bytes": disk.free_bytes, "total_bytes": disk.total_bytes},
    )


def _fullness(disk: DiskFacts) -> Severity | None:
    """Small disks are judged by their share, large ones by what it comes to."""
    free, total = disk.free_bytes, disk.total_bytes
    if free < min(DISK_FREE_NEEDED_BYTES, total * DISK_FREE_LOW) or free < min(
        total * DISK_FREE_LEAST, DISK_FREE_LEAST_BYTES
    ):
        return "critical"
    return "warning" if free < min(total * DISK_FREE_LOW, DISK_FREE_LOW_BYTES) else None


def disk_full_soon(facts: Facts) -> Found:
    disk = facts.disk
    if disk is None or disk.growth <= 0:
        return
    seconds = disk.free_bytes / disk.growth
    if seconds >= DISK_FULL_SECONDS:
        return
    yield Finding(
        "disk_full_soon",
        "critical" if seconds < DISK_FULL_SECONDS_LEAST else "warning",
        disk.path,
        f"the disk is full in {format_duration(round(seconds))} if it goes on filling by "
        f"{format_size(round(disk.growth))} a second",
        "free some space, or let messages go earlier: `goqueue-cli topic list` shows which topics grow",
        {"seconds": round(seconds), "bytes_per_second": round(disk.growth), "free_bytes": disk.free_bytes},
    )


def writes_refused(facts: Facts) -> Found:
    if facts.refusal is None:
        return
    yield Finding(
        "writes_refused",
        "critical",
        facts.disk.path if facts.disk is not None else "the disk",
        f"publishing is refused: {facts.refusal}; {format_count(len(facts.refused), 'log')} could not be written to",
        "free some space: delete a topic, or let messages go earlier; writing resumes by itself within a second",
        {"logs": len(facts.refused), "first": list(facts.refused[:10])},
    )


# --- logs ---

_NAMES_MAX = 10  # in a sentence; the details have all

_REFUSED = {
    "topic": "the partition takes no messages",
    "topics": "no topic can be created, changed or deleted",
    "groups": "some groups can neither poll nor settle",
    "transactions": "no transaction can begin or end",
}


def partition_fenced(facts: Facts) -> Found:
    for shut in facts.shut:
        if shut.is_open:
            hint = "look at the device and at the kernel's log, then restart the broker: it reads the log again"
            yield _shut("partition_fenced", shut, hint)


def log_closed(facts: Facts) -> Found:
    for shut in facts.shut:
        if not shut.is_open:
            hint = "mend it, then restart the broker; `goqueue fsck` says what it finds while the broker is stopped"
            yield _shut("log_closed", shut, f"{shut.hint}; {hint}" if shut.hint else hint)


def _shut(code: str, shut: ShutLog, hint: str) -> Finding:
    return Finding(code, "critical", shut.log, f"{_REFUSED[shut.role]}: {shut.reason}", hint, {"role": shut.role})


def range_damaged(facts: Facts) -> Found:
    for damage in facts.damages:
        count = damage.next_offset - damage.first_offset
        yield Finding(
            "range_damaged",
            "critical",
            damage.log,
            f"{format_count(count, 'offset')} from {damage.first_offset} on cannot be read: {damage.reason}",
            "`goqueue fsck` says what is damaged while the broker is stopped, "
            "`goqueue-cli consume --skip-damage` reads around it",
            {
                "first_offset": damage.first_offset,
                "next_offset": damage.next_offset,
                "path": damage.path,
                "position": damage.position,
                "end": damage.end,
                "reason": damage.reason,
            },
        )


def log_unclaimed(facts: Facts) -> Found:
    for name in facts.start.unclaimed:
        yield Finding(
            "log_unclaimed",
            "note",
            name,
            "no topic knows this log: it is neither served nor removed",
            "`goqueue fsck --repair` makes a topic of it while the broker is stopped; "
            "or move its directory out of the data directory",
        )


_LOST = {
    "topics": (
        "a topic or its settings may be missing",
        "stop the broker and run `goqueue fsck --repair`, which records topics again that have logs; check settings",
    ),
    "groups": (
        "its groups may be handed messages again, and members have to join again",
        "look at the groups that are named; the device has damaged a log and its copy, so replace it",
    ),
    "transactions": (
        "transactions without a record were aborted, unless a partition shows that they were committed",
        "look at the producers of the ids that are named; the device has damaged a log and its copy, so replace it",
    ),
}


def records_lost(facts: Facts) -> Found:
    for lost in facts.start.lost:
        meaning, hint = _LOST[lost.role]
        named = f" ({', '.join(lost.names[:_NAMES_MAX])}{', …' if len(lost.names) > _NAMES_MAX else ''})"
        yield Finding(
            "records_lost",
            "critical",
            lost.log,
            f"the start could not read {format_count(lost.count, 'record')}: {meaning}{named if lost.names else ''}",
            hint,
            {"records": lost.count, "names": list(lost.names), "role": lost.role},
        )


def range_healed(facts: Facts) -> Found:
    for healed in facts.start.healed:
        yield Finding(
            "range_healed",
            "warning",
            healed.log,
            f"the start found {format_count(healed.ranges, 'damaged range')} of {format_size(healed.size)} and wrote "
            "them back from the copy; nothing is lost",
            "look at the device and the kernel's log (`dmesg`): it has changed bytes that were written",
            {"ranges": healed.ranges, "bytes": healed.size},
        )


def unclean_start(facts: Facts) -> Found:
    start = facts.start
    if not start.surveyed or facts.uptime_seconds >= UNCLEAN_START_SECONDS:
        return
    cut = sum(one.size for one in start.cuts)
    kept = [one.kept_in for one in start.cuts if one.kept_in is not None]
    ends = (
        f", and cut {format_size(cut)} of unanswered writes from {format_count(len(start.cuts), 'log')}" if cut else ""
    )
    yield Finding(
        "unclean_start",
        "note",
        "the start",
        f"the last stop was not clean: the start looked through {format_count(start.surveyed, 'log')}{ends}",
        "nothing that was answered is lost by that; find out what ended the broker: "
        "the supervisor's log, or the kernel's for `Out of memory`",
        {"surveyed": start.surveyed, "cut_bytes": cut, "kept_in": kept},
    )


# --- the process ---


def loop_slow(facts: Facts) -> Found:
    late = facts.process.loop_seconds
    if late is None or late < LOOP_SLOW_SECONDS:
        return
    yield Finding(
        "loop_slow",
        "critical" if late >= LOOP_STUCK_SECONDS else "warning",
        "the event loop",
        f"every request waits up to {format_duration(round(late, 3))} before anybody looks at it",
        "give the broker more of a core: look for what else runs on the machine, and for requests with thousands "
        "of messages in JSON",
        {"seconds": round(late, 6)},
    )


def broker_stalled(facts: Facts) -> Found:
    seconds = facts.process.stall_seconds
    if seconds < STALL_LONG_SECONDS:
        return
    yield Finding(
        "broker_stalled",
        "warning",
        "the process",
        f"the broker stood still for {format_duration(round(seconds))} within the last hour; clients' sessions, leases "
        "and transactions were given that time back",
        "find out what paused it: a suspended or migrated virtual machine, a stopped container, swapping "
        "(`vmstat 1`), or `kill -STOP`",
        {"seconds": round(seconds, 3)},
    )


def flush_slow(facts: Facts) -> Found:
    took = facts.process.flush_seconds
    if took is None or took < FLUSH_SLOW_SECONDS:
        return
    yield Finding(
        "flush_slow",
        "critical" if took >= FLUSH_STUCK_SECONDS else "warning",
        "the device",
        f"writing and syncing takes up to {format_duration(round(took, 3))}, and every publish waits for it",
        "look at the device (`iostat -x 1`) and at what else writes to it",
        {"seconds": round(took, 6)},
    )


def sync_failed(facts: Facts) -> Found:
    count = facts.process.sync_failures
    if count:
        yield Finding(
            "sync_failed",
            "warning",
            "the device",
            f"the device has refused {format_count(count, 'write or sync', 'writes or syncs')} since the broker "
            "started; whoever waited for them was told",
            "look at the kernel's log (`dmesg`), at the device, and whether its file system was full",
            {"failures": count},
        )


def in_flight_full(facts: Facts) -> Found:
    held, most = facts.process.in_flight_bytes, facts.process.in_flight_bytes_max
    if held < most * IN_FLIGHT_SHARE_HIGH:
        return
    refusing = held >= most
    verdict = ": publishers are turned away" if refusing else ", beyond which publishers are turned away"
    yield Finding(
        "in_flight_full",
        "critical" if refusing else "warning",
        "publishing",
        f"{format_size(held)} wait to become durable, of {format_size(most)}{verdict}",
        "publish less at a time, look at the device, or raise server.in_flight_bytes if there is memory for it",
        {"bytes": held, "limit": most},
    )


def file_limit_near(facts: Facts) -> Found:
    used, most = facts.process.open_files, facts.process.open_files_max
    if used is None or most is None or used < most * FILES_SHARE_HIGH:
        return
    yield Finding(
        "file_limit_near",
        "warning",
        "the process",
        f"{format_count(used, 'file')} and connections are open, of {format_count(most)}",
        "start the broker with a higher limit: `ulimit -n 1048576`, or LimitNOFILE of its unit",
        {"open": used, "limit": most},
    )


def connections_lowered(facts: Facts) -> Found:
    wanted, most, files = facts.process.connections_wanted, facts.process.connections_max, facts.process.open_files_max
    if files is None or most >= wanted:
        return
    yield Finding(
        "connections_lowered",
        "note",
        "connections",
        f"{format_count(most, 'connection')} may be open instead of {format_count(wanted)}: the process may have"
        f" {format_count(files)} files open, of which the logs need {format_count(STORAGE_FILES_MAX)}",
        "start the broker with a higher limit: `ulimit -n 1048576`, or LimitNOFILE of its unit",
        {"limit": most, "setting": wanted, "open_files_limit": files},
    )


def connections_near_limit(facts: Facts) -> Found:
    held, most = facts.process.connections, facts.process.connections_max
    if held < most * CONNECTIONS_SHARE_HIGH:
        return
    yield Finding(
        "connections_near_limit",
        "critical" if held >= most else "warning",
        "connections",
        f"{format_count(held, 'connection')} are open, of {format_count(most)}",
        "look for clients that open one for each request, or raise server.connections",
        {"open": held, "limit": most},
    )


def delayed_late(facts: Facts) -> Found:
    for late in facts.delayed:
        if late.seconds >= DELAYED_LATE_SECONDS:
            yield Finding(
                "delayed_late",
                "warning",
                f"{late.topic}/{late.partition}",
                f"{format_count(late.messages, 'delayed message')} should have been delivered, the first of them "
                f"{format_duration(round(late.seconds))} ago",
                "the broker's log says why: mostly the disk is full, or it has failed",
                {"messages": late.messages, "seconds": round(late.seconds, 3)},
            )


def clock_jumped(facts: Facts) -> Found:
    doubt = facts.clock_doubt
    if doubt is None:
        return
    left = format_duration(round(doubt.seconds_left))
    topics = (
        f"{doubt.held_back[0]} and {len(doubt.held_back) - 1} more" if doubt.held_back[1:] else "".join(doubt.held_back)
    )
    holding = f"; it holds back messages of {topics}" if topics else ""
    yield Finding(
        "clock_jumped",
        "warning" if doubt.held_back else "note",
        "the clock",
        f"the clock is {format_duration(round(doubt.ahead_seconds))} ahead of what was known, after a jump or a long "
        f"downtime: for {left} retention removes at most {doubt.percent} % of each topic for its age{holding}",
        "look at the machine's clock (`timedatectl`); where it is right, nothing needs to be done, or "
        "`--storage-retention-jump-percent 100` and a restart let retention go on at once",
        {
            "ahead_seconds": round(doubt.ahead_seconds),
            "seconds_left": round(doubt.seconds_left),
            "percent": doubt.percent,
            "topics": list(doubt.held_back),
        },
    )


def clock_behind(facts: Facts) -> Found:
    behind = facts.process.clock_behind_seconds
    if behind < CLOCK_BEHIND_SECONDS:
        return
    yield Finding(
        "clock_behind",
        "warning",
        "the clock",
        f"the clock of the machine is {format_duration(round(behind))} behind the newest message: until it has "
        "caught up, all messages get the time of that one",
        "look at the machine's clock (`timedatectl`)",
        {"seconds": round(behind, 3)},
    )
