"""The rows of the cluster."""

from goqueue import errors
from goqueue.api import cluster, cluster_admin, cluster_metadata, cluster_partitions, cluster_peers, cluster_recovery
from goqueue.api.endpoint import Endpoint

_SIGNED = (errors.ClusterOff, errors.PermissionDenied)
_CHANGING = (*_SIGNED, errors.ControllerUnavailable, errors.ControllerMoved, errors.LogFenced)
_NO_PARTITION = (errors.TopicNotFound, errors.PartitionNotFound)
_DECIDED = (errors.ClusterOff, *_NO_PARTITION, errors.ControllerUnavailable, errors.ControllerMoved)
_BY_OPERATOR = (
    errors.ClusterOff, errors.ClusterChangeRefused, errors.ControllerUnavailable, errors.ControllerMoved,
    errors.LogFenced,
)  # fmt: skip

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
)  # fmt: skip
