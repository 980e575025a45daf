"""What may be said of a consumer, looked at before anything is asked of the broker."""

import os
import re
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from itertools import count
from typing import Any

from goqueue.client.leases import Refused
from goqueue.client.polls import TopicPartition
from goqueue.client.times import seconds
from goqueue.errors import RequestInvalid
from goqueue.limits import (
    CLIENT_ID_CHARACTERS_MAX,
    IN_FLIGHT_MESSAGES_MAX,
    MIB,
    READ_BYTES_MAX,
    SESSION_SECONDS_MAX,
    SESSION_SECONDS_MIN,
    VISIBILITY_SECONDS_MAX,
    VISIBILITY_SECONDS_MIN,
    WAIT_SECONDS_MAX,
)

ANSWERS_IN_FLIGHT = 2
"""One is read, and one is fetched meanwhile."""

OnPartitions = Callable[[list[TopicPartition]], object]
OnExpired = Callable[[list[Refused]], object]

_WORDS = {
    "protocol": ("cooperative", "eager"),
    "assignment_strategy": (None, "sticky", "range", "round_robin"),
    "order": (None, "none", "key"),
    "start": (None, "earliest", "latest"),
    "isolation": (None, "read_committed", "read_uncommitted"),
}
_COUNTS: dict[str, tuple[float, float]] = {
    "max_messages": (1, IN_FLIGHT_MESSAGES_MAX),
    "max_in_flight": (1, IN_FLIGHT_MESSAGES_MAX),
    "max_bytes": (1, READ_BYTES_MAX),
}
_DURATIONS: dict[str, tuple[float, float]] = {
    "session_timeout": (SESSION_SECONDS_MIN, SESSION_SECONDS_MAX),
    "visibility_timeout": (VISIBILITY_SECONDS_MIN, VISIBILITY_SECONDS_MAX),
    "heartbeat_interval": (0.001, SESSION_SECONDS_MAX),
    "wait": (0.001, WAIT_SECONDS_MAX),
    "until_idle": (0, float("inf")),
}
_SWITCHES = ("prefetch", "extend_leases", "skip_damage")
_CALLBACKS = ("on_assigned", "on_revoked", "on_lost", "on_expired")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_NAMED = count(1)


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """How a consumer joins, polls and settles; None leaves a choice to the broker."""

    client_id: str | None = None
    session_timeout: str | float = "30s"
    protocol: str = "cooperative"
    assignment_strategy: str | None = None
    order: str | None = None
    start: str | None = None
    isolation: str | None = None
    max_in_flight: int | None = None
    max_messages: int = 1_000
    max_bytes: int = MIB
    visibility_timeout: str | float | None = None
    wait: str | float = "20s"
    heartbeat_interval: str | float | None = None
    prefetch: bool = True
    extend_leases: bool = True
    skip_damage: bool = False
    on_assigned: OnPartitions | None = None
    on_revoked: OnPartitions | None = None
    on_lost: OnPartitions | None = None
    on_expired: OnExpired | None = None
    until_idle: str | float | None = None

    def __post_init__(self) -> None:
        for name, words in _WORDS.items():
            self._check(name, getattr(self, name) in words, "one of " + ", ".join(map(repr, words)))
        for name, limits in _COUNTS.items():
            self._check(name, self._is_unsaid(name) or _is_number(getattr(self, name), int), "a whole number")
            self._check_limits(name, *limits, "")
        for name, limits in _DURATIONS.items():
            fits = self._is_unsaid(name) or _is_number(getattr(self, name), str, int, float)
            self._check(name, fits, "seconds, or text like '500ms'")
            self._check_limits(name, *limits, " seconds")
        for name in _SWITCHES:
            self._check(name, isinstance(getattr(self, name), bool), "True or False")
        for name in _CALLBACKS:
            self._check(name, self._is_unsaid(name) or callable(getattr(self, name)), "something that can be called")
        self._check("client_id", self.client_id is None or isinstance(self.client_id, str), "text")
        if self.client_id is not None and not 1 <= len(self.client_id) <= CLIENT_ID_CHARACTERS_MAX:
            raise RequestInvalid(
                f"client_id has {len(self.client_id)} characters, and must have 1 to {CLIENT_ID_CHARACTERS_MAX}"
            )

    def _is_unsaid(self, name: str) -> bool:
        """None, where that is what an option is without a word."""
        default = next(field.default for field in fields(self) if field.name == name)
        return default is None and getattr(self, name) is None

    def _check(self, name: str, fits: bool, wanted: str) -> None:
        if not fits:
            raise RequestInvalid(f"{name} is {_shown(getattr(self, name))}, and must be {wanted}")

    def _check_limits(self, name: str, least: float, most: float, unit: str) -> None:
        given = self.number(name)
        limits = f"{_plain(least)} to {_plain(most)}{unit}" if most < float("inf") else f"{_plain(least)}{unit} or more"
        self._check(name, given is None or least <= given <= most, limits)

    def number(self, name: str) -> float | None:
        """An option that is a count, or a duration in seconds."""
        given = getattr(self, name)
        return seconds(given, name) if given is not None and name in _DURATIONS else given

    def wishes(self, topics: list[str]) -> dict[str, Any]:
        """What a join says."""
        said = {
            "client_id": self.client_id or own_name(),
            "topics": topics,
            "session_timeout": self.number("session_timeout"),
            "protocol": self.protocol,
            "assignment_strategy": self.assignment_strategy,
            "order": self.order,
            "start": self.start,
            "isolation": self.isolation,
            "max_in_flight": self.max_in_flight or min(ANSWERS_IN_FLIGHT * self.max_messages, IN_FLIGHT_MESSAGES_MAX),
        }
        return {name: value for name, value in said.items() if value is not None}


def options_of(given: dict[str, Any]) -> ConsumerOptions:
    names = [field.name for field in fields(ConsumerOptions)]
    unknown = ", ".join(name for name in given if name not in names)
    if unknown:
        raise RequestInvalid(f"a consumer has no option {unknown}", hint=f"known are {', '.join(names)}")
    return ConsumerOptions(**given)


def own_name() -> str:
    """Host and process, and from the second consumer of a process on a number: in a group a name is one member's."""
    number = next(_NAMED)
    suffix = f"-{os.getpid()}" + (f".{number}" if number > 1 else "")
    host = _CONTROL.sub("", socket.gethostname()) or "client"
    return host[: CLIENT_ID_CHARACTERS_MAX - len(suffix)] + suffix


def check_group(group: object) -> None:
    if not isinstance(group, str):
        raise RequestInvalid(f"the group is {_shown(group)}, and must be text")
    if not group:
        raise RequestInvalid("the group has no name", hint="consumers with the same group share the messages")


def topics_of(given: object) -> list[str]:
    """One topic, or several."""
    names: list[Any] = [given]
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        names = list(given)
    if not names:
        raise RequestInvalid("a consumer needs at least one topic")
    for name in names:
        if not isinstance(name, str):
            raise RequestInvalid(f"a topic is {_shown(name)}, and must be text", hint='write ["orders"], for example')
        if not name:
            raise RequestInvalid("a topic has no name")
    return names


def _is_number(given: object, *kinds: type) -> bool:
    return isinstance(given, kinds) and not isinstance(given, bool)


def _plain(number: float) -> str:
    return f"{number:.12g}"


def _shown(given: object) -> str:
    return repr(given)[:80]
