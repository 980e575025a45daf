"""What consumers say of the messages they were handed: by receipts, one by one, or of whole leases."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from goqueue.api.call import Call
from goqueue.api.groups import TopicName
from goqueue.api.members import Generation, MemberId
from goqueue.api.polling import Visibility
from goqueue.api.scalars import Duration
from goqueue.api.status import ErrorBody, told
from goqueue.broker.delivery.changes import Range
from goqueue.broker.delivery.claims import Statement, Verb
from goqueue.broker.delivery.settlement import Outcome, Verdict
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.limits import (
    OFFSET_MAX,
    PARTITIONS_MAX,
    REASON_CHARACTERS_MAX,
    RECEIPTS_AT_ONCE,
    RECEIPTS_MAX,
    RETRY_DELAY_SECONDS_MAX,
    VISIBILITY_SECONDS_MAX,
)
from goqueue.quantities import format_time


class RetryDelay(Duration, most=RETRY_DELAY_SECONDS_MAX):
    noun = "a delay"


class Remaining(Duration, most=VISIBILITY_SECONDS_MAX):
    noun = "a visibility timeout"


Reason = Annotated[
    str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX, description="Why; a dead letter has it in its headers.")
]
Offset = Annotated[int, msgspec.Meta(ge=0, le=OFFSET_MAX)]
Handle = Annotated[str, msgspec.Meta(max_length=400)]


class Receipts(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    receipt_handle: Handle | None = None
    receipt_handles: (
        Annotated[list[Handle], msgspec.Meta(description=f"At most {RECEIPTS_MAX:,} with one request.")] | None
    ) = None
    consumer_id: Annotated[
        MemberId | None, msgspec.Meta(description="The member; what is leased to another one is refused then.")
    ] = None


class NackRequest(Receipts, forbid_unknown_fields=True, kw_only=True):
    delay: Annotated[
        RetryDelay | None, msgspec.Meta(description="Before the next attempt; else it grows by itself.")
    ] = None
    reason: Reason | None = None


class RejectRequest(Receipts, forbid_unknown_fields=True, kw_only=True):
    reason: Reason | None = None


class VisibilityRequest(Receipts, forbid_unknown_fields=True, kw_only=True):
    timeout: Annotated[
        Remaining,
        msgspec.Meta(description="How long from now the message is lent still; 0 gives it back, which is no failure."),
    ]


class Result(msgspec.Struct, omit_defaults=True):
    """Of one receipt."""

    receipt_handle: str
    error: ErrorBody | None = None
    dlq_topic: str | None = None
    new_deadline: str | None = None


class Acknowledged(msgspec.Struct):
    acknowledged: Annotated[bool, msgspec.Meta(description="Whether all of them were.")]
    results: list[Result]


class Requeued(msgspec.Struct):
    requeued: Annotated[bool, msgspec.Meta(description="Whether all of them are tried again.")]
    results: list[Result]


class Rejected(msgspec.Struct):
    rejected: Annotated[bool, msgspec.Meta(description="Whether all of them were.")]
    dlq_topic: str | None
    results: list[Result]


class Extended(msgspec.Struct):
    extended: Annotated[bool, msgspec.Meta(description="Whether all of them were.")]
    new_deadline: str | None
    results: list[Result]


async def ack(call: Call) -> Acknowledged:
    results = await _settle_receipts(call, "ack")
    return Acknowledged(all(one.error is None for one in results), results)


async def nack(call: Call) -> Requeued:
    body: NackRequest = call.body
    delay_ns = None if body.delay is None else round(float(body.delay) * NANOSECONDS)
    results = await _settle_receipts(call, "nack", delay_ns=delay_ns, reason=_printable(body.reason))
    return Requeued(all(one.error is None and one.dlq_topic is None for one in results), results)


async def reject(call: Call) -> Rejected:
    results = await _settle_receipts(call, "reject", reason=_printable(call.body.reason))
    topic = next((one.dlq_topic for one in results if one.dlq_topic is not None), None)
    return Rejected(all(one.error is None for one in results), topic, results)


async def extend(call: Call) -> Extended:
    timeout_ns = round(float(call.body.timeout) * NANOSECONDS)
    results = await _settle_receipts(call, "extend" if timeout_ns else "release", timeout_ns=timeout_ns)
    deadline = next((one.new_deadline for one in results if one.new_deadline is not None), None)
    return Extended(all(one.error is None for one in results), deadline, results)


async def _settle_receipts(call: Call, verb: Verb, **said: Any) -> list[Result]:
    body: Receipts = call.body
    handles = body.receipt_handles or []
    if body.receipt_handle is not None:
        handles = [body.receipt_handle, *handles]
    if not handles:
        problem = {"place": "receipt_handle", "problem": "is missing"}
        raise RequestInvalid("receipt_handle is missing", hint="or receipt_handles, a list of them", problems=[problem])
    refuse_too_many(len(handles), "receipt handles")
    template = Statement(verb, "", 0, "", **said)
    settlement = call.runtime.broker.coordinator.settlement
    verdicts: list[Verdict] = []
    results: list[Result] = []
    while len(verdicts) < len(handles):
        some = handles[len(verdicts) : len(verdicts) + RECEIPTS_AT_ONCE]
        decided = await call.runtime.ask(partial(settlement.settle_receipts, some, body.consumer_id, template))
        results += map(_result, some, decided)
        verdicts += decided
    refusal = verdicts[0]
    if isinstance(refusal, GoQueueError) and all(isinstance(verdict, GoQueueError) for verdict in verdicts):
        raise refusal
    await _arrived(call, verdicts)
    return results


async def _arrived(call: Call, verdicts: list[Verdict]) -> None:
    """Whoever rejects a message finds it among the dead letters when that is answered."""
    moved = [one for verdict in verdicts if isinstance(verdict, Outcome) for one in verdict.moved]
    if moved:
        await call.runtime.groups.arrived(moved)


def _result(handle: str, verdict: Verdict) -> Result:
    if isinstance(verdict, GoQueueError):
        return Result(handle, ErrorBody(**told(verdict)))
    return Result(handle, None, verdict.dead_letter_topic, _deadline(verdict))


def refuse_too_many(count: int, what: str) -> None:
    """What comes together is settled in one go, so that it may not be more than the loop can take in."""
    if count > RECEIPTS_MAX:
        raise RequestInvalid(
            f"{count:,} {what} are too many for one request, which may have {RECEIPTS_MAX:,}",
            hint="send them in several requests",
            problems=[],
        )


def _printable(reason: str | None) -> str | None:
    """A reason is read by people, in places that obey what they are told: nothing in it may be an order."""
    if reason is None or reason.isprintable():
        return reason
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in reason)


def _deadline(outcome: Outcome) -> str | None:
    return None if outcome.until_ns is None else format_time(outcome.until_ns)


# --- whole leases ---


class LeaseRanges(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Messages of one lease, as ranges of offsets: the first, and the one behind the last."""

    topic: TopicName
    partition: Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX - 1)]
    lease: Handle
    ranges: Annotated[list[tuple[Offset, Offset]], msgspec.Meta(min_length=1)]


class NackedRanges(LeaseRanges, forbid_unknown_fields=True, kw_only=True):
    delay: RetryDelay | None = None
    reason: Reason | None = None


class RejectedRanges(LeaseRanges, forbid_unknown_fields=True, kw_only=True):
    reason: Reason | None = None


class Extension(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    topic: TopicName
    partition: Annotated[int, msgspec.Meta(ge=0, le=PARTITIONS_MAX - 1)]
    lease: Handle
    timeout: Visibility


class SettleRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """At most 10,000 ranges and extensions together, and as many messages rejected."""

    member_id: MemberId
    generation: Generation | None = None
    acks: list[LeaseRanges] = []
    nacks: list[NackedRanges] = []
    rejects: list[RejectedRanges] = []
    releases: list[LeaseRanges] = []
    extensions: list[Extension] = []


class Settled(msgspec.Struct, omit_defaults=True):
    """Of one entry."""

    error: ErrorBody | None = None
    requeued: bool | msgspec.UnsetType = msgspec.UNSET
    dead_letters: int | msgspec.UnsetType = msgspec.UNSET
    dlq_topic: str | None = None
    new_deadline: str | None = None


class SettleAnswer(msgspec.Struct):
    """One result for each entry, in their order."""

    acks: list[Settled]
    nacks: list[Settled]
    rejects: list[Settled]
    releases: list[Settled]
    extensions: list[Settled]


async def settle(call: Call) -> SettleAnswer:
    """All that a member has to say at once."""
    body: SettleRequest = call.body
    coordinator, name = call.runtime.broker.coordinator, call.parameters["group"]
    coordinator.membership.check(name, body.member_id, body.generation)
    check_ranges(
        {"acks": body.acks, "nacks": body.nacks, "rejects": body.rejects, "releases": body.releases},
        len(body.extensions),
    )
    refuse_too_many(sum(end - first for entry in body.rejects for first, end in entry.ranges), "rejected messages")
    statements = [
        *(statement("ack", one) for one in body.acks),
        *(statement("nack", one) for one in body.nacks),
        *(statement("reject", one) for one in body.rejects),
        *(statement("release", one) for one in body.releases),
        *(statement("extend", one) for one in body.extensions),
    ]
    verdicts = await call.runtime.ask(partial(coordinator.settlement.settle, name, body.member_id, statements))
    await _arrived(call, verdicts)
    left = iter([settled(one.verb, verdict) for one, verdict in zip(statements, verdicts, strict=True)])
    parts = (body.acks, body.nacks, body.rejects, body.releases, body.extensions)
    return SettleAnswer(*([next(left) for _ in part] for part in parts))


def check_ranges(parts: Mapping[str, Sequence[LeaseRanges]], others: int = 0) -> None:
    """As many as can be taken in together, each of them with something in it."""
    count = sum(len(entry.ranges) for entries in parts.values() for entry in entries)
    refuse_too_many(count + others, "ranges and extensions")
    for name, entries in parts.items():
        for number, entry in enumerate(entries):
            for index, (first, end) in enumerate(entry.ranges):
                if first >= end:
                    place, problem = f"{name}[{number}].ranges[{index}]", f"is [{first}, {end}], which holds nothing"
                    problems = [{"place": place, "problem": problem}]
                    hint = "a range is its first offset, and the one behind its last"
                    raise RequestInvalid(f"{place} {problem}", hint=hint, problems=problems)


def _apart(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """In their order, and none reaches into another: what is said twice is said."""
    found: list[Range] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return tuple(found)


def statement(verb: Verb, said: LeaseRanges | Extension) -> Statement:
    delay, timeout = getattr(said, "delay", None), getattr(said, "timeout", None)
    return Statement(
        verb,
        said.topic,
        said.partition,
        said.lease,
        _apart(said.ranges) if isinstance(said, LeaseRanges) else (),
        None if delay is None else round(float(delay) * NANOSECONDS),
        _printable(getattr(said, "reason", None)),
        0 if timeout is None else round(float(timeout) * NANOSECONDS),
    )


def settled(verb: Verb, verdict: Verdict) -> Settled:
    """What became of it."""
    if isinstance(verdict, GoQueueError):
        return Settled(ErrorBody(**told(verdict)))
    result = Settled(dlq_topic=verdict.dead_letter_topic, new_deadline=_deadline(verdict))
    if verb == "nack":
        result.requeued, result.dead_letters = verdict.requeued, len(verdict.moved)
    return result


# --- numbers ---


class ReliabilityStats(msgspec.Struct, kw_only=True):
    """Since the broker started, but for what is so now."""

    acks_total: int
    nacks_total: int
    rejects_total: int
    releases_total: int
    expiries_total: int
    dlq_messages: int
    visibility_extensions: int
    in_flight: Annotated[int, msgspec.Meta(description="Messages that members have now.")]
    waiting: Annotated[int, msgspec.Meta(description="Messages that are to be handed out again.")]
    pledged: Annotated[
        int, msgspec.Meta(description="Messages acknowledged in transactions that have not come to their end.")
    ]
    oldest_unacked_seconds: Annotated[
        float, msgspec.Meta(description="How long ago the oldest lease that stands was given.")
    ]


async def stats(call: Call) -> ReliabilityStats:
    coordinator = call.runtime.broker.coordinator
    counts, now_ns = coordinator.settlement.counts, coordinator.clock.now_ns()
    in_flight = waiting = pledged = 0
    oldest_ns = now_ns
    for shelf in coordinator.ledger.shelves:
        for cursors in shelf.state.cursors.values():
            for cursor in cursors.values():
                in_flight += cursor.leased
                waiting += cursor.waiting.count
                pledged += cursor.pledged.count
                oldest_ns = min([oldest_ns, *(lease.grant.given_ns for lease in cursor.leases.values())])
    return ReliabilityStats(
        acks_total=counts.acks,
        nacks_total=counts.nacks,
        rejects_total=counts.rejects,
        releases_total=counts.releases,
        expiries_total=counts.expiries,
        dlq_messages=counts.dead_letters,
        visibility_extensions=counts.extensions,
        in_flight=in_flight,
        waiting=waiting,
        pledged=pledged,
        oldest_unacked_seconds=round((now_ns - oldest_ns) / NANOSECONDS, 3),
    )
