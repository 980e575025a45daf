"""The decisions of the controller about reassignments: which moves begin, complete or go back."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Literal

from goqueue.broker.core.catalog import TopicCreated
from goqueue.cluster.controller_requests import CancelReassignment, ChangeReassignment, StartReassignment
from goqueue.cluster.metadata import ClusterRecord, ClusterState, in_pieces
from goqueue.cluster.partitions import PartitionId, PartitionState
from goqueue.cluster.reassignment import begin, obstacle_to_cancel, obstacle_to_complete, settle_on
from goqueue.cluster.reassignment_records import (
    Move,
    Outcome,
    Reassignment,
    ReassignmentChanged,
    ReassignmentEnded,
    ReassignmentStarted,
)
from goqueue.errors import ClusterChangeRefused, ReassignmentNotFound, RequestInvalid, TopicNotFound
from goqueue.limits import CLUSTER_MOVES_MAX, CLUSTER_REPLICAS_MAX
from goqueue.quantities import format_count, quoted

MoveStage = Literal["waiting", "moving", "done", "kept", "gone"]
"""kept: it did not move; gone: its topic was deleted, or a later reassignment has moved it elsewhere."""


def stage_of(move: Move, reassignment: Reassignment, state: PartitionState | None) -> MoveStage:
    """Return how far one move is."""
    if state is None:
        return "gone"
    if state.is_moving and not reassignment.outcome:
        return "moving"
    if state.settled == move.target:
        return "done"
    if state.settled == move.before:
        return "kept" if reassignment.outcome else "waiting"
    return "gone"


class Reassigner:
    """The rules over the state of a controller."""

    def __init__(
        self,
        state: ClusterState,
        is_up: Callable[[str], bool],
        min_isr: Callable[[TopicCreated, tuple[str, ...]], int],
    ) -> None:
        """`min_isr` returns that of a partition of a topic with these replicas."""
        self._state = state
        self._is_up = is_up
        self._min_isr = min_isr

    # --- requests ---

    def start(self, request: StartReassignment, now_ns: int) -> list[ClusterRecord]:
        """Record what shall move. The moves begin with `advance`."""
        moves = tuple(self._move(log, target) for log, target in request.moves)
        moves = tuple(one for one in moves if one.before != one.target)
        if not moves:
            raise ClusterChangeRefused(
                "there is nothing to move: the partitions have these replicas, the preferred leader first",
                hint="`goqueue-cli cluster partitions` shows them",
            )
        if len(moves) > CLUSTER_MOVES_MAX:
            raise RequestInvalid(
                f"{format_count(len(moves), 'move')}: a reassignment has at most {CLUSTER_MOVES_MAX:,}",
                hint="split it",
                problems=[],
            )
        log, count = Counter(one.log for one in moves).most_common(1)[0]
        if count > 1:
            raise RequestInvalid(
                f"partition {self._state.names[log.topic_id]}/{log.partition} is named more than once",
                hint="name its replicas in one move",
                problems=[],
            )
        number = max(self._state.reassignments, default=0) + 1
        return [ReassignmentStarted(Reassignment(number, moves, request.throttle, request.at_once, now_ns))]

    def _move(self, log: PartitionId, target: tuple[str, ...]) -> Move:
        state = self._state.partitions.get(log)
        if state is None:
            raise TopicNotFound(
                f"the cluster has no partition {log.partition} of a topic with the id {log.topic_id}: it was deleted"
            )
        name = f"{self._state.names[log.topic_id]}/{log.partition}"
        if not target or len(set(target)) < len(target) or len(target) > CLUSTER_REPLICAS_MAX:
            raise RequestInvalid(
                f"partition {name} cannot have the replicas {', '.join(target) or 'of no node'}: name 1 to"
                f" {CLUSTER_REPLICAS_MAX} nodes, each once",
                problems=[],
            )
        for node in target:
            if node not in self._state.nodes:
                raise RequestInvalid(
                    f"partition {name} cannot move to node {quoted(node)}: the cluster has no such node",
                    hint=f"it has {', '.join(sorted(self._state.nodes))}",
                    problems=[],
                )
            if node not in state.replicas and not self._is_up(node):
                raise ClusterChangeRefused(
                    f"partition {name} cannot move to node {node}, which is not there", hint="start it first"
                )
        for reassignment in self.active():  # one that is over there too would be taken for one that is not
            if any(one.log == log for one in reassignment.moves):
                raise ClusterChangeRefused(
                    f"partition {name} is being moved by reassignment {reassignment.number}, which is not over",
                    hint="wait for that, or cancel it: `goqueue-admin reassign list`",
                )
        return Move(log, state.replicas, target)

    def change(self, request: ChangeReassignment) -> list[ClusterRecord]:
        found = self.find_active(request.number)
        throttle = found.throttle if request.throttle is None else request.throttle
        is_paused = found.is_paused if request.is_paused is None else request.is_paused
        if (throttle, is_paused) == (found.throttle, found.is_paused):
            return []
        return [ReassignmentChanged(found.number, throttle, is_paused)]

    def cancel(self, request: CancelReassignment, now_ns: int) -> list[ClusterRecord]:
        """Move back what is on its way; what has moved stays. Refused while too few former replicas are in sync."""
        found = self.find_active(request.number)
        changes: list[tuple[PartitionId, PartitionState]] = []
        for move, state in self._moving(found):
            if (obstacle := obstacle_to_cancel(state, move.before, self._is_up)) is not None:
                raise ClusterChangeRefused(
                    f"reassignment {found.number} cannot be cancelled now: of partition {self._name(move)},"
                    f" {obstacle}; {', '.join(state.isr) or 'none'} of {', '.join(move.before)} in sync, and min_isr is"
                    f" {state.min_isr}",
                    hint="start the nodes that are missing",
                )
            changes.append((move.log, self._settled(move, move.before, state)))
        return [*in_pieces(changes), self._ended(found, "cancelled", now_ns)]

    def find_active(self, number: int) -> Reassignment:
        found = self._state.reassignments.get(number)
        if found is None:
            raise ReassignmentNotFound(
                f"the cluster has no reassignment {number}", hint="`goqueue-admin reassign list` lists them"
            )
        if found.outcome:
            raise ClusterChangeRefused(f"reassignment {number} is {found.outcome}", hint="there is nothing to change")
        return found

    # --- time ---

    def active(self) -> list[Reassignment]:
        return [one for one in self._state.reassignments.values() if not one.outcome]

    def advance(self, now_ns: int) -> list[ClusterRecord]:
        """Complete the moves that can be completed, begin the next ones, and end what is done."""
        records: list[ClusterRecord] = []
        for reassignment in self.active():
            changes = list(self._steps(reassignment))
            records += in_pieces(changes)
            if not changes and not any(True for _ in self._left(reassignment)):
                records.append(self._ended(reassignment, "completed", now_ns))
        return records

    def _steps(self, reassignment: Reassignment) -> Iterator[tuple[PartitionId, PartitionState]]:
        moving = 0
        for move, state in self._moving(reassignment):
            if self._can_complete(move, state):
                yield move.log, self._settled(move, move.target, state)
            else:
                moving += 1
        if reassignment.is_paused:
            return
        for move in self._left(reassignment):
            state = self._state.partitions[move.log]
            if state.is_moving:
                continue
            if moving >= reassignment.at_once:
                return
            if set(move.target) <= set(state.replicas) and self._can_complete(move, state):
                yield move.log, self._settled(move, move.target, state)
            elif set(move.target) != set(state.replicas):
                moving += 1
                yield move.log, begin(state, move.target)

    def _ended(self, reassignment: Reassignment, outcome: Outcome, now_ns: int) -> ReassignmentEnded:
        found = self._state.partitions
        done = sum(stage_of(one, reassignment, found.get(one.log)) == "done" for one in reassignment.moves)
        return ReassignmentEnded(reassignment.number, outcome, now_ns, done)

    def _can_complete(self, move: Move, state: PartitionState) -> bool:
        least = self._min_isr(self._topic(move), move.target)
        return obstacle_to_complete(state, move.target, least, self._is_up) is None

    def _settled(self, move: Move, nodes: tuple[str, ...], state: PartitionState) -> PartitionState:
        return settle_on(state, nodes, self._min_isr(self._topic(move), nodes), self._is_up)

    def _moving(self, reassignment: Reassignment) -> Iterator[tuple[Move, PartitionState]]:
        for move in reassignment.moves:
            state = self._state.partitions.get(move.log)
            if state is not None and state.is_moving:
                yield move, state

    def _left(self, reassignment: Reassignment) -> Iterator[Move]:
        """Yield the moves that wait or are under way."""
        for move in reassignment.moves:
            if stage_of(move, reassignment, self._state.partitions.get(move.log)) in ("waiting", "moving"):
                yield move

    def _topic(self, move: Move) -> TopicCreated:
        return self._state.topics[self._state.names[move.log.topic_id]]

    def _name(self, move: Move) -> str:
        return f"{self._state.names[move.log.topic_id]}/{move.log.partition}"
