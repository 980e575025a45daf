"""Operations: what operators changed, who did it, and how it is undone."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.broker.operations.records import Author, Operation, OperationKind, OperationState
from goqueue.broker.operations.undo import UndoPlan, why_final
from goqueue.errors import OperationNotFound
from goqueue.limits import OPERATION_CLIENT_CHARACTERS_MAX, OPERATIONS_MAX, TOPIC_NAME_CHARACTERS_MAX
from goqueue.quantities import format_time, quoted

OperationId = Annotated[int | None, Meta(description="The id of this operation in GET /operations; null: none.")]
"""The field of an answer to a request that is recorded."""


class OperationListQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=OPERATIONS_MAX, description="The most in an answer.")] = 100
    kind: OperationKind | None = None
    subject: (
        Annotated[str, Meta(max_length=TOPIC_NAME_CHARACTERS_MAX, description="The name of a group or topic.")] | None
    ) = None


class OffsetChangeJson(Struct):
    topic: str
    partition: int
    before: Annotated[int | None, Meta(description="null: no offset.")]
    after: int | None


class SettingChangeJson(Struct):
    setting: str
    before: Any
    after: Any


class DueChangeJson(Struct):
    partition: int
    offset: Annotated[int, Meta(description="Of the delayed message.")]
    before: str
    after: Annotated[str | None, Meta(description="null: cancelled.")]


class MessageMovesJson(Struct):
    partition: int
    first: int
    end: Annotated[int, Meta(description="The offset behind the last one.")]
    target_topic: str
    target_partition: int


class ChangesJson(Struct, omit_defaults=True, kw_only=True):
    offsets: list[OffsetChangeJson] = []
    settings: list[SettingChangeJson] = []
    due_times: list[DueChangeJson] = []
    moves: list[MessageMovesJson] = []


class OperationSummaryJson(Struct, kw_only=True):
    id: int
    time: str
    kind: OperationKind
    subject: Annotated[str, Meta(description="The group or topic.")]
    summary: str
    state: Annotated[
        OperationState,
        Meta(description="unknown: the broker stopped meanwhile, and it cannot be told whether it happened."),
    ]
    client: Annotated[str, Meta(description="The `user-agent` of the client: program, user and machine.")]
    address: Annotated[str, Meta(description="The address of the client.")]
    undoable: bool
    reason: Annotated[str | None, Meta(description="Why it cannot be undone.")]
    undoes: Annotated[int | None, Meta(description="The operation that this one undoes.")]
    undone_by: int | None
    undone_at: str | None
    node: Annotated[
        str | None, Meta(description="The node of a cluster that recorded it: each has its own. null: a broker alone.")
    ] = None


class OperationResponse(OperationSummaryJson, kw_only=True):
    changes: ChangesJson
    omitted: Annotated[int, Meta(description="How many changes are not listed, because there were too many.")]


class OperationListResponse(Struct):
    operations: list[OperationSummaryJson]


class UndoRequest(Struct, forbid_unknown_fields=True, omit_defaults=True):
    dry_run: Annotated[bool, Meta(description="Return the plan, change nothing.")] = False
    force: Annotated[bool, Meta(description="Undo it although what it changed has changed since.")] = False


class UndoResponse(Struct):
    undoes: int
    dry_run: bool
    operation: OperationId
    subject: str
    summary: Annotated[str, Meta(description="What is undone.")]
    changes: Annotated[ChangesJson, Meta(description="Before: as it is now; after: as it is then.")]
    notes: Annotated[list[str], Meta(description="What cannot be restored, in sentences.")]


def author_of(call: ApiCall) -> Author:
    client = call.request.headers.get("user-agent", "")[:OPERATION_CLIENT_CHARACTERS_MAX]
    return Author("".join(one if one.isprintable() else "?" for one in client), call.request.peer.rpartition(":")[0])


async def browse(call: ApiCall, query: OperationListQuery) -> OperationListResponse:
    found = [
        one
        for one in call.runtime.broker.operations.newest()
        if query.kind in (None, one.kind) and query.subject in (None, one.subject)
    ]
    node = own_node(call)
    return OperationListResponse([OperationSummaryJson(**_summary(one), node=node) for one in found[: query.limit]])


def own_node(call: ApiCall) -> str | None:
    """Return the id of this node of a cluster; None for a broker alone."""
    return None if call.app.cluster is None else call.app.cluster.settings.node


async def describe(call: ApiCall) -> OperationResponse:
    operation = call.runtime.broker.operations.operation(_number(call))
    return OperationResponse(
        **_summary(operation), node=own_node(call), changes=_changes(operation), omitted=operation.omitted
    )


def _check_subject(call: ApiCall, operation: Operation) -> None:
    """Check the right to change what an operation is about: to undo it changes that."""
    if operation.kind.startswith("group_"):
        call.access.require("alter", "group", operation.subject)
        for topic in operation.topics:
            call.access.require("describe", "topic", topic)
    else:
        call.access.require("alter", "topic", operation.subject)


async def undo(call: ApiCall, body: UndoRequest) -> UndoResponse:
    """Undo an operation, which is an operation itself."""
    call.runtime.refuse_while_stopping()
    rules = call.runtime.broker.undo
    plan: UndoPlan = await call.runtime.perform(rules.plan(_number(call), force=body.force))
    _check_subject(call, plan.operation)
    number = None if body.dry_run else await call.runtime.perform(rules.undo(author_of(call), plan))
    operation = plan.operation
    return UndoResponse(
        operation.id, body.dry_run, number, operation.subject, operation.summary, _changes(plan), plan.notes
    )


def _number(call: ApiCall) -> int:
    text = call.parameters["operation"]
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text)
    raise OperationNotFound(f"{quoted(text)} is not the id of an operation", hint="ids are whole numbers from 1 on")


def _summary(operation: Operation) -> dict[str, Any]:
    reason = why_final(operation)
    return {
        "id": operation.id,
        "time": format_time(operation.time_ns),
        "kind": operation.kind,
        "subject": operation.subject,
        "summary": operation.summary,
        "state": operation.state,
        "client": operation.author.client,
        "address": operation.author.address,
        "undoable": reason is None,
        "reason": reason,
        "undoes": operation.undoes,
        "undone_by": operation.undone_by,
        "undone_at": format_time(operation.undone_ns) if operation.undone_ns else None,
    }


def _changes(found: Operation | UndoPlan) -> ChangesJson:
    return ChangesJson(
        offsets=[OffsetChangeJson(*one) for one in found.offsets],
        settings=[SettingChangeJson(*one) for one in found.settings],
        due_times=[
            DueChangeJson(
                one.partition,
                one.offset,
                format_time(one.before_ns),
                None if one.after_ns is None else format_time(one.after_ns),
            )
            for one in found.dues
        ],
        moves=[MessageMovesJson(*one) for one in found.moves] if isinstance(found, Operation) else [],
    )
