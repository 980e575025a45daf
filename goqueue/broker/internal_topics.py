"""The names and settings of the broker's internal topics."""

from goqueue.broker.core.topic import TopicSettings, log_name
from goqueue.broker.schemas.logs import SCHEMAS
from goqueue.broker.security.logs import AUDIT, SECURITY
from goqueue.broker.tenants.logs import TENANTS, USAGE
from goqueue.limits import GROUP_LOGS, GROUP_SEGMENT_BYTES, OPERATION_SEGMENT_BYTES, TRANSACTION_SEGMENT_BYTES

CATALOG = "__metadata"
GROUPS = "__consumer_offsets"
TRANSACTIONS = "__transactions"
OPERATIONS = "__operations"
CLUSTER = "__cluster_metadata"
"""The log of a cluster. It is no topic: only the nodes of the cluster read and write it."""
CATALOG_SETTINGS = TopicSettings(retention_hours=None, cleanup="compact")
GROUP_SETTINGS = TopicSettings(retention_hours=None, segment_bytes=GROUP_SEGMENT_BYTES)
TRANSACTION_SETTINGS = TopicSettings(retention_hours=None, cleanup="compact", segment_bytes=TRANSACTION_SEGMENT_BYTES)
FOLLOWED = (SECURITY, SCHEMAS, TENANTS)
"""Those that every node of a cluster follows, and whose leaders make the changes."""
OPERATION_SETTINGS = TopicSettings(retention_hours=None, cleanup="compact", segment_bytes=OPERATION_SEGMENT_BYTES)


def internal_logs(transaction_logs: int) -> set[str]:
    """Return the names of all logs of internal topics."""
    counts = dict.fromkeys((CATALOG, CLUSTER, OPERATIONS, SECURITY, AUDIT, SCHEMAS, TENANTS, USAGE), 1)
    counts |= {GROUPS: GROUP_LOGS, TRANSACTIONS: transaction_logs}
    return {log_name(name, number) for name, count in counts.items() for number in range(count)}
