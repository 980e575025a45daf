"""Deletion of all that belongs to a tenant: its plan, and the work itself.

Everything is found by its name, so the work can be done again after a crash: what is gone already is not found.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import Callback, Promise, Work
from goqueue.broker.delay.scheduler import DelayScheduler
from goqueue.broker.groups.shards import GroupShards
from goqueue.broker.schemas.registry import SchemaRegistry
from goqueue.broker.security.administration import SecurityAdministration
from goqueue.broker.tenants.naming import prefix_of
from goqueue.broker.transactions.records import OPEN, TransactionalIdForgotten
from goqueue.broker.transactions.shards import TransactionShards
from goqueue.errors import GoQueueError, GroupNotFound, KeyNotFound, ProducerNotFound, TenantDisabled, TopicNotFound
from goqueue.quantities import quoted


class OwnedResources(Protocol):
    """The broker, as far as this module uses it."""

    topics: dict[str, Topic]
    groups: GroupShards
    transactions: TransactionShards
    delay_scheduler: DelayScheduler
    security: SecurityAdministration
    schemas: SchemaRegistry
    before_deletion: Callable[[str], Work[None]]

    def delete_topic(self, name: str, told: Callback[int]) -> None: ...


@dataclass(frozen=True, slots=True)
class TenantContents:
    """Full names of all that belongs to a tenant, and its size."""

    topics: list[str]
    partitions: int
    size_bytes: int
    groups: list[str]
    members: int
    keys: list[str]
    subjects: list[str]
    transactional_ids: list[str]

    @property
    def is_empty(self) -> bool:
        return not (self.topics or self.groups or self.subjects or self.transactional_ids)


def contents_of(broker: OwnedResources, tenant: str) -> TenantContents:
    prefix = prefix_of(tenant)
    topics = {name: topic for name, topic in broker.topics.items() if name.startswith(prefix)}
    groups = [group for group in broker.groups.groups() if group.group.startswith(prefix)]
    return TenantContents(
        sorted(topics),
        sum(len(topic.partitions) for topic in topics.values()),
        sum(topic.size for topic in topics.values()) + sum(_delayed_sizes(broker, topics)),
        sorted(group.group for group in groups),
        sum(len(group.members) for group in groups),
        sorted(key.name for key in broker.security.state.keys.values() if key.tenant == tenant),
        broker.schemas.subjects_of(prefix),
        sorted(_transactional_ids(broker, prefix)),
    )


def _delayed_sizes(broker: OwnedResources, topics: Mapping[str, Topic]) -> Iterator[int]:
    for delivery in broker.delay_scheduler.deliveries():
        delayed_log = delivery.delays.delayed_log
        if delayed_log.topic in topics:
            yield delayed_log.log.size


def _transactional_ids(broker: OwnedResources, prefix: str) -> list[str]:
    return [name for shard in broker.transactions for name in shard.register.by_id if name.startswith(prefix)]


def remove_contents(broker: OwnedResources, tenant: str, deleted: Callable[[str], object]) -> Work[None]:
    """Delete all that belongs to a tenant. `deleted` is called with the name of each topic that is gone.

    In a cluster the other nodes delete what they coordinate.
    """
    prefix = prefix_of(tenant)
    yield from remove_coordinated(broker, tenant)
    for name in [name for name in broker.topics if name.startswith(prefix)]:
        done: Promise[int] = Promise()
        with suppress(TopicNotFound):
            yield from broker.before_deletion(name)
            broker.delete_topic(name, done)
            yield from done.kept()
            deleted(name)


def remove_coordinated(broker: OwnedResources, tenant: str) -> Work[None]:
    """Delete the keys, transactional ids, groups and subjects of a tenant, as far as this node decides about them."""
    prefix = prefix_of(tenant)
    if broker.security.journal.is_led:
        for key in [key for key in broker.security.state.keys.values() if key.tenant == tenant]:
            with suppress(KeyNotFound):
                yield from broker.security.revoke_key(key.id)
    for name in _transactional_ids(broker, prefix):
        yield from _forget_transactional_id(broker, name)
    for name in [name for name in broker.groups.names() if name.startswith(prefix)]:
        yield from _delete_group(broker, tenant, name)
    if broker.schemas.journal.is_led:
        yield from broker.schemas.forget_subjects(prefix)


def _forget_transactional_id(broker: OwnedResources, name: str) -> Work[None]:
    """Abort the open transaction of an id, and forget the id."""
    coordinator = broker.transactions.of(name)
    known = coordinator.register.by_id.get(name)
    if known is not None and known.state in OPEN:
        with suppress(ProducerNotFound):
            is_commit = known.state == "prepare_commit"  # what is decided is completed
            yield from coordinator.end(known.whose, name, is_commit=is_commit, reason="tenant deleted")
    forgotten: Promise[GoQueueError | None] = Promise()
    coordinator.record([TransactionalIdForgotten(name)], forgotten)
    yield from forgotten.kept()


def _delete_group(broker: OwnedResources, tenant: str, name: str) -> Work[None]:
    """Remove the members of a group, also those that are joining, and delete it."""
    membership = broker.groups.of(name).membership
    while membership.has_members(name):
        reason = TenantDisabled(
            f"tenant {quoted(tenant)} is being deleted", hint="its groups are deleted with it", tenant=tenant
        )
        removed: Promise[GoQueueError | None] = Promise()
        membership.remove_members(name, reason, removed)
        yield from removed.kept()
    with suppress(GroupNotFound):
        gone: Promise[GoQueueError | None] = Promise()
        membership.delete(name, gone)
        yield from gone.kept()
