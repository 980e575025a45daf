"""Records of the schema registry. Each is a complete entry: the latest one of a key of the log counts.

Versions are many and have no cycles, so the garbage collector does not look at them (`gc=False`).
"""

import hashlib
from typing import Any

import msgspec

from goqueue.storage import frame


class ReferenceRecord(msgspec.Struct, frozen=True, gc=False):
    """A name in a schema, and the version of a subject that it stands for."""

    name: str
    subject: str
    version: int


class SchemaContent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The schema of an id, with all that makes it another one: an id never stands for two of them."""

    kind: str
    """A `SchemaKind`."""
    text: str
    """The canonical text."""
    references: tuple[ReferenceRecord, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    tenant: str = ""
    """The tenant of its subjects: those of another one get another id for an equal schema, and so learn nothing."""

    def digest(self) -> bytes:
        """Return the SHA-256 by which equal schemas are found."""
        return hashlib.sha256(msgspec.json.encode(self, order="deterministic")).digest()


class VersionRecord(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag="version", tag_field="record"
):
    """A version of a subject, with its schema: other versions with the same id may be deleted."""

    subject: str
    version: int
    id: int
    digest: bytes
    content: SchemaContent
    deleted: bool = False
    """Soft-deleted: shown only on request, and its number and id stay in use."""


def guid_of(digest: bytes) -> str:
    """Return the GUID of a schema, a UUID of version 8 made of its digest: equal schemas have it in every registry."""
    text = digest[:16].hex()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-8{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


class VersionDeleted(msgspec.Struct, frozen=True, tag="version_deleted", tag_field="record"):
    """A version was deleted permanently."""

    subject: str
    version: int


class SchemaIdRetired(msgspec.Struct, frozen=True, omit_defaults=True, tag="id_retired", tag_field="record"):
    """No version has this id any more. It is given only to an equal schema again."""

    id: int
    digest: bytes = b""


class ConfigRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="config", tag_field="record"):
    """The configuration of a subject; of all subjects if the name is empty."""

    subject: str = ""
    level: str | None = None
    """A `CompatibilityLevel`."""
    normalize: bool | None = None


class ConfigDeleted(msgspec.Struct, frozen=True, tag="config_deleted", tag_field="record"):
    subject: str


class ModeRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="mode", tag_field="record"):
    """The mode of a subject; of all subjects if the name is empty."""

    subject: str = ""
    mode: str


class ModeDeleted(msgspec.Struct, frozen=True, tag="mode_deleted", tag_field="record"):
    subject: str


RegistryRecord = (
    VersionRecord | VersionDeleted | SchemaIdRetired | ConfigRecord | ConfigDeleted | ModeRecord | ModeDeleted
)
_DECODER = msgspec.json.Decoder(RegistryRecord)
_DELETIONS = (VersionDeleted, ConfigDeleted, ModeDeleted)


def encode_registry_record(record: RegistryRecord) -> bytes:
    flags = frame.TOMBSTONE if isinstance(record, _DELETIONS) else 0
    return frame.encode(msgspec.json.encode(record, order="deterministic"), _log_key(record), flags=flags)


def _log_key(record: RegistryRecord) -> bytes:
    """Return the key of a record in the log: compaction keeps the latest of each."""
    if isinstance(record, VersionRecord | VersionDeleted):
        return f"version:{record.version}:{record.subject}".encode()
    if isinstance(record, SchemaIdRetired):
        return b"id:%d" % record.id
    kind = "config" if isinstance(record, ConfigRecord | ConfigDeleted) else "mode"
    return f"{kind}:{record.subject}".encode()


def decode_registry_record(message: frame.StoredMessage) -> RegistryRecord:
    record: RegistryRecord = _DECODER.decode(message.value)
    return record
