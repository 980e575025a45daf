"""Gates: each admits requests, ends those that wait when a right is taken, and records what keys have changed."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

from goqueue.api.access import HINTS, UNRESTRICTED, Access, KeyAccess
from goqueue.api.http.message import HttpRequest
from goqueue.api.permissions import Permission, resource_of
from goqueue.broker.security.administration import SecurityAdministration
from goqueue.broker.security.audit import AuditEntry, AuditTrail
from goqueue.errors import BrokerStopping, GoQueueError, Unauthenticated
from goqueue.runtime.audit_runner import RefusalCounter
from goqueue.runtime.deferred import Deferred
from goqueue.security.authorizer import Authorizer, Principal

T = TypeVar("T")

_SUBJECT_CHARACTERS = 255


class RequestGate:
    """Admits every request; derived gates do not."""

    authenticates = False

    def __init__(self) -> None:
        self._waiting: set[KeyAccess] = set()
        """Requests that may wait long."""

    def admit(
        self,
        permission: Permission,
        parameters: dict[str, str],
        request: HttpRequest,
        *,
        is_guarded: bool,  # noqa: ARG002 - gates with tenants look at it
    ) -> Access:
        """Return what the sender of a request may do. Raises Unauthenticated, PermissionDenied, or "not found".

        One that `is_guarded` may wait, or changes the broker: its rights are checked again, or recorded.
        """
        if permission.is_open:
            return UNRESTRICTED
        access = self.authenticate(request)
        self.check(access, permission, parameters)
        return access

    def check(self, access: Access, permission: Permission, parameters: dict[str, str]) -> None:
        """Check the right to the resource that a path names."""
        if permission.action is not None and not permission.is_checked_by_handler:
            assert permission.kind is not None, "an action is on a resource"
            access.require(permission.action, permission.kind, resource_of(permission, parameters))

    def authenticate(self, request: HttpRequest) -> Access:  # noqa: ARG002 - others look at it
        """Return the rights of the sender of a request."""
        return UNRESTRICTED

    def count_refusal(
        self, request: HttpRequest, principal: str, action: str, subject: str, error: GoQueueError
    ) -> None:
        """Count a refused request for the audit trail, if there is one."""

    def shown(self, error: GoQueueError, request: HttpRequest) -> GoQueueError:  # noqa: ARG002 - as above
        """Return an error as the sender of a request may see it."""
        return error

    async def guarded(self, access: Access, work: Awaitable[T], action: str | None, subject: str) -> T:  # noqa: ARG002
        """Run a handler that may wait long or, with the name of an `action`, changes the broker."""
        return await (self.while_allowed(access, work) if action is None else work)

    async def while_allowed(self, access: Access, work: Awaitable[T]) -> T:
        """Run a handler that may wait long; end it when its sender loses a right, or its key is revoked or expires."""
        if not isinstance(access, KeyAccess):
            return await work
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

    def check_waiting(self) -> None:
        """End the waiting requests whose senders may not make them any more."""
        for former in list(self._waiting):
            if former.ended is not None or former.cancel is None:
                continue
            try:
                access = self.authenticate(former.request)
                for asked in former.checked:
                    access.require(*asked)
            except GoQueueError as error:
                former.ended = error.without_tracebacks()
                former.cancel()


class AccessGate(RequestGate):
    """Admits requests by their API keys. `open` it with the recorded keys before the first request."""

    authenticates = True

    def __init__(self) -> None:
        super().__init__()
        self._authorizer: Authorizer | None = None
        self._administration: SecurityAdministration
        self._trail: AuditTrail
        self._refusals: RefusalCounter

    def open(self, administration: SecurityAdministration, trail: AuditTrail, *, has_tenants: bool = False) -> None:
        self._administration = administration
        self._trail = trail
        self._refusals = RefusalCounter(trail, administration.clock)
        self._authorizer = Authorizer(administration.state, administration.clock.now_ns, has_tenants=has_tenants)
        administration.on_change.subscribe(self._changed)

    @property
    def authorizer(self) -> Authorizer:
        if self._authorizer is None:
            raise BrokerStopping("the broker is not ready", hint="try again", retry_after=1)
        return self._authorizer

    def authenticate(self, request: HttpRequest) -> KeyAccess:
        return KeyAccess(self, self.principal_of(request), request)

    def principal_of(self, request: HttpRequest) -> Principal:
        """Return the owner of a request's key. Raises Unauthenticated."""
        try:
            principal = self.sender_of(request)
        except Unauthenticated as error:
            self.count_refusal(request, "", "authenticate", "", error)
            raise
        principal.is_used = True
        return principal

    def sender_of(self, request: HttpRequest) -> Principal:
        """Return the owner of a request's key, without counting a use or a refusal. Raises Unauthenticated."""
        key = sent_key(request.headers)
        if key is None and request.certificate is not None:
            return self.authorizer.authenticate_certificate(request.certificate)
        return self.authorizer.authenticate(key)  # a key wins: the certificate may be that of the machine

    def count_refusal(
        self, request: HttpRequest, principal: str, action: str, subject: str, error: GoQueueError
    ) -> None:
        address = request.peer.rpartition(":")[0]
        self._refusals.count(principal, action, subject[:_SUBJECT_CHARACTERS], error.code, address, request.id)

    def shown(self, error: GoQueueError, request: HttpRequest) -> GoQueueError:  # noqa: ARG002 - others look at it
        return without_names(error)

    # --- waiting requests, and administrative changes ---

    async def guarded(self, access: Access, work: Awaitable[T], action: str | None, subject: str) -> T:
        """Run a handler that may wait long or, with the name of an `action`, changes the broker."""
        if action is None:
            return await self.while_allowed(access, work)
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

    def _changed(self) -> None:
        self.authorizer.forget()
        self.check_waiting()

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
            self.check_waiting()


def without_names(error: GoQueueError) -> GoQueueError:
    """Replace a hint that may name what the sender must not see."""
    hint = HINTS.get(type(error))
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
