"""The rows of the cluster."""

from goqueue import errors
from goqueue.api import cluster
from goqueue.api.endpoint import Endpoint

CLUSTER_ENDPOINTS = (
    Endpoint(
        "GET", "/cluster/state", cluster.describe_state, "Describe the nodes of the cluster and its controller",
        errors=(errors.ClusterOff,), waits=True,
    ),
    Endpoint(
        "GET", "/cluster/health", cluster.describe_health, "Tell whether the cluster has a controller and a majority",
        errors=(errors.ClusterOff,),
    ),
)  # fmt: skip
