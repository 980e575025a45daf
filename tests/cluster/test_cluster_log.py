"""The replicated log on a disk: what a leader appends, a follower stores byte for byte, and what is cut back."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from goqueue.cluster.messages import Append, NodeIdentity
from goqueue.cluster.metadata import (
    ClusterCreated,
    ClusterRecord,
    NodeLeft,
    NodeRegistered,
    VotersChanged,
    encode_cluster_record,
)
from goqueue.cluster.retelling import tell_state
from goqueue.errors import RangeDamaged
from goqueue.runtime.cluster.cluster_log import CLUSTER_LOG, ClusterLog, check_append
from goqueue.storage.disk import SystemDisk
from goqueue.storage.store import Store
from goqueue.testing.clock import ManualClock


def tell(node: "Node") -> int:
    """Tell the state again, as the controller does; return where."""
    node.log.apply_to(node.log.log.next_offset)
    start, state = node.log.log.next_offset, node.log.state
    told: list[ClusterRecord] = [VotersChanged(state.voters, 1), *tell_state(state, 1)]
    for record in told:
        node.log.append(encode_cluster_record(record))
    node.log.index.extend(node.log.index.end + len(told))
    return start


class Node:
    """A log without a flusher's thread: `flush` makes it durable."""

    def __init__(self, path: Path, *, is_new: bool = True) -> None:
        self.clock = ManualClock()
        self.reports = 0
        self.store = Store.open(SystemDisk(), str(path), self.clock, owner="test")
        self.log = ClusterLog(self.store, SystemDisk(), self._report, is_new=is_new)

    def _report(self) -> None:
        self.reports += 1
        self.log.index.durable_end = self.log.log.durable_end

    def lead(self, epoch: int) -> None:
        base = self.log.log.next_offset
        self.log.begin_epoch(epoch, "n1", self.clock.now_ns())
        self.log.index.extend(base + 1, ((epoch, base),))

    def append(self, *names: str) -> None:
        for name in names:
            self.clock.advance(1)
            count = self.log.append(encode_cluster_record(NodeLeft(name, 0)))
            self.log.index.extend(self.log.index.end + count)

    def sent(self, base: int, end: int) -> Append:
        """Return what a leader sends of this range."""
        index = self.log.index
        rows, content = index.rows_between(base, end), self.log.content(base, end)
        return Append(index.last_epoch, index.epoch_before(base), base, end, rows, 0, 0, content)

    def receive(self, append: Append) -> None:
        assert check_append(append) is None
        self.log.store(append)
        self.log.index.extend(append.end, append.epochs)

    @property
    def bytes(self) -> bytes:
        return (Path(self.log.log.directory) / f"{0:020}.log").read_bytes()


@pytest.fixture
def node(tmp_path: Path) -> Callable[[str], Node]:
    return lambda name: Node(tmp_path / name)


def test_follower_has_the_same_bytes_in_whatever_pieces_they_come(node: Callable[[str], Node]) -> None:
    leader = node("a")
    leader.lead(1)
    leader.append(*"abcdefg")
    for number, pieces in enumerate(([0, 8], [0, 1, 2, 8], [0, 5, 6, 7, 8])):
        follower = node(f"b{number}")
        for base, end in pairwise(pieces):
            follower.receive(leader.sent(base, end))
        follower.store.flush()
        leader.store.flush()

        assert follower.bytes == leader.bytes
        assert follower.log.log.epochs.last == 1


def test_content_is_sent_before_it_is_synced_and_after_a_restart(node: Callable[[str], Node], tmp_path: Path) -> None:
    leader = node("a")
    leader.lead(1)
    leader.append("x", "y", "z")
    before = leader.sent(1, 3)
    leader.store.flush()
    leader.store.close()

    again = Node(tmp_path / "a", is_new=False)

    assert again.log.index.rows == [(1, 0)]
    assert again.sent(1, 3).content == before.content
    again.append("more")
    assert again.sent(0, 5).content == again.sent(0, 2).content + again.sent(2, 5).content


def test_log_that_was_cut_back_takes_the_history_of_another_leader(node: Callable[[str], Node]) -> None:
    old, new = node("a"), node("b")
    old.lead(1)
    old.append("shared")
    new.receive(old.sent(0, 2))
    old.append("lost-1", "lost-2")
    old.store.flush()
    new.lead(2)
    new.append("kept")

    old.log.truncate(2)
    old.log.index.cut(2)
    old.receive(new.sent(2, 4))
    old.store.flush()
    new.store.flush()

    assert old.bytes == new.bytes
    assert old.log.log.epochs.last == 2


def test_damaged_log_tells_what_an_operator_can_do(tmp_path: Path) -> None:
    before = Node(tmp_path)
    before.lead(1)
    before.append(*"abcdefg")
    before.store.flush()
    before.store.close()
    path = Path(before.log.log.directory) / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    with pytest.raises(RangeDamaged) as raised:
        Node(tmp_path, is_new=False)

    assert "is damaged from byte" in raised.value.sentence
    assert "replace-voter" in (raised.value.hint or "")


def test_state_follows_from_what_is_committed(node: Callable[[str], Node]) -> None:
    leader = node("a")
    leader.lead(1)
    for record in (ClusterCreated("c1", (), 1), NodeRegistered("n2", "d", "i", "http://n2", "", "1", 2)):
        leader.log.append(encode_cluster_record(record))
    leader.append("n2")

    leader.log.apply_to(3)

    assert (leader.log.state.cluster_id, leader.log.state.nodes["n2"][1]) == ("c1", 2)
    leader.log.apply_to(4)
    assert leader.log.state.nodes == {}


def test_append_that_is_not_what_it_says_is_refused(node: Callable[[str], Node]) -> None:
    leader = node("a")
    leader.lead(1)
    leader.append("x", "y")
    whole = leader.sent(0, 3)

    def changed(base: int = 0, end: int = 3, epochs: tuple[tuple[int, int], ...] = ((1, 0),), cut: int = 0) -> Append:
        content = whole.content[: len(whole.content) - cut]
        return Append(1, 0, base, end, epochs, 0, 0, content)

    assert check_append(changed()) is None
    assert check_append(changed(end=4)) is not None
    assert check_append(changed(base=1, end=4)) is not None
    assert check_append(changed(epochs=())) is not None
    assert check_append(changed(epochs=((2, 0),))) is not None
    assert check_append(changed(cut=1)) is not None
    flipped = bytearray(whole.content)
    flipped[-1] ^= 1
    assert check_append(Append(1, 0, 0, 3, ((1, 0),), 0, 0, bytes(flipped))) is not None


def test_new_node_begins_with_an_empty_log(tmp_path: Path) -> None:
    """A restored backup has the log of another node, and no note of who that was."""
    former = Node(tmp_path / "a")
    former.lead(1)
    former.store.flush()
    former.store.close()

    again = Node(tmp_path / "a", is_new=True)

    assert again.store.logs[CLUSTER_LOG].next_offset == 0
    assert again.log.index.rows == []


def test_voters_are_known_from_the_log_after_a_restart_and_after_a_cut(
    node: Callable[[str], Node], tmp_path: Path
) -> None:
    three = tuple(NodeIdentity(f"n{number}", "d") for number in (1, 2, 3))
    leader = node("a")
    leader.lead(1)
    leader.append("x")
    for voters in (three[:2], three):
        leader.log.append(encode_cluster_record(VotersChanged(voters, 0)))
    leader.log.index.extend(4)
    leader.store.flush()
    rows = [(2, three[:2]), (3, three)]
    assert leader.log.voter_rows() == rows
    assert leader.log.log.next_offset == 4
    sent = leader.sent(0, 4)
    leader.store.close()

    again = Node(tmp_path / "a", is_new=False)

    assert again.log.voter_rows() == rows
    assert check_append(sent) == "its voters are not those of its records"
    assert check_append(replace(sent, voters=tuple(rows))) is None
    again.log.truncate(3)
    assert again.log.voter_rows() == rows[:1]


def test_log_begins_where_the_state_was_told_again_also_after_a_restart(
    node: Callable[[str], Node], tmp_path: Path
) -> None:
    leader = node("a")
    leader.lead(1)
    leader.log.append(encode_cluster_record(ClusterCreated("c", (), 1)))
    for turn in range(3):
        leader.append(*(f"n{turn}{number}" for number in range(5)))
        start = tell(leader)
        leader.append("later")
    leader.store.flush()

    leader.log.apply_to(leader.log.log.next_offset)
    assert leader.log.told_start == start
    tell(leader)
    leader.store.flush()
    leader.log.apply_to(leader.log.log.next_offset)
    end = leader.log.log.next_offset
    assert 0 < leader.log.log.first_offset <= leader.log.told_start
    leader.store.close()

    again = Node(tmp_path / "a", is_new=False)

    assert again.log.log.next_offset == end
    assert again.log.index.start == again.log.applied_end > start
    assert again.log.voter_rows()[0][0] == again.log.index.start
    assert again.log.state.is_behind
    again.log.apply_to(end)
    assert again.log.state.cluster_id == "c"
    assert not again.log.state.is_behind


def test_follower_that_passed_over_records_goes_on_behind_the_gap_after_a_restart(
    node: Callable[[str], Node], tmp_path: Path
) -> None:
    leader, follower = node("a"), node("b")
    leader.lead(1)
    leader.append("first")
    follower.log.store(leader.sent(0, 2))
    follower.store.flush()
    leader.log.append(encode_cluster_record(ClusterCreated("c", (), 1)))
    leader.append("x", "y")
    start = tell(leader)
    leader.append("z")
    end = leader.log.log.next_offset

    follower.log.skip_to(start, 1)
    follower.log.store(leader.sent(start, end))
    follower.store.flush()
    follower.store.close()
    again = Node(tmp_path / "b", is_new=False)

    assert (again.log.index.start, again.log.index.end) == (start, end)
    assert again.log.index.epoch_before(start + 1) == 1
    again.log.apply_to(end)
    assert again.log.state.cluster_id == "c"
    assert again.log.content(start, end) == leader.log.content(start, end)
