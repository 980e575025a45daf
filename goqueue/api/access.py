"""Access control of requests: who sent one, whether it may be answered, and when a waiting one must end.

Without authentication a request has `UNRESTRICTED`, which allows everything. With it, a refusal of something that the
key may describe says what is missing (403). Anything else is answered as if it did not exist: names decide alone, so
the answer is the same whether it exists or not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TypeVar

from goqueue.api.http.message import HttpRequest
from goqueue.api.permissions import Permission, resource_of
from goqueue.broker.core.names import check_name
from goqueue.broker.core.topic import check_topic_name
from goqueue.broker.schemas.queries import subject_not_found
from goqueue.broker.security.administration import SecurityAdministration
from goqueue.broker.security.audit import AuditEntry, AuditTrail
from goqueue.errors import (
    BrokerStopping,
    GoQueueError,
    GroupNameInvalid,
    GroupNotFound,
    PermissionDenied,
    ProducerNotFound,
    SubjectNotFound,
    TopicNotFound,
    Unauthenticated,
)
from goqueue.quantities import quoted
from goqueue.runtime.audit_runner import RefusalCounter
from goqueue.runtime.deferred import Deferred
from goqueue.security.authorizer import Authorizer, Principal
from goqueue.security.rules import CLUSTER, Action, ResourceKind

T = TypeVar("T")

_SUBJECT_CHARACTERS = 255
_HINTS: dict[type[GoQueueError], str] = {
    TopicNotFound: "GET /topics lists the topics that this API key may see",
    GroupNotFound: "GET /groups lists the groups that this API key may see",
    ProducerNotFound: "GET /transactions?state=all lists those that this API key may see",
    SubjectNotFound: "GET /subjects lists the subjects that this API key may see",
}
"""Hints of the broker itself may name what the key must not see."""


class Access:
    """The rights of the sender of a request: all of them, while the broker has no authentication."""

    __slots__ = ()

    @property
    def cancel(self) -> Callable[[], object] | None:
        """Set for a request that may wait: ends its handler. Nothing ends it without authentication."""
        return None

    @cancel.setter
    def cancel(self, cancel: Callable[[], object]) -> None: ...

    @property
    def name(self) -> str:
        """The principal, for records; empty without authentication."""
        return ""

    def may(self, action: Action, kind: ResourceKind, name: str = CLUSTER) -> bool:  # noqa: ARG002 - a restricted one needs them
        return True

    def require(self, action: Action, kind: ResourceKind, name: str = CLUSTER) -> None:
        """Raise PermissionDenied, or the error of something that does not exist."""

    def require_any(self, action: Action, kind: ResourceKind) -> None:
        """Raise PermissionDenied unless a rule allows the action on some resource of the kind."""

    def described(self, kind: ResourceKind, names: Iterable[str]) -> list[str]:  # noqa: ARG002 - as above
        """Return those of the names that may be described."""
        return list(names)


UNRESTRICTED = Access()


def refuse_without_authentication(access: Access) -> None:
    """Refuse to change keys and rules while the broker checks none: the change would count once it does."""
    if access is UNRESTRICTED:
        raise PermissionDenied(
            "API keys, roles and rules cannot be changed while authentication is off",
            hint="start the broker with `goqueue serve --auth`, or use `goqueue key create` while it is stopped",
        )


class KeyAccess(Access):
    """The rights of the API key of one request."""

    __slots__ = ("_cancel", "_gate", "_principal", "checked", "ended", "is_refused", "request")

    def __init__(self, gate: "AccessGate", principal: Principal, request: HttpRequest) -> None:
        self._gate = gate
        self._principal = principal
        self.request = request
        self.checked: list[tuple[Action, ResourceKind, str]] = []
        """What this request needed so far: a waiting request ends when it is not allowed any more."""
        self.is_refused = False
        self.ended: GoQueueError | None = None
        """Why its handler was cancelled."""
        self._cancel: Callable[[], object] | None = None

    @property
    def cancel(self) -> Callable[[], object] | None:
        return self._cancel

    @cancel.setter
    def cancel(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel

    @property
    def name(self) -> str:
        return self._principal.name

    def may(self, action: Action, kind: ResourceKind, name: str = CLUSTER) -> bool:
        return self._principal.may(action, kind, name)

    def require(self, action: Action, kind: ResourceKind, name: str = CLUSTER) -> None:
        asked = action, kind, name
        if not self._principal.may(*asked):
            raise self._refused(self._refusal(*asked), *asked)
        self.checked.append(asked)

    def require_any(self, action: Action, kind: ResourceKind) -> None:
        if not self._principal.may_any(action, kind):
            raise self._refused(_denied(self._principal.name, action, kind, "*"), action, kind, "*")

    def described(self, kind: ResourceKind, names: Iterable[str]) -> list[str]:
        may = self._principal.may
        return [name for name in names if may("describe", kind, name)]

    def _refused(self, error: GoQueueError, action: Action, kind: ResourceKind, name: str) -> GoQueueError:
        """Count the refusal for the audit trail, and return it."""
        self.is_refused = True
        self._gate.count_refusal(self.request, self._principal.name, f"{action} {kind}", name, error)
        return error

    def _refusal(self, action: Action, kind: ResourceKind, name: str) -> GoQueueError:
        is_known = kind == CLUSTER or action == "create" or self._principal.may("describe", kind, name)
        return _denied(self._principal.name, action, kind, name) if is_known else missing(kind, name)


def _denied(principal: str, action: Action, kind: ResourceKind, name: str) -> PermissionDenied:
    noun = kind.replace("_", " ")
    resource = "the cluster" if kind == CLUSTER else f"any {noun}" if name == "*" else f"{noun} {quoted(name)}"
    flag = "--cluster" if kind == CLUSTER else f"--{kind.replace('_', '-')} {'NAME' if name == '*' else name}"
    return PermissionDenied(
        f"{quoted(principal)} may not {action} {resource}",
        hint=f"an administrator can allow it: goqueue-admin acl create --principal {principal} --allow {action} {flag}",
        action=action,
        kind=kind,
        name=name,
    )


def missing(kind: ResourceKind, name: str) -> GoQueueError:
    """Return the error for something that does not exist. An invalid name is refused as such."""
    try:
        if kind == "topic":
            check_topic_name(name)
            return TopicNotFound(f"there is no topic {quoted(name)}", hint=_HINTS[TopicNotFound], topic=name)
        if kind == "group":
            check_name(name, "group", GroupNameInvalid)
            return GroupNotFound(f"group {quoted(name)} does not exist", hint=_HINTS[GroupNotFound], group=name)
    except GoQueueError as error:
        return error
    if kind == "subject":
        return subject_not_found(name)
    return ProducerNotFound(f"there is no transactional id {quoted(name)}", hint=_HINTS[ProducerNotFound])


class AccessGate:
    """Admits requests by their API keys. `open` it with the recorded keys before the first request."""

    def __init__(self) -> None:
        self._authorizer: Authorizer | None = None
        self._administration: SecurityAdministration
        self._waiting: set[KeyAccess] = set()
        """Requests that may wait long."""
        self._trail: AuditTrail
        self._refusals: RefusalCounter

    def open(self, administration: SecurityAdministration, trail: AuditTrail) -> None:
        self._administration = administration
        self._trail = trail
        self._refusals = RefusalCounter(trail, administration.clock)
        self._authorizer = Authorizer(administration.state, administration.clock.now_ns)
        administration.on_change.subscribe(self._changed)

    @property
    def authorizer(self) -> Authorizer:
        if self._authorizer is None:
            raise BrokerStopping("the broker is not ready", hint="try again", retry_after=1)
        return self._authorizer

    def admit(self, permission: Permission, parameters: dict[str, str], request: HttpRequest) -> Access:
        """Return what the sender of a request may do. Raises Unauthenticated, PermissionDenied, or "not found"."""
        if permission.is_open:
            return UNRESTRICTED
        access = self._authenticate(request)
        if permission.action is not None and not permission.is_checked_by_handler:
            assert permission.kind is not None, "an action is on a resource"
            access.require(permission.action, permission.kind, resource_of(permission, parameters))
        return access

    def _authenticate(self, request: HttpRequest) -> KeyAccess:
        try:
            key = sent_key(request.headers)
            if key is None and request.certificate is not None:
                principal = self.authorizer.authenticate_certificate(request.certificate)
            else:  # a key in the request wins: the certificate may be that of the machine
                principal = self.authorizer.authenticate(key)
        except Unauthenticated as error:
            self.count_refusal(request, "", "authenticate", "", error)
            raise
        principal.is_used = True
        return KeyAccess(self, principal, request)

    def count_refusal(
        self, request: HttpRequest, principal: str, action: str, subject: str, error: GoQueueError
    ) -> None:
        address = request.peer.rpartition(":")[0]
        self._refusals.count(principal, action, subject[:_SUBJECT_CHARACTERS], error.code, address, request.id)

    # --- waiting requests, and administrative changes ---

    async def guarded(self, access: Access, work: Awaitable[T], action: str | None, subject: str) -> T:
        """Run a handler that may wait long or, with the name of an `action`, changes the broker."""
        if action is None:
            return await self._while_allowed(access, work)
        try:
            self._trail.refuse_unless_writable()
        except GoQueueError:
            if isinstance(work, Coroutine):
                work.close()
            raise
        try:
            result = await work
        except GoQueueError as error:
            if isinstance(access, KeyAccess) and not access.is_refused:
                await self._record(access, action, subject, error)
            raise
        await self._record(access, action, subject, None)
        return result

    async def _record(self, access: Access, action: str, subject: str, error: GoQueueError | None) -> None:
        """Record an administrative change, and wait until that is durable."""
        assert isinstance(access, KeyAccess), "a change needs a key"
        request = access.request
        recorded: Deferred[None] = Deferred()
        entry = AuditEntry(
            access.name,
            action,
            subject,
            "done" if error is None else "failed",
            "" if error is None else error.code,
            request.peer.rpartition(":")[0],
            request.headers.get("user-agent", ""),
            request.id,
        )
        self._trail.record(entry, recorded.resolve)
        await recorded

    async def _while_allowed(self, access: Access, work: Awaitable[T]) -> T:
        """Run a handler that may wait long; end it when its key is revoked, expires, or loses a right."""
        assert isinstance(access, KeyAccess), "only keys are checked"
        if access.cancel is None and (task := asyncio.current_task()) is not None:
            access.cancel = task.cancel
        self._waiting.add(access)
        try:
            return await work
        except asyncio.CancelledError:
            if access.ended is None:
                raise
            raise access.ended from None
        finally:
            self._waiting.discard(access)

    def _changed(self) -> None:
        self.authorizer.forget()
        self._check_waiting()

    def _check_waiting(self) -> None:
        for former in list(self._waiting):
            if former.ended is not None or former.cancel is None:
                continue
            try:
                access = self._authenticate(former.request)
                for asked in former.checked:
                    access.require(*asked)
            except GoQueueError as error:
                former.ended = error.without_tracebacks()
                former.cancel()

    def tick(self) -> None:
        """End what expired, and record refusals and which keys were used. Called once a second."""
        authorizer = self.authorizer
        self._refusals.flush()
        used = [one for one in authorizer.verified.values() if one.is_used]
        for principal in used:
            principal.is_used = False
        self._administration.note_uses({one.key_id for one in used})
        count = len(authorizer.verified)
        authorizer.forget_expired()
        if len(authorizer.verified) < count:
            self._check_waiting()


def without_names(error: GoQueueError) -> GoQueueError:
    """Replace a hint that may name what the sender must not see."""
    hint = _HINTS.get(type(error))
    if hint is not None:
        error.hint = hint
    return error


def sent_key(headers: dict[str, str]) -> str | None:
    """Return the API key of a request; None if it has none."""
    authorization, api_key = headers.get("authorization"), headers.get("x-api-key")
    if authorization is None:
        return api_key
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated(
            "the authorization header has another scheme than Bearer", hint="send `Authorization: Bearer KEY`"
        )
    token = token.strip()
    if api_key is not None and api_key != token:
        raise Unauthenticated("authorization and x-api-key have different keys", hint="send one of them")
    return token
