"""The rows of the cluster."""

from goqueue import errors
from goqueue.api import (
    cluster,
    cluster_admin,
    cluster_metadata,
    cluster_partitions,
    cluster_peers,
    cluster_recovery,
    reassignment,
)
from goqueue.api.endpoint import Endpoint

_SIGNED = (errors.ClusterOff, errors.PermissionDenied)
_CHANGING = (*_SIGNED, errors.ControllerUnavailable, errors.ControllerMoved, errors.LogFenced)
_NO_PARTITION = (errors.TopicNotFound, errors.PartitionNotFound)
_DECIDED = (errors.ClusterOff, *_NO_PARTITION, errors.ControllerUnavailable, errors.ControllerMoved)
_BY_OPERATOR = (
    errors.ClusterOff, errors.ClusterChangeRefused, errors.ControllerUnavailable, errors.ControllerMoved,
    errors.LogFenced,
)  # fmt: skip
_MOVING = (*_BY_OPERATOR, errors.ReassignmentNotFound)
_MOVE = {"topic": "orders", "partition": 0, "replicas": ["n4", "n2", "n3"]}
_REASSIGNMENT = {
    "id": 7, "state": "running", "moves": 1, "done": 0, "bytes_left": 943_718_400, "rate": 52_428_800,
    "seconds_left": 18.0, "throttle": 52_428_800, "at_once": 4, "started_at": "2026-03-01T12:00:00Z", "ended_at": None,
    "verified": False,
}  # fmt: skip
_DESCRIBED = {
    **_REASSIGNMENT,
    "partitions": [
        {
            "topic": "orders", "partition": 0, "stage": "moving", "before": ["n1", "n2", "n3"],
            "replicas": ["n4", "n2", "n3"], "isr": ["n1", "n2", "n3"], "bytes": 1_073_741_824,
            "bytes_left": 943_718_400, "rate": 52_428_800, "waits_for": "n4 to be in sync", "verified": False,
        }
    ],
}  # fmt: skip

CLUSTER_ENDPOINTS = (
    Endpoint(
        "GET", "/cluster/state", cluster.describe_state, "Describe the nodes of the cluster and its controller",
        errors=(errors.ClusterOff,), waits=True,
    ),
    Endpoint(
        "GET", "/cluster/health", cluster.describe_health, "Tell whether the cluster has a controller and a majority",
        errors=(errors.ClusterOff, errors.NodeNotFound),
    ),
    Endpoint(
        "GET", "/cluster/metadata", cluster_metadata.describe_metadata,
        "List nodes, topics, and the leaders of partitions",
        errors=(errors.ClusterOff, errors.ControllerUnavailable),
    ),
    Endpoint(
        "GET", "/cluster/partition/{topic}/{partition}/info", cluster_metadata.describe_partition,
        "Describe the replicas of a partition",
        errors=(errors.ClusterOff, *_NO_PARTITION),
    ),
    Endpoint(
        "GET", "/cluster/partition/{topic}/{partition}/recovery", cluster_recovery.describe_recovery,
        "Tell what each replica has, and what would be lost if it led",
        errors=(errors.ClusterOff, *_NO_PARTITION),
    ),
    Endpoint(
        "POST", "/cluster/isr", cluster_metadata.change_isr, "Change the in-sync replicas of a partition",
        errors=(errors.IsrChangeRefused, *_DECIDED),
        example={"topic": "orders", "partition": 0, "leader_epoch": 3, "partition_epoch": 9, "isr": ["n1", "n2"]},
    ),
    Endpoint(
        "POST", "/cluster/leader-election", cluster_metadata.elect_leader, "Give a partition another leader",
        errors=(errors.ElectionRefused, *_DECIDED),
        example={"topic": "orders", "partition": 0, "node": "n2"},
    ),
    Endpoint(
        "GET", "/cluster/partitions", cluster_partitions.describe_partitions,
        "List the partitions of the cluster with leaders, replicas and lag",
        errors=(errors.ClusterOff, errors.TopicNotFound),
    ),
    Endpoint(
        "POST", "/cluster/vote", cluster_peers.vote, "Ask a voter for its vote", errors=_SIGNED,
        example={
            "candidate_id": "n1", "directory_id": "57f5f1cf-7872-40c1-aa64-8621dde097c2",
            "cluster_id": "c9e93020-de59-4f63-a9ab-324637e0aa86", "epoch": 3, "last_epoch": 2, "last_offset": 41,
        },
    ),
    Endpoint(
        "POST", "/cluster/heartbeat", cluster_peers.heartbeat, "Tell a node that another one is alive", errors=_SIGNED,
        example={"node_id": "n1"},
    ),
    Endpoint(
        "POST", "/cluster/join", cluster_peers.join, "Register a node at the controller", errors=_CHANGING,
        example={
            "node_id": "n4", "directory_id": "57f5f1cf-7872-40c1-aa64-8621dde097c2", "incarnation": "5f0c2a9b",
            "address": "http://10.0.0.4:8080",
        },
    ),
    Endpoint(
        "POST", "/cluster/leave", cluster_peers.leave, "Take a node out of the controller's list", errors=_CHANGING,
        example={"node_id": "n4"},
    ),
    Endpoint(
        "POST", "/admin/cluster/transfer", cluster_admin.transfer, "Let another voter become the controller",
        errors=_BY_OPERATOR, example={"node_id": "n2"}, answer_example={"controller_id": "n2", "epoch": 4},
    ),
    Endpoint(
        "POST", "/admin/cluster/voters/{node}/replace", cluster_admin.replace_voter,
        "Give a node with a new data directory the vote of the lost one", errors=(errors.NodeNotFound, *_BY_OPERATOR),
        answer_example={"node_id": "n3", "directory_id": "57f5f1cf-7872-40c1-aa64-8621dde097c2", "changed": True},
    ),
    Endpoint(
        "DELETE", "/admin/cluster/nodes/{node}", cluster_admin.remove_node,
        "Take a node out of the list that is gone for good", errors=(errors.NodeNotFound, *_BY_OPERATOR),
        answer_example={"node_id": "n7"},
    ),
    Endpoint(
        "POST", "/admin/cluster/nodes/{node}/drain", reassignment.drain,
        "Have others lead what a node leads, until it is undrained", errors=(errors.NodeNotFound, *_BY_OPERATOR),
        answer_example={"node_id": "n3", "draining": True, "leaders": 0, "replicas": 12},
    ),
    Endpoint(
        "POST", "/admin/cluster/nodes/{node}/undrain", reassignment.undrain,
        "Let a drained node lead again", errors=(errors.NodeNotFound, *_BY_OPERATOR),
        answer_example={"node_id": "n3", "draining": False, "leaders": 0, "replicas": 12},
    ),
    Endpoint(
        "POST", "/admin/reassignment/plan", reassignment.plan,
        "Plan moves of replicas that drain a node, fill one, or balance all; nothing is moved",
        errors=(errors.NodeNotFound, errors.TopicNotFound, errors.ClusterOff, errors.ClusterChangeRefused),
        example={"plan": "drain", "node": "n1"},
        answer_example={"moves": [{**_MOVE, "before": ["n1", "n2", "n3"], "bytes": 73_728}], "bytes": 73_728},
    ),
    Endpoint(
        "POST", "/admin/reassignment", reassignment.start, "Move replicas of partitions to other nodes", status=201,
        errors=(*_NO_PARTITION, *_BY_OPERATOR), example={"moves": [_MOVE], "throttle": 52_428_800},
        answer_example=_DESCRIBED,
    ),
    Endpoint(
        "GET", "/admin/reassignment", reassignment.list_all, "List the reassignments under way and the latest ones",
        errors=(errors.ClusterOff,), answer_example={"reassignments": [_REASSIGNMENT]},
    ),
    Endpoint(
        "GET", "/admin/reassignment/{reassignment}", reassignment.describe,
        "Describe a reassignment with the progress of each partition",
        errors=(errors.ClusterOff, errors.ReassignmentNotFound), answer_example=_DESCRIBED,
    ),
    Endpoint(
        "PATCH", "/admin/reassignment/{reassignment}", reassignment.change,
        "Pause or resume a reassignment, or change its throttle", errors=_MOVING, example={"paused": True},
        answer_example={**_DESCRIBED, "state": "paused", "rate": 0, "seconds_left": None},
    ),
    Endpoint(
        "DELETE", "/admin/reassignment/{reassignment}", reassignment.cancel,
        "Cancel a reassignment: what is on its way goes back, what has moved stays", errors=_MOVING,
        answer_example={**_DESCRIBED, "state": "cancelled"},
    ),
)  # fmt: skip
