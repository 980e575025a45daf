"""Limits of tenants as people write and read them."""

from collections.abc import Iterable
from typing import Any, Final, Literal

from goqueue.console.failure import UsageInvalid
from goqueue.quantities import format_size, parse_size, quoted

UNLIMITED: Final = "unlimited"
DEFAULT: Final = "default"
"""Stands for the value of the broker."""
BYTES, RATE = "bytes", "_rate_limit"
"""What names of quotas of bytes contain, and those of rates end with."""
_DIGITS_MAX = 15
QUOTAS: Final = (
    "publish_rate_limit", "publish_bytes_rate_limit", "consume_rate_limit", "consume_bytes_rate_limit",
    "metadata_rate_limit", "query_rate_limit", "max_storage_bytes", "max_in_flight_bytes", "max_topics",
    "max_total_partitions", "max_connections", "max_consumer_groups", "max_open_transactions", "max_long_polls",
    "max_partitions_per_topic", "max_consumers_per_group", "max_message_size_bytes", "max_retention_hours",
    "max_delay_hours",
)  # fmt: skip
"""Their names, which completion proposes without a broker."""


def format_quota(quota: str, value: float | None) -> str:
    """Return the text of a limit or an amount with the unit of its quota."""
    if value is None:
        return UNLIMITED
    text = format_size(int(value)) if BYTES in quota else f"{value:,.0f}"
    return f"{text}/s" if quota.endswith(RATE) else text


def parse_quota(quota: str, text: str) -> int | Literal["unlimited"] | None:
    """Return a limit; None is the default of the broker. Raises ValueError."""
    if text in (DEFAULT, "none"):
        return None
    if text == UNLIMITED:
        return UNLIMITED
    if quota.endswith(RATE):  # as it is shown
        text = text.removesuffix("/s")
    if BYTES in quota:
        return parse_size(text)
    digits = text.replace(",", "")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS_MAX):
        raise ValueError(f"{quoted(text)} is not a whole number of at least 0, {UNLIMITED} or {DEFAULT}")
    return int(digits)


def parse_limits(texts: Iterable[str]) -> dict[str, Any]:
    """Return limits given as QUOTA=VALUE, by their names; None is the default of the broker."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name or not value:
            raise UsageInvalid(f"{text!r} is not a quota", hint="write QUOTA=VALUE, as in publish_rate_limit=1000")
        if name in found:
            raise UsageInvalid(f"{name} is given twice", hint="give each quota once")
        try:
            found[name] = parse_quota(name, value.strip())
        except ValueError as error:
            hint = "write a size such as 10GiB" if BYTES in name else f"write a number, {UNLIMITED} or {DEFAULT}"
            raise UsageInvalid(f"{name}={value.strip()}: {error}", hint=hint) from None
    return found
