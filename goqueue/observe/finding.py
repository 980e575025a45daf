"""Findings of the doctor, and the rules that produce them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from goqueue.observe.facts import BrokerFacts

Severity = Literal["critical", "warning", "note"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "note")  # the worst first


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or a notable fact, and what to do about it."""

    subject: str
    """A topic, partition, group, path or part of the broker."""
    sentence: str
    hint: str
    """What to do; commands are in backquotes."""
    details: Mapping[str, Any] = field(default_factory=dict)
    severity: Severity = "warning"
    """Set by a rule that has only one severity."""
    code: str = ""
    """Set by the rule."""


FindingStream = Iterator[Finding]


@dataclass(frozen=True, slots=True)
class FindingRule:
    """A function that looks for one problem; its name is the code. Lists the severities that it can have."""

    severities: tuple[Severity, ...]
    look: Callable[[BrokerFacts], FindingStream]

    @property
    def code(self) -> str:
        return self.look.__name__

    def find(self, facts: BrokerFacts) -> FindingStream:
        for one in self.look(facts):
            severity = one.severity if self.severities[1:] else self.severities[0]
            yield replace(one, code=self.code, severity=severity)


def finding_rule(*severities: Severity) -> Callable[[Callable[[BrokerFacts], FindingStream]], FindingRule]:
    return lambda look: FindingRule(severities, look)


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """A part of the broker that is examined. `well` describes it when no rule finds anything."""

    name: str
    well: str | Callable[[BrokerFacts], str]
    rules: tuple[FindingRule, ...]
