"""The packages of the extra `grpc`. Nothing is loaded here."""

from importlib.util import find_spec

from goqueue.errors import GrpcUnavailable

_PACKAGES = ("grpc", "grpc_health", "grpc_reflection", "google.protobuf", "google.rpc")


def require_packages() -> None:
    """Raise GrpcUnavailable if one is missing."""
    missing = [name for name in _PACKAGES if not _is_there(name)]
    if missing:
        raise GrpcUnavailable(
            f"grpc.port needs packages that are not installed: {', '.join(missing)}",
            hint="pip install 'goqueue[grpc]' where the broker runs, or set grpc.port to none",
        )


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of the package around it
        return False
