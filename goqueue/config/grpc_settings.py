"""Settings of gRPC."""

from dataclasses import dataclass

from goqueue import limits
from goqueue.config.value_types import DURATION, INTEGER, OPTIONAL_NUMBER, setting


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcConfig:
    """gRPC on a port of its own. It needs the packages of `pip install 'goqueue[grpc]'`."""

    port: str = setting(
        "none",
        OPTIONAL_NUMBER,
        "Port on `server.host` that speaks gRPC, or `none`; 0 selects a free port. TLS, keys and roles are those of"
        " the other ports.",
        flag="--grpc-port",
    )
    streams: int = setting(
        limits.RPC_STREAMS,
        INTEGER,
        "Maximum number of calls under way, with streams that wait; more are refused.",
        (1, 1_000_000),
    )
    keepalive: float = setting(
        limits.RPC_KEEPALIVE_SECONDS,
        DURATION,
        "After which time without data the broker asks a client whether it is there; without an answer in 20 s its"
        " connection is closed.",
        (1, 3600),
    )
