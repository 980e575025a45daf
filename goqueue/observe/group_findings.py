"""Findings about consumer groups, retention, dead letters and transactions."""

from goqueue import limits
from goqueue.observe.facts import BrokerFacts, GroupPartitionFacts, TransactionFacts
from goqueue.observe.finding import Finding, FindingStream, finding_rule
from goqueue.observe.group_condition import is_stuck
from goqueue.quantities import format_count, format_duration

_NAMED_MAX = 5  # partitions, members or topics named in one sentence


@finding_rule("warning", "note")
def group_stuck(facts: BrokerFacts) -> FindingStream:
    """Find groups whose members finish nothing although messages are ready. A rebalancing group has its own finding."""
    for group in facts.groups:
        stuck = [place for place in group.places if is_stuck(place)]
        if not stuck or group.rebalance_seconds is not None:
            continue
        idle = min(min(place.idle_seconds, place.seconds) for place in stuck)
        in_flight = sum(place.in_flight for place in stuck)
        delivered = f"{format_count(in_flight)} in flight" if in_flight else "none in flight"
        yield Finding(
            group.name,
            f"no message was finished for {format_duration(round(idle))}: "
            f"{_waiting(sum(place.messages for place in stuck))} in {_partitions(stuck)}, {delivered}",
            f"check its consumers: `goqueue-cli group describe {group.name}` shows which member has which partition",
            {
                "partitions": [_name(place) for place in stuck],
                "members": sorted({place.member for place in stuck if place.member is not None}),
                "idle_seconds": round(idle),
                "in_flight": in_flight,
            },
            severity="warning" if idle >= limits.GROUP_STUCK_SECONDS else "note",
        )


@finding_rule("warning", "note")
def group_abandoned(facts: BrokerFacts) -> FindingStream:
    for group in facts.groups:
        if group.empty_seconds is None or group.condition != "unattended":
            continue
        deleted = "" if group.deleted_in_seconds is None else f"; it is deleted in {_about(group.deleted_in_seconds)}"
        yield Finding(
            group.name,
            f"it has had no members for {_about(group.empty_seconds)}, and {_waiting(group.lag)}{deleted}",
            f"start its consumers, or run `goqueue-cli group delete {group.name}` if it is no longer needed",
            {"lag": group.lag, "empty_seconds": round(group.empty_seconds)},
            severity="warning" if group.empty_seconds >= limits.GROUP_ABANDONED_SECONDS else "note",
        )


@finding_rule("warning", "note")
def group_falling_behind(facts: BrokerFacts) -> FindingStream:
    """A note at first; a warning when it lasts, and the rates cover more than the time since startup."""
    for group in facts.groups:
        if group.condition != "falling_behind":
            continue
        behind = [place for place in group.places if place.messages and place.member is not None]
        lag = sum(place.messages for place in behind)
        rate, incoming = sum(place.rate for place in behind), sum(place.incoming for place in behind)
        oldest = max(place.seconds for place in behind)
        is_lasting = oldest >= limits.GROUP_BEHIND_SECONDS and facts.uptime_seconds >= limits.DOCTOR_WARMUP_SECONDS
        yield Finding(
            group.name,
            f"{incoming:,.1f} messages/s arrive and {rate:,.1f} messages/s are finished: "
            f"{_waiting(lag)}, the oldest for {_about(oldest)}",
            f"add consumers (up to one per partition) or make them faster: `goqueue-cli group lag {group.name}`",
            {"lag": lag, "lag_seconds": round(oldest), "rate": round(rate, 3), "incoming": round(incoming, 3)},
            severity="warning" if is_lasting and lag >= limits.GROUP_BEHIND_MESSAGES else "note",
        )


@finding_rule("warning")
def group_rebalancing_long(facts: BrokerFacts) -> FindingStream:
    for group in facts.groups:
        seconds = group.rebalance_seconds
        if seconds is None or seconds < limits.GROUP_REBALANCE_SECONDS:
            continue
        waits = f"; it waits for {_names(group.awaited)}" if group.awaited else ""
        yield Finding(
            group.name,
            f"a rebalance has been running for {format_duration(round(seconds))}{waits}",
            f"`goqueue-admin rebalance describe {group.name}` shows which partitions must be revoked; after the "
            "revocation timeout it goes on without members that do not answer",
            {"seconds": round(seconds), "awaited": list(group.awaited)},
        )


@finding_rule("critical", "warning")
def group_ranges_many(facts: BrokerFacts) -> FindingStream:
    for group in facts.groups:
        if group.ranges >= limits.CURSOR_RANGES_MAX * limits.RANGES_SHARE_HIGH:
            yield Finding(
                group.name,
                f"one partition has {format_count(group.ranges, 'range')} of unfinished messages between finished "
                f"ones; at {format_count(limits.CURSOR_RANGES_MAX)} the group receives no new messages",
                "its consumers leave some messages unanswered: make them ack, nack or reject every message; "
                f"`goqueue-cli group describe {group.name}` shows the partitions",
                {"ranges": group.ranges, "limit": limits.CURSOR_RANGES_MAX},
                severity="critical" if group.ranges >= limits.CURSOR_RANGES_MAX else "warning",
            )


@finding_rule("critical", "warning")
def groups_near_limit(facts: BrokerFacts) -> FindingStream:
    count = len(facts.groups)
    if count >= limits.GROUPS_MAX * limits.GROUPS_SHARE_HIGH:
        yield Finding(
            "groups",
            f"there are {format_count(count, 'group')}, of at most {format_count(limits.GROUPS_MAX)}",
            "delete unused groups (`goqueue-cli group list`), and check whether a client uses a new group name at "
            "every start",
            {"groups": count, "limit": limits.GROUPS_MAX},
            severity="critical" if count >= limits.GROUPS_MAX else "warning",
        )


@finding_rule("warning", "note")
def messages_lost_to_retention(facts: BrokerFacts) -> FindingStream:
    """Report past losses as a note, losses that continue as a warning."""
    for group in facts.groups:
        lost = sum(loss.messages for loss in group.losses)
        if not lost:
            continue
        is_continuing = any(loss.is_continuing for loss in group.losses)
        topics = sorted({loss.topic for loss in group.losses})
        more = "; it deletes more" if is_continuing else ""
        yield Finding(
            group.name,
            f"retention deleted {format_count(lost, 'message')} of {_names(topics)} before the group received "
            f"them{more}",
            f"raise the topic's retention: `goqueue-cli topic describe {topics[0]}` shows retention_hours and "
            "retention_bytes",
            {"lost": lost, "topics": topics, "going_on": is_continuing},
            severity="warning" if is_continuing else "note",
        )


@finding_rule("warning")
def messages_expire_soon(facts: BrokerFacts) -> FindingStream:
    for group in facts.groups:
        near = [(left, place) for place in group.places if (left := _seconds_left(place)) is not None]
        if not near:
            continue
        left, _ = min(near, key=lambda one: one[0])
        places = [place for _, place in near]
        when = f"in {_about(left)}" if left > 0 else "now"
        yield Finding(
            group.name,
            f"unfinished messages of {_partitions(places)} reach the end of their retention {when}",
            "let its consumers catch up, or raise the topic's retention: "
            f"`goqueue-cli topic describe {places[0].topic}` shows retention_hours",
            {"partitions": [_name(place) for place in places], "seconds": round(max(left, 0))},
        )


def _seconds_left(place: GroupPartitionFacts) -> float | None:
    """Return the seconds until retention may delete the oldest message, or None if that is far off."""
    if place.retention_seconds is None or not place.messages or place.seconds < limits.EXPIRY_AGE_SECONDS:
        return None
    left = place.retention_seconds - place.seconds
    return left if left <= place.retention_seconds * limits.EXPIRY_SHARE_LEFT else None


# --- messages that were not processed ---


@finding_rule("warning")
def poison_message(facts: BrokerFacts) -> FindingStream:
    for group in facts.groups:
        if not group.poison_messages:
            continue
        worst = max(group.poison_messages, key=lambda one: one.deliveries)
        others = len(group.poison_messages) - 1
        more = f"; so are {format_count(others, 'other message')}" if others else ""
        place = f"--partition {worst.partition} --from {worst.offset} --limit 1"
        yield Finding(
            group.name,
            f"message {worst.topic}/{worst.partition}@{worst.offset} was delivered "
            f"{format_count(worst.deliveries, 'time')} and is still unfinished{more}",
            f"read the message: `goqueue-cli consume {worst.topic} {place}`",
            {
                "messages": [
                    {
                        "topic": one.topic,
                        "partition": one.partition,
                        "offset": one.offset,
                        "deliveries": one.deliveries,
                    }
                    for one in group.poison_messages[:_NAMED_MAX]
                ]
            },
        )


@finding_rule("warning")
def dead_letters_stuck(facts: BrokerFacts) -> FindingStream:
    for group in facts.groups:
        if group.leaving and group.leaving_seconds >= limits.DEAD_LETTERS_STUCK_SECONDS:
            yield Finding(
                group.name,
                f"{_waiting(group.leaving)} to be moved to the dead-letter queue, the oldest for "
                f"{_about(group.leaving_seconds)}",
                "check the broker's log for the cause: the dead-letter topic may be fenced, or its max_message_bytes "
                "may be too small",
                {"messages": group.leaving, "seconds": round(group.leaving_seconds)},
            )


@finding_rule("warning", "note")
def dead_letters_waiting(facts: BrokerFacts) -> FindingStream:
    for letters in facts.dead_letters:
        if letters.messages:
            origin = letters.topic.removesuffix(".dlq")
            yield Finding(
                letters.topic,
                f"{format_count(letters.messages, 'dead letter')} {'was' if letters.messages == 1 else 'were'} not "
                "redriven",
                f"`goqueue-cli dlq errors {origin}` shows why they failed, `goqueue-cli dlq redrive {origin}` sends "
                "them back",
                {"messages": letters.messages},
                severity="warning" if letters.messages >= limits.DEAD_LETTERS_MANY else "note",
            )


# --- transactions ---


@finding_rule("warning", "note")
def transaction_hung(facts: BrokerFacts) -> FindingStream:
    for one in facts.transactions:
        if one.state != "ongoing" or one.seconds < limits.TRANSACTION_HUNG_SECONDS or not one.held_back:
            continue
        others = max(0, _count(one) - one.messages)
        owners = f"{format_count(others)} of them from other producers" if others else "all of them its own"
        yield Finding(
            one.name,
            f"transaction {one.transaction} has been open for {format_duration(round(one.seconds))}: "
            f"{_held_back(one)} until it ends, {owners}",
            f"check its producer, whose last request was {format_duration(round(one.idle_seconds))} ago"
            f"{_expiry(one)}; `goqueue-cli transaction abort {one.name}` ends it now",
            {**_details(one), "others": others},
            severity="warning" if others else "note",
        )


@finding_rule("critical")
def transaction_stuck(facts: BrokerFacts) -> FindingStream:
    for one in facts.transactions:
        if one.state == "ongoing" or one.seconds < limits.TRANSACTION_STUCK_SECONDS:
            continue
        verb = "committed" if one.state == "prepare_commit" else "aborted"
        because = f": {one.obstacle}" if one.obstacle else ""
        waiting = f"; {_held_back(one)} until it is" if one.held_back else ""
        yield Finding(
            one.name,
            f"transaction {one.transaction} could not be {verb} for "
            f"{format_duration(round(one.seconds))}{because}{waiting}",
            "the broker retries every second: check the device of the failing log and the kernel log (`dmesg`), then "
            f"restart the broker; `goqueue-cli transaction describe {one.name}` shows its partitions",
            {**_details(one), "obstacle": one.obstacle},
        )


def _count(one: TransactionFacts) -> int:
    return sum(place.messages for place in one.held_back)


def _held_back(one: TransactionFacts) -> str:
    places = [f"{place.topic}/{place.partition}" for place in one.held_back]
    named = ", ".join([*places[:_NAMED_MAX], *(["…"] if len(places) > _NAMED_MAX else [])])
    count = _count(one)
    return f"readers do not see {format_count(count, 'message')} of {named}"


def _expiry(one: TransactionFacts) -> str:
    if one.expires_in is None:
        return ""
    return f"; without another request it is aborted in {format_duration(round(one.expires_in))}"


def _details(one: TransactionFacts) -> dict[str, object]:
    return {
        "transaction": one.transaction,
        "state": one.state,
        "seconds": round(one.seconds, 3),
        "messages": one.messages,
        "held_back": {f"{place.topic}/{place.partition}": place.messages for place in one.held_back},
    }


# --- wording ---


def _waiting(count: int) -> str:
    return f"{format_count(count, 'message')} {'waits' if count == 1 else 'wait'}"


def _name(place: GroupPartitionFacts) -> str:
    return f"{place.topic}/{place.partition}"


def _partitions(places: list[GroupPartitionFacts]) -> str:
    return _names([_name(place) for place in places])


def _names(names: list[str] | tuple[str, ...]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join([*names[:_NAMED_MAX], *([f"and {format_count(more)} more"] if more > 0 else [])])


def _about(seconds: float) -> str:
    return format_duration(round(seconds))
