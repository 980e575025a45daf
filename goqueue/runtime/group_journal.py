"""What operators read of groups: who came and went, what moved, and which messages were given up."""

import logging
from collections.abc import Collection

from goqueue.broker.delivery.changes import Move, Place
from goqueue.broker.delivery.deadletter import REDRIVE_GROUP
from goqueue.broker.groups.coordinator import Coordinator
from goqueue.broker.groups.group import Group
from goqueue.observe.logs import fields
from goqueue.quantities import format_count

_log = logging.getLogger("goqueue.groups")


def listen(coordinator: Coordinator) -> None:
    """Write a line for whatever becomes durable."""
    coordinator.rebalancer.on_durable = _tell_of_group
    coordinator.undertaker.on_arrival = _tell_of_arrival


def _tell_of_group(before: Group, after: Group, vanished: Collection[str]) -> None:
    for member in sorted(vanished):
        _log.warning("a member gave no sign of life and is out", extra=fields(group=after.group, member=member))
    if after.generation == before.generation:
        return
    places = sum(map(len, after.assignment.values()))
    told = f"{format_count(len(after.members), 'member')}, {format_count(places, 'partition')}"
    what = "waits for partitions to be given up" if after.phase == "pending_revoke" else "is shared out"
    facts = fields(group=after.group, generation=after.generation, because=",".join(after.reasons))
    _log.info("a group %s: %s", what, told, extra=facts)


def _tell_of_arrival(group: str, place: Place, move: Move, count: int) -> None:
    facts = fields(group=group, topic=place[0], partition=place[1], to=move.topic)
    if group == REDRIVE_GROUP:
        _log.info("%s sent back", format_count(count, "dead letter"), extra=facts)
    else:
        _log.warning("%s given up: %s", format_count(count, "message"), move.error[:200], extra=facts)
