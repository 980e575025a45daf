"""The names that can be typed after a screen: of topics, groups, transactions, subjects, backups and contexts."""

import os
from collections.abc import Sequence
from contextlib import suppress

from goqueue.console import contexts
from goqueue.console.dead_letters import SUFFIX
from goqueue.errors import ConfigInvalid, GoQueueError
from goqueue_admin.dashboard.broker.service import BrokerCall, Service, broker_call

_IDS_MAX = 1_000

_CALLS = {
    "topic": broker_call("topics"),
    "dlq": broker_call("topics"),
    "group": broker_call("groups"),
    "id": broker_call("transactions", "all", None, _IDS_MAX),
    "subject": broker_call("subjects"),
    "backup": broker_call("backups"),
}


def context_names() -> list[str]:
    """Return the names of all contexts; none if their file is invalid, which opening the list of them explains."""
    with suppress(ConfigInvalid):
        return sorted(contexts.load(os.environ).contexts)
    return []


async def learn_names(service: Service, *kinds: str) -> None:
    """Ask the broker for the names of these kinds. If it does not answer, those known before stay."""
    for asked in dict.fromkeys(_CALLS[kind] for kind in kinds if kind in _CALLS):
        with suppress(GoQueueError):
            await service.fetch(asked)


async def learn_all_names(service: Service) -> None:
    await learn_names(service, *_CALLS)


def known_names(service: Service, kind: str) -> Sequence[str]:
    """Return the names of a kind that are known."""
    if kind == "context":
        return context_names()
    asked: BrokerCall | None = _CALLS.get(kind)
    found = (service.known.get(asked) if asked is not None else None) or ()
    if kind == "backup":
        return [one.id for one in found.backups] if found else ()
    if kind == "id":
        return [one["transactional_id"] for one in found] if len(found) < _IDS_MAX else ()  # the others may fit as well
    return [name for name in found if name.endswith(SUFFIX)] if kind == "dlq" else found
