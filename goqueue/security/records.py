"""Records of keys, roles and rules, and the state that they make. Each is a complete entry: the latest counts."""

from collections.abc import Iterator

import msgspec

from goqueue.security.rules import Rule
from goqueue.storage import frame

KEY_PRINCIPAL, ROLE_PRINCIPAL, ANYONE = "key:", "role:", "*"
"""The principals of access rules: `key:NAME`, `role:NAME`, or everyone with a valid key."""


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="key", tag_field="record"):
    """An API key without its secret."""

    id: str
    name: str
    digest: str
    """SHA-256 of the secret, in hexadecimal digits."""
    roles: tuple[str, ...] = ()
    created_ns: int = 0
    created_by: str = ""
    expires_ns: int | None = None
    rotated_ns: int | None = None
    former_digest: str | None = None
    """Of the secret before the last rotation, which is valid until `former_until_ns`."""
    former_until_ns: int = 0
    certificate: str | None = None
    """The name of client certificates that stand for this key, which has no secret then; see `client_certificates`."""
    used_ns: int | None = None
    """When it was last used, within an hour."""
    tenant: str = ""
    """The tenant that it belongs to; empty for a key of the broker's operators."""

    @property
    def principal(self) -> str:
        return KEY_PRINCIPAL + self.name


class KeyRevoked(msgspec.Struct, frozen=True, tag="key_revoked", tag_field="record"):
    id: str


class RoleRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="role", tag_field="record"):
    """A custom role."""

    name: str
    rules: tuple[Rule, ...]
    summary: str = ""
    created_ns: int = 0
    created_by: str = ""


class RoleDeleted(msgspec.Struct, frozen=True, tag="role_deleted", tag_field="record"):
    name: str


class AccessRuleRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="rule", tag_field="record"):
    """A rule for one principal."""

    id: int
    principal: str
    rule: Rule
    created_ns: int = 0
    created_by: str = ""


class AccessRuleDeleted(msgspec.Struct, frozen=True, tag="rule_deleted", tag_field="record"):
    id: int


SecurityRecord = KeyRecord | KeyRevoked | RoleRecord | RoleDeleted | AccessRuleRecord | AccessRuleDeleted
_DECODER = msgspec.json.Decoder(SecurityRecord)
_DELETIONS = (KeyRevoked, RoleDeleted, AccessRuleDeleted)


def encode_security_record(record: SecurityRecord) -> bytes:
    flags = frame.TOMBSTONE if isinstance(record, _DELETIONS) else 0
    return frame.encode(msgspec.json.encode(record), _log_key(record), flags=flags)


def _log_key(record: SecurityRecord) -> bytes:
    """Return the key of a record in the log: compaction keeps the latest of each."""
    if isinstance(record, KeyRecord | KeyRevoked):
        return f"key:{record.id}".encode()
    if isinstance(record, RoleRecord | RoleDeleted):
        return f"role:{record.name}".encode()
    return b"rule:%d" % record.id


def decode_security_record(message: frame.StoredMessage) -> SecurityRecord:
    record: SecurityRecord = _DECODER.decode(message.value)
    return record


class SecurityState:
    """All keys, custom roles and rules, changed by records only."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.keys: dict[str, KeyRecord] = {}
        """By id."""
        self.names: dict[str, str] = {}
        """The ids of keys by their names."""
        self.certificates: dict[str, str] = {}
        """The ids of keys by the names of their certificates."""
        self.roles: dict[str, RoleRecord] = {}
        self.rules: dict[int, AccessRuleRecord] = {}
        self.last_rule = 0

    def note_loss(self, count: int) -> None:
        """Skip the ids that lost records may have had."""
        self.last_rule += count

    def apply(self, record: SecurityRecord) -> None:
        if isinstance(record, KeyRecord | KeyRevoked):
            former = self.keys.pop(record.id, None)
            if former is not None and self.names.get(former.name) == former.id:
                del self.names[former.name]
            if former is not None and former.certificate and self.certificates.get(former.certificate) == former.id:
                del self.certificates[former.certificate]
        if isinstance(record, KeyRevoked):
            return
        if isinstance(record, KeyRecord):
            self.keys[record.id] = record
            self.names[record.name] = record.id
            if record.certificate is not None:
                self.certificates[record.certificate] = record.id
        elif isinstance(record, RoleRecord):
            self.roles[record.name] = record
        elif isinstance(record, RoleDeleted):
            self.roles.pop(record.name, None)
        else:
            self.last_rule = max(self.last_rule, record.id)
            if isinstance(record, AccessRuleRecord):
                self.rules[record.id] = record
            else:
                self.rules.pop(record.id, None)

    def records(self) -> Iterator[SecurityRecord]:
        yield from self.keys.values()
        yield from self.roles.values()
        yield from self.rules.values()
        if self.last_rule and self.last_rule not in self.rules:
            yield AccessRuleDeleted(self.last_rule)

    def key_named(self, name: str) -> KeyRecord | None:
        return self.keys.get(self.names.get(name, ""))
