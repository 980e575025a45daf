"""Telling the state of the cluster again, so that the beginning of its log can go.

    ... records ... | VotersChanged, StateTold 0, ..., StateTold n | records ...
                      ^ the log begins here once all of it is committed

The controller appends it in one piece. A node that has the state passes over it. One that lacks what was before,
because it is new or was away for long, takes the state from it, and passes over all records until it has.
"""

from collections.abc import Iterator

from goqueue.cluster.metadata import (
    CatalogChanged,
    ClusterCreated,
    ClusterState,
    FeatureLevelRaised,
    StateTold,
    ToldRecord,
    as_decided,
    in_pieces,
)
from goqueue.cluster.reassignment_records import NodeDraining, ReassignmentStarted
from goqueue.limits import CLUSTER_TOLD_AT_ONCE


def tell_state(state: ClusterState, now_ns: int) -> list[StateTold]:
    """Return the records that make this state from nothing."""
    records, size = tuple(_records(state, now_ns)), CLUSTER_TOLD_AT_ONCE
    pieces = [records[first : first + size] for first in range(0, len(records), size)]
    deleted, counts = tuple(sorted(state.deleted)), dict(state.counts)
    first = StateTold(0, len(pieces), pieces[0], deleted, counts)
    return [first, *(StateTold(number, len(pieces), one) for number, one in enumerate(pieces[1:], 1))]


def _records(state: ClusterState, now_ns: int) -> Iterator[tuple[int, ToldRecord]]:
    yield 0, ClusterCreated(state.cluster_id, state.voters, now_ns)
    yield 0, FeatureLevelRaised(state.feature_level)
    for registered, broker_epoch in state.nodes.values():
        yield broker_epoch, registered
    for fenced in state.fenced.values():
        yield 0, fenced
    for node in sorted(state.draining):
        yield 0, NodeDraining(node, True)
    for topic in state.topics.values():
        yield 0, CatalogChanged(as_decided(topic))
    for change in in_pieces(state.partitions.items()):
        yield 0, change
    for reassignment in state.reassignments.values():
        yield 0, ReassignmentStarted(reassignment)
