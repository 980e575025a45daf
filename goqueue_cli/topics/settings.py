"""Settings of a topic, as `--set` takes them. Which there are, and what each may be, the broker knows."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from math import isfinite
from typing import TYPE_CHECKING, Any

from goqueue.console.groups import UsageInvalid
from goqueue.errors import RequestInvalid
from goqueue.limits import LANE_WEIGHT_MAX, PRIORITY_COUNT
from goqueue.quantities import parse_duration, parse_size, quoted

if TYPE_CHECKING:
    from goqueue.client import Client

_ELSEWHERE = {
    "name": "names stand behind the command: `goqueue-cli topic create {value}`",
    "partitions": "`--partitions {value}` says how many there are",
    "num_partitions": "`--partitions {value}` says how many there are",
    "auto": "`topic create` always creates the topic",
}
"""What a request to create a topic has besides its settings."""

FIXED = {
    "name": "a topic keeps its name",
    "partitions": "a topic keeps the number of partitions that it was created with",
    "num_partitions": "a topic keeps the number of partitions that it was created with",
}
"""What there is to say of those to somebody who changes a topic."""

EXPIRY = "delay_expiry_seconds"
_LANE_WEIGHTS = "lane_weights"
_WEIGHTS = f"one for each priority from critical to background, as in --set {_LANE_WEIGHTS}=50,25,15,7,3"

_KNOWING = "__metadata"  # a topic that every broker has, so its settings are all that there are


def parse_setting(text: str, elsewhere: Mapping[str, str] = _ELSEWHERE) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise UsageInvalid(f"--set {quoted(text)} is no setting", hint="write it as in --set retention_hours=24")
    if name in elsewhere:
        raise UsageInvalid(f"--set: {name} is not a setting of a topic", hint=elsewhere[name].format(value=value))
    if name == _LANE_WEIGHTS and not value.startswith("["):
        return name, _weights(value)
    try:
        found = json.loads(value)
    except ValueError:
        return name, _from_text(name, value)  # `compact` is easier to write than `"compact"`
    if isinstance(found, float) and not isfinite(found):  # a request would have null for it
        raise UsageInvalid(f"--set {name}: {value} is not a number", hint=f"{name}=null is without an end")
    return name, found


def _from_text(name: str, value: str) -> Any:
    if name.endswith("_bytes"):
        try:
            return parse_size(value)
        except ValueError as error:
            raise UsageInvalid(f"--set {name}: {error}", hint=f"write it as in --set {name}=64MiB") from None
    if name.endswith("_seconds"):
        try:
            return parse_duration(value)
        except ValueError as error:
            raise UsageInvalid(f"--set {name}: {error}", hint=f"write it as in --set {name}=30, or 1m") from None
    if name.endswith("_hours"):
        raise UsageInvalid(f"--set {name}: {quoted(value)} is not a number of hours", hint=_in_hours(name, value))
    return value


def _weights(value: str) -> list[int]:
    """One for each priority, as `50,25,15,7,3`."""
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
        return f"write it as in --set {name}=24, or {name}=null for no end"
    return f"did you mean --set {name}={hours:g}?"


def losing(before: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """The settings by which a topic keeps less than until now, and so loses messages."""
    after = {**before, **given}
    had, has = (set(str(config["cleanup"]).split(",")) for config in (before, after))
    found = ["cleanup"] if has - had else []
    if "delete" in has:
        found += [name for name in ("retention_hours", "retention_bytes") if _is_less(after[name], before[name])]
    return found


def expires_sooner(before: Mapping[str, Any], given: Mapping[str, Any]) -> bool:
    """Whether a delayed message that is late may be given up which was not until now."""
    return EXPIRY in given and _is_less(given[EXPIRY], before.get(EXPIRY))


def _is_less(value: Any, other: Any) -> bool:
    """Of an end: null is none. What is no number, the broker refuses."""
    return isinstance(value, (int, float)) and (other is None or value < other)


@contextmanager
def judged(client: "Client", settings: dict[str, Any]) -> Iterator[None]:
    """What the broker refuses about fields of a request is told about the settings that were given."""
    try:
        yield
    except RequestInvalid as error:
        refuse_unknown(settings, client.topic(_KNOWING).config if settings else {}, error)
        raise


def refuse_unknown(settings: dict[str, Any], known: dict[str, Any], cause: Exception | None = None) -> None:
    """Name those that no topic has, with the one that is nearest."""
    unknown = [name for name in settings if known and name not in known]
    if unknown:
        near = get_close_matches(unknown[0], known, n=1)
        verdict = "is no setting" if len(unknown) == 1 else "are no settings"
        raise RequestInvalid(
            f"{', '.join(map(quoted, unknown))} {verdict} of a topic",
            hint=f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}",
        ) from cause
