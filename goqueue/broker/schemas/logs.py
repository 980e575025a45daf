"""The internal topic of the schema registry."""

from collections.abc import Callable

from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.schemas.limits import LOG_SEGMENT_BYTES
from goqueue.broker.schemas.registry import SchemaRegistry
from goqueue.storage.disk import Disk

SCHEMAS = "__schemas"
SCHEMAS_SETTINGS = TopicSettings(retention_hours=None, cleanup="compact", segment_bytes=LOG_SEGMENT_BYTES)


def open_schemas(open_internal: Callable[[str, TopicSettings], list[Partition]], disk: Disk) -> SchemaRegistry:
    """Open the log, and rebuild the registry from it."""
    (partition,) = open_internal(SCHEMAS, SCHEMAS_SETTINGS)
    registry = SchemaRegistry(partition, disk)
    registry.open()
    return registry
