"""The settings of a node."""

import socket
from dataclasses import dataclass

from goqueue.clock import NANOSECONDS
from goqueue.cluster.feature_levels import FEATURE_LEVEL
from goqueue.cluster.leader_replica import ReplicaSettings
from goqueue.cluster.membership import MembershipSettings
from goqueue.cluster.raft_state import RaftSettings
from goqueue.config.cluster_settings import ClusterConfig
from goqueue.config.value_types import split_address, split_peers
from goqueue.errors import ClusterSecretInvalid
from goqueue.limits import (
    CLUSTER_MIN_ISR,
    CLUSTER_REPLICA_LAG_SECONDS,
    CLUSTER_REPLICAS,
    CLUSTER_SECRET_BYTES_MAX,
    CLUSTER_SECRET_CHARACTERS_MIN,
    CLUSTER_SESSION_SECONDS,
)
from goqueue.runtime.cluster.peer_tls import PeerTls, PeerTlsFiles


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The settings of one node."""

    node: str
    peers: dict[str, tuple[str, int]]
    """Host and port of the nodes that elect, by id."""
    listen: tuple[str, int] | None
    """None for an observer: no other node dials it."""
    secret: bytes
    """Empty if certificates alone prove who is a node."""
    tls: PeerTls | None
    client_address: str
    heartbeat_seconds: float
    membership: MembershipSettings
    raft: RaftSettings
    rack: str = ""
    replication_factor: int = CLUSTER_REPLICAS
    """Of topics that do not set their own; at most one replica on each node."""
    min_isr: int = CLUSTER_MIN_ISR
    """The same for topics without their own; at most all replicas."""
    unclean_election: str = "never"
    """Whether the longest replica leads where no other can, for topics that do not set their own."""
    session_ns: int = round(CLUSTER_SESSION_SECONDS * NANOSECONDS)
    """After which silence the controller fences a node."""
    replica_lag_ns: int = round(CLUSTER_REPLICA_LAG_SECONDS * NANOSECONDS)
    """How long a replica may make no progress while it lags."""
    catch_up_rate: int = 0
    """Bytes of a second that are sent to replicas that are not in sync; 0: no limit."""
    feature_level: int = FEATURE_LEVEL
    """What this node can do. Tests set it."""

    @property
    def replicas(self) -> ReplicaSettings:
        return ReplicaSettings(self.replica_lag_ns, catch_up_rate=self.catch_up_rate)


def cluster_settings(config: ClusterConfig, client_address: str) -> ClusterSettings:
    """Return the settings of a configuration. `client_address` is where this node listens for clients.

    Raises ClusterSecretInvalid or CertificateInvalid.
    """
    node = socket.gethostname() if config.node_id == "none" else config.node_id
    peers = {peer: split_address(address) for peer, address in split_peers(config.peers).items()}
    election_ns = round(config.election_timeout * NANOSECONDS)
    return ClusterSettings(
        node,
        peers,
        peers.get(node) if config.listen == "none" else split_address(config.listen),
        _read_secret(config.secret_file),
        _tls(config, node),
        client_address if config.advertise == "none" else config.advertise,
        config.heartbeat_interval,
        MembershipSettings(round(config.suspect_timeout * NANOSECONDS), round(config.dead_timeout * NANOSECONDS)),
        RaftSettings(election_ns, election_ns // 10),
        "" if config.rack == "none" else config.rack,
        config.replication_factor,
        config.min_isr,
        config.unclean_election,
        round(config.session_timeout * NANOSECONDS),
        round(config.replica_lag * NANOSECONDS),
        config.catch_up_rate,
    )


def _tls(config: ClusterConfig, node: str) -> PeerTls | None:
    if config.tls_cert == "none":
        return None
    return PeerTls(PeerTlsFiles(config.tls_cert, config.tls_key, config.tls_ca), node)


def _read_secret(path: str) -> bytes:
    if path == "none":
        return b""
    try:
        with open(path, "rb") as file:
            secret = file.read(CLUSTER_SECRET_BYTES_MAX + 1).strip()
    except OSError as error:
        raise ClusterSecretInvalid(
            f"the secret of the cluster cannot be read from {path}: {error.strerror or error}",
            hint="`cluster.secret_file` names a file with the same secret on all nodes",
        ) from None
    if not CLUSTER_SECRET_CHARACTERS_MIN <= len(secret) <= CLUSTER_SECRET_BYTES_MAX:
        raise ClusterSecretInvalid(
            f"the secret of the cluster in {path} has {len(secret):,} characters: it needs at least"
            f" {CLUSTER_SECRET_CHARACTERS_MIN} and at most {CLUSTER_SECRET_BYTES_MAX:,}",
            hint="make one with `openssl rand -hex 32`",
        )
    return secret
