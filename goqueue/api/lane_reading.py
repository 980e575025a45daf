"""Reads a partition in the order of priorities, as a group would get its messages. Changes nothing."""

from dataclasses import dataclass

from goqueue.api.endpoint import ApiCall
from goqueue.api.message_json import DecompressionBudget, MessageJson, frame_positions, message_json, run_on_thread
from goqueue.api.problems import invalid
from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.core.view import PartitionView
from goqueue.broker.groups.fetch import LanePage, read_lanes
from goqueue.broker.groups.offsets import check_committable_offset
from goqueue.clock import NANOSECONDS
from goqueue.limits import OFFSET_MAX, PRIORITY_COUNT
from goqueue.runtime.partition_reader import Check
from goqueue.storage import frame

POSITIONS_PATTERN = rf"^[0-9]{{1,19}}(,[0-9]{{1,19}}){{{PRIORITY_COUNT - 1}}}(?![\s\S])"


@dataclass(frozen=True, slots=True)
class PriorityReadOptions:
    """Options of a read by priority."""

    offset: int
    positions: str | None
    """An offset for each priority, instead of one for all."""
    limit: int
    max_bytes: int
    wait: float
    skip_damage: bool


async def by_priority(
    call: ApiCall, view: PartitionView, options: PriorityReadOptions, budget: DecompressionBudget, check: Check
) -> tuple[list[MessageJson], list[int], int]:
    """Return the next messages, the next offset of each priority, and the bytes of the messages' frames."""
    heads, runtime = _heads(options), call.runtime
    check_committable_offset(PartitionRef(view.partition.topic, view.partition.number), max(heads), view.partition)
    rules = runtime.broker.topic(view.partition.topic).lane_policy
    until_ns = runtime.clock.monotonic_ns() + round(options.wait * NANOSECONDS)
    while True:
        given = (heads, options.limit, options.max_bytes, rules)
        page = await runtime.perform(read_lanes(view, *given, skip_damage=options.skip_damage))
        if not page.slices and page.heads != heads:  # what was there is gone, and more lies behind
            heads = page.heads
            continue
        check()
        left = (until_ns - runtime.clock.monotonic_ns()) / NANOSECONDS
        if page.slices or left <= 0 or runtime.is_stopping:
            break
        await runtime.reader.read(view, view.end, 1, wait=left, check=check)
    return await run_on_thread(_told, page, options.max_bytes, budget)


def _heads(options: PriorityReadOptions) -> list[int]:
    if options.positions is None:
        return [options.offset] * PRIORITY_COUNT
    heads = list(map(int, options.positions.split(",")))
    if max(heads) > OFFSET_MAX:
        raise invalid("positions", f"has {max(heads)}, which is not an offset", "send next_positions unchanged")
    return heads


def _told(page: LanePage, max_bytes: int, budget: DecompressionBudget) -> tuple[list[MessageJson], list[int], int]:
    """Convert a page. Messages that exceed the limit of decompressed bytes are left for the next read."""
    messages: list[MessageJson] = []
    heads, size, handed = list(page.heads), 0, 0
    for one in page.slices:
        for buffer, position in ((view, at) for view in one.buffers for at in frame_positions(view)):
            message = frame.decode(buffer, position)
            has_room = budget.has_room_for(message)
            content = budget.decompress(message) if has_room else None
            size += len(content or b"")
            if messages and (size > max_bytes or not has_room):
                heads[message.priority] = message.offset
                break
            messages.append(message_json(message, content))
            handed += frame.measure(buffer, position)
    return messages, heads, handed
