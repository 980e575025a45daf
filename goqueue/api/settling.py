"""Settling: acks, nacks and rejects, by receipt handle or by ranges of leases."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec

from goqueue.api.access import UNRESTRICTED
from goqueue.api.delivery import Visibility
from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Duration, Generation, MemberId, Offset, PartitionNumber, TopicName
from goqueue.api.http.error_responses import ErrorJson, error_json
from goqueue.api.problems import invalid
from goqueue.broker.core.open_transactions import TransactionId
from goqueue.broker.groups.records import Range
from goqueue.broker.groups.settle_commands import SettleAction, SettleCommand, lease_expired, parse_receipt_handle
from goqueue.broker.groups.settlement import SettleCommandReply, SettleCommandResult
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError, RequestInvalid
from goqueue.limits import (
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
    str, msgspec.Meta(max_length=REASON_CHARACTERS_MAX, description="The reason; a dead letter has it in its headers.")
]
_NO_TRANSACTION = TransactionId(-1, -1)
"""Receipt handles of leases that are still held need none."""
Handle = Annotated[str, msgspec.Meta(max_length=400)]


class AckRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    receipt_handle: Handle | None = None
    receipt_handles: (
        Annotated[list[Handle], msgspec.Meta(description=f"At most {RECEIPTS_MAX:,} with one request.")] | None
    ) = None
    consumer_id: Annotated[
        MemberId | None, msgspec.Meta(description="The member; messages leased to another member are refused.")
    ] = None


class NackRequest(AckRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    delay: Annotated[
        RetryDelay | None, msgspec.Meta(description="Delay before the next attempt. Default: grows with each attempt.")
    ] = None
    reason: Reason | None = None


class RejectRequest(AckRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    reason: Reason | None = None


class VisibilityRequest(AckRequest, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    timeout: Annotated[
        Remaining, msgspec.Meta(description="Lease time from now; 0 releases the message, without counting a failure.")
    ]


class ReceiptResult(msgspec.Struct, omit_defaults=True):
    receipt_handle: str
    error: ErrorJson | None = None
    dlq_topic: str | None = None
    dropped: Annotated[bool, msgspec.Meta(description="It was given up, and there is no dead-letter topic.")] = False
    new_deadline: str | None = None


class AckResponse(msgspec.Struct):
    acknowledged: Annotated[bool, msgspec.Meta(description="Whether all of them were.")]
    results: list[ReceiptResult]


class NackResponse(msgspec.Struct):
    requeued: Annotated[bool, msgspec.Meta(description="Whether all of them are retried.")]
    results: list[ReceiptResult]


class RejectResponse(msgspec.Struct):
    rejected: Annotated[bool, msgspec.Meta(description="Whether all of them were.")]
    dlq_topic: str | None
    results: list[ReceiptResult]


class VisibilityResponse(msgspec.Struct):
    extended: Annotated[bool, msgspec.Meta(description="Whether all of them were.")]
    new_deadline: str | None
    results: list[ReceiptResult]


async def ack(call: ApiCall, body: AckRequest) -> AckResponse:
    results = await _settle_receipts(call, body, "ack")
    return AckResponse(all(one.error is None for one in results), results)


async def nack(call: ApiCall, body: NackRequest) -> NackResponse:
    delay_ns = None if body.delay is None else round(float(body.delay) * NANOSECONDS)
    results = await _settle_receipts(call, body, "nack", delay_ns=delay_ns, reason=_printable(body.reason))
    is_requeued = (one.error is None and one.dlq_topic is None and not one.dropped for one in results)
    return NackResponse(all(is_requeued), results)


async def reject(call: ApiCall, body: RejectRequest) -> RejectResponse:
    results = await _settle_receipts(call, body, "reject", reason=_printable(body.reason))
    topic = next((one.dlq_topic for one in results if one.dlq_topic is not None), None)
    return RejectResponse(all(one.error is None for one in results), topic, results)


async def extend(call: ApiCall, body: VisibilityRequest) -> VisibilityResponse:
    timeout_ns = round(float(body.timeout) * NANOSECONDS)
    results = await _settle_receipts(call, body, "extend" if timeout_ns else "release", timeout_ns=timeout_ns)
    deadline = next((one.new_deadline for one in results if one.new_deadline is not None), None)
    return VisibilityResponse(all(one.error is None for one in results), deadline, results)


async def _settle_receipts(call: ApiCall, body: AckRequest, verb: SettleAction, **said: Any) -> list[ReceiptResult]:
    handles = body.receipt_handles or []
    if body.receipt_handle is not None:
        handles = [body.receipt_handle, *handles]
    if not handles:
        raise invalid("receipt_handle", "is missing", "send receipt_handle, or receipt_handles with a list")
    refuse_too_many(len(handles), "receipt handles")
    check_groups_of(call, handles)
    template = SettleCommand(verb, "", 0, "", **said)
    groups = call.runtime.broker.groups
    verdicts: list[SettleCommandReply] = []
    results: list[ReceiptResult] = []
    while len(verdicts) < len(handles):
        some = handles[len(verdicts) : len(verdicts) + RECEIPTS_AT_ONCE]
        decided = await call.runtime.ask(partial(groups.settle_receipts, some, body.consumer_id, template))
        results += map(_result, some, decided)
        verdicts += decided
    refusal = verdicts[0]
    if isinstance(refusal, GoQueueError) and all(isinstance(verdict, GoQueueError) for verdict in verdicts):
        raise refusal
    await _arrived(call, verdicts)
    return results


def check_groups_of(call: ApiCall, handles: Sequence[str]) -> None:
    """Check the groups of receipt handles. An invalid one has none, and is refused later."""
    if call.access is UNRESTRICTED:
        return
    check_lease_groups(call, call.runtime.broker.groups.groups_of_receipts(handles, _NO_TRANSACTION), handles)


def check_lease_groups(call: ApiCall, groups: Iterable[str], handles: Sequence[str]) -> None:
    """Check the groups that hold leases. A lease of another world does not exist."""
    for group in groups:
        if not call.access.reaches(group):
            receipt = parse_receipt_handle(handles[0])
            raise lease_expired(f"message {receipt.ref}@{receipt.offset}")
        call.access.require("read", "group", group)


async def _arrived(call: ApiCall, verdicts: list[SettleCommandReply]) -> None:
    """Wait until rejected messages are in their dead-letter queues."""
    moved = [one for verdict in verdicts if isinstance(verdict, SettleCommandResult) for one in verdict.moved]
    if moved:
        await call.runtime.groups.arrived(moved)


def _result(handle: str, verdict: SettleCommandReply) -> ReceiptResult:
    if isinstance(verdict, GoQueueError):
        return ReceiptResult(handle, error_json(verdict))
    return ReceiptResult(handle, None, verdict.dead_letter_topic, verdict.dropped > 0, _deadline(verdict))


def refuse_too_many(count: int, what: str) -> None:
    """Raise RequestInvalid for more entries than the event loop can settle at once."""
    if count > RECEIPTS_MAX:
        raise RequestInvalid(
            f"{count:,} {what} are too many for one request, which may have {RECEIPTS_MAX:,}",
            hint="send them in several requests",
            problems=[],
        )


def _printable(reason: str | None) -> str | None:
    """Replace characters that a terminal would obey."""
    if reason is None or reason.isprintable():
        return reason
    return "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in reason)


def _deadline(outcome: SettleCommandResult) -> str | None:
    return None if outcome.until_ns is None else format_time(outcome.until_ns)


# --- whole leases ---


class LeaseRanges(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Ranges of offsets of one lease: the first, and the one after the last."""

    topic: TopicName
    partition: PartitionNumber
    lease: Handle
    ranges: Annotated[list[tuple[Offset, Offset]], msgspec.Meta(min_length=1)]


class NackedRanges(LeaseRanges, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    delay: RetryDelay | None = None
    reason: Reason | None = None


class RejectedRanges(LeaseRanges, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    reason: Reason | None = None


class Extension(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    topic: TopicName
    partition: PartitionNumber
    lease: Handle
    timeout: Visibility


class SettleRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """At most 10,000 ranges and extensions together, and at most 10,000 rejected messages."""

    member_id: MemberId
    generation: Generation | None = None
    acks: list[LeaseRanges] = []
    nacks: list[NackedRanges] = []
    rejects: list[RejectedRanges] = []
    releases: list[LeaseRanges] = []
    extensions: list[Extension] = []


class SettleResult(msgspec.Struct, omit_defaults=True):
    error: ErrorJson | None = None
    requeued: bool | msgspec.UnsetType = msgspec.UNSET
    dead_letters: int | msgspec.UnsetType = msgspec.UNSET
    dropped: Annotated[int, msgspec.Meta(description="Given up, and there is no dead-letter topic.")] = 0
    dlq_topic: str | None = None
    new_deadline: str | None = None


class SettleResponse(msgspec.Struct):
    """One result for each entry, in order."""

    acks: list[SettleResult]
    nacks: list[SettleResult]
    rejects: list[SettleResult]
    releases: list[SettleResult]
    extensions: list[SettleResult]


async def settle(call: ApiCall, body: SettleRequest) -> SettleResponse:
    """Settle messages of one member by ranges of leases."""
    name = call.parameters["group"]
    coordinator = call.runtime.broker.groups.of(name)
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
    left = iter([settled(one.action, verdict) for one, verdict in zip(statements, verdicts, strict=True)])
    parts = (body.acks, body.nacks, body.rejects, body.releases, body.extensions)
    return SettleResponse(*([next(left) for _ in part] for part in parts))


def check_ranges(parts: Mapping[str, Sequence[LeaseRanges]], others: int = 0) -> None:
    """Raise RequestInvalid for too many or for empty ranges."""
    count = sum(len(entry.ranges) for entries in parts.values() for entry in entries)
    refuse_too_many(count + others, "ranges and extensions")
    for name, entries in parts.items():
        for number, entry in enumerate(entries):
            for index, (first, end) in enumerate(entry.ranges):
                if first >= end:
                    place, hint = (
                        f"{name}[{number}].ranges[{index}]",
                        "a range is its first offset, and the one after its last",
                    )
                    raise invalid(place, f"is [{first}, {end}], which is empty", hint)


def _apart(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Return the ranges sorted, with overlapping ones merged."""
    found: list[Range] = []
    for first, end in sorted(ranges):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((first, end))
    return tuple(found)


def statement(verb: SettleAction, said: LeaseRanges | Extension) -> SettleCommand:
    delay, timeout = getattr(said, "delay", None), getattr(said, "timeout", None)
    return SettleCommand(
        verb,
        said.topic,
        said.partition,
        said.lease,
        _apart(said.ranges) if isinstance(said, LeaseRanges) else (),
        None if delay is None else round(float(delay) * NANOSECONDS),
        _printable(getattr(said, "reason", None)),
        0 if timeout is None else round(float(timeout) * NANOSECONDS),
    )


def settled(verb: SettleAction, verdict: SettleCommandReply) -> SettleResult:
    if isinstance(verdict, GoQueueError):
        return SettleResult(error_json(verdict))
    result = SettleResult(dropped=verdict.dropped, dlq_topic=verdict.dead_letter_topic, new_deadline=_deadline(verdict))
    if verb == "nack":
        result.requeued, result.dead_letters = verdict.requeued, len(verdict.moved)
    return result


# --- numbers ---
