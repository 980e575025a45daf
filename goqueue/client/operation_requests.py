"""The client's methods for operations: what operators changed, and how it is undone."""

from typing import Any

import msgspec

from goqueue.client import api_request
from goqueue.client.api_request import ApiRequest, json_request, with_query


class OperationInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A change that an operator made."""

    id: int
    time: str
    """In RFC 3339."""
    kind: str
    """group_reset, group_deleted, group_restored, group_altered, topic_created, topic_altered, topic_scaled,
    topic_deleted, delayed_rescheduled, delayed_cancelled or redrive.
    """
    subject: str
    """The name of the group or topic."""
    summary: str
    state: str = "done"
    """running, done, or unknown: the broker stopped meanwhile, and it cannot be told whether it happened."""
    client: str = ""
    """Who did it: program, user and machine."""
    address: str = ""
    undoable: bool = False
    reason: str | None = None
    """Why it cannot be undone."""
    undoes: int | None = None
    undone_by: int | None = None
    undone_at: str | None = None
    node: str | None = None
    """The node of a cluster that recorded it; each has its own operations."""
    changes: dict[str, Any] = {}
    """`offsets`, `settings`, `due_times` or `moves`, each a list; empty in lists of operations."""
    omitted: int = 0
    """The number of changes that are not listed, because there were too many."""


class UndoResult(msgspec.Struct, frozen=True, kw_only=True):
    """The changes that undo an operation, or have undone it."""

    undoes: int
    dry_run: bool
    operation: int | None
    """The id of the operation that this is; None for a dry run."""
    subject: str
    summary: str
    """What is undone."""
    changes: dict[str, Any]
    """As in an operation, from now to then."""
    notes: list[str]
    """What cannot be restored."""


class OperationAdmin:
    """Changes that operators made, and their undo."""

    @api_request.operation
    def operations(
        self, limit: int = 100, *, kind: str | None = None, subject: str | None = None
    ) -> ApiRequest[list[OperationInfo]]:
        """Return what operators changed, the newest first; `subject` is a group or topic."""
        path = with_query("/operations", limit=limit, kind=kind, subject=subject)
        return json_request("GET", path, list[OperationInfo], field="operations")

    @api_request.operation
    def operation(self, number: int) -> ApiRequest[OperationInfo]:
        """Return an operation with its changes."""
        return json_request("GET", f"/operations/{number}", OperationInfo)

    @api_request.operation
    def undo(self, number: int, *, dry_run: bool = False, force: bool = False) -> ApiRequest[UndoResult]:
        """Undo an operation; with `dry_run` return what that would change.

        `OperationOutdated` is raised where it would do harm, because what the operation changed has changed since;
        `force` undoes it all the same. Undoing is an operation, so it can be undone itself.
        """
        hint = "client.operations() shows whether it was undone"
        body = {"dry_run": dry_run, "force": force}
        return json_request(
            "POST", f"/operations/{number}/undo", UndoResult, body, idempotent=dry_run, unsure_hint=hint
        )
