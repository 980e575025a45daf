"""Access control of requests: who sent one, whether it may be answered, and when a waiting one must end.

Without authentication a request has `UNRESTRICTED`, which allows everything. With it, a refusal of something that the
key may describe says what is missing (403). Anything else is answered as if it did not exist: names decide alone, so
the answer is the same whether it exists or not.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from goqueue.api.http.message import HttpRequest
from goqueue.broker.core.names import check_name
from goqueue.broker.core.topic import check_topic_name
from goqueue.broker.schemas.queries import subject_not_found
from goqueue.errors import (
    GoQueueError,
    GroupNameInvalid,
    GroupNotFound,
    PermissionDenied,
    ProducerNotFound,
    SubjectNotFound,
    TopicNotFound,
)
from goqueue.quantities import quoted
from goqueue.security.rules import CLUSTER, Action, ResourceKind

HINTS: dict[type[GoQueueError], str] = {
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
    def tenant(self) -> str:
        """The id of the tenant in whose world the request is answered; empty for the broker as a whole."""
        return ""

    @property
    def is_operator(self) -> bool:
        """False for a key of a tenant, which does nothing outside of it."""
        return True

    def reaches(self, name: str) -> bool:  # noqa: ARG002 - that of a tenant needs it
        """Return whether a name that the broker has found belongs to the same world."""
        return True

    def local_name(self, name: str) -> str:
        """Return the name that the sender has for something."""
        return name

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
    if not access.name:
        raise PermissionDenied(
            "API keys, roles and rules cannot be changed while authentication is off",
            hint="start the broker with `goqueue serve --auth`, or use `goqueue key create` while it is stopped",
        )


class AccessOwner(Protocol):
    """The owner of an API key, with its rights."""

    @property
    def name(self) -> str: ...

    def may(self, action: Action, kind: ResourceKind, name: str) -> bool: ...

    def may_any(self, action: Action, kind: ResourceKind) -> bool: ...


class RefusalListener(Protocol):
    """Counts refusals for the audit trail."""

    def count_refusal(
        self, request: HttpRequest, principal: str, action: str, subject: str, error: GoQueueError
    ) -> None: ...


class KeyAccess(Access):
    """The rights of the API key of one request."""

    __slots__ = ("_cancel", "_gate", "_principal", "checked", "ended", "is_refused", "request")

    def __init__(self, gate: RefusalListener, principal: AccessOwner, request: HttpRequest) -> None:
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
            return TopicNotFound(f"there is no topic {quoted(name)}", hint=HINTS[TopicNotFound], topic=name)
        if kind == "group":
            check_name(name, "group", GroupNameInvalid)
            return GroupNotFound(f"group {quoted(name)} does not exist", hint=HINTS[GroupNotFound], group=name)
    except GoQueueError as error:
        return error
    if kind == "subject":
        return subject_not_found(name)
    return ProducerNotFound(f"there is no transactional id {quoted(name)}", hint=HINTS[ProducerNotFound])
