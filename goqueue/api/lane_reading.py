"""Reading a partition in the order of priorities: as a group would be handed its messages, and nothing changes."""

from dataclasses import dataclass

from goqueue.api.answering import on_thread
from goqueue.api.call import Call
from goqueue.api.frames import starts
from goqueue.api.text import Message, shown
from goqueue.api.unpacking import UnpackBudget
from goqueue.broker.delivery.lane_reading import LanePage, read_lanes
from goqueue.broker.groups.offsets import check_offset
from goqueue.broker.view import View
from goqueue.clock import NANOSECONDS
from goqueue.errors import RequestInvalid
from goqueue.limits import OFFSET_MAX, PRIORITY_COUNT
from goqueue.storage import frame

POSITIONS_PATTERN = rf"^[0-9]{{1,19}}(,[0-9]{{1,19}}){{{PRIORITY_COUNT - 1}}}(?![\s\S])"


@dataclass(frozen=True, slots=True)
class LaneWish:
    """How much is asked for, and from where on."""

    offset: int
    positions: str | None
    """Of each priority, in place of one offset for all."""
    limit: int
    max_bytes: int
    wait: float
    skip_damage: bool


async def by_priority(call: Call, view: View, wish: LaneWish, budget: UnpackBudget) -> tuple[list[Message], list[int]]:
    """The next messages, and where each priority goes on."""
    heads, runtime = _heads(wish), call.runtime
    check_offset((view.partition.topic, view.partition.number), max(heads), view.partition)
    rules = runtime.broker.topic(view.partition.topic).lane_rules
    until_ns = runtime.clock.monotonic_ns() + round(wish.wait * NANOSECONDS)
    while True:
        given = (heads, wish.limit, wish.max_bytes, rules)
        page = await runtime.perform(read_lanes(view, *given, skip_damage=wish.skip_damage))
        if not page.slices and page.heads != heads:  # what was there is gone, and more lies behind
            heads = page.heads
            continue
        left = (until_ns - runtime.clock.monotonic_ns()) / NANOSECONDS
        if page.slices or left <= 0 or runtime.is_stopping:
            break
        await runtime.read(view, view.end, 1, wait=left)
    return await on_thread(_told, page, wish.max_bytes, budget)


def _heads(wish: LaneWish) -> list[int]:
    if wish.positions is None:
        return [wish.offset] * PRIORITY_COUNT
    heads = list(map(int, wish.positions.split(",")))
    if max(heads) > OFFSET_MAX:
        problem = {"place": "positions", "problem": f"has {max(heads)}, which is no offset"}
        raise RequestInvalid(
            f"positions {problem['problem']}", hint="send next_positions as it came", problems=[problem]
        )
    return heads


def _told(page: LanePage, max_bytes: int, budget: UnpackBudget) -> tuple[list[Message], list[int]]:
    """Unpacked values are bounded as well, since a small frame may hold much: what has no room comes next time."""
    messages: list[Message] = []
    heads, size = list(page.heads), 0
    for one in page.slices:
        for message in (frame.decode(buffer, position) for buffer in one.buffers for position in starts(buffer)):
            has_room = budget.has_room_for(message)
            content = budget.content_of(message) if has_room else None
            size += len(content or b"")
            if messages and (size > max_bytes or not has_room):
                heads[message.priority] = message.offset
                break
            messages.append(shown(message, content))
    return messages, heads
