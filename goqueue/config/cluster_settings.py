"""Settings of a cluster."""

from dataclasses import dataclass

from goqueue import limits
from goqueue.config.value_types import (
    DURATION,
    INTEGER,
    NODE,
    OPTIONAL_ADDRESS,
    OPTIONAL_ENDPOINT,
    OPTIONAL_PATH,
    PEERS,
    SIZE,
    choice,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """Nodes that share topics: each partition has replicas on several of them."""

    peers: str = setting(
        "none",
        PEERS,
        "The nodes that elect the controller, with their addresses for each other: 1, 3 or 5, the same on all nodes."
        " `none` runs a broker alone. A node that is not among them follows without a vote.",
    )
    node_id: str = setting("none", NODE, "Name of this node in the cluster; `none` takes the name of the host.")
    listen: str = setting(
        "none",
        OPTIONAL_ADDRESS,
        "Address on which this node listens for the others; `none` takes the one in `cluster.peers`.",
    )
    advertise: str = setting(
        "none",
        OPTIONAL_ENDPOINT,
        "Address of this node for clients, such as http://10.0.0.1:8080; `none` takes the one that it listens on.",
    )
    secret_file: str = setting(
        "none",
        OPTIONAL_PATH,
        "File with the secret that all nodes share, at least 16 characters: who knows it can be a node.",
    )
    tls_cert: str = setting(
        "none",
        OPTIONAL_PATH,
        "File with the certificate of this node for the other nodes. It has the node id as a DNS name, and the usages"
        " serverAuth and clientAuth. `none` leaves connections between nodes unencrypted.",
    )
    tls_key: str = setting("none", OPTIONAL_PATH, "File with the key of `cluster.tls_cert`, not encrypted.")
    tls_ca: str = setting(
        "none", OPTIONAL_PATH, "File with the certificates of the authorities that nodes accept from each other."
    )
    heartbeat_interval: float = setting(
        limits.CLUSTER_HEARTBEAT_SECONDS, DURATION, "How often a node says that it is alive.", (0.1, 60)
    )
    suspect_timeout: float = setting(
        limits.CLUSTER_SUSPECT_SECONDS, DURATION, "After which silence a node is shown as suspect.", (0.2, 600)
    )
    dead_timeout: float = setting(
        limits.CLUSTER_DEAD_SECONDS, DURATION, "After which silence a node is shown as dead.", (0.3, 3600)
    )
    election_timeout: float = setting(
        limits.CLUSTER_ELECTION_SECONDS,
        DURATION,
        "Least time without a controller until its election begins; at most twice as long. A controller whose process"
        " has ended is replaced sooner.",
        (0.1, 60),
    )
    replication_factor: int = setting(
        limits.CLUSTER_REPLICAS,
        INTEGER,
        "Replicas of a topic that does not set its own number; at most one on each node.",
        (1, limits.CLUSTER_REPLICAS_MAX),
    )
    min_isr: int = setting(
        limits.CLUSTER_MIN_ISR,
        INTEGER,
        "How many replicas must have a message before it is committed, unless the topic says; at most all of them.",
        (1, limits.CLUSTER_REPLICAS_MAX),
    )
    unclean_election: str = setting(
        "never",
        choice("never", "longest"),
        "What happens when no replica is left that has all committed messages, unless the topic says: wait for one, or"
        " have the longest replica lead. What that one lacks is lost.",
    )
    session_timeout: float = setting(
        limits.CLUSTER_SESSION_SECONDS,
        DURATION,
        "After which silence the controller gives the partitions of a node to others. A node whose process has ended"
        " loses them sooner.",
        (0.2, 60),
    )
    replica_lag: float = setting(
        limits.CLUSTER_REPLICA_LAG_SECONDS,
        DURATION,
        "How long a replica may make no progress while it lags, before it is not in sync any more; half as long where"
        " all others in sync have what it lacks.",
        (0.1, 60),
    )
    catch_up_rate: int = setting(
        0,
        SIZE,
        "Bytes of a second that this node sends to replicas that are not in sync, of all partitions together; 0: no"
        " limit. A lower one leaves more to clients.",
        (0, limits.CLUSTER_CATCH_UP_RATE_MAX),
    )
    rack: str = setting("none", NODE, "Rack or zone of this node: replicas are spread over racks.")
