"""Replicas with real logs and connections: what is published at the leader is the same everywhere."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from goqueue.broker.core.commit import CommitLevel
from goqueue.broker.core.producers import ProducerMark
from goqueue.broker.core.topic import TopicSettings
from goqueue.broker.core.upkeep import maintain_partition
from goqueue.broker.core.work import Work
from goqueue.clock import NANOSECONDS, SystemClock
from goqueue.cluster.follower_replica import CutBack
from goqueue.cluster.leader_replica import AskController
from goqueue.cluster.replication_messages import IsrChange, ResignLeadership
from goqueue.errors import (
    LeadershipLost,
    LeaderUnavailable,
    NotEnoughReplicas,
    NotLeader,
    RangeDamaged,
    SequenceOutOfOrder,
)
from goqueue.storage import frame, scan
from goqueue.storage.disk import Disk
from goqueue.storage.flusher import FlushMode
from goqueue.storage.replica_reads import locate_stored
from goqueue.storage.store import StoreSettings
from goqueue.testing.disk import FaultyDisk
from goqueue.wire.sections import PRODUCER_HEADER
from tests.cluster.replica_nodes import LOG, ReplicaCluster

Scenario = Callable[[ReplicaCluster], Awaitable[None]]


def run(path: Path, scenario: Scenario, disks: dict[str, Disk] | None = None, *, flush: FlushMode = "always") -> None:
    async def all_of_it() -> None:
        cluster = ReplicaCluster(path, disks, StoreSettings(flush))
        try:
            await cluster.start()
            await scenario(cluster)
        finally:
            await cluster.stop()

    asyncio.run(all_of_it())


def test_published_messages_are_the_same_frames_on_all_replicas(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await asyncio.gather(*(leader.publish(b"%d" % number) for number in range(20)))
        await cluster.until_alike()

        for node in cluster.nodes.values():
            assert sorted(await node.values()) == sorted(b"%d" % number for number in range(20))

    run(tmp_path, scenario)


def test_new_leader_has_everything_that_was_confirmed(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await leader.publish(b"before")
        await cluster.stop("n1")
        leader = cluster.lead("n2", isr=("n2", "n3"))
        await cluster.until_settled("n2")
        await leader.publish(b"after")
        await cluster.start("n1")
        cluster.tell()
        await cluster.until_alike()

        assert await cluster.nodes["n1"].values() == [b"before", b"after"]
        await cluster.until(lambda: len(cluster.state.isr) == 3)

    run(tmp_path, scenario)


@pytest.mark.parametrize("flush", ["always", "interval"])
def test_what_only_the_former_leader_has_is_cut_off(tmp_path: Path, flush: FlushMode) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await leader.publish(b"kept")
        await cluster.stop("n2", "n3")
        await leader.publish(b"lost", level=CommitLevel.STORED)
        await cluster.stop("n1")
        await cluster.start("n2", "n3")
        leader = cluster.lead("n2", isr=("n2", "n3"))
        await cluster.until_settled("n2")
        await leader.publish(b"won")
        await cluster.start("n1")
        cluster.tell()
        await cluster.until_alike()

        assert await cluster.nodes["n1"].values() == [b"kept", b"won"]

    run(tmp_path, scenario, flush=flush)


def test_leader_that_began_without_enough_replicas_knows_the_end_once_they_are_back(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        await cluster.stop("n2", "n3")
        leader = cluster.lead("n1", isr=("n1",))
        await cluster.until(lambda: leader.partition.log.is_settled and leader.partition.log_end == 1)
        cluster.change(isr=("n1",))  # all who wait are told that too few are in sync
        await cluster.start("n2", "n3")
        cluster.tell()

        await cluster.until_settled("n1")

    run(tmp_path, scenario)


def test_waiting_publish_is_told_that_the_leadership_was_lost(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await cluster.stop("n2", "n3")
        waiting = asyncio.ensure_future(leader.publish(b"unknown"))
        await cluster.until(lambda: leader.partition.log.is_settled and leader.partition.log_end == 2)
        cluster.change(leader="n2", leader_epoch=2)

        with pytest.raises(LeadershipLost):
            await waiting
        with pytest.raises(NotLeader):
            await leader.publish(b"refused")

    run(tmp_path, scenario)


def test_waiting_publish_is_answered_when_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await cluster.stop("n2", "n3")
        with pytest.raises(LeadershipLost, match="1 replica in sync since this was appended, and min_isr is 2"):
            await leader.publish(b"unknown")
        with pytest.raises(NotEnoughReplicas):
            await leader.publish(b"refused")
        await cluster.start("n2", "n3")
        cluster.tell()
        await cluster.until(lambda: len(cluster.state.isr) == 3)

        assert await leader.values() == [b"unknown"]

    run(tmp_path, scenario)


def test_dead_follower_leaves_the_isr_and_then_stalls_no_publish(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await cluster.stop("n3")
        await leader.publish(b"waits for a second")

        assert cluster.state.isr == ("n1", "n2")
        await leader.publish(b"waits for nothing")

    run(tmp_path, scenario)


def test_follower_removes_what_its_leader_has_removed(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        for number in range(3):
            await leader.publish(b"%d" % number)
            for node in cluster.nodes.values():
                node.partition.log.roll()
        follower = cluster.nodes["n2"]
        await cluster.until(lambda: len(leader.partition.log.sealed()) == len(follower.partition.log.sealed()) == 3)
        settings = TopicSettings(retention_bytes=0, retention_hours=None)
        for node in (follower, leader):  # the follower first: it keeps all that the leader has
            await node.runtime.perform(maintain_partition(node.partition, settings, node.runtime.disk, 0))
        assert (follower.partition.earliest, leader.partition.earliest) == (0, 4)
        await leader.publish(b"last")
        await cluster.until(lambda: follower.replica.leadership.log_start == 4)
        await follower.runtime.perform(maintain_partition(follower.partition, settings, follower.runtime.disk, 0))

        assert follower.partition.earliest == 4
        await cluster.until(lambda: follower.replica.high_watermark == leader.replica.high_watermark)
        assert await follower.values() == [b"last"]

    run(tmp_path, scenario)


def test_leader_whose_loop_stood_still_takes_no_follower_for_late(tmp_path: Path) -> None:
    times = count(0, 10 * NANOSECONDS)

    class StandingClock(SystemClock):
        def monotonic_ns(self) -> int:
            return next(times)

    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        leader.replicas.clock = StandingClock()
        published = asyncio.ensure_future(leader.publish(b"a"))
        while leader.partition.log_end == leader.partition.high_watermark:
            await asyncio.sleep(0)
        for _ in range(3):
            leader.replicas._tick()
        await published
        assert cluster.asked == []

    run(tmp_path, scenario)


def test_follower_that_was_away_for_longer_than_retention_begins_anew(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await leader.publish(b"old")
        await cluster.stop("n3")
        await leader.publish(b"gone")
        leader.partition.log.roll()
        await leader.publish(b"new")
        await cluster.until(lambda: len(leader.partition.log.sealed()) == 1)
        settings = TopicSettings(retention_bytes=0, retention_hours=None)
        await leader.runtime.perform(maintain_partition(leader.partition, settings, leader.runtime.disk, 0))
        await cluster.start("n3")
        cluster.tell()
        follower = cluster.nodes["n3"]
        await cluster.until(lambda: follower.partition.high_watermark == leader.partition.high_watermark)

        assert (follower.partition.earliest, await follower.values()) == (3, [b"new"])
        await cluster.stop("n3")
        await cluster.start("n3")
        assert cluster.nodes["n3"].partition.earliest == 3

    run(tmp_path, scenario)


def test_producers_are_known_to_the_next_leader(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        sent = batch(producer=7, sequence=0, values=(b"a", b"b"))
        answer = await (await leader.runtime.publish(leader.partition, bytearray(sent), 1000))
        await cluster.stop("n1")
        leader = cluster.lead("n2", isr=("n2", "n3"))
        await cluster.until_settled("n2")
        again = await (await leader.runtime.publish(leader.partition, bytearray(sent), 1000))

        assert (again.duplicate, again.pieces) == (True, answer.pieces)

    run(tmp_path, scenario)


def test_request_of_a_follower_waits_until_its_leader_has_come_to_the_same_epoch(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        await cluster.stop("n3")
        leader, follower = cluster.nodes["n1"], cluster.nodes["n2"]
        first = replace(cluster.state, leader="n1", leader_epoch=1, partition_epoch=1, isr=("n1", "n2"))
        cluster.state = replace(first, leader_epoch=2, partition_epoch=2)
        await cluster.until(lambda: "n1" in follower.replicas.streams and "n2" in leader.replicas.streams)
        follower.take(cluster.state)
        await cluster.until(lambda: LOG in leader.replicas._early)
        leader.take(first)
        await cluster.until(lambda: leader.replica.leadership.is_leading)
        leader.take(cluster.state)

        await cluster.until_settled("n1")

    run(tmp_path, scenario)


def test_refusal_because_the_state_has_changed_is_not_final(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An earlier attempt may have been accepted, and the node that it takes in may lead already."""
    told: list[bool] = []

    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        monkeypatch.setattr(leader.replica, "refused", lambda _, *, is_final: told.append(is_final))
        cluster.refuses = True
        for reason in ("leader_epoch", "partition_epoch", "broker_epoch"):
            cluster.reason = reason
            await leader.replicas._ask(leader.replica, AskController(IsrChange(LOG, "n1", 1, 1, (("n1", 1),), "")))

    run(tmp_path, scenario)

    assert told == [False, False, True]


def test_leader_without_its_lease_does_not_judge_the_sequence_of_a_batch(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        first, late = (batch(producer=7, sequence=sequence, values=(b"a",)) for sequence in (0, 5))
        await (await leader.runtime.publish(leader.partition, bytearray(first), 1000))
        for is_held, error in ((True, SequenceOutOfOrder), (False, LeaderUnavailable)):
            leader.is_held = is_held
            with pytest.raises(error):
                await (await leader.runtime.publish(leader.partition, bytearray(late), 1000))

    run(tmp_path, scenario)


def test_producers_that_a_late_publish_loaded_at_a_follower_are_not_saved(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        follower = cluster.nodes["n2"]
        await follower.runtime.load_producers(follower.partition)
        sent = batch(producer=7, sequence=0, values=(b"a", b"b"))
        answer = await (await leader.runtime.publish(leader.partition, bytearray(sent), 1000))
        await cluster.until_alike()
        follower.partition.log.roll()
        await cluster.until(lambda: len(follower.partition.log.sealed()) == 1)
        await follower.runtime.perform(
            maintain_partition(follower.partition, TopicSettings(), follower.runtime.disk, 0)
        )
        await cluster.stop("n1")
        leader = cluster.lead("n2", isr=("n2", "n3"))
        await cluster.until_settled("n2")
        again = await (await leader.runtime.publish(leader.partition, bytearray(sent), 1000))

        assert (again.duplicate, again.pieces) == (True, answer.pieces)

    run(tmp_path, scenario)


def batch(producer: int, sequence: int, values: tuple[bytes, ...]) -> bytes:
    mark = ProducerMark(producer, 0, sequence, len(values))
    first = frame.encode(values[0], None, frame.encode_headers([(PRODUCER_HEADER, mark.encode())]))
    return first + b"".join(map(frame.encode, values[1:]))


def test_publish_that_waits_at_a_leader_without_its_lease_is_told_that_its_outcome_is_unknown(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        cluster.is_away = True
        await cluster.stop("n2", "n3")
        waiting = asyncio.ensure_future(leader.publish(b"unknown"))
        leader.is_held = False

        with pytest.raises(LeadershipLost, match="may not lead partition 0 of topic 'orders' any more"):
            await waiting

    run(tmp_path, scenario)


def test_leader_whose_disk_has_failed_resigns_until_the_controller_knows(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        cluster.is_away = True
        disk.fail("sync", path="*/orders/*", times="forever")
        with pytest.raises(LeadershipLost):
            await leader.publish(b"stored at the followers")

        resignations = [ResignLeadership]
        await cluster.until(lambda: [type(one) for one in cluster.asked][-2:] == 2 * resignations)
        cluster.is_away = False
        cluster.lead("n2", isr=("n2", "n3"))
        await cluster.until_settled("n2")

    run(tmp_path, scenario, {"n1": disk})


def test_empty_replica_gets_a_log_whose_segment_ends_with_a_gap(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        await cluster.stop("n2", "n3")
        log = cluster.nodes["n1"].partition.log
        log.append(scan.check_batch(bytearray(frame.encode(b"kept"))))
        log.next_offset = 100  # compaction has removed what was between
        log.roll()
        log.append(scan.check_batch(bytearray(frame.encode(b"behind the gap"))))
        await cluster.stop("n1")
        await cluster.start()

        cluster.lead("n1")

        await cluster.until_settled("n1")
        await cluster.until_alike()
        assert await cluster.nodes["n3"].values() == [b"kept", b"behind the gap"]

    run(tmp_path, scenario)


def test_follower_whose_leader_could_not_read_its_log_gets_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [1, 2]

    def locate(*which: Any) -> object:
        if failures:
            raise RangeDamaged(f"damage {failures.pop()}")
        return locate_stored(*which)

    monkeypatch.setattr("goqueue.runtime.cluster.replication_stream.locate_stored", locate)
    monkeypatch.setattr("goqueue.runtime.cluster.replication_stream._RETRY_SECONDS", 0)

    async def scenario(cluster: ReplicaCluster) -> None:
        await cluster.stop("n3")
        leader = cluster.lead("n1", isr=("n1", "n2"))
        await cluster.until_settled("n1")
        await leader.publish(b"kept")
        await cluster.start("n3")
        cluster.tell()

        await cluster.until_alike()

        assert await cluster.nodes["n3"].values() == [b"kept"]

    run(tmp_path, scenario)


def test_cut_waits_for_a_job_that_begins_while_it_waits_for_the_disk(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        leader = cluster.lead("n1")
        await cluster.until_settled("n1")
        await leader.publish(b"kept")
        await cluster.until_alike()
        replica = cluster.nodes["n2"].replica
        log, job = replica.partition.log, object()
        log.roll(lambda _: log.begin_job(job))
        cut = asyncio.create_task(replica.log.cut(CutBack(log.next_offset)))
        await cluster.until(lambda: log.job is job)
        log.roll()
        log.job = None

        await cut
        assert log.is_settled

    run(tmp_path, scenario)


def test_log_is_looked_at_once_by_all_who_ask_for_its_epochs(tmp_path: Path) -> None:
    async def scenario(cluster: ReplicaCluster) -> None:
        replica = cluster.nodes["n2"].replica
        tracker, looks = replica.transactions, list[int]()
        look_anew = tracker.look_anew

        def look(undecided: int | None = None) -> Work[None]:
            looks.append(1)
            return look_anew(undecided)

        tracker.look_anew = look  # type: ignore[method-assign]
        tracker.doubt()

        await asyncio.gather(replica.log.index(), replica.log.index())

        assert len(looks) == 1

    run(tmp_path, scenario)
