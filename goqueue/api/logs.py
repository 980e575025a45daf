"""The last lines of the broker's log."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from goqueue.api.endpoint import ApiCall
from goqueue.limits import RECENT_LOG_LINES


class LogsQuery(Struct, forbid_unknown_fields=True):
    level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="The lowest level.")] = "info"
    limit: Annotated[int, Meta(ge=1, le=RECENT_LOG_LINES, description="The newest lines, at most so many.")] = 100
    after: Annotated[
        int, Meta(ge=0, le=2**63 - 1, description="Only lines with a higher number: `last` of the previous answer.")
    ] = 0
    requests: Annotated[bool, Meta(description="Include requests that did not fail.")] = True


class LogLineJson(Struct):
    number: Annotated[int, Meta(description="Counts the lines since the broker started.")]
    time: str
    level: str
    logger: str
    event: str
    fields: dict[str, Any]


class LogsResponse(Struct):
    lines: Annotated[list[LogLineJson], Meta(description="Oldest first.")]
    last: Annotated[int, Meta(description="The number of the newest line of any level.")]


async def recent_lines(call: ApiCall, query: LogsQuery) -> LogsResponse:
    logs = call.app.recent_logs
    last = logs.count
    found = logs.read(query.level, after=query.after, limit=query.limit, requests=query.requests)
    lines = [LogLineJson(one.number, one.time, one.level, one.logger, one.event, one.fields) for one in found]
    return LogsResponse([one for one in lines if one.number <= last], last)
