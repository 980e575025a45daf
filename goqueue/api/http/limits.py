"""How much a client may ask of the server, and how long it may take over it."""

from dataclasses import dataclass

from goqueue import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Bytes, counts and seconds; the reasons stand beside the defaults in `goqueue/limits.py`."""

    header_bytes: int = limits.HTTP_HEADER_BYTES
    header_count: int = limits.HTTP_HEADER_COUNT
    url_bytes: int = limits.HTTP_URL_BYTES
    body_bytes: int = limits.HTTP_BODY_BYTES
    header_seconds: float = limits.HTTP_HEADER_SECONDS
    body_seconds: float = limits.HTTP_BODY_SECONDS
    body_step_bytes: int = limits.HTTP_BODY_STEP_BYTES
    """A body that is not complete must have grown by this much in every `body_seconds`."""
    idle_seconds: float = limits.HTTP_IDLE_SECONDS
    write_seconds: float = limits.HTTP_WRITE_SECONDS
    write_step_bytes: int = limits.HTTP_WRITE_STEP_BYTES
    """A reader that is behind must have taken this much in every `write_seconds`."""
    connections: int = limits.HTTP_CONNECTIONS
    connections_spare: int = limits.HTTP_CONNECTIONS_SPARE
    bodies_bytes: int = limits.HTTP_BODIES_BYTES
    answers_bytes: int = limits.HTTP_ANSWERS_BYTES
    answers_spare_bytes: int = limits.HTTP_ANSWERS_SPARE_BYTES
    pipelined: int = limits.HTTP_PIPELINED
    drain_bytes: int = limits.HTTP_DRAIN_BYTES
    drain_seconds: float = limits.HTTP_DRAIN_SECONDS
