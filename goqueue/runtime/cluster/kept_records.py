"""Records of followed logs that a node had before its cluster shared these logs.

They are kept in a file when the log here begins anew, and offered to the leader of the log. What the cluster does not
take stays in the file, and is told to operators: nothing is lost.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.work import Work
from goqueue.cluster.peer_messages import Offer, Offered
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.journal_follower import JournalFollower
from goqueue.runtime.cluster.node_requests import NodeRequests
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.runtime import Runtime
from goqueue.storage.disk import read_all, remove_files
from goqueue.storage.layout import decode_checkpoint, write_checkpoint

_log = logging.getLogger("goqueue.cluster")

_RETRY_SECONDS = 1.0
_OFFER_SECONDS = 30.0
_PIECE_BYTES = 4 * 1024 * 1024
_NOTE = "before-cluster-"
"""The beginning of the names of the files in the data directory."""

Clashes = Sequence[tuple[int, str]]
Adopter = Callable[[Sequence[Any]], Work[Clashes]]
"""Records what can be taken of these records, and returns the indexes of the others and why they are not taken."""


@dataclass(slots=True)
class _Kept:
    """The rest of one log."""

    frames: list[bytes]
    problems: list[str]
    """Why the cluster did not take them; empty before they were offered."""


class KeptRecords:
    """The kept records of one node. Created on the loop."""

    def __init__(
        self, runtime: Runtime, requests: NodeRequests, logs: dict[str, tuple[JournalFollower, Adopter]]
    ) -> None:
        self._runtime, self._requests, self._logs = runtime, requests, logs
        self._tasks = OwnedTasks("an offer of records from before the cluster", runtime.on_failure.emit)
        self._kept = {topic: kept for topic in logs if (kept := self._load(topic)) is not None}
        requests.serve(Offer, Offered, self._on_offer)

    def start(self) -> None:
        """Offer what an earlier process has kept."""
        for topic in self._kept:
            self._tasks.run(self._offer(topic))

    async def stop(self) -> None:
        await self._tasks.stop()

    @property
    def problems(self) -> tuple[tuple[str, str], ...]:
        """The files with what the cluster did not take, and why."""
        found = []
        for topic, kept in self._kept.items():
            first, more = kept.problems[:1], len(kept.problems) - 1
            found += [(self._path(topic), f"{one}, and {more:,} more" if more else one) for one in first]
        return tuple(found)

    def keep(self, partition: Partition) -> None:
        """Keep the records of a log that is about to begin anew."""
        journal: Journal[Any] = self._logs[partition.topic][0].journal
        if frames := journal.durable_frames():
            former = self._kept.get(partition.topic)
            self._store(partition.topic, _Kept([*(former.frames if former else ()), *frames], []))
            self._tasks.run(self._offer(partition.topic))

    # --- the file ---

    def _path(self, topic: str) -> str:
        return f"{self._runtime.store.path}/{_NOTE}{topic.lstrip('_')}"

    def _load(self, topic: str) -> _Kept | None:
        disk = self._runtime.disk
        if disk.kind(self._path(topic)) != "file":
            return None
        note = decode_checkpoint(read_all(disk, self._path(topic)))
        if note is None:
            _log.error("%s is damaged: what this node had before its cluster is not offered", self._path(topic))
            return None
        return _Kept([bytes.fromhex(one) for one in note["frames"]], note["problems"])

    def _store(self, topic: str, kept: _Kept) -> None:
        disk = self._runtime.disk
        if kept.frames:
            frames = [one.hex() for one in kept.frames]
            write_checkpoint(disk, self._path(topic), frames=frames, problems=kept.problems)
            self._kept[topic] = kept
        else:
            remove_files(disk, self._path(topic))
            self._kept.pop(topic, None)

    # --- offers ---

    async def _offer(self, topic: str) -> None:
        """Offer all to the leader, until it has answered."""
        frames, left = self._kept[topic].frames, _Kept([], [])
        for piece in _pieces(frames):
            for index, why in await self._offered(topic, piece):
                left.frames.append(piece[index])
                left.problems.append(why)
                _log.warning("not adopted from before the cluster: %s", why)
        _log.info("%d records of %s from before the cluster were offered", len(frames), topic)
        try:
            self._store(topic, left)
        except GoQueueError as error:
            _log.warning("%s cannot be written: %s", self._path(topic), error)

    async def _offered(self, topic: str, piece: tuple[bytes, ...]) -> Clashes:
        log, _ = self._logs[topic]
        while True:
            try:
                if log.is_led:
                    return await self._adopt(topic, piece)
                if self._requests.reaches(log.leader):
                    answer: Offered = await self._requests.ask_within(
                        _OFFER_SECONDS, log.leader, lambda number: Offer(number, topic, piece)
                    )
                    if answer.is_done:
                        return answer.clashes
            except GoQueueError as error:
                _log.info("records of %s are offered again: %s", topic, error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def _adopt(self, topic: str, piece: Sequence[bytes]) -> Clashes:
        log, adopt = self._logs[topic]
        return await self._runtime.decide(adopt(log.journal.decode_frames(piece)))

    async def _on_offer(self, asked: Offer) -> Offered:
        if asked.log not in self._logs or not self._logs[asked.log][0].is_led:
            return Offered(asked.number, is_done=False)
        try:
            return Offered(asked.number, True, tuple(await self._adopt(asked.log, asked.frames)))
        except GoQueueError:
            return Offered(asked.number, is_done=False)


def _pieces(frames: Sequence[bytes]) -> list[tuple[bytes, ...]]:
    pieces: list[list[bytes]] = []
    size = _PIECE_BYTES
    for one in frames:
        if size + len(one) > _PIECE_BYTES:
            pieces.append([])
            size = 0
        pieces[-1].append(one)
        size += len(one)
    return [tuple(piece) for piece in pieces]
