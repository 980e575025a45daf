"""Where the keys of added partitions come from, so that groups can keep the order of keys.

With a multiple of the partitions, the keys of a new partition c were in partition c mod the former number before. That
is its parent, and where the parent ended when c was added is its split offset: below it are older messages of the keys
of c. So a group that hands out messages of c only when its committed offset in the parent has reached the split offset
keeps the order of every key.

    4 partitions become 8:   partition 5 has the parent 1, which ended at 70
    parent 1    … 68  69 │ 70  71 …     keys of 1 and 5 │ keys of 1 alone
    child 5              │  0   1 …                     │ keys of 5
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from goqueue.broker.core.partition import Partition
from goqueue.errors import KeysWouldMove, RequestInvalid, TopicBusy
from goqueue.limits import PARTITIONS_MAX
from goqueue.quantities import format_count, quoted

UNDECIDED = -1
"""The split offset of a partition that was added before its parent's end was recorded."""
NO_PARENT = -1


class Split(NamedTuple):
    """The origin of the keys of an added partition."""

    parent: int
    """`NO_PARENT`: no order is kept, because keys came from any partition, or because the topic was empty."""
    offset: int = UNDECIDED

    @property
    def is_decided(self) -> bool:
        return self.offset != UNDECIDED


Splits = Mapping[int, Split]
"""By the number of an added partition."""


def plan_splits(old: int, new: int, *, is_empty: bool) -> dict[int, Split]:
    """Return the splits of the partitions to be added, as far as they are known before the routing changes."""
    if new % old == 0:
        return {number: Split(number % old) for number in range(old, new)}
    # An empty topic must still be empty when the routing changes.
    return {number: Split(NO_PARENT, UNDECIDED if is_empty else 0) for number in range(old, new)}


def decide_splits(splits: Splits, partitions: Sequence[Partition]) -> dict[int, Split]:
    """Set undecided split offsets to where the parents end now. Those of unavailable parents stay undecided."""
    decided = dict(splits)
    for number, split in splits.items():
        if not split.is_decided:
            if split.parent == NO_PARENT:
                decided[number] = Split(NO_PARENT, 0)
            elif partitions[split.parent].log.fence is None:
                decided[number] = Split(split.parent, partitions[split.parent].log_end)
    return decided


def within_logs(splits: Splits, partitions: Sequence[Partition]) -> dict[int, Split]:
    """Limit split offsets to the ends of the parents, which may have lost messages in a power failure: no group could
    reach a later offset.
    """
    limited = dict(splits)
    for number, (parent, offset) in splits.items():
        if parent != NO_PARENT and partitions[parent].log.fence is None:
            limited[number] = Split(parent, min(offset, partitions[parent].log_end))
    return limited


def undecided(splits: Splits) -> dict[int, Split]:
    return {number: split for number, split in splits.items() if not split.is_decided}


# --- what may be asked for ---


def check_partition_count(
    name: str, old: int, new: int, splits: Splits, *, is_empty: bool, is_compacted: bool, accept_key_moves: bool
) -> None:
    """Raise unless the topic may get so many partitions."""
    if undecided(splits):
        raise TopicBusy(f"partitions are being added to topic {quoted(name)}", hint="try again in a moment", topic=name)
    if new <= old:
        what = "so many" if new == old else "and none can be removed: their messages would be lost"
        raise _refused(
            f"topic {quoted(name)} has {format_count(old, 'partition')}, {what}", f"name more than {old}", name
        )
    if new > PARTITIONS_MAX:
        raise _refused(
            f"{new:,} partitions are more than the {PARTITIONS_MAX:,} that a topic can have",
            _allowed_hint(old) or f"topic {quoted(name)} cannot be doubled any more: create another topic",
            name,
        )
    if is_empty or accept_key_moves:
        return
    if new % old:
        raise KeysWouldMove(
            f"with {new} instead of {old} partitions, keys of topic {quoted(name)} move between partitions in a way "
            "that does not keep their order",
            hint=f"{_allowed_hint(old) or 'no larger number keeps it'}; accept_key_moves takes {new} all the same",
            topic=name,
            allowed=allowed_counts(old),
        )
    if is_compacted:
        raise KeysWouldMove(
            f"topic {quoted(name)} is compacted: the last messages of moved keys stay in their former partitions, "
            "beside newer ones in other partitions",
            hint="accept_key_moves adds the partitions all the same; readers that build a table take the newer one",
            topic=name,
            allowed=[],
        )


def allowed_counts(old: int) -> list[int]:
    """Return the next numbers of partitions that keep the order of keys."""
    return [count for count in (old * factor for factor in (2, 3, 4)) if count <= PARTITIONS_MAX]


def _allowed_hint(old: int) -> str:
    counts = [str(count) for count in allowed_counts(old)]
    if not counts:
        return ""
    listed = counts[0] if len(counts) == 1 else f"{', '.join(counts[:-1])} or {counts[-1]}"
    return f"{listed} partitions keep the order of keys"


def _refused(sentence: str, hint: str, name: str) -> RequestInvalid:
    return RequestInvalid(sentence, hint=hint, topic=name, problems=[])
