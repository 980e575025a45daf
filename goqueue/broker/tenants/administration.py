"""Changes of tenants: decided, recorded in the log `__tenants`, and in force at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Work, no_work
from goqueue.broker.tenants.limits import TENANTS_MAX
from goqueue.broker.tenants.naming import check_tenant_id, id_from_name, prefix_of, tenant_of
from goqueue.broker.tenants.records import (
    REACHED,
    TRANSITIONS,
    TenantAction,
    TenantDeleted,
    TenantLogRecord,
    TenantRecord,
    TenantState,
    decode_tenant_record,
    encode_tenant_record,
)
from goqueue.broker.tenants.refusals import TenantRefusals
from goqueue.broker.tenants.removal import OwnedResources, TenantContents, contents_of, remove_contents
from goqueue.clock import Clock
from goqueue.errors import (
    GoQueueError,
    RequestInvalid,
    TenantBeingDeleted,
    TenantDisabled,
    TenantExists,
    TenantNotFound,
    TenantSuspended,
)
from goqueue.events import Signal
from goqueue.nearest import nearest
from goqueue.quantities import format_count, quoted
from goqueue.storage.disk import Disk


class TenantAdministration:
    """All tenants of a broker. Methods that change something are work; see `goqueue.broker.core.work`."""

    def __init__(self, partition: Partition, disk: Disk, clock: Clock, broker: OwnedResources) -> None:
        self.state = TenantState()
        self.journal: Journal[TenantLogRecord] = Journal(
            partition, disk, self.state, encode_tenant_record, decode_tenant_record, snapshots=False
        )
        self._clock = clock
        self._broker = broker
        self.refusals = TenantRefusals(clock)
        """Requests of tenants that are not active."""
        self.remove_elsewhere: Callable[[str], Work[None]] = no_work
        """Has the other nodes of a cluster delete what they coordinate for a tenant."""
        self.on_change: Signal[[]] = Signal()
        """Emitted when a tenant was created, changed or deleted."""
        self.on_interrupted: Signal[[]] = Signal()
        """Emitted when a deletion has failed after it had begun: the owner calls `resume`."""

    def _record(self, records: Sequence[TenantLogRecord]) -> Work[None]:
        return self.journal.recorded(records, self.on_change.emit)

    def tenant(self, tenant: str) -> TenantRecord:
        """Return a tenant by its id."""
        found = self.state.tenants.get(tenant)
        if found is None:
            meant = nearest(tenant, list(self.state.tenants))
            hint = f"did you mean {meant}?" if meant else "GET /admin/tenants lists them"
            raise TenantNotFound(f"there is no tenant {quoted(tenant[:200])}", hint=hint)
        return found

    def owner_of(self, name: str) -> str:
        """Return the id of the tenant that a full name belongs to; empty if it belongs to none."""
        tenant = tenant_of(name)
        return tenant if tenant in self.state.tenants else ""

    def contents(self, tenant: str) -> TenantContents:
        """Return what belongs to a tenant."""
        return contents_of(self._broker, self.tenant(tenant).id)

    # --- changes ---

    def create(self, draft: TenantRecord, author: str, *, adopt: bool = False) -> Work[TenantRecord]:
        """Create a tenant; without an id, that is made from its name.

        Names that begin with its prefix would become the tenant's, which needs `adopt`.
        """
        tenant = draft.id or id_from_name(draft.name)
        check_tenant_id(tenant)
        if tenant in self.state.tenants:
            raise TenantExists(f"there is a tenant {quoted(tenant)}", hint="send another id")
        if len(self.state.tenants) >= TENANTS_MAX:
            raise RequestInvalid(
                f"there are {TENANTS_MAX:,} tenants, the most possible", hint="delete some first", problems=[]
            )
        if not adopt:
            self._refuse_taken(tenant)
        now_ns = self._clock.now_ns()
        record = replace(draft, id=tenant, status_ns=now_ns, created_ns=now_ns, created_by=author, changed_ns=now_ns)
        yield from self._record([record])
        return record

    def _refuse_taken(self, tenant: str) -> None:
        found = contents_of(self._broker, tenant)
        if found.is_empty:
            return
        names = [*found.topics, *found.groups, *found.subjects, *found.transactional_ids]
        raise TenantExists(
            f"names that begin with {prefix_of(tenant)} are in use: {quoted(names[0])}"
            + (f" and {len(names) - 1:,} more" if len(names) > 1 else ""),
            hint="send another id, or adopt=true to give the tenant all that has such a name",
        )

    def adopt(self, records: Sequence[TenantLogRecord]) -> Work[list[tuple[int, str]]]:
        """Take tenants that a node had before its cluster shared them; return which are not taken, and why."""
        taken: list[TenantLogRecord] = []
        clashes = []
        for index, record in enumerate(records):
            known = self.state.tenants.get(record.id)
            if known is None and len(self.state.tenants) + len(taken) < TENANTS_MAX:
                taken.append(record)
            elif known != record:
                clashes.append((index, f"the cluster has another tenant with the id {record.id}"))
        yield from self._record(taken)
        return clashes

    def update(self, tenant: str, changes: Mapping[str, Any]) -> Work[TenantRecord]:
        """Change fields of a tenant's record."""
        former = self._changeable(tenant)
        record = replace(former, **changes, changed_ns=self._clock.now_ns())
        yield from self._record([record])
        return record

    def set_status(self, tenant: str, action: TenantAction, reason: str = "") -> Work[TenantRecord]:
        """Suspend, activate or disable a tenant. One that has the status already stays as it is."""
        former = self._changeable(tenant)
        if former.status == REACHED[action]:
            yield from self._record([])  # it may not be durable yet
            return former
        return (yield from self._set(former, action, reason))

    def _set(self, former: TenantRecord, action: TenantAction, reason: str = "") -> Work[TenantRecord]:
        now_ns = self._clock.now_ns()
        status = TRANSITIONS[former.status, action]
        record = replace(former, status=status, reason=reason, status_ns=now_ns, changed_ns=now_ns)
        yield from self._record([record])
        return record

    def _changeable(self, tenant: str) -> TenantRecord:
        found = self.tenant(tenant)
        if found.status == "deleting":
            raise TenantBeingDeleted(
                f"tenant {quoted(tenant)} is being deleted", hint="wait until GET /admin/tenants does not list it"
            )
        return found

    def delete(self, tenant: str, deleted: Callable[[str], object] = lambda _: None) -> Work[TenantContents]:
        """Delete a tenant with all its data, and return what that was.

        It is refused to everyone from the first record on; `resume` continues after a crash.
        """
        former = self._changeable(tenant)
        contents = contents_of(self._broker, tenant)
        yield from self._set(former, "delete")
        try:
            yield from self._remove(tenant, deleted)
        except GoQueueError:
            self.on_interrupted.emit()
            raise
        return contents

    def _remove(self, tenant: str, deleted: Callable[[str], object]) -> Work[None]:
        yield from remove_contents(self._broker, tenant, deleted)
        yield from self.remove_elsewhere(tenant)
        yield from self._record([TenantDeleted(tenant)])

    def resume(self, deleted: Callable[[str], object] = lambda _: None) -> Work[None]:
        """Finish the deletions that a crash or a failure has interrupted."""
        for tenant in [one.id for one in self.state.tenants.values() if one.status == "deleting"]:
            yield from self._remove(tenant, deleted)

    # --- admission ---

    def may_make(self, tenant: str, *, describes: bool) -> bool:
        """Return whether a tenant may make a request; a suspended one only if that `describes`."""
        found = self.state.tenants.get(tenant)
        return found is not None and (found.status == "active" or (found.status == "suspended" and describes))

    def admit(self, tenant: str, *, describes: bool) -> TenantRecord:
        """Return a tenant that may make a request; a suspended one only if that `describes`."""
        found = self.tenant(tenant)
        if self.may_make(tenant, describes=describes):
            return found
        self.refusals.note(tenant)
        why = f": {found.reason}" if found.reason else ""
        if found.status == "suspended":
            raise TenantSuspended(
                f"tenant {quoted(tenant)} is suspended{why}",
                hint="an operator can activate it; until then only lists and descriptions are answered",
                tenant=tenant,
            )
        state, hint = "disabled", "an operator can activate it"
        if found.status == "deleting":
            state, hint = "being deleted", "nothing of it can be restored; an operator can make another tenant"
        raise TenantDisabled(f"tenant {quoted(tenant)} is {state}{why}", hint=hint, tenant=tenant)

    def __repr__(self) -> str:
        return f"<TenantAdministration of {format_count(len(self.state.tenants), 'tenant')}>"
