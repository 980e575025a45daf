"""What the metrics tell of groups, from the broker's state: on its thread, in slices, without a look at any file."""

from goqueue.broker.broker import Broker
from goqueue.broker.delivery.cursor import Cursor
from goqueue.broker.groups.group import Group
from goqueue.broker.name import is_internal
from goqueue.broker.view import View
from goqueue.observe.group_metrics import GroupNumbers, OneGroup, State
from goqueue.runtime.slices import Slices


async def group_numbers(broker: Broker) -> GroupNumbers:
    """All of them but those of the broker itself."""
    coordinator, slices = broker.coordinator, Slices()
    groups: dict[str, OneGroup] = {}
    for name in [group.group for group in coordinator.ledger.groups()]:
        await slices.rest()
        if not is_internal(name) and coordinator.ledger.group(name) is not None:  # it may have gone meanwhile
            groups[name] = _one_group(broker, name)
    counts, totals = coordinator.settlement.counts, coordinator.rebalancer.totals
    return GroupNumbers(
        groups,
        {
            "acked": counts.acks,
            "nacked": counts.nacks,
            "rejected": counts.rejects,
            "released": counts.releases,
            "expired": counts.expiries,
            "dead_lettered": counts.dead_letters,
        },
        dict(totals.by_reason),
        totals.timeouts,
    )


def _one_group(broker: Broker, name: str) -> OneGroup:
    coordinator = broker.coordinator
    group, cursors = coordinator.membership.group(name), coordinator.ledger.cursors(name)
    lag: dict[str, int] = {}
    for (topic, number), cursor in cursors.items():
        if (found := broker.topics.get(topic)) is not None and number < len(found.partitions):
            view = View(found.partitions[number], group.isolation)
            lag[topic] = lag.get(topic, 0) + offsets_left(cursor, view)
    return OneGroup(
        _state(broker, group),
        len(group.members),
        sum(cursor.leased for cursor in cursors.values()),
        lag,
        {place: cursor.lost for place, cursor in cursors.items() if cursor.lost},
    )


def _state(broker: Broker, group: Group) -> State:
    if not group.members:
        return "empty"
    is_settled = group.phase != "pending_revoke" and broker.coordinator.membership.is_heard(group)
    return "stable" if is_settled else "rebalancing"


def offsets_left(cursor: Cursor, view: View) -> int:
    """A lag in offsets: what retention has removed is left out, what compaction has removed is counted, and of what was
    aborted is left out what nobody has to be asked about."""
    first, end = max(cursor.floor, view.earliest), view.end
    if cursor.heads is not None:
        return _left_in_lanes(cursor, view, cursor.heads)
    done = cursor.acked.count if first == cursor.floor else cursor.acked.count_within(first, end)
    return max(0, end - first - done - view.roughly_hidden(max(first, cursor.position), end))


def _left_in_lanes(cursor: Cursor, view: View, heads: list[int]) -> int:
    """The same where lanes are read one by one."""
    first, end, lanes = max(cursor.floor, view.earliest), view.end, view.partition.lanes
    before = max(0, cursor.position - first)
    done = cursor.acked.count_within(first, cursor.position) if before else 0
    taken = cursor.leased + cursor.waiting.count + cursor.moving.count + cursor.pledged.count
    if before:
        taken = sum(stop - start for start, stop in cursor.open_from(cursor.position, cursor.reach))
    ahead = sum(lanes.roughly(lane, head, end) for lane, head in enumerate(heads))
    return before - done + taken + max(0, ahead - view.roughly_hidden(cursor.reach, end))
