"""Repairs damage of the replicas on this node with the same frames of another replica, while it serves.

Damage is found by the start, by reads and by the scrub. From then on the replica confirms nothing behind it, so it
leaves the ISR; a leader resigns first, if another replica in sync can lead. What is damaged is fetched from any replica
that has it below its high watermark, put into a copy of the segment, and that takes the place of the old one.

    found ──> leader resigns, follower opens again ──> fetch ──> swap ──> sound: it confirms all, and returns to the ISR
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from goqueue.broker.core.names import is_internal
from goqueue.clock import NANOSECONDS
from goqueue.cluster.leader_replica import AskController
from goqueue.cluster.partitions import PartitionId, partition_of
from goqueue.cluster.replication_messages import FetchRange, RangeFetched, ResignLeadership
from goqueue.errors import GoQueueError, RangeDamaged
from goqueue.limits import CLUSTER_SLICE_BYTES, OFFSET_MAX
from goqueue.runtime.cluster.local_replica import LocalReplica
from goqueue.runtime.cluster.peer_link import PeerLink
from goqueue.runtime.cluster.replica_owner import ReplicaOwner
from goqueue.runtime.runtime import Runtime
from goqueue.storage.compaction import SealedSegment
from goqueue.storage.compaction_progress import load_progress
from goqueue.storage.log import Log
from goqueue.storage.reads import PendingRead
from goqueue.storage.replica_reads import locate_stored
from goqueue.storage.segment_repair import FetchedRange, SegmentRepair, find_damage, sealed_segment
from goqueue.storage.segment_scan import Damage

_log = logging.getLogger("goqueue.cluster")

LEVEL = 2
"""Older nodes do not know the messages."""
_RESIGN_SECONDS = 2.0
_RETRY_SECONDS = 1.0
_PAUSE_SECONDS = 0.02
_ANSWER_SECONDS = 10.0
_AT_ONCE = 2
"""How many logs are repaired at the same time."""
_NAMED_MAX = 5
T = TypeVar("T")


class RepairingNode(Protocol):
    """The part of all replicas of a node that repair uses."""

    local: dict[PartitionId, LocalReplica]

    @property
    def feature_level(self) -> int: ...


@dataclass(slots=True)
class RepairCounts:
    """Repairs since the start."""

    ranges: int = 0
    size: int = 0
    ended_ns: int = 0
    """When the last one was."""


@dataclass(slots=True)
class DamagedLog:
    """Damage that is known in one log, and why it is not repaired so far."""

    damages: list[Damage] = field(default_factory=list)
    problem: str = ""
    resigning: "asyncio.Task[None] | None" = None
    """Asks the controller until it has answered."""

    @property
    def first_offset(self) -> int:
        return min((one.first_offset for one in self.damages), default=OFFSET_MAX)


class ReplicaRepair:
    """The repairs of one node. Everything is called on the loop."""

    def __init__(self, owner: ReplicaOwner, node: RepairingNode, runtime: Runtime) -> None:
        self.damaged: dict[LocalReplica, DamagedLog] = {}
        self.counts = RepairCounts()
        self.by_log: dict[str, RepairCounts] = {}
        self._owner, self._node, self._runtime = owner, node, runtime
        self._number = 0
        self._answers: dict[int, asyncio.Future[RangeFetched]] = {}
        self._slots = asyncio.Semaphore(_AT_ONCE)

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        """The damaged logs that other nodes have too, and why they are not repaired so far."""
        found = ((replica, known) for replica, known in self.damaged.items() if _has_others(replica))
        return tuple(sorted((replica.partition.log.name, known.problem) for replica, known in found))

    # --- damage is found ---

    def attached(self, replica: LocalReplica) -> None:
        """Look at what the start has found in a log."""
        found = self._runtime.store.recovered.get(replica.partition.log.name)
        if found is not None:
            self.found(replica, found.damages)

    def look(self) -> None:
        """Look at what reads have found; called some times a second."""
        found = self._runtime.store.resources.readers.damages()
        if not found:
            return
        replicas = {replica.partition.log.directory: replica for replica in self._node.local.values()}
        for segment, damage in found:
            replica = replicas.get(segment.directory)
            if replica is not None and segment in replica.partition.log.segments:
                self.found(replica, [damage])

    def found(self, replica: LocalReplica, damages: list[Damage]) -> None:
        """Have damage repaired, if that is possible."""
        known = self.damaged.get(replica)
        known_ranges = set() if known is None else {(one.first_offset, one.next_offset) for one in known.damages}
        new = [one for one in damages if (one.first_offset, one.next_offset) not in known_ranges]
        if not new:
            return
        for one in new:
            _log.error(
                "replica %s is damaged from offset %d to %d: %s",
                replica.partition.log.name, one.first_offset, one.next_offset - 1, one.reason,
            )  # fmt: skip
        if known is None:
            known = self.damaged[replica] = DamagedLog()
            self._owner.run(self._repair(replica))
        known.damages += new
        if replica.state is None or _has_others(replica):
            self._limit(replica, known.first_offset)

    def _limit(self, replica: LocalReplica, sound_end: int) -> None:
        """Have a replica confirm only what is below the first damage."""
        replica.sound_end = sound_end
        if (follower := replica.follower) is not None:
            follower.is_sound_below(sound_end)
            replica.do_follower_effects()
            if (stream := self._owner.streams.get(follower.leader)) is not None:
                stream.confirm(replica)

    def scrubbed(self, log: Log, damages: list[Damage]) -> bool:
        """Take what the scrub has found; return False if no other node has the log."""
        replica = next((one for one in self._node.local.values() if one.partition.log is log), None)
        if replica is None or not _has_others(replica):
            return False
        self.found(replica, damages)
        return True

    def begin_lost_logs(self) -> None:
        """Begin logs anew that are gone here while another replica leads: they are fetched as a whole."""
        broker, lost = self._runtime.broker, self._runtime.store.unopened
        for topic, partition in list(broker.partitions()) if lost else ():
            error, role = lost.get(partition.log.name), partition.leadership
            is_led = role is not None and role.leader not in ("", self._owner.me)
            if isinstance(error, RangeDamaged) and is_led and not is_internal(topic.name):
                _log.warning("log %s is gone and is fetched from other replicas", partition.log.name)
                try:
                    broker.maker.begin_again(topic, partition)
                except GoQueueError as failure:
                    _log.error("log %s cannot be begun anew: %s", partition.log.name, failure)

    # --- repair ---

    async def _repair(self, replica: LocalReplica) -> None:
        """Repair a log until nothing in it is known to be damaged."""
        known = self.damaged[replica]
        while known.damages and not replica.partition.log.is_closed and not replica.failure:
            try:
                async with self._slots:
                    is_done = await self._take_step(replica, known)
            except GoQueueError as error:
                if known.problem != error.sentence:
                    _log.error("replica %s cannot be repaired so far: %s", replica.partition.log.name, error)
                known.problem, is_done = error.sentence, False
            if not is_done:
                await asyncio.sleep(_RETRY_SECONDS)
        del self.damaged[replica]
        if not replica.partition.log.is_closed and not replica.failure:
            self._limit(replica, OFFSET_MAX)
            self._take_up(replica)

    def _take_up(self, replica: LocalReplica) -> None:
        """Go on with what damage had stopped."""
        if replica.leader is not None:
            for node in replica.leader.followers:
                replica.ask_again(node)
        else:
            replica.follow_again()

    async def _take_step(self, replica: LocalReplica, known: DamagedLog) -> bool:
        """Repair one segment; return whether to go on at once."""
        log = replica.partition.log
        if self._node.feature_level < LEVEL or not _has_others(replica):
            return False
        await self._resign(replica, known)
        known.damages = [one for one in known.damages if log.first_offset < one.next_offset <= log.next_offset]
        if not known.damages:
            return True
        offset = max(known.first_offset, log.first_offset)
        sealed = sealed_segment(log, offset)
        if sealed is None:
            if offset >= log.active.base_offset and log.is_settled and log.job is None:  # none cuts it now
                log.roll()
            await asyncio.sleep(_PAUSE_SECONDS)
            known.problem = known.problem or "the segment is not sealed yet"
            return sealed_segment(log, offset) is not None
        damages = await self._look_at(log, sealed)
        fetched = [await self._fetch(replica, one.first_offset, one.next_offset) for one in damages]
        if damages and not await self._replace(log, sealed, fetched):
            return False
        if damages:
            self._note(log, damages)
            replica.partition.wake()  # who has skipped the damage reads again
        end = sealed.next_offset
        known.damages = [one for one in known.damages if not sealed.segment.base_offset <= one.first_offset < end]
        known.problem = ""
        self._limit(replica, known.first_offset)
        return True

    async def _resign(self, replica: LocalReplica, known: DamagedLog) -> None:
        """Have another replica in sync lead, if there is one, and wait a moment for that."""
        state, leader = replica.state, replica.leader
        if state is None or leader is None or state.isr == (leader.me,):
            return
        request = ResignLeadership(
            partition_of(replica.id), leader.me, leader.epoch, "its log is damaged", is_damaged=True
        )
        if known.resigning is None or known.resigning.done():
            known.resigning = self._owner.ask_controller(replica, AskController(request))
        deadline = self._owner.clock.monotonic_ns() + round(_RESIGN_SECONDS * NANOSECONDS)
        while replica.leader is leader and self._owner.clock.monotonic_ns() < deadline:
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _look_at(self, log: Log, sealed: SealedSegment) -> list[Damage]:
        disk = self._owner.disk

        def look() -> list[Damage]:
            return find_damage(disk, sealed, load_progress(disk, log.directory).gaps)

        return await self._on_thread(look)

    async def _replace(self, log: Log, sealed: SealedSegment, fetched: list[FetchedRange]) -> bool:
        """Put what was fetched into the segment; return False if another job has changed it."""
        while log.job is not None:
            await asyncio.sleep(_PAUSE_SECONDS)
        if sealed.segment not in log.segments:
            return False
        job = SegmentRepair(log, self._owner.disk, sealed, fetched)
        try:
            await self._on_thread(job.run)
        finally:
            job.apply()
        return True

    def _note(self, log: Log, damages: list[Damage]) -> None:
        size = sum(one.size for one in damages)
        now_ns = self._owner.clock.now_ns()
        for counts in (self.counts, self.by_log.setdefault(log.name, RepairCounts())):
            counts.ranges += len(damages)
            counts.size += size
            counts.ended_ns = now_ns
        if (found := self._runtime.store.recovered.get(log.name)) is not None:
            repaired = {(one.first_offset, one.next_offset) for one in damages}
            found.damages = [one for one in found.damages if (one.first_offset, one.next_offset) not in repaired]
        ranges = ", ".join(f"{one.first_offset} to {one.next_offset - 1}" for one in damages[:_NAMED_MAX])
        _log.warning(
            "replica %s was repaired from other replicas: offsets %s%s",
            log.name, ranges, ", …" if len(damages) > _NAMED_MAX else "",
        )  # fmt: skip

    async def _on_thread(self, job: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._runtime.threads, job)

    # --- fetch ---

    async def _fetch(self, replica: LocalReplica, first: int, end: int) -> FetchedRange:
        """Fetch a range of offsets from the first replica that has it sound."""
        state, problems = replica.state, list[str]()
        assert state is not None
        _refuse_unless_of(replica, state.unclean_epoch)
        nodes = dict.fromkeys((state.leader, *state.isr, *state.replicas))
        for node in nodes:
            if node in self._owner.streams:
                try:
                    return await self.fetch_from(node, replica.id, first, end)
                except GoQueueError as error:
                    problems.append(f"{node}: {error.sentence}")
        raise RangeDamaged(
            f"no other replica has offsets {first} to {end - 1}: {'; '.join(problems) or 'none is connected'}",
            hint="start the nodes that have a replica; if none has them, they are lost",
        )

    async def fetch_from(self, node: str, log: PartitionId, first: int, end: int) -> FetchedRange:
        content, gaps, offset = bytearray(), 0, first
        while offset < end:
            answer = await self._ask(node, log, offset, end)
            if answer.problem or answer.next_offset <= offset:
                raise RangeDamaged(answer.problem or f"node {node} has nothing from offset {offset} on")
            content += answer.content
            gaps, offset = max(gaps, answer.gaps_below), answer.next_offset
        fetched = FetchedRange(first, end, bytes(content), gaps)
        fetched.frames()
        return fetched

    async def _ask(self, node: str, log: PartitionId, first: int, end: int) -> RangeFetched:
        stream = self._owner.streams.get(node)
        if stream is None:
            raise RangeDamaged(f"node {node} is not connected")
        self._number += 1
        number = self._number
        answer: asyncio.Future[RangeFetched] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        try:
            stream.tell(FetchRange(number, log, first, end, _unclean_epoch(self._node.local.get(log))))
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except TimeoutError:
            raise RangeDamaged(f"node {node} does not answer") from None
        finally:
            del self._answers[number]

    def answered(self, answer: RangeFetched) -> None:
        waiting = self._answers.get(answer.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    # --- what other nodes ask for ---

    def asked(self, link: PeerLink, asked: FetchRange) -> None:
        self._owner.run(self._answer(link, asked))

    async def _answer(self, link: PeerLink, asked: FetchRange) -> None:
        try:
            if (replica := self._node.local.get(asked.log)) is not None:
                _refuse_unless_of(replica, asked.unclean_epoch)
            answer = await self._read(asked)
        except GoQueueError as error:
            answer = RangeFetched(asked.number, asked.log, b"", asked.first, problem=error.sentence)
        link.send(answer)

    async def read_range(self, log: PartitionId, first: int, end: int) -> FetchedRange:
        """Return a range of committed offsets of a replica here."""
        content, gaps, offset = bytearray(), 0, first
        while offset < end:
            found = await self._read(FetchRange(0, log, offset, end))
            content += found.content
            gaps, offset = found.gaps_below, max(found.next_offset, offset + 1)
        return FetchedRange(first, end, bytes(content), gaps)

    async def _read(self, asked: FetchRange) -> RangeFetched:
        replica = self._node.local.get(asked.log)
        if replica is None or replica.partition.log.is_closed:
            raise RangeDamaged("it has no such replica")
        log, disk = replica.partition.log, self._owner.disk
        if asked.end > replica.high_watermark:
            raise RangeDamaged(f"only what is below offset {replica.high_watermark} is committed there")
        if asked.first < log.first_offset:
            raise RangeDamaged(f"it begins at offset {log.first_offset} there")
        found = locate_stored(log, asked.first, CLUSTER_SLICE_BYTES, asked.end)
        read = await self._on_thread(found.load) if isinstance(found, PendingRead) else found
        gaps = (await self._on_thread(partial(load_progress, disk, log.directory))).gaps
        end = min(read.next_offset, asked.end)
        return RangeFetched(asked.number, asked.log, b"".join(read.buffers), end, gaps)


def _has_others(replica: LocalReplica) -> bool:
    """Return whether other nodes have a replica of it."""
    return replica.state is not None and len(replica.state.replicas) > 1


def _unclean_epoch(replica: LocalReplica | None) -> int:
    return 0 if replica is None or replica.state is None else replica.state.unclean_epoch


def _refuse_unless_of(replica: LocalReplica, unclean_epoch: int) -> None:
    """Raise if a replica may have other messages than those that the last unclean election has kept."""
    known, epochs = _unclean_epoch(replica), replica.partition.log.epochs
    if known != unclean_epoch:
        raise RangeDamaged(
            f"the last unclean election that it knows was in leader epoch {known}, and not in {unclean_epoch}"
        )
    if known and not (epochs.is_complete and epochs.last >= known):
        raise RangeDamaged(f"it has nothing of leader epoch {known} yet, whose election was unclean")
