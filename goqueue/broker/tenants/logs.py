"""The internal topic of tenants."""

from collections.abc import Callable

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.tenants.administration import TenantAdministration
from goqueue.broker.tenants.limits import LOG_SEGMENT_BYTES, USAGE_SEGMENT_BYTES
from goqueue.broker.tenants.removal import OwnedResources
from goqueue.clock import Clock
from goqueue.storage.disk import Disk

TENANTS = "__tenants"
USAGE = "__usage"
TENANTS_SETTINGS = TopicSettings(retention_hours=None, cleanup="compact", segment_bytes=LOG_SEGMENT_BYTES)
_USAGE_SETTINGS = TopicSettings(retention_hours=None, cleanup="compact", segment_bytes=USAGE_SEGMENT_BYTES)


def open_usage(open_internal: Callable[[str, TopicSettings], list[Partition]]) -> Partition:
    """Open the log of usage, which the runtime records."""
    (partition,) = open_internal(USAGE, _USAGE_SETTINGS)
    return partition


def open_tenants(
    open_internal: Callable[[str, TopicSettings], list[Partition]], disk: Disk, clock: Clock, broker: OwnedResources
) -> TenantAdministration:
    """Open the log, and rebuild the tenants from it."""
    (partition,) = open_internal(TENANTS, TENANTS_SETTINGS)
    tenants = TenantAdministration(partition, disk, clock, broker)
    tenants.journal.open()
    return tenants
