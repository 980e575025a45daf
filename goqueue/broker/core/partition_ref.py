"""Keys of partitions and logs, used wherever a topic and a partition number belong together."""

from typing import NamedTuple


class PartitionRef(NamedTuple):
    """A topic and a partition number. Equal to the plain tuple; an array of two in JSON."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class LogRef(NamedTuple):
    """A reference to a partition's log or its delayed log."""

    topic: str
    partition: int
    is_delayed: bool = False
