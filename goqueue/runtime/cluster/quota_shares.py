"""Quotas of the whole cluster: each node says every second what it has of them, and the leader of the tenants' log
answers what its shares in rates are, and what the other nodes have.

While there is no such leader the last shares stay in force.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Protocol

from goqueue.broker.tenants import quotas as kinds
from goqueue.broker.tenants.meter import TenantMeter
from goqueue.broker.tenants.meters import TenantMeters
from goqueue.clock import Clock
from goqueue.cluster.metadata import ClusterState
from goqueue.cluster.peer_messages import SharesAnswered, UseReported
from goqueue.cluster.tenant_shares import ShareBook, TenantShare, TenantUseReport
from goqueue.errors import GoQueueError
from goqueue.runtime.cluster.cluster_log import ClusterLog
from goqueue.runtime.cluster.cluster_settings import ClusterSettings
from goqueue.runtime.cluster.journal_follower import JournalFollower
from goqueue.runtime.cluster.node_requests import NodeRequests

_log = logging.getLogger("goqueue.cluster")

REPORT_SECONDS = 1.0
_ANSWER_SECONDS = 2.0
_NOTABLE = 0.1
"""A demand that differs by a smaller part is not sent."""


class SharingNode(Protocol):
    """The part of a node of the cluster that is needed here."""

    settings: ClusterSettings
    log: ClusterLog


Amounts = Callable[[], "dict[str, Counter[str]]"]
"""Returns what this node has of amounts that others count, by kind and tenant."""


class QuotaShares:
    """The reports of one node, and its answers while it leads. Created on the loop."""

    def __init__(
        self,
        member: SharingNode,
        requests: NodeRequests,
        log: JournalFollower,
        meters: TenantMeters,
        clock: Clock,
        amounts: Amounts,
    ) -> None:
        self._member, self._requests, self._log = member, requests, log
        self._meters, self._clock, self._amounts = meters, clock, amounts
        self._book: ShareBook | None = None
        """While this node leads the log."""
        self._book_epoch = 0
        self._reported: dict[str, TenantUseReport] = {}
        """What the leader knows."""
        self._asked: tuple[str, int] = "", 0
        """The leader that knows it, and its epoch."""
        requests.serve(UseReported, SharesAnswered, self._on_report)

    @property
    def _state(self) -> ClusterState:
        return self._member.log.state

    @property
    def _members(self) -> list[str]:
        return [node for node in self._state.nodes if node not in self._state.fenced]

    async def run(self) -> None:
        """Report for ever."""
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            if self._log.journal.partition.topic in self._state.topics:
                self._meters.share = 1 / max(1, len(self._state.nodes))
                try:
                    await self.report()
                except GoQueueError as error:
                    self._asked = "", 0
                    _log.debug("the use of quotas was not reported: %s", error)

    async def report(self) -> None:
        """Tell the leader what has changed, and take what it answers."""
        leader, me, leadership = self._log.leader, self._member.settings.node, self._log.journal.partition.leadership
        asked = leader, 0 if leadership is None else leadership.leader_epoch
        rows = self._rows(is_whole=asked != self._asked)
        if leader == me:
            answered = self._answer(me, tuple(rows))
        elif self._requests.reaches(leader):
            question = tuple(rows)
            answer: SharesAnswered = await self._requests.ask_within(
                _ANSWER_SECONDS, leader, lambda number: UseReported(number, me, question)
            )
            answered = answer.rows if answer.is_led else None
        else:
            answered = None
        if answered is None:
            self._asked = "", 0
            return
        self._asked = asked
        self._reported |= {row.tenant: row for row in rows}
        for row in answered:
            if (meter := self._meters.of(row.tenant)) is not None:
                meter.take_shares({**meter.shares(), **row.shares}, row.elsewhere)

    def _rows(self, *, is_whole: bool) -> list[TenantUseReport]:
        rows, amounts = [], self._amounts()
        for meter in self._meters.active():
            row = self._row(meter, amounts)
            if is_whole or _differs(self._reported.get(meter.tenant), row):
                rows.append(row)
        return rows

    def _row(self, meter: TenantMeter, amounts: dict[str, Counter[str]]) -> TenantUseReport:
        held = {kind: float(count[meter.tenant]) for kind, count in amounts.items() if count[meter.tenant]}
        held |= {
            kind: float(used)
            for kind, used in (
                (kinds.CONNECTIONS, meter.connections),
                (kinds.LONG_POLLS, meter.waiting),
                (kinds.STORAGE_BYTES, meter.led_bytes),
            )
            if used
        }
        return TenantUseReport(meter.tenant, meter.shares(), meter.demands(), held)

    # --- the leader ---

    def _answer(self, node: str, rows: tuple[TenantUseReport, ...]) -> tuple[TenantShare, ...] | None:
        """Return what a node has to hear; None if this node does not lead, or has just begun to."""
        leadership = self._log.journal.partition.leadership
        if leadership is None or not self._log.is_led:
            self._book = None
            return None
        now_ns = self._clock.monotonic_ns()
        if self._book is None or self._book_epoch != leadership.leader_epoch:
            self._book, self._book_epoch = ShareBook(now_ns), leadership.leader_epoch
        self._book.forget(self._meters.tenants.state.tenants)
        self._book.report(node, rows)
        return tuple(self._book.answer(node, self._members, now_ns))

    async def _on_report(self, asked: UseReported) -> SharesAnswered:
        rows = self._answer(asked.node, asked.rows)
        return SharesAnswered(asked.number, rows is not None, rows or ())


def _differs(known: TenantUseReport | None, row: TenantUseReport) -> bool:
    if known is None:
        return bool(any(row.demands.values()) or row.amounts)
    if (known.shares, known.amounts) != (row.shares, row.amounts):
        return True
    return any(
        abs(demand - known.demands.get(rate, 0.0)) > _NOTABLE * max(demand, known.demands.get(rate, 0.0))
        for rate, demand in row.demands.items()
    )
