"""Topic settings as text, and what a change of them would lose; the broker knows their names and bounds."""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Any

from goqueue.console.failure import UsageInvalid
from goqueue.errors import RequestInvalid
from goqueue.limits import LANE_WEIGHT_MAX, PRIORITY_COUNT
from goqueue.nearest import nearest
from goqueue.quantities import format_duration, parse_duration, parse_size, quoted

if TYPE_CHECKING:
    from goqueue.client import Client

_ELSEWHERE = {
    "name": "names are arguments: `goqueue-cli topic create {value}`",
    "partitions": "`--partitions {value}` sets the number",
    "num_partitions": "`--partitions {value}` sets the number",
    "auto": "`topic create` always creates the topic",
}
"""Fields of a request to create a topic that are not settings, with a hint for each."""

FIXED = {
    "name": "a topic keeps its name",
    "partitions": "a topic keeps the number of partitions that it was created with",
    "num_partitions": "a topic keeps the number of partitions that it was created with",
}
"""The same fields, with a hint for a change of a topic."""

TOPIC_SETTINGS: dict[str, tuple[str, ...]] = {
    "retention_hours": (),
    "retention_bytes": (),
    "cleanup": ("delete", "compact", "compact,delete"),
    "max_message_bytes": (),
    "partitioner": ("murmur3", "murmur2"),
    "delay_expiry_seconds": (),
    "segment_bytes": (),
    "lane_weights": (),
    "lane_boost_seconds": (),
    "trace_sampling": (),
    "max_retries": (),
    "retry_delay": (),
    "max_retry_delay": (),
    "visibility_timeout": (),
    "dead_letter_topic": (),
    "value_validation": ("none", "id", "payload"),
    "value_subject": ("topic", "record", "topic-record"),
    "key_validation": ("none", "id", "payload"),
    "key_subject": ("topic", "record", "topic-record"),
    "replication_factor": (),
    "min_isr": (),
    "unclean_election": ("never", "longest"),
}
"""Settings with their values, where these are few, for completion only: the broker may know others."""

EXPIRY = "delay_expiry_seconds"
_LANE_WEIGHTS = "lane_weights"
_DEAD_LETTER_TOPIC = "dead_letter_topic"
_WEIGHTS = f"give one weight for each priority from critical to background, as in --set {_LANE_WEIGHTS}=50,25,15,7,3"

_KNOWING = "__metadata"  # every broker has this topic, and every topic has all settings


def completed_settings() -> Iterator[str]:
    """Yield what may follow `--set`: a name with `=`, and the value where these are few."""
    for name, values in TOPIC_SETTINGS.items():
        yield from (f"{name}={value}" for value in values or ("",))


def settings_of(config: Mapping[str, Any]) -> Iterator[str]:
    """Format each setting as `--set` takes it."""
    return (f"{name}={setting_text(value, name)}" for name, value in config.items())


DURATIONS = ("retry_delay", "max_retry_delay", "visibility_timeout")
"""Settings that are durations without a unit in their names."""


def setting_text(value: Any, name: str = "") -> str:
    if isinstance(value, list):
        return ",".join(map(setting_text, value))
    if name in DURATIONS and isinstance(value, (int, float)):
        return format_duration(value, exact=True)
    return value if isinstance(value, str) else json.dumps(value)


def changed_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings that differ, each with its value before and after."""
    return {name: {"before": value, "after": after[name]} for name, value in before.items() if after.get(name) != value}


def parse_setting(text: str, elsewhere: Mapping[str, str] = _ELSEWHERE, *, noun: str = "topic") -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageInvalid(f"--set {quoted(text)} is not a setting", hint="use --set retention_hours=24")
    if name in elsewhere:
        raise UsageInvalid(f"--set: {name} is not a setting of a {noun}", hint=elsewhere[name].format(value=value))
    if name == _LANE_WEIGHTS and not value.startswith("["):
        return name, _weights(value)
    if name == _DEAD_LETTER_TOPIC and value != "null":  # a topic may have a number as its name
        return name, value.strip('"')
    try:
        found = json.loads(value)
    except ValueError:
        return name, _from_text(name, value)  # `compact` is easier to write than `"compact"`
    if isinstance(found, float) and not isfinite(found):  # a request would have null for it
        raise UsageInvalid(f"--set {name}: {value} is not a number", hint=f"{name}=null means no limit")
    if isinstance(found, (int, float)) and found < 0:  # the plan of a change would show it as possible
        raise UsageInvalid(f"--set {name}: {value} is less than 0", hint=f"use --set {name}=0 or more")
    return name, found


def _from_text(name: str, value: str) -> Any:
    if name.endswith("_bytes"):
        try:
            return parse_size(value)
        except ValueError as error:
            raise UsageInvalid(f"--set {name}: {error}", hint=f"use a size such as --set {name}=64MiB") from None
    if name.endswith("_seconds") or name in DURATIONS:
        try:
            return parse_duration(value)
        except ValueError as error:
            raise UsageInvalid(
                f"--set {name}: {error}", hint=f"use a duration such as --set {name}=30, or 1m"
            ) from None
    if name.endswith("_hours"):
        raise UsageInvalid(f"--set {name}: {quoted(value)} is not a number of hours", hint=_in_hours(name, value))
    return value


def _weights(value: str) -> list[int]:
    """Parse one weight for each priority, as in `50,25,15,7,3`."""
    words = [word.strip() for word in value.split(",")]
    wrong = next((word for word in words if not _is_weight(word)), None)
    if wrong is not None:
        problem = f"{quoted(wrong)} is not a whole number from 1 to {LANE_WEIGHT_MAX}"
    elif len(words) != PRIORITY_COUNT:
        problem = f"there are {PRIORITY_COUNT} priorities, and {quoted(value)} says {len(words)}"
    else:
        return list(map(int, words))
    raise UsageInvalid(f"--set {_LANE_WEIGHTS}: {problem}", hint=_WEIGHTS)


def _is_weight(word: str) -> bool:
    return word.isascii() and word.isdecimal() and len(word) < 10 and 1 <= int(word) <= LANE_WEIGHT_MAX


def _in_hours(name: str, value: str) -> str:
    try:
        hours = parse_duration(value) / 3600
    except ValueError:
        return f"use --set {name}=24, or {name}=null for no limit"
    return f"did you mean --set {name}={hours:g}?"


def lossy_settings(before: Mapping[str, Any], given: Mapping[str, Any], *, messages: int, delayed: int) -> list[str]:
    """Return the settings by whose change a topic with so many messages and pending delayed ones would lose some."""
    found = losing(before, given) if messages else []
    return [*found, EXPIRY] if delayed and expires_sooner(before, given) else found


def losing(before: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return the settings that make a topic keep less than before, and so lose messages."""
    after = {**before, **given}
    had, has = (set(str(config["cleanup"]).split(",")) for config in (before, after))
    found = ["cleanup"] if has - had else []
    if given.get(_DEAD_LETTER_TOPIC) == "none" != before.get(_DEAD_LETTER_TOPIC):
        found.append(_DEAD_LETTER_TOPIC)  # what fails for the last time is dropped
    if "delete" in has:
        found += [name for name in ("retention_hours", "retention_bytes") if _is_less(after[name], before[name])]
    return found


def expires_sooner(before: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Return True if delayed messages expire earlier than before."""
    return EXPIRY in given and _is_less(given[EXPIRY], before.get(EXPIRY))


def _is_less(value: Any, other: Any) -> bool:
    """Compare two limits; null is no limit. The broker refuses what is not a number."""
    return isinstance(value, (int, float)) and (other is None or value < other)


@contextmanager
def explaining(client: "Client", settings: dict[str, Any]) -> Iterator[None]:
    """Report fields that the broker refuses as the settings that were given."""
    try:
        yield
    except RequestInvalid as error:
        refuse_unknown(settings, client.topic(_KNOWING).config if settings else {}, error)
        raise


def refuse_unknown(
    settings: Mapping[str, Any], known: Iterable[str], cause: Exception | None = None, *, noun: str = "topic"
) -> None:
    """Refuse unknown settings, with the nearest known one as a hint."""
    known = list(known)
    unknown = [name for name in settings if known and name not in known]
    if unknown:
        guess = nearest(unknown[0], known)
        verdict = "is not a setting" if len(unknown) == 1 else "are not settings"
        raise RequestInvalid(
            f"{', '.join(map(quoted, unknown))} {verdict} of a {noun}",
            hint=f"did you mean {guess}?" if guess else f"there are {', '.join(known)}",
        ) from cause
