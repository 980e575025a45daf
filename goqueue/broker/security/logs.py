"""The internal topics of security."""

from collections.abc import Callable

from goqueue.broker.core import names
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.security.administration import SecurityAdministration
from goqueue.broker.security.audit import AuditTrail
from goqueue.clock import Clock
from goqueue.limits import AUDIT_RETENTION_HOURS, AUDIT_SEGMENT_BYTES, SECURITY_SEGMENT_BYTES
from goqueue.storage.disk import Disk

SECURITY = names.SECURITY
AUDIT = "__audit"
SECURITY_SETTINGS = TopicSettings(retention_hours=None, cleanup="compact", segment_bytes=SECURITY_SEGMENT_BYTES)
_AUDIT_SETTINGS = TopicSettings(retention_hours=AUDIT_RETENTION_HOURS, segment_bytes=AUDIT_SEGMENT_BYTES)


def open_security(
    open_internal: Callable[[str, TopicSettings], list[Partition]],
    disk: Disk,
    clock: Clock,
    chance: Callable[[int], int],
) -> tuple[SecurityAdministration, AuditTrail]:
    """Open both logs, and rebuild what follows from them."""
    (partition,) = open_internal(SECURITY, SECURITY_SETTINGS)
    administration = SecurityAdministration(partition, disk, clock, chance)
    administration.journal.open()
    (partition,) = open_internal(AUDIT, _AUDIT_SETTINGS)
    return administration, AuditTrail(partition, clock)
