"""Feature levels: what the nodes of a cluster know, so that it can be upgraded one node after the other.

A version knows all levels up to `FEATURE_LEVEL`. The level of the cluster is a record; the controller raises it when
all registered nodes know more, and never lowers it. What must stay true:

* A record or message of a later level than that of the cluster is neither written nor sent: an older node could not
  read it. Its class says so with `needed_level`; what has none is of the first levels.
* A node that knows less than the level of the cluster takes no part: the controller does not register it.
"""

from collections.abc import Iterable, Mapping

FEATURE_LEVEL = 2
"""What this version can do in a cluster.

0   a controller and its members
1   topics with replicas
2   replicas that move; transactions, delayed messages, schemas, tenants and operations of the whole cluster; leader
    epochs above those of restored logs
"""


def needed_level(item: object) -> int:
    """Return the level from which a record, request or message may be written or sent."""
    level: int = getattr(item, "needed_level", 0)
    return level


def next_level(current: int, voters: Iterable[str], known: Mapping[str, int]) -> int:
    """Return the level that a cluster can have. `known` has what each registered node knows; voters come first."""
    if not known or any(voter not in known for voter in voters):
        return current
    return max(current, min(known.values()))
