"""Quotas of a tenant: their kinds, defaults of the broker, values of one tenant, and what follows from both.

A value is a number, or `unlimited`. A tenant without a value of its own has the default of the broker. A soft limit
beside a quota refuses nothing: what goes beyond it is counted and reported.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from goqueue.errors import RequestInvalid
from goqueue.nearest import nearest
from goqueue.quantities import format_size, quoted

UNLIMITED: Final = "unlimited"
SOFT: Final = "soft_limits"
"""The key of soft limits among the recorded values."""
QuotaMeasure = Literal["rate", "amount", "bound"]
"""A rate per second; an amount in use, such as stored bytes; a bound for the settings of one thing."""
QuotaUnit = Literal["messages", "bytes", "operations", "hours", "things"]
VALUE_MAX: Final = 2**53
"""Larger numbers are not exact in JSON."""


@dataclass(frozen=True, slots=True)
class QuotaKind:
    """One row of the table of quotas."""

    name: str
    """The field in requests, settings, commands and metrics."""
    noun: str
    measure: QuotaMeasure
    unit: QuotaUnit

    @property
    def is_rate(self) -> bool:
        return self.measure == "rate"

    @property
    def least(self) -> int:
        """A rate of nothing would make clients wait for ever: a tenant is suspended instead."""
        return 1 if self.is_rate or self.measure == "bound" else 0

    def format(self, value: float | None) -> str:
        """Return the text of a value for people."""
        if value is None:
            return UNLIMITED
        amount = format_size(int(value)) if self.unit == "bytes" else f"{value:,.0f}"
        if self.unit == "hours":
            return f"{amount} h"
        return f"{amount}/s" if self.is_rate else amount


PUBLISH_RATE, CONSUME_RATE = "publish_rate_limit", "consume_rate_limit"
PUBLISH_BYTES_RATE, CONSUME_BYTES_RATE = "publish_bytes_rate_limit", "consume_bytes_rate_limit"
METADATA_RATE, QUERY_RATE = "metadata_rate_limit", "query_rate_limit"
STORAGE_BYTES, IN_FLIGHT_BYTES = "max_storage_bytes", "max_in_flight_bytes"
TOPICS, TOTAL_PARTITIONS, PARTITIONS_PER_TOPIC = "max_topics", "max_total_partitions", "max_partitions_per_topic"
MESSAGE_BYTES, CONNECTIONS = "max_message_size_bytes", "max_connections"
GROUPS, CONSUMERS_PER_GROUP = "max_consumer_groups", "max_consumers_per_group"
RETENTION_HOURS, DELAY_HOURS = "max_retention_hours", "max_delay_hours"
OPEN_TRANSACTIONS, LONG_POLLS = "max_open_transactions", "max_long_polls"

_ROWS = (
    QuotaKind(PUBLISH_RATE, "published messages per second", "rate", "messages"),
    QuotaKind(PUBLISH_BYTES_RATE, "published bytes per second", "rate", "bytes"),
    QuotaKind(CONSUME_RATE, "consumed messages per second", "rate", "messages"),
    QuotaKind(CONSUME_BYTES_RATE, "consumed bytes per second", "rate", "bytes"),
    QuotaKind(METADATA_RATE, "changes of topics, groups and schemas per second", "rate", "operations"),
    QuotaKind(QUERY_RATE, "queries of traces and with filters per second", "rate", "operations"),
    QuotaKind(STORAGE_BYTES, "stored bytes", "amount", "bytes"),
    QuotaKind(IN_FLIGHT_BYTES, "bytes being written", "amount", "bytes"),
    QuotaKind(TOPICS, "topics", "amount", "things"),
    QuotaKind(TOTAL_PARTITIONS, "partitions of all topics", "amount", "things"),
    QuotaKind(CONNECTIONS, "connections", "amount", "things"),
    QuotaKind(GROUPS, "consumer groups", "amount", "things"),
    QuotaKind(OPEN_TRANSACTIONS, "open transactions", "amount", "things"),
    QuotaKind(LONG_POLLS, "waiting polls and reads", "amount", "things"),
    QuotaKind(PARTITIONS_PER_TOPIC, "partitions of a topic", "bound", "things"),
    QuotaKind(CONSUMERS_PER_GROUP, "members of a group", "bound", "things"),
    QuotaKind(MESSAGE_BYTES, "bytes of a message", "bound", "bytes"),
    QuotaKind(RETENTION_HOURS, "hours of retention", "bound", "hours"),
    QuotaKind(DELAY_HOURS, "hours of delay", "bound", "hours"),
)
KINDS: Final[Mapping[str, QuotaKind]] = MappingProxyType({one.name: one for one in _ROWS})


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas that count for a tenant. A kind that is missing is unlimited."""

    limits: Mapping[str, float] = field(default_factory=dict)
    soft: Mapping[str, float] = field(default_factory=dict)

    def limit(self, kind: str) -> float | None:
        return self.limits.get(kind)

    @classmethod
    def of(cls, defaults: Mapping[str, float], recorded: Mapping[str, Any]) -> "Quotas":
        """Combine the defaults of the broker with recorded values of a tenant, which are valid."""
        limits = dict(defaults)
        for kind in KINDS.keys() & recorded.keys():
            if recorded[kind] == UNLIMITED:
                limits.pop(kind, None)
            else:
                limits[kind] = recorded[kind]
        return cls(limits, dict(recorded.get(SOFT, {})))


def check_quota(kind: str, value: object) -> int | str:
    """Return a valid value of a quota, or raise RequestInvalid."""
    row = known_kind(kind)
    if value == UNLIMITED:
        return UNLIMITED
    if isinstance(value, bool) or not isinstance(value, int) or not row.least <= value <= VALUE_MAX:
        what = f"a whole number of at least {row.least}, or {UNLIMITED}"
        problem = {"place": kind, "problem": f"is {quoted(str(value)[:40])}, and must be {what}"}
        raise RequestInvalid(
            f"{kind} {problem['problem']}",
            hint="to stop all traffic of a tenant, suspend it" if value == 0 else f"it is a number of {row.noun}",
            problems=[problem],
        )
    return value


def known_kind(kind: str) -> QuotaKind:
    row = KINDS.get(kind)
    if row is None:
        meant = nearest(kind, [*KINDS])
        hint = f"did you mean {meant}?" if meant else f"there are {', '.join(KINDS)}"
        problem = {"place": kind[:100], "problem": "is not a quota"}
        raise RequestInvalid(f"there is no quota {quoted(kind[:100])}", hint=hint, problems=[problem])
    return row


def check_recorded(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return valid values of a tenant; `soft_limits` has those that only warn. None stands for the default."""
    checked: dict[str, Any] = {}
    for kind, value in values.items():
        if kind == SOFT:
            soft = {name: check_quota(name, one) for name, one in (value or {}).items() if one not in (None, UNLIMITED)}
            checked |= {SOFT: soft} if soft else {}
        elif value is not None:
            checked[kind] = check_quota(kind, value)
    for kind, soft_limit in checked.get(SOFT, {}).items():
        limit = checked.get(kind, UNLIMITED)
        if limit != UNLIMITED and soft_limit > limit:
            row = KINDS[kind]
            problem = f"is {row.format(soft_limit)}, above the limit of {row.format(limit)}"
            raise RequestInvalid(
                f"the soft limit of {kind} {problem}",
                hint="it would never be reached: set a lower soft limit, or a higher limit",
                problems=[{"place": f"{SOFT}.{kind}", "problem": problem}],
            )
    return checked
