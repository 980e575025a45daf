"""Changes of keys, roles and rules: decided, recorded in the log `__security`, and in force at once.

A change is in force as soon as it is decided, and answered when it is durable. If the disk refuses it, it is undone.
"""

from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.names import check_name
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Work
from goqueue.clock import NANOSECONDS, Clock
from goqueue.errors import (
    KeyExists,
    KeyNotFound,
    LastAdministrator,
    RequestInvalid,
    RoleExists,
    RoleInUse,
    RoleNotFound,
    RuleNotFound,
)
from goqueue.events import Signal
from goqueue.limits import ACCESS_RULES_MAX, KEY_USE_SECONDS, KEYS_MAX, ROLES_MAX
from goqueue.nearest import nearest
from goqueue.quantities import quoted
from goqueue.security.api_key import make_key
from goqueue.security.client_certificates import parse_certificate_name
from goqueue.security.records import (
    ANYONE,
    KEY_PRINCIPAL,
    ROLE_PRINCIPAL,
    AccessRuleDeleted,
    AccessRuleRecord,
    KeyRecord,
    KeyRevoked,
    RoleDeleted,
    RoleRecord,
    SecurityRecord,
    SecurityState,
    decode_security_record,
    encode_security_record,
)
from goqueue.security.roles import ADMIN, ROLES
from goqueue.security.rules import CLUSTER, Rule
from goqueue.storage.disk import Disk


class SecurityAdministration:
    def __init__(self, partition: Partition, disk: Disk, clock: Clock, chance: Callable[[int], int]) -> None:
        """`chance(bits)` returns an unpredictable number."""
        self.state = SecurityState()
        self.journal: Journal[SecurityRecord] = Journal(
            partition, disk, self.state, encode_security_record, decode_security_record, snapshots=False
        )
        self.clock = clock
        self._chance = chance
        self.on_change: Signal[[]] = Signal()
        """Emitted when another key, role or rule is in force; not for notes of when keys were used."""

    def _record(self, records: Sequence[SecurityRecord]) -> Work[None]:
        return self.journal.recorded(records, self.on_change.emit)

    # --- keys ---

    def key(self, name: str) -> KeyRecord:
        """Return the key of a name or an id."""
        found = self.state.key_named(name) or self.state.keys.get(name)
        if found is None:
            meant = nearest(name, list(self.state.names))
            hint = f"did you mean {meant}?" if meant else "GET /admin/keys lists them"
            raise KeyNotFound(f"there is no API key {quoted(name)}", hint=hint)
        return found

    def create_key(
        self,
        name: str,
        roles: Iterable[str],
        expires_ns: int | None,
        author: str,
        certificate: str | None = None,
        tenant: str = "",
    ) -> Work[tuple[KeyRecord, str | None]]:
        """Return the record of a new key, and its text, which is kept nowhere.

        A key with the name of a client certificate has no secret, and so no text.
        """
        chosen = tuple(dict.fromkeys(roles))
        check_name(name, "key", RequestInvalid)
        for role in chosen:
            self._check_role(role)
        if self.state.key_named(name) is not None:
            hint = "choose another name, or revoke or rotate that key"
            raise KeyExists(f"there is an API key {quoted(name)}", hint=hint)
        _refuse_full(len(self.state.keys), KEYS_MAX, "API keys")
        self._check_expiry(expires_ns)
        if certificate is not None:
            certificate = self._free_certificate(certificate)
        key_id, text, secret_digest = make_key(self._chance)
        record = KeyRecord(
            id=key_id,
            name=name,
            digest=secret_digest if certificate is None else "",
            roles=chosen,
            created_ns=self.clock.now_ns(),
            created_by=author,
            expires_ns=expires_ns,
            certificate=certificate,
            tenant=tenant,
        )
        yield from self._record([record])
        return record, text if certificate is None else None

    def _free_certificate(self, text: str) -> str:
        """Return the name of a certificate, if it belongs to no key."""
        try:
            name = parse_certificate_name(text)
        except ValueError as error:
            raise RequestInvalid(
                str(error), hint="write URI:..., email:... or DNS:..., a subject alternative name", problems=[]
            ) from None
        owner = self.state.certificates.get(name)
        if owner is not None:
            raise KeyExists(
                f"the certificate {quoted(name)} belongs to the API key {quoted(self.state.keys[owner].name)}",
                hint="revoke that key first",
            )
        return name

    def rotate_key(self, name: str, grace_seconds: float) -> Work[tuple[KeyRecord, str]]:
        """Give a key another secret; the former one stays valid for the grace period."""
        former = self.key(name)
        if former.certificate is not None:
            raise RequestInvalid(
                f"the API key {quoted(former.name)} belongs to a client certificate, and has no secret",
                hint=f"issue another certificate with the name {former.certificate}: it counts at once",
                problems=[],
            )
        _, text, secret_digest = make_key(self._chance, former.id)
        now_ns = self.clock.now_ns()
        has_grace = grace_seconds > 0
        record = replace(
            former,
            digest=secret_digest,
            rotated_ns=now_ns,
            former_digest=former.digest if has_grace else None,
            former_until_ns=now_ns + round(grace_seconds * NANOSECONDS) if has_grace else 0,
        )
        yield from self._record([record])
        return record, text

    def revoke_key(self, name: str) -> Work[KeyRecord]:
        """Revoke a key, and delete its rules: a later key of that name must not get them."""
        gone = self.key(name)
        others = (one for one in self.state.keys.values() if one is not gone)
        if ADMIN in gone.roles and not gone.tenant and not any(map(self._is_admin, others)):
            raise LastAdministrator(
                f"{quoted(gone.name)} is the last valid API key with the role {ADMIN}",
                hint="create another one first; without any, `goqueue key create --data-dir` does while the broker is "
                "stopped",
            )
        rules = [one.id for one in self.state.rules.values() if one.principal == gone.principal]
        yield from self._record([KeyRevoked(gone.id), *map(AccessRuleDeleted, rules)])
        return gone

    def _is_admin(self, key: KeyRecord) -> bool:
        """Return whether a key may change all others. One of a tenant may not."""
        return (
            ADMIN in key.roles and not key.tenant and (key.expires_ns is None or key.expires_ns > self.clock.now_ns())
        )

    @property
    def has_admin(self) -> bool:
        return any(map(self._is_admin, self.state.keys.values()))

    def _check_expiry(self, expires_ns: int | None) -> None:
        if expires_ns is not None and expires_ns <= self.clock.now_ns():
            raise RequestInvalid("the key would have expired already", hint="give a time in the future", problems=[])

    def note_uses(self, key_ids: Iterable[str]) -> None:
        """Record when keys were used, at most once an hour for each. Nothing waits for it."""
        now_ns = self.clock.now_ns()
        least_ns = now_ns - KEY_USE_SECONDS * NANOSECONDS
        keys = [self.state.keys[one] for one in key_ids if one in self.state.keys]
        due = [replace(key, used_ns=now_ns) for key in keys if key.used_ns is None or key.used_ns <= least_ns]
        if due and self.journal.log.obstacle is None and self.journal.is_led:
            self.journal.record(due, lambda _: None)

    # --- roles ---

    def _check_role(self, name: str) -> None:
        if name not in self.state.roles and name not in ROLES:
            known = [*ROLES, *self.state.roles]
            meant = nearest(name, known)
            hint = f"did you mean {meant}?" if meant else f"there are {', '.join(known[:20])}"
            raise RoleNotFound(f"there is no role {quoted(name)}", hint=hint)

    def create_role(self, name: str, rules: Sequence[Rule], summary: str, author: str) -> Work[RoleRecord]:
        check_name(name, "role", RequestInvalid)
        if name in ROLES or name in self.state.roles:
            raise RoleExists(f"there is a role {quoted(name)}", hint="choose another name, or delete that role first")
        _refuse_full(len(self.state.roles), ROLES_MAX, "roles")
        for rule in rules:
            check_rule(rule)
        record = RoleRecord(
            name=name, rules=tuple(rules), summary=summary, created_ns=self.clock.now_ns(), created_by=author
        )
        yield from self._record([record])
        return record

    def delete_role(self, name: str) -> Work[RoleRecord]:
        """Delete a custom role that is not in use: a later role of that name must not be given to anyone by that."""
        if name in ROLES:
            raise RoleInUse(f"the role {quoted(name)} is built in", hint="create another role with fewer rights")
        gone = self.state.roles.get(name)
        if gone is None:
            self._check_role(name)
        assert gone is not None, "the check raises for a role that is not there"
        users = [key.name for key in self.state.keys.values() if name in key.roles]
        rules = [str(one.id) for one in self.state.rules.values() if one.principal == ROLE_PRINCIPAL + name]
        if users or rules:
            what = f"API keys {', '.join(users[:5])}" if users else f"rules {', '.join(rules[:5])}"
            raise RoleInUse(f"the role {quoted(name)} is in use by {what}", hint="revoke or delete them first")
        yield from self._record([RoleDeleted(name)])
        return gone

    # --- rules ---

    def create_rule(self, principal: str, rule: Rule, author: str) -> Work[AccessRuleRecord]:
        self._check_principal(principal)
        check_rule(rule)
        _refuse_full(len(self.state.rules), ACCESS_RULES_MAX, "rules")
        record = AccessRuleRecord(
            id=self.state.last_rule + 1,
            principal=principal,
            rule=rule,
            created_ns=self.clock.now_ns(),
            created_by=author,
        )
        yield from self._record([record])
        return record

    def delete_rule(self, number: int) -> Work[AccessRuleRecord]:
        gone = self.state.rules.get(number)
        if gone is None:
            raise RuleNotFound(f"there is no rule {number}", hint="GET /admin/acls lists them")
        yield from self._record([AccessRuleDeleted(number)])
        return gone

    def _check_principal(self, principal: str) -> None:
        if principal.startswith(KEY_PRINCIPAL):
            name = principal.removeprefix(KEY_PRINCIPAL)
            if self.state.key_named(name) is None:
                self.key(name)
                raise KeyNotFound(f"there is no API key named {quoted(name)}", hint="rules name keys by their names")
        elif principal.startswith(ROLE_PRINCIPAL):
            self._check_role(principal.removeprefix(ROLE_PRINCIPAL))
        elif principal != ANYONE:
            raise RequestInvalid(
                f"{quoted(principal[:300])} is not a principal",
                hint="write key:NAME, role:NAME, or * for every key",
                problems=[],
            )


def check_rule(rule: Rule) -> None:
    if rule.kind == "cluster" and (rule.pattern != CLUSTER or rule.match != "literal"):
        raise RequestInvalid(
            f"{quoted(rule.pattern)} is not a cluster",
            hint=f"there is one, whose name is {CLUSTER}: leave out the match",
            problems=[],
        )


def _refuse_full(count: int, most: int, what: str) -> None:
    if count >= most:
        raise RequestInvalid(f"there are {most:,} {what}, the most possible", hint="delete some first", problems=[])
