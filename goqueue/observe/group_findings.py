"""What can be wrong with groups, and with what they could not handle."""

from collections.abc import Iterator

from goqueue.limits import (
    CURSOR_RUNS_MAX,
    DOCTOR_SETTLED_SECONDS,
    EXPIRY_AGE_SECONDS,
    EXPIRY_SHARE_LEFT,
    GROUP_ABANDONED_SECONDS,
    GROUP_BEHIND_MESSAGES,
    GROUP_BEHIND_RATIO,
    GROUP_BEHIND_SECONDS,
    GROUP_REBALANCE_SECONDS,
    GROUP_STUCK_SECONDS,
    GROUPS_MAX,
    GROUPS_SHARE_HIGH,
    LETTERS_MANY,
    LETTERS_STUCK_SECONDS,
    RANGES_SHARE_HIGH,
)
from goqueue.observe.facts import Facts, PlaceFacts
from goqueue.observe.finding import Finding, Found
from goqueue.quantities import format_count, format_duration

_NAMED_MAX = 5  # partitions, members or topics in one sentence


def group_stuck(facts: Facts) -> Found:
    """Members are there and messages are ready, and nothing is done with. A group that rebalances is another matter."""
    for group in facts.groups:
        stuck = [place for place in group.places if _is_stuck(place)]
        if not stuck or group.rebalance_seconds is not None:
            continue
        idle = min(place.idle_seconds for place in stuck)
        in_flight = sum(place.in_flight for place in stuck)
        holds = f", {format_count(in_flight)} of them in hand" if in_flight else ", none of them in hand"
        yield Finding(
            "group_stuck",
            "warning",
            group.name,
            f"{_waiting(sum(place.messages for place in stuck))} in {_places(stuck)}{holds}, and "
            f"none was done with for {format_duration(round(idle))}",
            f"look at what its members do: `goqueue-cli group describe {group.name}`",
            {
                "partitions": [_name(place) for place in stuck],
                "members": sorted({place.member for place in stuck if place.member is not None}),
                "idle_seconds": round(idle),
                "in_flight": in_flight,
            },
        )


def _is_stuck(place: PlaceFacts) -> bool:
    return (
        place.member is not None
        and place.ready > 0
        and place.idle_seconds >= GROUP_STUCK_SECONDS
        and place.seconds >= GROUP_STUCK_SECONDS
    )


def group_abandoned(facts: Facts) -> Found:
    for group in facts.groups:
        if group.empty_seconds is None or group.empty_seconds < GROUP_ABANDONED_SECONDS or not group.lag:
            continue
        forgotten = "" if group.forgotten_in is None else f"; in {_about(group.forgotten_in)} it is forgotten"
        yield Finding(
            "group_abandoned",
            "warning",
            group.name,
            f"it had no members for {_about(group.empty_seconds)}, and {_waiting(group.lag)} for it{forgotten}",
            f"start its consumers, or `goqueue-cli group delete {group.name}` if nobody needs it any more",
            {"lag": group.lag, "empty_seconds": round(group.empty_seconds)},
        )


def group_falling_behind(facts: Facts) -> Found:
    if facts.uptime_seconds < DOCTOR_SETTLED_SECONDS:
        return
    for group in facts.groups:
        behind = [place for place in group.places if place.messages and place.member is not None]
        lag = sum(place.messages for place in behind)
        rate, incoming = sum(place.rate for place in behind), sum(place.incoming for place in behind)
        oldest = max((place.seconds for place in behind), default=0.0)
        if lag < GROUP_BEHIND_MESSAGES or oldest < GROUP_BEHIND_SECONDS or incoming <= rate * GROUP_BEHIND_RATIO:
            continue
        yield Finding(
            "group_falling_behind",
            "warning",
            group.name,
            f"{incoming:,.1f} messages come in a second and {rate:,.1f} are done with: "
            f"{_waiting(lag)}, the oldest for {_about(oldest)}",
            f"add members, up to one for each partition, or make them faster: `goqueue-cli group lag {group.name}`",
            {"lag": lag, "lag_seconds": round(oldest), "rate": round(rate, 3), "incoming": round(incoming, 3)},
        )


def group_rebalancing_long(facts: Facts) -> Found:
    for group in facts.groups:
        seconds = group.rebalance_seconds
        if seconds is None or seconds < GROUP_REBALANCE_SECONDS:
            continue
        waits = f", and waits for {_some(group.awaited)}" if group.awaited else ""
        yield Finding(
            "group_rebalancing_long",
            "warning",
            group.name,
            f"a rebalance is under way for {format_duration(round(seconds))}{waits}",
            f"`goqueue-admin rebalance describe {group.name}` shows what is to be given up; "
            "a member that never answers is passed over after its time",
            {"seconds": round(seconds), "awaited": list(group.awaited)},
        )


def group_ranges_many(facts: Facts) -> Found:
    for group in facts.groups:
        if group.ranges >= CURSOR_RUNS_MAX * RANGES_SHARE_HIGH:
            yield Finding(
                "group_ranges_many",
                "critical" if group.ranges >= CURSOR_RUNS_MAX else "warning",
                group.name,
                f"{format_count(group.ranges, 'range')} of one partition are neither done with nor untouched: at "
                f"{format_count(CURSOR_RUNS_MAX)} nothing new is handed out",
                "some messages are never answered for while others are: have its members ack, nack or reject each one; "
                f"`goqueue-cli group describe {group.name}` shows where they wait",
                {"ranges": group.ranges, "limit": CURSOR_RUNS_MAX},
            )


def groups_near_limit(facts: Facts) -> Found:
    count = len(facts.groups)
    if count >= GROUPS_MAX * GROUPS_SHARE_HIGH:
        yield Finding(
            "groups_near_limit",
            "critical" if count >= GROUPS_MAX else "warning",
            "groups",
            f"there are {format_count(count, 'group')}, of {format_count(GROUPS_MAX)}",
            "delete those that nobody needs, as `goqueue-cli group list` shows them; does something make up a new name "
            "each time?",
            {"groups": count, "limit": GROUPS_MAX},
        )


def messages_lost_to_retention(facts: Facts) -> Found:
    """What is gone is gone; where more goes every day, somebody must act."""
    for group in facts.groups:
        lost = sum(loss.messages for loss in group.losses)
        if not lost:
            continue
        is_going_on = any(loss.is_going_on for loss in group.losses)
        topics = sorted({loss.topic for loss in group.losses})
        more = ", and more follow" if is_going_on else ""
        yield Finding(
            "messages_lost_to_retention",
            "warning" if is_going_on else "note",
            group.name,
            f"{format_count(lost, 'message')} of {_some(topics)} were removed before the group had them{more}",
            f"keep messages for longer than the group needs: `goqueue-cli topic describe {topics[0]}` shows "
            "retention_hours and retention_bytes",
            {"lost": lost, "topics": topics, "going_on": is_going_on},
        )


def messages_expire_soon(facts: Facts) -> Found:
    for group in facts.groups:
        near = [(left, place) for place in group.places if (left := _left(place)) is not None]
        if not near:
            continue
        left, _ = min(near, key=lambda one: one[0])
        places = [place for _, place in near]
        when = f"in {_about(left)}" if left > 0 else "from now on"
        yield Finding(
            "messages_expire_soon",
            "warning",
            group.name,
            f"messages of {_places(places)} that the group has not done with may be removed {when}",
            "let its consumers catch up, or have the topic keep messages for longer: "
            f"`goqueue-cli topic describe {places[0].topic}` shows retention_hours",
            {"partitions": [_name(place) for place in places], "seconds": round(max(left, 0))},
        )


def _left(place: PlaceFacts) -> float | None:
    """Seconds until the oldest message may go, if that is soon."""
    if place.retention_seconds is None or not place.messages or place.seconds < EXPIRY_AGE_SECONDS:
        return None
    left = place.retention_seconds - place.seconds
    return left if left <= place.retention_seconds * EXPIRY_SHARE_LEFT else None


# --- what could not be handled ---


def poison_message(facts: Facts) -> Found:
    for group in facts.groups:
        if not group.ordeals:
            continue
        worst = max(group.ordeals, key=lambda one: one.deliveries)
        others = len(group.ordeals) - 1
        more = f", and {format_count(others, 'other')} like it" if others else ""
        place = f"--partition {worst.partition} --from {worst.offset} --limit 1"
        yield Finding(
            "poison_message",
            "warning",
            group.name,
            f"the message {worst.topic}/{worst.partition}@{worst.offset} was handed out "
            f"{format_count(worst.deliveries, 'time')} and is not done with{more}",
            f"look at it: `goqueue-cli consume {worst.topic} {place}`",
            {
                "messages": [
                    {
                        "topic": one.topic,
                        "partition": one.partition,
                        "offset": one.offset,
                        "deliveries": one.deliveries,
                    }
                    for one in group.ordeals[:_NAMED_MAX]
                ]
            },
        )


def dead_letters_stuck(facts: Facts) -> Found:
    for group in facts.groups:
        if group.leaving and group.leaving_seconds >= LETTERS_STUCK_SECONDS:
            yield Finding(
                "dead_letters_stuck",
                "warning",
                group.name,
                f"{_waiting(group.leaving)} to be carried to the dead letters, the first for "
                f"{_about(group.leaving_seconds)}",
                "the broker's log says why they cannot be published there; the topic of dead letters may be fenced, "
                "or take smaller messages only",
                {"messages": group.leaving, "seconds": round(group.leaving_seconds)},
            )


def dead_letters_waiting(facts: Facts) -> Found:
    for letters in facts.dead_letters:
        if letters.messages:
            origin = letters.topic.removesuffix(".dlq")
            yield Finding(
                "dead_letters_waiting",
                "warning" if letters.messages >= LETTERS_MANY else "note",
                letters.topic,
                f"{_waiting(letters.messages, 'dead letter')} for somebody to look",
                f"`goqueue-cli dlq errors {origin}` says why they failed, `goqueue-cli dlq redrive {origin}` sends "
                "them back",
                {"messages": letters.messages},
            )


# --- words ---


def _waiting(count: int, noun: str = "message") -> str:
    return f"{format_count(count, noun)} {'waits' if count == 1 else 'wait'}"


def _name(place: PlaceFacts) -> str:
    return f"{place.topic}/{place.partition}"


def _places(places: list[PlaceFacts]) -> str:
    return _some([_name(place) for place in places])


def _some(names: list[str] | tuple[str, ...]) -> str:
    return ", ".join(_first(names))


def _first(names: list[str] | tuple[str, ...]) -> Iterator[str]:
    yield from names[:_NAMED_MAX]
    if len(names) > _NAMED_MAX:
        yield f"and {format_count(len(names) - _NAMED_MAX)} more"


def _about(seconds: float) -> str:
    return format_duration(round(seconds))
