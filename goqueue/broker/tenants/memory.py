"""The memory of one tenant: large requests until they are answered, and large answers until they are taken."""

from goqueue.errors import BrokerOverloaded
from goqueue.quantities import quoted


class TenantMemory:
    """Counts what a tenant holds of the memory that all tenants share."""

    __slots__ = ("bytes_max", "held_bytes", "refusals", "tenant")

    def __init__(self, tenant: str, bytes_max: int) -> None:
        self.tenant = tenant
        self.bytes_max = bytes_max
        self.held_bytes = 0
        self.refusals = 0
        """Requests and answers for which there was no room."""

    def check(self, size: int) -> None:
        """Raise BrokerOverloaded if there is no room for so much more. What is alone always fits."""
        if self.held_bytes and self.held_bytes + size > self.bytes_max:
            self.refusals += 1
            raise BrokerOverloaded(
                f"{size:,} bytes do not fit: large requests and answers of tenant {quoted(self.tenant)} hold "
                f"{self.held_bytes:,} bytes, at most {self.bytes_max:,} are allowed",
                hint="retry in a second, send less at a time, and read answers sooner; an operator can raise the "
                "setting tenants.memory_percent",
                retry_after=1,
            )

    def hold(self, size: int) -> None:
        self.held_bytes += size

    def release(self, size: int) -> None:
        self.held_bytes -= size
