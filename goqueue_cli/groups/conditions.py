"""What one may wait for of a group: `lag=0`, `lag<100`, `members>=2`, `state=stable`, `behind<30s`."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from goqueue.console.groups import UsageInvalid
from goqueue.quantities import format_count, format_duration, parse_duration, quoted

_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
_PARTS = re.compile(r"\s*([a-z_-]+)\s*(<=|>=|!=|==|=|<|>)\s*(\S*)\s*")
_STATES = ("stable", "rebalancing", "empty")
_HINT = "write it as in --for lag=0, --for 'lag<100', --for 'members>=2', --for 'behind<30s' or --for state=stable"

_LISTS = "members"
_COUNTS = {"lag": "total_lag", "members": _LISTS, "in-flight": "in_flight", "waiting": "waiting", "lost": "lost"}
_SUMMED = {"in_flight", "waiting", "lost"}
_WORDS = (*_COUNTS, "behind", "state")


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison with one number, or with the state, of a group as the broker describes it."""

    text: str
    word: str
    holds: Callable[[Any], bool]

    def met(self, group: Mapping[str, Any]) -> bool:
        return self.holds(_value(self.word, group))

    def told(self, group: Mapping[str, Any]) -> str:
        """How it stands now."""
        value = _value(self.word, group)
        if self.word == "behind":
            return f"behind {format_duration(value)}"
        return f"{self.word} {format_count(value) if isinstance(value, int) else value}"


def parse_condition(text: str) -> Condition:
    found = _PARTS.fullmatch(text)
    if found is None:
        raise UsageInvalid(f"--for {quoted(text)} is no condition", hint=_HINT)
    word, sign, wanted = found.groups()
    word, sign = word.replace("_", "-"), "=" if sign == "==" else sign
    if word not in _WORDS:
        near = get_close_matches(word, _WORDS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_WORDS)}"
        raise UsageInvalid(f"--for: a group has no {quoted(word)} to wait for", hint=hint)
    compare, goal = _OPERATORS[sign], _goal(word, sign, wanted)
    return Condition(text, word, lambda value: compare(value, goal))


def _goal(word: str, sign: str, wanted: str) -> Any:
    if word == "state":
        if wanted not in _STATES:
            raise UsageInvalid(f"--for: no state is {quoted(wanted)}", hint=f"there are {', '.join(_STATES)}")
        if sign not in {"=", "!="}:
            raise UsageInvalid(
                f"--for: a state is not more or less than another, as in state{sign}{wanted}", hint=_HINT
            )
        return wanted
    if word == "behind":
        try:
            return parse_duration(wanted)
        except ValueError as error:
            raise UsageInvalid(f"--for behind: {error}", hint=_HINT) from None
    if not (wanted.isascii() and wanted.isdecimal() and len(wanted) < 20):
        raise UsageInvalid(f"--for {word}: {quoted(wanted)} is not a whole number", hint=_HINT)
    return int(wanted)


def _value(word: str, group: Mapping[str, Any]) -> Any:
    if word == "state":
        return group["state"]
    if word == "behind":
        return group["lag_seconds"]
    field = _COUNTS[word]
    if field in _SUMMED:
        return sum(place[field] for places in group["lag"].values() for place in places.values())
    return len(group[field]) if field == _LISTS else group[field]
