"""A cluster in which something is wrong, whose answers never change."""

from typing import Any

from goqueue.client import (
    ClusterHealthInfo,
    ClusterNodeInfo,
    ClusterPartitionInfo,
    ClusterStateInfo,
    ReassignmentInfo,
    ReplicaInfo,
)
from tests.tui.delayed_fakes import at
from tests.tui.group_fakes import GroupClient

_WAITS = "node n5 belongs to cluster 0e1d, this node to c9e9: a data directory stays in its cluster"


def node(number: int, status: Any = "alive", role: Any = "voter", **told: Any) -> ClusterNodeInfo:
    facts: dict[str, Any] = {
        "directory_id": f"57f5f1cf-7872-40c1-aa64-8621dde09c{number:02}",
        "broker_epoch": 4 + number,
        "address": f"https://10.0.0.{number}:8080",
        "peer_address": f"10.0.0.{number}:7090",
        "version": "0.1.0",
        "registered_at": at(-number * 86_400.0),
        "silent_seconds": 0.2,
        "problem": None,
    }
    return ClusterNodeInfo(node_id=f"n{number}", status=status, role=role, **(facts | told))


NODES = [
    node(1),
    node(2, role="controller"),
    node(3, "suspect", silent_seconds=7.3),
    node(4, "dead", role="observer", silent_seconds=5_400.0, problem="it has no vote: its directory is another one"),
    node(5, "unknown", address=None, broker_epoch=None, registered_at=None, version=None, problem=_WAITS),
]
_EVENTS = [
    (-9.0, "suspected", "n3"),
    (-61.0, "controller_changed", "n2"),
    (-5_400.0, "died", "n4"),
    *((-90_000.0 - number, "joined", f"n{number}") for number in (4, 3, 2, 1)),
]
EVENTS = [{"at": at(seconds), "event": kind, "node_id": node} for seconds, kind, node in _EVENTS]


def partition(
    number: int, status: str, leader: str | None, isr: str, *lags: int | None, **told: Any
) -> ClusterPartitionInfo:
    names = ["n1", "n2", "n3"][number % 3 :] + ["n1", "n2", "n3"][: number % 3]
    replicas = [
        ReplicaInfo(node=one, in_sync=one in isr.split(), lag=lag) for one, lag in zip(names, lags, strict=True)
    ]
    return ClusterPartitionInfo(
        topic="orders", partition=number, status=status, leader=leader, leader_epoch=4 + number,
        preferred_leader=names[0], min_isr=2, isr=isr.split(), elr=told.get("elr", []), replicas=replicas,
    )  # fmt: skip


PARTITIONS = [
    partition(0, "ok", "n1", "n1 n2 n3", 0, 0, 12),
    partition(1, "under_replicated", "n2", "n2 n1", None, None, None),
    partition(3, "under_min_isr", "n1", "n1", 0, 120_400, 7, elr=["n3"]),
    partition(5, "offline", None, "", None, None, None, elr=["n3"]),
]


def reassignment(number: int, state: str, done: int, **told: Any) -> ReassignmentInfo:
    facts: dict[str, Any] = {
        "moves": 12, "bytes_left": 0, "rate": 0, "seconds_left": None, "throttle": 0, "at_once": 4,
        "started_at": at(-number * 600.0), "ended_at": at(-60.0), "verified": state == "completed",
    }  # fmt: skip
    return ReassignmentInfo(id=number, state=state, done=done, **(facts | told))


REASSIGNMENTS = [
    reassignment(
        3,
        "running",
        5,
        bytes_left=9_437_184_000,
        rate=52_428_800,
        seconds_left=180.0,
        throttle=52_428_800,
        ended_at=None,
    ),
    reassignment(2, "paused", 0, bytes_left=1_048_576, ended_at=None),
    reassignment(1, "completed", 12),
]


class ClusterClient(GroupClient):
    """Asks node n1 of five."""

    def __init__(self) -> None:
        super().__init__()
        self.answers |= {
            "cluster_state": self._state,
            "cluster_health": self._health,
            "cluster_partitions": PARTITIONS,
            "reassignments": REASSIGNMENTS,
        }

    def _state(self) -> ClusterStateInfo:
        return ClusterStateInfo(
            node_id="n1",
            cluster_id="c9e93020-de59-4f63-a9ab-324637e0aa86",
            controller_id="n2",
            epoch=7,
            version=1_204,
            has_vote=True,
            waiting_for=[],
            nodes=NODES,
            events=EVENTS,
        )

    def _health(self) -> ClusterHealthInfo:
        return ClusterHealthInfo(
            status="degraded",
            controller_id="n2",
            quorum=True,
            voters=5,
            voters_alive=3,
            safe_to_stop=None,
            topics="not_replicated",
        )
