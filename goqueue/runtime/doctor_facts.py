"""Collects the facts about the running broker for the doctor.

Runs on the loop's thread in slices; files are read on other threads. So each part is consistent in itself, and not
all of it together.
"""

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from goqueue.broker.broker import Broker
from goqueue.broker.core.names import is_internal
from goqueue.broker.core.partition import Partition
from goqueue.broker.core.topic import Topic
from goqueue.broker.core.work import Job, Work
from goqueue.broker.delay.delayed_messages import DelayedMessages
from goqueue.broker.delay.queries import summarize_delays
from goqueue.broker.groups.dead_letters import REDRIVE_GROUP
from goqueue.broker.groups.retries import DEAD_LETTER_SUFFIX
from goqueue.broker.internal_topics import CATALOG, GROUPS, OPERATIONS, TRANSACTIONS
from goqueue.broker.losses import UnavailableLog, fault_of
from goqueue.broker.schemas.logs import SCHEMAS
from goqueue.broker.security.logs import AUDIT, SECURITY
from goqueue.broker.tenants.logs import TENANTS, USAGE
from goqueue.broker.transactions.records import TransactionMetadata
from goqueue.clock import NANOSECONDS
from goqueue.errors import GoQueueError
from goqueue.limits import (
    DOCTOR_PARTITIONS_MAX,
    DOCTOR_SAMPLES_MIN,
    DOCTOR_SUSTAINED_SECONDS,
    DOCTOR_WINDOW_SECONDS,
    HISTORY_SECONDS,
    HTTP_CONNECTIONS,
    TRANSACTION_HUNG_SECONDS,
    TRANSACTION_STUCK_SECONDS,
)
from goqueue.observe.facts import (
    BackupFacts,
    BrokerFacts,
    ClockJump,
    ClusterCondition,
    DamagedRange,
    DeadLetterFacts,
    DelayedFacts,
    DiskFacts,
    EmptySubject,
    HeldBackMessages,
    LogRole,
    LostRecords,
    ProcessFacts,
    RefusedTenant,
    StartFacts,
    TlsFacts,
    TransactionFacts,
    UnwritableLog,
)
from goqueue.observe.history import History
from goqueue.observe.process_metrics import open_files, open_files_max
from goqueue.runtime.event_loop import TimeSlices
from goqueue.runtime.group_facts import group_facts
from goqueue.runtime.quota_facts import quota_facts
from goqueue.runtime.runtime import Runtime
from goqueue.runtime.usage_runner import UsageRunner
from goqueue.storage.segment_scan import Damage

_STATM = Path("/proc/self/statm")
_UNIT = 1 if sys.platform == "darwin" else 1024  # of what getrusage says
_HUNG_NS = round(TRANSACTION_HUNG_SECONDS * NANOSECONDS)
_STUCK_NS = round(TRANSACTION_STUCK_SECONDS * NANOSECONDS)
_MILLISECONDS = 1000
_SHARE = 0.95  # of the seconds of a minute: single pauses do not count
_ROLES: Mapping[str, LogRole] = {
    CATALOG: "topics",
    GROUPS: "groups",
    TRANSACTIONS: "transactions",
    OPERATIONS: "operations",
    SECURITY: "keys",
    AUDIT: "audit",
    SCHEMAS: "schemas",
    TENANTS: "tenants",
    USAGE: "usage",
}


@dataclass(frozen=True, slots=True)
class RecentRates:
    loop_seconds: float | None = None
    flush_seconds: float | None = None
    disk_growth: float = 0.0
    """Bytes per second."""
    in_flight_bytes: int = 0
    """At least, throughout the last seconds: a burst is not a finding."""
    connections: int = 0
    """At least, throughout the last seconds."""


def recent_rates(history: History) -> RecentRates:
    lately, remembered = history.last(DOCTOR_WINDOW_SECONDS), history.last(HISTORY_SECONDS)
    return RecentRates(
        _mostly_below(lately["loop_lag_ms"]),
        _mostly_below([took for took in lately["flush_p99_ms"] if took]),  # 0 stands for a second without a round
        growth([used for used in remembered["disk_used_bytes"] if used]),  # and here for: not known yet
        _at_least(lately["in_flight_bytes"]),
        _at_least(lately["connections"]),
    )


def _at_least(values: Sequence[float]) -> int:
    """Return the lowest of the last values; 0 with too few of them."""
    return int(min(values[-DOCTOR_SUSTAINED_SECONDS:])) if len(values) >= DOCTOR_SUSTAINED_SECONDS else 0


def _mostly_below(values: Sequence[float]) -> float | None:
    """Return a percentile in seconds; None with too few values."""
    if len(values) < DOCTOR_SAMPLES_MIN:
        return None
    return sorted(values)[int((len(values) - 1) * _SHARE)] / _MILLISECONDS


def growth(used: Sequence[float]) -> float:
    """Return bytes per second in the slowest third of the history; 0 until it is full.

    A topic grows until retention starts, and a copied file takes a minute: neither lasts.
    """
    if len(used) < HISTORY_SECONDS:
        return 0.0
    third = len(used) // 3
    return min(_slope(used[start : start + third + 1]) for start in range(0, len(used) - third + 1, third))


def _slope(values: Sequence[float]) -> float:
    return (values[-1] - values[0]) / (len(values) - 1)


class DoctorFactsCollector:
    """Collects facts once for all concurrent requests, and never before a request."""

    def __init__(
        self,
        runtime: Runtime,
        history: History,
        *,
        connections_max: int = HTTP_CONNECTIONS,
        connections_wanted: int = HTTP_CONNECTIONS,
        tls: Callable[[], TlsFacts | None] = lambda: None,
        cluster: Callable[[], ClusterCondition | None] = lambda: None,
        backups: Callable[[], Awaitable[BackupFacts | None]] | None = None,
    ) -> None:
        self._runtime = runtime
        self._history = history
        self._connections_max = connections_max
        self._connections_wanted = connections_wanted
        self._tls, self._cluster = tls, cluster
        self._backups = backups
        self.usage: UsageRunner | None = None
        """Set if the broker has tenants."""
        self._lock = asyncio.Lock()
        self._begun = 0
        self._facts: tuple[int, BrokerFacts] | None = None
        """The last facts and the number of their collection."""

    async def facts(self) -> BrokerFacts:
        """Return facts collected after this call."""
        begun = self._begun  # the loop's clock is too coarse to compare
        async with self._lock:
            if self._facts is None or self._facts[0] <= begun:
                self._begun += 1
                self._facts = (self._begun, await self._gather())
            return self._facts[1]

    async def _gather(self) -> BrokerFacts:
        runtime, slices = self._runtime, TimeSlices()
        lately = recent_rates(self._history)
        disk = await self._perform(partial(self._disk_facts, lately.disk_growth))
        gone_directory = await self._perform(partial(_gone_directory, runtime))
        used_files = await self._perform(open_files)
        logs, late = _LogFacts(runtime), list[DelayedFacts]()
        for topic, partition in runtime.broker.partitions():
            await slices.rest()
            logs.look(topic, partition)
            if (delays := runtime.broker.delay_scheduler.delays(partition)) is not None:
                logs.look(topic, delays.delayed_log)
                late += await self._late(delays) if delays.is_led else []
        return BrokerFacts(
            uptime_seconds=(runtime.clock.monotonic_ns() - runtime.began_ns) / NANOSECONDS,
            partitions=logs.count,
            disk=disk,
            gone_directory=gone_directory,
            process=self._process(lately, used_files, logs.newest_ns),
            tls=self._tls(),
            cluster=self._cluster(),
            backups=None if self._backups is None else await self._backups(),
            refused=tuple(runtime.store.refused),
            refusal=runtime.store.refusal,
            shut=tuple(one for one in logs.shut if not one.is_open or gone_directory is None),  # which says it once
            damages=tuple(_damages(runtime)),
            start=_start(runtime),
            clock_jump=_clock_doubt(runtime),
            groups=await group_facts(runtime, slices),
            dead_letters=tuple(DeadLetterFacts(topic=name, messages=count) for name, count in logs.letters.items()),
            delayed=tuple(late),
            checked_topics=sum(bool(topic.validation) for topic in runtime.broker.topics.values()),
            empty_subjects=tuple(_empty_subjects(runtime.broker)),
            quotas=() if self.usage is None else tuple(quota_facts(self.usage)),
            tenants=None if runtime.broker.tenants is None else len(runtime.broker.tenants.state.tenants),
            refused_tenants=tuple(_refused_tenants(runtime.broker)),
            transactions_open=runtime.broker.transactions.open_count,
            transactions=await transaction_facts(runtime.broker, slices),
        )

    async def _perform(self, job: Callable[[], Any]) -> Any:
        return await self._runtime.perform(_alone(job))

    def _disk_facts(self, growth: float) -> DiskFacts | None:
        path = self._runtime.store.path
        with suppress(GoQueueError):
            space = self._runtime.disk.space(path)
            return DiskFacts(path, space.total_bytes, space.used_bytes, space.free_bytes, growth)
        return None

    def _process(self, lately: RecentRates, used_files: int | None, newest_ns: int) -> ProcessFacts:
        runtime = self._runtime
        behind = (newest_ns - runtime.clock.now_ns()) / NANOSECONDS
        return ProcessFacts(
            loop_seconds=lately.loop_seconds,
            stall_seconds=runtime.stall_detector.longest_seconds,
            flush_seconds=lately.flush_seconds,
            sync_failures=runtime.store.failures,
            in_flight_bytes=lately.in_flight_bytes,
            in_flight_bytes_max=runtime.settings.in_flight_bytes,
            open_files=used_files,
            open_files_max=open_files_max(),
            connections=lately.connections,
            connections_max=self._connections_max,
            connections_wanted=self._connections_wanted,
            clock_behind_seconds=max(0.0, behind),
        )

    async def _late(self, delays: DelayedMessages) -> list[DelayedFacts]:
        now_ns, place = delays.clock.now_ns(), delays.partition
        found = await self._runtime.perform(summarize_delays([delays], now_ns))
        if found.next_due_ns is None or not found.overdue:
            return []
        seconds = (now_ns - found.next_due_ns) / NANOSECONDS
        return [DelayedFacts(topic=place.topic, partition=place.number, messages=found.overdue, seconds=seconds)]


def _empty_subjects(broker: Broker) -> Iterator[EmptySubject]:
    for name, topic in broker.topics.items():
        for rule in topic.validation:
            with suppress(GoQueueError):  # a log that cannot be read has a finding of its own
                if (subject := broker.schemas.checker.empty_subject(name, rule)) is not None:
                    yield EmptySubject(topic=name, subject=subject, setting=rule.setting)


def _refused_tenants(broker: Broker) -> Iterator[RefusedTenant]:
    if broker.tenants is None:
        return
    for one in broker.tenants.state.tenants.values():
        if one.status != "active" and (count := broker.tenants.refusals.recent(one.id)):
            yield RefusedTenant(tenant=one.id, status=one.status, reason=one.reason, requests=count)


def _alone(job: Job) -> Work[Any]:
    return (yield job)


def memory_bytes() -> int:
    """Return the resident memory; the maximum so far if the system does not say."""
    try:
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


class _LogFacts:
    """Facts about logs, collected partition by partition."""

    def __init__(self, runtime: Runtime) -> None:
        self.count = 0
        self.newest_ns = 0
        self.shut: list[UnwritableLog] = []
        self.letters: dict[str, int] = {}
        """Number of dead letters by topic."""
        self._groups = runtime.broker.groups
        self._named = runtime.broker.groups.policies.dead_letter_topics()

    def look(self, topic: Topic, partition: Partition) -> None:
        log = partition.log
        if log.is_closed:  # deleted meanwhile
            return
        self.count += 1
        self.newest_ns = max(self.newest_ns, log.last_time)
        if (fault := fault_of(log)) is not None:
            self.shut.append(
                UnwritableLog(
                    log=log.name,
                    reason=fault.sentence,
                    hint=fault.hint,
                    is_open=not isinstance(log, UnavailableLog),
                    role=_ROLES.get(topic.name, "topic"),
                )
            )
        is_named = topic.name.endswith(DEAD_LETTER_SUFFIX) or topic.name in self._named
        if is_named and not is_internal(topic.name) and not partition.is_delayed:
            self.letters[topic.name] = self.letters.get(topic.name, 0) + self._letters_in(topic, partition)

    def _letters_in(self, topic: Topic, partition: Partition) -> int:
        """Count the dead letters that are not being redriven."""
        first, end = partition.earliest, partition.last_stable
        cursor = self._groups.of(REDRIVE_GROUP).store.cursor_of(REDRIVE_GROUP, topic, partition.number)
        hidden = partition.aborted.roughly(first if cursor is None else max(first, cursor.position), end)
        if cursor is None:
            return max(0, end - first - hidden)
        first = max(first, cursor.floor)
        gone = sum(behind - start for start, behind, _ in cursor.acked.within(first, end))
        moving = sum(stop - start for start, stop, _ in cursor.moving.within(first, end))
        return max(0, end - first - gone - moving - hidden)


def _damages(runtime: Runtime) -> Iterator[DamagedRange]:
    """Yield damage found by the start and by readers, unless it was removed meanwhile."""
    store, told = runtime.store, set[tuple[str, int]]()
    root = f"{store.path}/logs/"
    known: list[tuple[str, str, Damage]] = [
        (name, found.segments[-1].path, damage) for name, found in store.recovered.items() for damage in found.damages
    ]
    known += [
        (segment.directory.removeprefix(root), segment.path, damage)
        for segment, damage in store.resources.readers.damages()
    ]
    known += [
        (name, store.logs[name].directory, damage)
        for name, damages in runtime.scrub.damages.items()
        if name in store.logs
        for damage in damages
    ]
    for name, path, damage in known:
        log = store.logs.get(name)
        if log is None or damage.next_offset <= log.first_offset or (name, damage.first_offset) in told:
            continue
        told.add((name, damage.first_offset))
        yield DamagedRange(log=name, path=path, damage=damage)


def _gone_directory(runtime: Runtime) -> str | None:
    """Return the path of a data directory that is not there any more."""
    with suppress(GoQueueError):  # a directory that cannot be looked at may still be there
        return None if runtime.store.is_in_place() else runtime.store.path
    return None


def _clock_doubt(runtime: Runtime) -> ClockJump | None:
    clock = runtime.broker.retention
    if not clock.ahead_ns:
        return None
    return ClockJump(
        ahead_seconds=clock.ahead_ns / NANOSECONDS,
        start_seconds=(clock.ahead_ns - clock.jumped_ns) / NANOSECONDS,
        seconds_left=clock.seconds_left,
        percent=clock.percent,
        held_back=tuple(clock.held_back()),
    )


def _start(runtime: Runtime) -> StartFacts:
    found = runtime.store.recovered
    return StartFacts(
        surveyed=sum(not one.was_clean for one in found.values()),
        cuts=tuple(one.cut for one in found.values() if one.cut is not None),
        unclaimed=tuple(runtime.broker.unclaimed),
        restored={name: one.restored for name, one in found.items() if one.restored},
        lost=tuple(
            LostRecords(log=one.log, count=one.count, names=one.names, role=_ROLES[one.log.partition("/")[0]])
            for one in runtime.broker.lost_records()
        ),
    )


# --- transactions ---


async def transaction_facts(broker: Broker, slices: TimeSlices) -> tuple[TransactionFacts, ...]:
    """Return long and stuck transactions, oldest first, as far as one examination may look."""
    now_ns = broker.transactions.clock.now_ns()
    late = [one for one in broker.transactions.open_ones() if now_ns - _since_ns(one) >= _patience_ns(one)]
    found: list[TransactionFacts] = []
    left = DOCTOR_PARTITIONS_MAX
    for record in sorted(late, key=lambda one: one.state == "ongoing"):  # a decided one has no timeout
        left -= max(1, len(record.partitions))
        if left < 0:
            break
        found.append(_transaction_facts(broker, record, now_ns))
        await slices.rest()
    return tuple(found)


def _since_ns(record: TransactionMetadata) -> int:
    """Return when it began, or when its end was decided."""
    return record.began_ns if record.state == "ongoing" else record.changed_ns


def _patience_ns(record: TransactionMetadata) -> int:
    return _HUNG_NS if record.state == "ongoing" else _STUCK_NS


def _transaction_facts(broker: Broker, record: TransactionMetadata, now_ns: int) -> TransactionFacts:
    transactions = broker.transactions.of(record.id)
    obstacle = transactions.completer.obstacles.get(record.id)
    now = [touched for touched in record.partitions if not touched.log_ref.is_delayed]
    held = [(touched.log_ref, transactions.lookup.held_by(record, touched)) for touched in now]
    is_open = record.state == "ongoing"
    return TransactionFacts(
        name=record.id,
        transaction=str(record.whose),
        state="ongoing" if is_open else "prepare_commit" if record.state == "prepare_commit" else "prepare_abort",
        seconds=(now_ns - _since_ns(record)) / NANOSECONDS,
        idle_seconds=transactions.timeouts.idle_ns(record) / NANOSECONDS,
        expires_in=max(0, transactions.timeouts.expires_ns(record) - now_ns) / NANOSECONDS if is_open else None,
        messages=sum(one.messages for _, one in held),
        held_back=tuple(
            HeldBackMessages(topic=log_ref.topic, partition=log_ref.partition, messages=one.held_back)
            for log_ref, one in held
            if one.held_back
        ),
        obstacle=None if obstacle is None else obstacle.sentence,
    )
