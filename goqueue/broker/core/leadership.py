"""The leader of a partition of a cluster, and the refusals of the nodes that may not answer for it.

A partition of a broker alone has no leadership. In a cluster, the owner of the replicas sets the fields when the
controller's decision is known here, and wakes the partition's readers after each change.
"""

from collections.abc import Callable
from typing import Any

from goqueue.errors import LeadershipLost, LeaderUnavailable, NotCoordinator, NotEnoughReplicas, NotLeader
from goqueue.quantities import format_count, quoted

_RETRY_SECONDS = 1


class Leadership:
    """The leader and the replicas of one partition, as this node knows them."""

    __slots__ = (
        "_address_of", "_has_lease", "common_end", "is_handing_over", "is_leading", "is_settled", "isr", "leader",
        "leader_epoch", "log_start", "min_isr", "node", "partition", "replicas", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        partition: int,
        node: str,
        address_of: Callable[[str], str | None] = lambda _: None,
        has_lease: Callable[[], bool] = lambda: True,
    ) -> None:
        """`address_of` returns the address of a node for clients; `has_lease`, whether no other node can have been made
        a leader in place of this one without its knowledge.
        """
        self.topic, self.partition, self.node = topic, partition, node
        self._address_of, self._has_lease = address_of, has_lease
        self.leader = ""
        """The node that leads it; empty if none does."""
        self.leader_epoch = 0
        self.replicas: tuple[str, ...] = ()
        self.isr: tuple[str, ...] = ()
        self.min_isr = 1
        self.log_start = 0
        """Where the leader's log begins: a follower removes nothing that its leader has."""
        self.common_end = 0
        """All replicas have everything below. Compaction stays below, or one would miss that a key was deleted."""
        self.is_leading = False
        """Whether this process has begun this epoch as the leader."""
        self.is_handing_over = False
        """Whether this node stops, and takes nothing any more."""
        self.is_settled = False
        """Whether the first frame of this leader is committed, so that its high watermark is that of the partition."""

    @property
    def has_replica(self) -> bool:
        return self.node in self.replicas

    @property
    def is_elsewhere(self) -> bool:
        """True if another node leads it, as far as this one knows."""
        return self.leader not in ("", self.node)

    @property
    def may_answer(self) -> bool:
        """True if this node answers as the leader now."""
        return self.is_leading and self._has_lease()

    def refuse_unless_leader(self) -> None:
        if not (self.is_leading and self._has_lease()):
            raise self.refusal()

    def refuse_unless_leading(self) -> None:
        """Raise if this node does not lead, as far as it knows: enough for what its followers have to confirm."""
        if not self.is_leading:
            raise self.refusal()

    @property
    def knows_end(self) -> bool:
        """True if the high watermark here is that of the partition, so that no reader can have seen more."""
        return self.is_leading and self.is_settled

    @property
    def shows_end(self) -> bool:
        """True if no other node can show more than this one: it knows the end, and no later leader is possible."""
        return self.knows_end and self._has_lease()

    def refuse_unless_replica(self) -> None:
        """Raise if this node has no replica to read from."""
        if not self.has_replica:
            raise self.refusal()

    def refuse_append(self) -> None:
        """Raise if this node does not append of its own: followers get what their leader has appended."""
        if not self.is_leading:
            raise self.refusal()

    def refuse_unless_enough(self) -> None:
        """Raise if a message that is appended now would not be committed."""
        if len(self.isr) < self.min_isr:
            raise NotEnoughReplicas(
                f"partition {self.partition} of topic {quoted(self.topic)} has "
                f"{format_count(len(self.isr), 'replica')} in sync, and min_isr is {self.min_isr}",
                hint="nothing was stored; retry when more nodes are back, or publish with acks=leader",
                retry_after=_RETRY_SECONDS,
                topic=self.topic,
                partition=self.partition,
                isr=list(self.isr),
                min_isr=self.min_isr,
            )

    def hand_over(self) -> None:
        """Take nothing any more: this node is about to give its leaders away. What is under way goes on."""
        self.is_handing_over, self.is_leading = True, False

    def refusal(self) -> NotLeader | LeaderUnavailable:
        """Return why this node does not answer for the partition."""
        name = f"partition {self.partition} of topic {quoted(self.topic)}"
        if self.leader and self.leader != self.node:
            return NotLeader(
                f"{name} is led by node {self.leader}, not by node {self.node}",
                hint="send the request to the leader",
                **self._details(),
            )
        if not self.leader:
            why = f"{name} has no leader now" if self.leader_epoch else self._unknown(name)
        elif self.is_handing_over:
            why = f"node {self.node} stops and hands {name} over"
        elif not self.is_leading:
            why = f"node {self.node} is taking over {name}"
        else:
            why = f"node {self.node} leads {name}, but the controller has not confirmed that in time"
        return self._unavailable(why)

    def other_coordinator(self) -> NotCoordinator | LeaderUnavailable:
        """Return why this node does not coordinate what has its records in this partition."""
        name = f"{self.topic}/{self.partition}"
        if self.leader and self.leader != self.node:
            return NotCoordinator(
                f"node {self.leader} coordinates this, as the leader of {name}",
                hint="send the request to the coordinator",
                coordinator=self.leader,
                coordinator_address=self._address_of(self.leader),
                log=name,
            )
        if self.is_leading and not self._has_lease():
            return self._unavailable(
                f"node {self.node} leads {name}, but the controller has not confirmed that in time"
            )
        changing = f"the coordinator is being changed: {name} has no leader yet that has taken over"
        return self._unavailable(changing if self.leader_epoch else self._unknown(name))

    def _unavailable(self, why: str) -> LeaderUnavailable:
        """Return the error with the addresses of the other replicas: this node may be the only one without a leader."""
        others = [self._address_of(node) for node in self.replicas if node != self.node]
        return LeaderUnavailable(
            why,
            hint="retry in a moment, at another node too",
            retry_after=_RETRY_SECONDS,
            replica_addresses=[address for address in others if address],
            **self._details(),
        )

    def lost(self) -> LeadershipLost:
        """Return the error for those who wait for what this node has appended as the leader."""
        name = f"partition {self.partition} of topic {quoted(self.topic)}"
        what = "may not lead" if self.is_leading else "does not lead"
        return LeadershipLost(
            f"node {self.node} {what} {name} any more, and this is not committed: it may be stored or not",
            hint="send it again to the leader; a producer with a producer id does not store it twice",
            retry_after=_RETRY_SECONDS,
            topic=self.topic,
            partition=self.partition,
            leader_epoch=self.leader_epoch,
        )

    def undecided(self) -> LeadershipLost:
        """Return the error for those who wait for what is stored here while too few replicas are in sync."""
        name = f"partition {self.partition} of topic {quoted(self.topic)}"
        return LeadershipLost(
            f"{name} has {format_count(len(self.isr), 'replica')} in sync since this was appended, and min_isr is"
            f" {self.min_isr}: it is committed when more are back, or not at all",
            hint="send it again later; a producer with a producer id does not store it twice",
            retry_after=_RETRY_SECONDS,
            topic=self.topic,
            partition=self.partition,
            leader_epoch=self.leader_epoch,
        )

    def _unknown(self, name: str) -> str:
        return f"node {self.node} does not know yet which node leads {name}"

    def _details(self) -> dict[str, Any]:
        leader = self.leader or None
        return {
            "topic": self.topic,
            "partition": self.partition,
            "leader": leader,
            "leader_address": None if leader is None else self._address_of(leader),
            "leader_epoch": self.leader_epoch,
        }

    def __repr__(self) -> str:
        role = "leading" if self.is_leading else "not leading"
        return f"<Leadership {self.topic}/{self.partition} of {self.leader or 'none'} in {self.leader_epoch}, {role}>"
