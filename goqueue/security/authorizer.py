"""Verification of keys, and decisions about their owners, from the recorded keys, roles and rules.

Verified keys and decisions are cached; `forget` drops both whenever a key, role or rule changes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from goqueue.errors import KeyNotFound, RoleNotFound, TenantsOff, Unauthenticated
from goqueue.events import Signal
from goqueue.limits import DECISIONS_CACHED_MAX, VERIFIED_KEYS_MAX
from goqueue.quantities import format_time, quoted
from goqueue.security.api_key import KeyText, is_secret, parse_key
from goqueue.security.client_certificates import ClientCertificate
from goqueue.security.records import ANYONE, KEY_PRINCIPAL, ROLE_PRINCIPAL, KeyRecord, SecurityState
from goqueue.security.roles import ROLES
from goqueue.security.rules import CLUSTER, Action, Decision, Grant, ResourceKind, Rule, decide

_HOW = "send `Authorization: Bearer KEY` or `x-api-key: KEY`; programs of GoQueue take GOQUEUE_API_KEY_FILE"
_NEW = "ask an administrator for a new one (`goqueue-admin key create`)"


@dataclass(slots=True, eq=False)
class Principal:
    """The owner of a verified key, with everything that allows or denies it something."""

    name: str
    key_id: str
    roles: tuple[str, ...]
    grants: tuple[Grant, ...]
    valid_until_ns: int | None
    tenant: str = ""
    """The id of the tenant that the key belongs to; empty for one of the operators."""
    decisions: dict[tuple[Action, ResourceKind, str], bool] = field(default_factory=dict)
    is_used: bool = False
    """Set with each request; the owner of the last uses resets it."""

    def may(self, action: Action, kind: ResourceKind, name: str) -> bool:
        asked = action, kind, name
        known = self.decisions.get(asked)
        if known is None:
            if len(self.decisions) >= DECISIONS_CACHED_MAX:
                self.decisions.clear()
            known = self.decisions[asked] = decide(self.grants, action, kind, name).is_allowed
        return known

    def may_any(self, action: Action, kind: ResourceKind) -> bool:
        """Return whether a rule allows an action on some resource of a kind."""
        return any(
            one.rule.kind == kind and one.rule.effect == "allow" and action in one.rule.actions for one in self.grants
        )


class Authorizer:
    """Verifies keys and decides, from a state that only records change."""

    def __init__(self, state: SecurityState, now_ns: Callable[[], int], *, has_tenants: bool = False) -> None:
        """Keys of tenants are refused unless the broker `has_tenants`: their boundary would not be checked."""
        self._state = state
        self._now_ns = now_ns
        self._has_tenants = has_tenants
        self.verified: dict[str | ClientCertificate, Principal] = {}
        """By the text of the key, or the certificate."""
        self.on_forget: Signal[[]] = Signal()
        """Called when a principal is not valid any more."""

    def forget(self) -> None:
        self.verified.clear()
        self.on_forget.emit()

    def forget_expired(self) -> None:
        now_ns = self._now_ns()
        expired = [
            shown
            for shown, one in self.verified.items()
            if one.valid_until_ns is not None and one.valid_until_ns <= now_ns
        ]
        for shown in expired:
            del self.verified[shown]
        if expired:
            self.on_forget.emit()

    def authenticate(self, text: str | None) -> Principal:
        """Return the principal of a key. Raises Unauthenticated, in a way that does not tell which ids exist."""
        if text is None:
            raise Unauthenticated("this broker needs an API key, and the request has none", hint=_HOW)
        principal = self.verified.get(text)
        return principal if principal is not None else self._verify(text)

    def _verify(self, text: str) -> Principal:
        parts = parse_key(text)
        if parts is None:
            raise Unauthenticated(
                "what was sent as an API key is not one: a character is wrong or missing",
                hint="a key begins with gq_ and is copied as a whole, without spaces and line ends",
            )
        key, valid_until_ns = self._find(parts)
        if valid_until_ns is not None and valid_until_ns <= self._now_ns():
            raise Unauthenticated(f"the API key {quoted(key.name)} expired at {format_time(valid_until_ns)}", hint=_NEW)
        return self._remember(text, key, valid_until_ns)

    def _remember(self, shown: str | ClientCertificate, key: KeyRecord, valid_until_ns: int | None) -> Principal:
        if key.tenant and not self._has_tenants:
            raise TenantsOff(
                f"the API key {quoted(key.name)} belongs to tenant {quoted(key.tenant)}, but this broker has none",
                hint="start the broker with tenants.enabled: true",
            )
        principal = self.principal_of(key, valid_until_ns)
        if len(self.verified) >= VERIFIED_KEYS_MAX:
            self.forget()
        self.verified[shown] = principal
        return principal

    def authenticate_certificate(self, certificate: ClientCertificate) -> Principal:
        """Return the principal of a client certificate. Raises Unauthenticated."""
        principal = self.verified.get(certificate)
        if principal is not None:
            return principal
        ids = self._state.certificates
        key = next((self._state.keys[ids[name]] for name in certificate.names if name in ids), None)
        if key is None:
            raise _unknown_certificate(certificate)
        until_ns = min(certificate.expires_ns, key.expires_ns or certificate.expires_ns)
        if until_ns <= self._now_ns():
            raise Unauthenticated(
                f"the client certificate of {quoted(key.name)} or its API key expired at {format_time(until_ns)}",
                hint="connect with a new certificate, or ask an administrator for a new key",
            )
        return self._remember(certificate, key, until_ns)

    def _find(self, parts: KeyText) -> tuple[KeyRecord, int | None]:
        """Return the record of a secret, and until when it is valid."""
        key = self._state.keys.get(parts.id)
        if key is not None:
            if is_secret(parts.secret, key.digest):
                return key, key.expires_ns
            if key.former_digest is not None and is_secret(parts.secret, key.former_digest):
                until = key.former_until_ns
                if until <= self._now_ns():
                    raise Unauthenticated(
                        f"the API key {quoted(key.name)} was rotated; its former secret was valid until "
                        f"{format_time(until)}",
                        hint="use the secret that `goqueue-admin key rotate` has shown, or rotate the key again",
                    )
                return key, until if key.expires_ns is None else min(until, key.expires_ns)
        raise Unauthenticated("the API key is not valid: it was revoked, or is of another broker", hint=_NEW)

    def principal_of(self, key: KeyRecord, valid_until_ns: int | None) -> Principal:
        return Principal(key.principal, key.id, key.roles, tuple(self._grants(key)), valid_until_ns, key.tenant)

    def _grants(self, key: KeyRecord) -> Iterator[Grant]:
        for role in key.roles:
            yield from self._of_role(role)
        for one in self._state.rules.values():
            if one.principal in (key.principal, ANYONE):
                yield Grant(f"rule {one.id}", one.rule)

    def _of_role(self, role: str) -> Iterator[Grant]:
        for rule in self.role_rules(role):
            yield Grant(f"role {role}", rule)
        for one in self._state.rules.values():
            if one.principal == ROLE_PRINCIPAL + role:
                yield Grant(f"rule {one.id}", one.rule)

    def role_rules(self, role: str) -> tuple[Rule, ...]:
        """Return the rules of a role; none of one that was deleted."""
        custom = self._state.roles.get(role)
        return custom.rules if custom is not None else ROLES.get(role, ())

    def explain(self, principal: str, action: Action, kind: ResourceKind, name: str) -> Decision:
        """Return what `key:NAME` or `role:NAME` may do, and because of which rule."""
        if principal.startswith(ROLE_PRINCIPAL):
            role = principal.removeprefix(ROLE_PRINCIPAL)
            if role not in self._state.roles and role not in ROLES:
                raise RoleNotFound(f"there is no role {quoted(role)}", hint="GET /admin/roles lists them")
            return decide(self._of_role(role), action, kind, name)
        key = self._state.key_named(principal.removeprefix(KEY_PRINCIPAL))
        if key is None:
            raise KeyNotFound(
                f"there is no API key {quoted(principal.removeprefix(KEY_PRINCIPAL))}",
                hint="GET /admin/keys lists them",
            )
        if key.tenant and kind == CLUSTER:
            return Decision(False, None)
        return decide(self._grants(key), action, kind, name)


def _unknown_certificate(certificate: ClientCertificate) -> Unauthenticated:
    if not certificate.names:
        return Unauthenticated(
            "the client certificate has no URI, email or DNS name, and its common name does not count",
            hint="issue one with a subject alternative name",
        )
    names = certificate.names[0] if not certificate.names[1:] else f"{certificate.names[0]} and others"
    return Unauthenticated(
        f"no API key belongs to the client certificate of {quoted(names)}",
        hint="an administrator can make one: goqueue-admin key create NAME --role ROLE --certificate "
        f"{certificate.names[0]}",
    )
