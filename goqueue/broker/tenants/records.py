"""Records of tenants, and the state that they make. Each is a complete entry: the latest one of a tenant counts."""

from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from goqueue.storage import frame

TenantStatus = Literal["active", "suspended", "disabled", "deleting"]
TenantAction = Literal["suspend", "activate", "disable", "delete"]

TRANSITIONS: Final[dict[tuple[TenantStatus, TenantAction], TenantStatus]] = {
    ("active", "suspend"): "suspended",
    ("active", "disable"): "disabled",
    ("suspended", "activate"): "active",
    ("suspended", "disable"): "disabled",
    ("disabled", "activate"): "active",
    ("disabled", "suspend"): "suspended",
    ("active", "delete"): "deleting",
    ("suspended", "delete"): "deleting",
    ("disabled", "delete"): "deleting",
}
MEANINGS: Final[dict[TenantStatus, str]] = {
    "active": "everything that its keys may do",
    "suspended": "only lists and descriptions: nothing is published, consumed, created, changed or deleted",
    "disabled": "no request at all; its data stays",
    "deleting": "no request at all; its data is being deleted, also after a restart",
}
REACHED: Final[dict[TenantAction, TenantStatus]] = {"suspend": "suspended", "activate": "active", "disable": "disabled"}
"""The status after an action; a tenant that has it already stays as it is."""


class TenantRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="tenant", tag_field="record"):
    """A tenant."""

    id: str
    name: str
    display_name: str = ""
    description: str = ""
    metadata: dict[str, str] = {}
    status: TenantStatus = "active"
    reason: str = ""
    """Why it has this status, as the operator has written."""
    status_ns: int = 0
    """Since when it has this status."""
    quotas: dict[str, Any] = {}
    """Quotas that differ from the defaults of the broker."""
    created_ns: int = 0
    created_by: str = ""
    changed_ns: int = 0


class TenantDeleted(msgspec.Struct, frozen=True, tag="tenant_deleted", tag_field="record"):
    """A tenant and all its data were deleted."""

    id: str


TenantLogRecord = TenantRecord | TenantDeleted
_DECODER = msgspec.json.Decoder(TenantLogRecord)


def encode_tenant_record(record: TenantLogRecord) -> bytes:
    flags = frame.TOMBSTONE if isinstance(record, TenantDeleted) else 0
    return frame.encode(msgspec.json.encode(record), f"tenant:{record.id}".encode(), flags=flags)


def decode_tenant_record(message: frame.StoredMessage) -> TenantLogRecord:
    record: TenantLogRecord = _DECODER.decode(message.value)
    return record


class TenantState:
    """All tenants, changed by records only."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.tenants: dict[str, TenantRecord] = {}
        """By id."""

    def note_loss(self, count: int) -> None:
        """Nothing is numbered, so nothing is skipped."""

    def apply(self, record: TenantLogRecord) -> None:
        if isinstance(record, TenantDeleted):
            self.tenants.pop(record.id, None)
        else:
            self.tenants[record.id] = record

    def records(self) -> Iterator[TenantLogRecord]:
        yield from self.tenants.values()
