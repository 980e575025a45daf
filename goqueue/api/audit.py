"""The audit trail: who changed what, and who was refused."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.api.fields import Offset
from goqueue.api.operations import own_node
from goqueue.broker.core.view import PartitionView
from goqueue.limits import AUDIT_RECORDS_AT_ONCE, READ_BYTES
from goqueue.storage import frame


class AuditQuery(Struct, forbid_unknown_fields=True, kw_only=True):
    offset: Annotated[Offset | None, Meta(description="The first record. Default: the oldest.")] = None
    limit: Annotated[int, Meta(ge=0, le=AUDIT_RECORDS_AT_ONCE)] = 100


class AuditResponse(Struct):
    records: Annotated[list[msgspec.Raw], Meta(description="As they are in the log: the next one has their SHA-256.")]
    next_offset: int
    earliest: int
    latest: Annotated[int, Meta(description="The offset behind the newest record.")]
    node: Annotated[
        str | None,
        Meta(description="The node of a cluster whose trail this is: each has its own. null: a broker alone."),
    ] = None


async def read(call: ApiCall, query: AuditQuery) -> AuditResponse:
    partition = call.runtime.broker.audit.partition
    offset = max(partition.earliest, query.offset or 0)
    records: list[msgspec.Raw] = []
    while len(records) < query.limit and offset < partition.high_watermark:
        found = await call.runtime.reader.read(
            PartitionView(partition, "read_committed"), offset, READ_BYTES, skip_damage=True
        )
        for buffer in found.buffers:
            for position in frame.walk(buffer):
                message = frame.decode(buffer, position)
                if message.offset < offset or len(records) == query.limit:
                    continue
                if not message.flags & frame.CONTROL:
                    records.append(msgspec.Raw(bytes(message.value)))
                offset = message.offset + 1
        if len(records) < query.limit:
            offset = max(offset, found.next_offset)
    return AuditResponse(records, offset, partition.earliest, partition.high_watermark, own_node(call))
