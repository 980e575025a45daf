"""Retries: the policy that decides when a failed message is retried, and the queue in which it waits for that.

A message that failed `retries_max` times is on its last attempt: its next failure moves it to the dead-letter topic, or
drops it where there is none. `resolve_delivery` is the one rule that makes the policy of a group in a topic from the
settings of both and from the broker's configuration; `settlement.py` applies it to nacks and expired leases.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Any, Literal

from goqueue.broker.core.delivery_settings import (
    DELIVERY_FIELDS,
    NO_DEAD_LETTERS,
    NOTHING_SET,
    DeliverySettings,
)
from goqueue.broker.core.ranges import RangeMap
from goqueue.broker.groups.records import Range, RetryState
from goqueue.clock import NANOSECONDS
from goqueue.limits import (
    PRIORITY_COUNT,
    RETRIES_MAX,
    RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    TOPIC_NAME_CHARACTERS_MAX,
    VISIBILITY_SECONDS,
)

DEAD_LETTER_SUFFIX = ".dlq"

_STALE_ENTRIES_MAX = 64  # in a heap, before it is rebuilt
_POLICIES_REMEMBERED = 4_096  # some hundred bytes each; most groups share the settings of their topics

DueRetry = tuple[int, Range, RetryState]
"""When a range is due, the range, and its delivery history."""

DeliveryOrigin = Literal["group", "topic", "broker"]
"""Whose setting it is; the earlier one goes first."""


# --- the policy ---


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPolicy:
    """The duration of leases, the number of retries, the backoff before each, and what becomes of dead letters."""

    visibility_ns: int = round(VISIBILITY_SECONDS * NANOSECONDS)
    retries_max: int | None = RETRIES_MAX
    """The failure after this many retries is the last one. None: there is no last one."""
    retry_ns: int = round(RETRY_SECONDS * NANOSECONDS)
    retry_ns_max: int = round(RETRY_SECONDS_MAX * NANOSECONDS)
    dead_letter_topic: str | None = None
    """Where dead letters go; None if there is no such topic."""
    drops: bool = False
    """True if messages that failed for the last time are dropped."""

    def retry_delay_ns(self, failures: int) -> int:
        """Return the backoff after so many failures: it doubles each time, up to the limit."""
        return min(self.retry_ns << min(max(failures - 1, 0), 40), self.retry_ns_max)

    def is_last_attempt(self, failures: int) -> bool:
        """True when the next failure makes the message a dead letter, or drops it."""
        return self.retries_max is not None and failures >= self.retries_max

    @property
    def is_final(self) -> bool:
        """True for a dead-letter topic without another one behind it: its messages cannot be given up."""
        return self.dead_letter_topic is None and not self.drops


@dataclass(frozen=True, slots=True)
class EffectiveDelivery:
    """The policy of a group in a topic, and whose setting each of its fields is."""

    policy: DeliveryPolicy
    origins: Mapping[str, DeliveryOrigin]


def dead_letter_topic(topic: str) -> str:
    """Return the dead-letter topic of a topic that names no other one."""
    return f"{topic[: TOPIC_NAME_CHARACTERS_MAX - len(DEAD_LETTER_SUFFIX)]}{DEAD_LETTER_SUFFIX}"


@lru_cache(maxsize=_POLICIES_REMEMBERED)
def resolve_delivery(
    topic: str,
    configured: DeliveryPolicy,
    of_topic: DeliverySettings = NOTHING_SET,
    of_group: DeliverySettings = NOTHING_SET,
) -> EffectiveDelivery:
    """Return how a group delivers the messages of a topic: each field by the group, else the topic, else the broker.

    Where the first delay is longer than the longest one, the setting of the earlier level holds for both. A topic named
    `.dlq` has no dead letters unless a setting says so: its messages are retried without limit.
    """
    levels: tuple[tuple[DeliveryOrigin, DeliverySettings], ...] = (("group", of_group), ("topic", of_topic))
    chosen: dict[str, Any] = {}
    origins: dict[str, DeliveryOrigin] = dict.fromkeys(DELIVERY_FIELDS, "broker")
    for name in DELIVERY_FIELDS:
        for origin, settings in levels:
            if (value := getattr(settings, name)) is not None:
                chosen[name], origins[name] = value, origin
                break
    policy = replace(
        configured,
        visibility_ns=_nanoseconds(chosen.get("visibility_timeout"), configured.visibility_ns),
        retries_max=configured.retries_max if "max_retries" not in chosen else _retries(chosen["max_retries"]),
        retry_ns=_nanoseconds(chosen.get("retry_delay"), configured.retry_ns),
        retry_ns_max=_nanoseconds(chosen.get("max_retry_delay"), configured.retry_ns_max),
    )
    policy = _with_fitting_delays(policy, origins)
    return EffectiveDelivery(_with_dead_letters(policy, topic, chosen.get("dead_letter_topic"), origins), origins)


def _nanoseconds(seconds: float | None, default: int) -> int:
    return default if seconds is None else round(seconds * NANOSECONDS)


def _retries(value: int | str) -> int | None:
    return None if isinstance(value, str) else value


def _with_fitting_delays(policy: DeliveryPolicy, origins: dict[str, DeliveryOrigin]) -> DeliveryPolicy:
    if policy.retry_ns <= policy.retry_ns_max:
        return policy
    rank = ("group", "topic", "broker").index
    if rank(origins["retry_delay"]) < rank(origins["max_retry_delay"]):
        origins["max_retry_delay"] = origins["retry_delay"]
        return replace(policy, retry_ns_max=policy.retry_ns)
    origins["retry_delay"] = origins["max_retry_delay"]
    return replace(policy, retry_ns=policy.retry_ns_max)


def _with_dead_letters(
    policy: DeliveryPolicy, topic: str, target: str | None, origins: dict[str, DeliveryOrigin]
) -> DeliveryPolicy:
    if target == NO_DEAD_LETTERS:
        return replace(policy, drops=True)
    if target is None and not topic.endswith(DEAD_LETTER_SUFFIX):
        target = dead_letter_topic(topic)
    if target is not None and target != topic:
        return replace(policy, dead_letter_topic=target)
    if policy.retries_max is not None:
        origins["max_retries"] = "broker"
    return replace(policy, retries_max=None)


# --- the queue ---


class RetryQueue(RangeMap[RetryState]):
    """Messages that wait for their next delivery, indexed by due time in each lane.

    Entries of the heaps may be stale: lookups drop them, and a heap with too many of them is rebuilt.
    """

    __slots__ = ("_heaps",)

    def __init__(self, runs: Iterable[tuple[int, int, RetryState]] = ()) -> None:
        self._heaps: list[list[tuple[int, int]]] = [[] for _ in range(PRIORITY_COUNT)]
        """For each lane: due time and first offset of a run."""
        super().__init__(runs)

    def set(self, first: int, end: int, value: RetryState) -> None:
        super().set(first, end, value)
        run = self.run_at(first)
        self._index(first if run is None else run[0], value)
        if (rest := self.run_at(end)) is not None:
            self._index(rest[0], rest[2])

    def cut(self, first: int, end: int) -> list[tuple[int, int, RetryState]]:
        removed = super().cut(first, end)
        if removed and (rest := self.run_at(end)) is not None:
            self._index(rest[0], rest[2])
        return removed

    def clear(self) -> None:
        super().clear()
        for heap in self._heaps:
            heap.clear()

    def next_due(self) -> DueRetry | None:
        if not self:
            return None
        found = [due for lane in range(PRIORITY_COUNT) if (due := self.next_due_of(lane)) is not None]
        return min(found, default=None)

    def next_due_of(self, lane: int) -> DueRetry | None:
        heap = self._heaps[lane]
        while heap:
            due_ns, first = heap[0]
            run = self.run_at(first)
            if run is not None and run[2].due_ns == due_ns and run[2].queue == lane:
                return due_ns, (run[0], run[1]), run[2]
            heappop(heap)
        return None

    def _index(self, first: int, history: RetryState) -> None:
        heap = self._heaps[history.queue]
        if len(heap) > 2 * len(self) + _STALE_ENTRIES_MAX:
            heap[:] = [(one.due_ns, start) for start, _, one in self.runs() if one.queue == history.queue]
            heapify(heap)
        else:
            heappush(heap, (history.due_ns, first))
