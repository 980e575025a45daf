"""Reassignments: several moves of partitions that an operator follows, slows down, pauses and cancels as one."""

from typing import ClassVar, Literal

from msgspec import Struct

from goqueue.cluster.partitions import PartitionId

Outcome = Literal["", "completed", "cancelled"]


class Move(Struct, frozen=True):
    """The move of one partition."""

    log: PartitionId
    before: tuple[str, ...]
    """Its replicas when the reassignment began."""
    target: tuple[str, ...]
    """The preferred leader first."""


class Reassignment(Struct, frozen=True):
    """The moves that an operator has asked for. Which of them have ended follows from the states of partitions."""

    number: int
    moves: tuple[Move, ...]
    throttle: int
    """Bytes of a second that each node sends to replicas that come; 0: no limit."""
    at_once: int
    """How many partitions move at a time."""
    started_ns: int
    is_paused: bool = False
    """Nothing is sent to replicas that come, and no further move begins."""
    outcome: Outcome = ""
    """Empty while it is under way."""
    ended_ns: int = 0
    done: int = 0
    """How many moves were done when it ended. Later ones may take their partitions elsewhere."""


class ReassignmentStarted(Struct, frozen=True, tag="reassignment_started", tag_field="record"):
    """An operator has asked for these moves."""

    needed_level: ClassVar[int] = 2

    reassignment: Reassignment


class ReassignmentChanged(Struct, frozen=True, tag="reassignment_changed", tag_field="record"):
    """A reassignment goes on at another speed, is paused or resumed."""

    needed_level: ClassVar[int] = 2

    number: int
    throttle: int
    is_paused: bool


class ReassignmentEnded(Struct, frozen=True, tag="reassignment_ended", tag_field="record"):
    """All moves have ended, or an operator has cancelled the others. Its throttle ends with it."""

    needed_level: ClassVar[int] = 2

    number: int
    outcome: Outcome
    time_ns: int
    done: int = 0


class NodeDraining(Struct, frozen=True, tag="node_draining", tag_field="record"):
    """A node leads nothing, where others can, and gets no new replicas, until that is taken back."""

    needed_level: ClassVar[int] = 2

    node: str
    is_draining: bool
