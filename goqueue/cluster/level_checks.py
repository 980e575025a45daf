"""Refusals of what not all nodes of a cluster know yet."""

from collections.abc import Iterable

from goqueue.cluster.feature_levels import needed_level
from goqueue.cluster.metadata import ClusterRecord, ClusterState, FeatureLevelRaised
from goqueue.errors import ClusterChangeRefused


def refuse_later(state: ClusterState, records: Iterable[ClusterRecord]) -> None:
    """Raise ClusterChangeRefused if a record is of a later level than that of the cluster."""
    level = state.feature_level
    for record in records:
        if isinstance(record, FeatureLevelRaised):
            level = record.level
        elif (needed := needed_level(record)) > level:
            raise _too_early(state, needed)


def refuse_later_request(state: ClusterState, request: object) -> None:
    """The same for a request of a node to another one."""
    if (needed := needed_level(request)) > state.feature_level:
        raise _too_early(state, needed)


def _too_early(state: ClusterState, needed: int) -> ClusterChangeRefused:
    old = sorted(
        f"{node} (version {one.version})" for node, (one, _) in state.nodes.items() if one.feature_level < needed
    )
    what = f"not yet with {', '.join(old)}" if old else "not before all voters are registered"
    return ClusterChangeRefused(
        f"this needs feature level {needed} of the cluster, which is at {state.feature_level}: {what}",
        hint="start these nodes with the version of the others first",
        retry_after=1,
    )
