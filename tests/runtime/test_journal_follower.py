"""The keys of a node that follows another one: applied when they are committed, undone when the log is cut back."""

import asyncio

import pytest

from goqueue.broker.core.journal import LostRange
from goqueue.broker.core.leadership import Leadership
from goqueue.broker.core.truncation import truncate_partition
from goqueue.broker.core.work import run_work
from goqueue.errors import LeaderUnavailable, NotCoordinator
from goqueue.runtime.cluster.journal_follower import JournalFollower
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.security.records import RoleRecord, encode_security_record
from goqueue.storage import scan
from tests.broker.brokers import Running


class Follower:
    """A node whose leader has recorded roles."""

    def __init__(self) -> None:
        self.running = Running()
        self.security = self.running.broker.security
        self.partition = self.security.journal.partition
        self.changes = 0
        self.follower = JournalFollower(self.security.journal, OwnedTasks("a test", lambda: None), self._count)
        self.role = Leadership("__security", 0, "n1", {"n2": "http://n2"}.get)
        self.role.leader = "n2"
        self.partition.leadership = self.role

    def _count(self) -> None:
        self.changes += 1

    async def receive(self, *names: str) -> None:
        """Append what the leader has sent, and commit it."""
        records = (RoleRecord(name=name, rules=(), summary="", created_ns=1, created_by="") for name in names)
        content = bytearray(b"".join(map(encode_security_record, records)))
        self.partition.log.append(scan.check_batch(content), lambda _: None)
        self.running.flush()
        await asyncio.sleep(0)

    def leads(self) -> bool:
        return self.follower.is_led

    @property
    def roles(self) -> set[str]:
        return set(self.security.state.roles)


def test_records_of_the_leader_are_in_force_when_they_are_committed() -> None:
    async def main() -> None:
        node = Follower()
        node.follower.look()
        await node.receive("till")
        assert node.roles == {"till"}
        await node.receive("office", "porter")
        assert node.roles == {"till", "office", "porter"}
        seen = node.changes
        node.follower.look()
        assert node.changes == seen, "a change was told that was none"

    asyncio.run(main())


def test_records_that_are_cut_off_are_undone() -> None:
    async def main() -> None:
        node = Follower()
        node.follower.look()
        await node.receive("till", "office")
        seen = node.changes
        run_work(truncate_partition(node.partition, node.running.disk, 1))
        await asyncio.sleep(0)
        assert (node.roles, node.changes) == ({"till"}, seen + 1)

    asyncio.run(main())


def test_changes_are_made_by_the_leader_that_knows_all_earlier_ones() -> None:
    async def main() -> None:
        node = Follower()
        assert not node.leads()
        assert isinstance(node.follower.refusal(), NotCoordinator)
        node.role.leader, node.role.is_leading = "n1", True
        assert not node.leads()
        assert isinstance(node.follower.refusal(), LeaderUnavailable)
        await node.receive("inherited")
        node.role.is_settled = True
        assert node.leads()
        assert node.roles == {"inherited"}

    asyncio.run(main())


def test_leader_records_nothing_before_it_has_applied_what_it_inherited() -> None:
    async def main() -> None:
        node = Follower()
        role = RoleRecord(name="till", rules=(), summary="", created_ns=1, created_by="")
        node.role.leader, node.role.is_leading, node.role.is_settled = "n1", True, True
        for epoch in (1, 3):  # in between another node has led
            node.role.leader_epoch = epoch
            with pytest.raises(LeaderUnavailable):
                node.security.journal.record([role], lambda _: None)
            assert node.leads()
            node.security.journal.record([role], lambda _: None)
            node.running.flush()

    asyncio.run(main())


@pytest.mark.parametrize("is_found", ["while it runs", "at the start"])
def test_record_that_was_damaged_counts_once_the_log_was_repaired(is_found: str) -> None:
    async def main() -> None:
        node = Follower()
        for name in ("till", "office", "porter"):
            await node.receive(name)
        (segment,) = node.partition.log.segments
        sound, start = node.running.disk.read_file(segment.path), segment.size // 2
        node.running.disk.overwrite(segment.path, start, b"\xa5")
        if is_found == "at the start":
            node.security.journal.replay()
            node.follower = JournalFollower(node.security.journal, OwnedTasks("a test", lambda: None), node._count)
        node.follower.look()
        assert node.roles == {"till", "porter"}
        node.security.journal.snapshot()

        node.running.disk.overwrite(segment.path, 0, sound)
        node.running.store.resources.readers.drop(segment)
        seen = node.changes
        node.partition.wake()
        await asyncio.sleep(0)
        assert (node.roles, node.changes) == ({"till", "office", "porter"}, seen + 1)
        node.partition.wake()
        await asyncio.sleep(0)
        assert node.changes == seen + 1, "it was built again without need"

        node.security.journal.snapshot()
        assert set(node.running.restart().broker.security.state.roles) == node.roles

    asyncio.run(main())


def test_record_that_no_node_has_is_not_read_again_and_again() -> None:
    async def main() -> None:
        node = Follower()
        node.follower.look()
        await node.receive("till")
        journal = node.security.journal
        journal.losses.append(LostRange(0, 1, 0))  # nothing is damaged there
        replays = list[int]()
        replay = journal.replay

        def count() -> None:
            replays.append(1)
            replay()
            journal.losses.append(LostRange(0, 1, 0))

        journal.replay = count  # type: ignore[method-assign]
        for _ in range(3):
            node.follower.look()
        assert (len(replays), journal.awaits_repair) == (1, False)

    asyncio.run(main())
