"""Settings of quotas: the defaults of tenants that have no value of their own."""

from collections.abc import Callable
from dataclasses import dataclass, fields

from goqueue.config.value_types import ValueType, setting
from goqueue.quantities import format_size, parse_size, quoted

UNLIMITED = "unlimited"
_DIGITS_MAX = 15


def _parse_count(text: str) -> int:
    number = text.replace(",", "")
    if not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX):
        raise ValueError(f"{quoted(text)} is neither a whole number nor {UNLIMITED}")
    return int(number)


def _or_unlimited(parse: Callable[[str], int], show: Callable[[int], str]) -> Callable[[str], str]:
    return lambda text: UNLIMITED if text == UNLIMITED else show(parse(text))


COUNT_QUOTA = ValueType(f"number or {UNLIMITED}", "NUMBER", _or_unlimited(_parse_count, str), str)
SIZE_QUOTA = ValueType(
    f"size or {UNLIMITED}", "SIZE", _or_unlimited(parse_size, lambda size: format_size(size, exact=True)), str
)


def _count(sentence: str) -> str:
    value: str = setting(UNLIMITED, COUNT_QUOTA, sentence)
    return value


def _size(sentence: str) -> str:
    value: str = setting(UNLIMITED, SIZE_QUOTA, sentence)
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotasConfig:
    """Quotas of tenants that have no value of their own."""

    publish_rate_limit: str = _count("Maximum published messages per second of a tenant.")
    publish_bytes_rate_limit: str = _size("Maximum bytes of publish requests per second of a tenant.")
    consume_rate_limit: str = _count("Maximum consumed messages per second of a tenant; polls and reads are delayed.")
    consume_bytes_rate_limit: str = _size("Maximum consumed bytes per second of a tenant; polls and reads are delayed.")
    metadata_rate_limit: str = _count("Maximum changes of topics, groups and schemas per second of a tenant.")
    query_rate_limit: str = _count("Maximum queries of traces and reads with filters per second of a tenant.")
    max_storage_bytes: str = _size(
        "Maximum stored bytes of a tenant, dead letters and delayed messages included. Publishes are refused from there"
        " on, and accepted again below 95 %."
    )
    max_in_flight_bytes: str = _size("Maximum bytes of a tenant's publish requests that are being written.")
    max_topics: str = _count("Maximum number of topics of a tenant.")
    max_total_partitions: str = _count("Maximum number of partitions of all topics of a tenant.")
    max_connections: str = _count("Maximum number of connections of a tenant.")
    max_consumer_groups: str = _count("Maximum number of consumer groups of a tenant.")
    max_open_transactions: str = _count("Maximum number of open transactions of a tenant.")
    max_long_polls: str = _count("Maximum number of polls and reads of a tenant that wait for messages.")
    max_partitions_per_topic: str = _count("Maximum number of partitions of one topic of a tenant.")
    max_consumers_per_group: str = _count("Maximum number of members of one group of a tenant.")
    max_message_size_bytes: str = _size("Maximum size of a message of a tenant: key and value, or its frame.")
    max_retention_hours: str = _count("Maximum retention of a tenant's topics, in hours.")
    max_delay_hours: str = _count("Maximum delay of a tenant's messages, in hours.")

    def limits(self) -> dict[str, float]:
        """Return the quotas that are not unlimited."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: float(_number(text)) for name, text in found.items() if text != UNLIMITED}


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else parse_size(text)
