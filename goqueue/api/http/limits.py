"""How much a client may ask of the server, and how long it may take over it."""

from dataclasses import dataclass, replace
from typing import Self

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

    def within(self, files_max: int | None) -> Self:
        """The same limits with no more connections than the limit of open files leaves after what storage may use."""
        if files_max is None:
            return self
        left = max(files_max - limits.STORAGE_FILES_MAX, limits.HTTP_CONNECTIONS_LEAST)
        spare = min(self.connections_spare, left // 8)
        return replace(self, connections=min(self.connections, left - spare), connections_spare=spare)
