"""A naive model of groups, beside that of the log: what members remember and what groups are owed.

It knows of every message what was answered, and of everything else that it may have happened or not. A tick is one
step of a life: what was answered at one tick must show in everything that is asked for at a later one.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from goqueue.broker.core.partition_ref import PartitionRef
from goqueue.broker.groups.records import Group
from tests.simulation.publishing.model import PartitionModel


class Key(NamedTuple):
    """A group's place in a partition, for as long as the topic lives."""

    group: str
    topic: str
    partition: int
    created_ns: int

    @property
    def place(self) -> PartitionRef:
        return PartitionRef(self.topic, self.partition)


@dataclass(eq=False)
class Progress:
    """The answers that a group got about one partition."""

    owed: PartitionModel | None
    """The messages; None for dead letters, which the broker publishes itself."""
    begin: int
    """Nothing below is owed to the group."""
    done: dict[int, int] = field(default_factory=dict)
    """What was answered as done with, and at which tick."""
    maybe: set[int] = field(default_factory=set)
    """What a client wanted to be done with, whatever the result."""
    dead: set[int] = field(default_factory=set)
    """What was answered as being on its way to the dead letters."""
    handed: set[int] = field(default_factory=set)
    transactional: dict[int, int] = field(default_factory=dict)
    """What was answered as part of a transaction that is open, and at which tick."""
    again: set[int] = field(default_factory=set)
    """What was part of a transaction that was aborted, and has yet to be handed out again."""
    counts: dict[int, dict[int, int]] = field(default_factory=dict)
    """With which delivery counts a message was handed out, and at which tick."""
    resets: int = 0
    """How often it may have been set back."""
    unsure: int = 0
    """How many who wanted to set it back have not been answered, or were refused, so that only the next start tells."""

    is_closed: bool = False
    """Whether the group does not read it now: it was deleted, or what opened it was taken back."""

    def set_back(self) -> None:
        """It may begin again: nothing that was answered before holds for certain."""
        self.resets += 1
        self.done.clear()
        self.dead.clear()
        self.counts.clear()
        self.transactional.clear()
        self.again.clear()

    def finish(self, offsets: Iterable[int], resets: int, tick: int) -> None:
        """An answer to a client who asked when it had been set back so often."""
        if resets == self.resets and not self.unsure:
            for offset in offsets:
                self.done.setdefault(offset, tick)

    def hand_out(self, offset: int, deliveries: int, begun: int, tick: int) -> None:
        """To a poll that began at one tick and was answered at another."""
        assert self.done.get(offset, begun) >= begun, f"what is done never comes back: offset {offset}"
        assert self.transactional.get(offset, begun) >= begun, (
            f"what is acked in a transaction is not delivered: offset {offset}"
        )
        self.again.discard(offset)
        counts = self.counts.setdefault(offset, {})
        assert deliveries not in counts, f"a delivery is counted once: offset {offset}, delivery {deliveries}"
        former = max((count for count, at in counts.items() if at < begun), default=0)
        assert deliveries > former, f"deliveries rise: offset {offset} had {former}, has {deliveries}"
        counts[deliveries] = tick


@dataclass
class Groups:
    """Everything that members know of their groups."""

    progress: dict[Key, Progress] = field(default_factory=dict)
    owners: dict[tuple[str, int, PartitionRef], str] = field(default_factory=dict)
    """Who was told to have which place in which generation of a group."""
    begin_late: set[str] = field(default_factory=set)
    """Groups that may begin to read a partition anywhere: a client wanted what comes, or has set them back."""
    resetting: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many want to set back a group in a topic, and have not been answered, or were refused."""
    is_unsure: set[str] = field(default_factory=set)
    """Groups whose deletion was asked for, and the result is unknown."""

    def told(self, group: Group) -> None:
        for member, places in group.assignment.items():
            for place in places:
                owner = self.owners.setdefault((group.group, group.generation, place), member)
                assert owner == member, (
                    f"a place has one owner in a generation: {place} of {group.group} in {group.generation}"
                    f" is of {owner} and of {member}"
                )

    def of(self, group: str) -> dict[Key, Progress]:
        return {key: progress for key, progress in self.progress.items() if key.group == group}

    def forget(self, group: str) -> None:
        """It was deleted, or may have been: one of the same name counts its generations anew."""
        for progress in self.of(group).values():
            progress.set_back()
            progress.is_closed = True
        for key in [key for key in self.owners if key[0] == group]:
            del self.owners[key]

    def recovered(self, floors: Callable[[Key], int]) -> None:
        """Return what is there after a start is what there is."""
        for key, progress in self.progress.items():
            if progress.unsure:
                progress.unsure = 0
                progress.set_back()
                progress.begin = max(progress.begin, floors(key))
        self.resetting.clear()
        for group in self.is_unsure:
            self.forget(group)
        self.is_unsure.clear()
