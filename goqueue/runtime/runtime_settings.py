"""The settings of the runtime."""

from dataclasses import dataclass, field

from goqueue.broker.groups.coordinator import GroupSettings
from goqueue.limits import (
    IN_FLIGHT_BYTES,
    RETENTION_JUMP_PERCENT,
    SCRUB_RATE,
    SCRUB_SECONDS,
    TENANT_MEMORY_PERCENT,
    UPKEEP_SECONDS,
)
from goqueue.runtime.tracer import TracingSettings


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    in_flight_bytes: int = IN_FLIGHT_BYTES
    upkeep_seconds: float = UPKEEP_SECONDS
    groups: GroupSettings = field(default_factory=GroupSettings)
    retention_jump_percent: int = RETENTION_JUMP_PERCENT
    scrub_rate: int = SCRUB_RATE
    scrub_seconds: float = SCRUB_SECONDS
    tracing: TracingSettings = field(default_factory=TracingSettings)
    has_tenants: bool = False
    """Whether the log of tenants is opened."""
    tenant_memory_bytes: int = IN_FLIGHT_BYTES * TENANT_MEMORY_PERCENT // 100
    """The most bytes that large requests and answers of one tenant hold."""
