"""What a finding is, and what finds it: the words of the doctor."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from goqueue.observe.facts import Facts

Severity = Literal["critical", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "note")
"""The worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know, and what to do about it."""

    code: str
    severity: Severity
    subject: str
    """What it is about: a topic, a partition, a group, a path, or a part of the broker."""
    sentence: str
    hint: str
    """What to do; commands stand in backquotes, as they can be typed."""
    details: Mapping[str, Any] = field(default_factory=dict)


Found = Iterator[Finding]


@dataclass(frozen=True, slots=True)
class Rule:
    """One code. `severities` are those that it may have."""

    code: str
    severities: tuple[Severity, ...]
    find: Callable[[Facts], Found]


@dataclass(frozen=True, slots=True)
class Check:
    """What was looked at, with the rules that belong to it. `well` says how it is, where none has found anything."""

    name: str
    well: str | Callable[[Facts], str]
    rules: tuple[Rule, ...]
