"""The logs that one node writes and every node of a cluster follows: API keys, schemas, tenants.

A change is answered when all nodes in reach have applied it, or after a second: a node that is silent must not stop the
others. Each node tells the others how far it has come.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from goqueue.broker.core.journal import Journal
from goqueue.broker.core.names import SECURITY
from goqueue.cluster.metadata import ClusterState
from goqueue.cluster.peer_messages import JournalFollowed
from goqueue.runtime.cluster.cluster_log import ClusterLog
from goqueue.runtime.cluster.journal_follower import JournalFollower
from goqueue.runtime.cluster.owned_tasks import OwnedTasks
from goqueue.runtime.cluster.peer_link import MessageHandler, PeerLink
from goqueue.runtime.cluster.peer_network import PeerNetwork

SHARED_LEVEL = 2
"""The feature level from which on all followed logs are shared, and nodes forward requests to each other."""
_OTHERS_SECONDS = 1.0


class FollowingMember(Protocol):
    """The part of a node of the cluster that is needed here."""

    log: ClusterLog
    network: PeerNetwork
    handlers: dict[type, MessageHandler]

    @property
    def is_registered(self) -> bool: ...


class FollowedLogs(Mapping[str, JournalFollower]):
    """The followed logs of one node, by topic. Created on the loop."""

    def __init__(
        self,
        member: FollowingMember,
        tasks: OwnedTasks,
        journals: Mapping[str, tuple[Journal[Any], Callable[[], None]]],
    ) -> None:
        """Each journal comes with what is called when its state may be another one."""
        self._member = member
        self._logs = {
            topic: JournalFollower(journal, tasks, partial(self._changed, changed))
            for topic, (journal, changed) in journals.items()
        }
        self._ends: dict[tuple[str, str], int] = {}
        """How far other nodes have come, by node and log."""
        self._told: dict[str, tuple[PeerLink, dict[str, int]]] = {}
        """What the others were told, by node, on which connection."""
        self._heard: asyncio.Event = asyncio.Event()
        member.handlers[JournalFollowed] = self._on_followed

    def __getitem__(self, topic: str) -> JournalFollower:
        return self._logs[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    @property
    def _state(self) -> ClusterState:
        return self._member.log.state

    def look(self) -> None:
        """Records of the cluster were applied."""
        for topic, log in self._logs.items():
            if self._is_local(topic):
                log.journal.partition.leadership = None
            log.look()
        self._tell()

    def _is_local(self, topic: str) -> bool:
        """Return whether this node knows that the cluster does not share the log, as before all nodes can."""
        state = self._state
        return (
            topic != SECURITY
            and self._member.is_registered
            and topic not in state.topics
            and 0 < state.feature_level < SHARED_LEVEL  # at 0 the first nodes do not know the others yet
        )

    def is_forwarded(self, topic: str) -> bool:
        """Return whether a change belongs to the leader of a log; False: this node makes it for itself."""
        return not self._is_local(topic)

    @property
    def knows_cluster(self) -> bool:
        """True if this node knows what was decided before its process started."""
        return self._member.is_registered

    @property
    def may_ask_others(self) -> bool:
        """True if all nodes know the messages by which requests are forwarded."""
        return self._state.feature_level >= SHARED_LEVEL

    def stop(self) -> None:
        for log in self._logs.values():
            log.stop()

    # --- what others know ---

    def _changed(self, changed: Callable[[], None]) -> None:
        changed()
        self._tell()

    def _tell(self) -> None:
        """Tell the others how far this node has come, where they do not know it."""
        for node, link in self._member.network.links.items() if self.may_ask_others else ():
            former, told = self._told.get(node, (None, {}))
            if former is not link:
                told = {}
            for topic, log in self._logs.items():
                if told.get(topic) != log.end:
                    link.send(JournalFollowed(topic, log.end))
            self._told[node] = link, {topic: log.end for topic, log in self._logs.items()}

    def _on_followed(self, link: PeerLink, message: JournalFollowed) -> None:
        self._ends[link.node, message.log] = message.end
        self._heard.set()
        self._heard.clear()

    async def others_know(self, topic: str) -> None:
        """Wait until all nodes in reach have applied what this one has, or for a moment."""
        end = self._logs[topic].end
        with suppress(TimeoutError):
            async with asyncio.timeout(_OTHERS_SECONDS):
                while any(self._ends.get((node, topic), 0) < end for node in self._in_reach):
                    await self._heard.wait()

    @property
    def _in_reach(self) -> list[str]:
        state = self._state
        return [node for node in self._member.network.links if node in state.nodes and node not in state.fenced]
