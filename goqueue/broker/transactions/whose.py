"""Which transaction is meant."""

from typing import NamedTuple


class Whose(NamedTuple):
    """One transaction of a producer: after each end the epoch is another one."""

    producer: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer}-{self.epoch}"
