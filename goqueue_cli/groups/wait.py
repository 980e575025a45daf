"""`goqueue-cli group wait`: wait for conditions such as `lag=0`, `members>=2` or `state=stable`."""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid, doing
from goqueue.console.names import reject_empty_names, shorten_name
from goqueue.console.session import Session, session_flags
from goqueue.console.watch import wait
from goqueue.errors import GroupNotFound
from goqueue.nearest import nearest
from goqueue.quantities import format_count, format_duration, parse_duration, quoted

if TYPE_CHECKING:
    from goqueue.client import Client

_CHECK_SECONDS = 0.25


@session_flags
def wait_for(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of groups.")],
    conditions: Annotated[
        list[str] | None,
        typer.Option("--for", metavar="CONDITION", help="Condition to wait for; repeated: all must hold at once."),
    ] = None,
    *,
    session: Session,
) -> None:
    """Wait until groups meet conditions.

    \b
      goqueue-cli group wait billing --for lag=0 --timeout 5m
      goqueue-cli group wait billing shipping --for 'lag<100' --for 'members>=2'
      goqueue-cli group wait billing --for state=empty --for in-flight=0

    A condition compares (= != < <= > >=) lag, members, in-flight, waiting or lost with a number, behind with a
    duration, or state (= !=) with stable, rebalancing or empty. It must hold for all groups. A group that does not
    exist yet is waited for as well. The exit code is 6 after --timeout. Default: 30s.
    """
    reject_empty_names(*names, noun="group")
    if not conditions:
        raise UsageInvalid("no condition to wait for", hint="use --for lag=0 or --for 'members>=2'")
    wanted = [parse_condition(text) for text in conditions]
    unique = list(dict.fromkeys(names))
    missing: set[str] = set()
    shown = ", ".join(map(shorten_name, unique))
    what = f"{' and '.join(one.text for one in wanted)} of {shown}"
    with doing(f"wait for group {shown}"), session.client() as client:
        wait(what, lambda: _check(client, unique, wanted, missing), timeout=session.timeout, every=_CHECK_SECONDS)


def _check(
    client: "Client", names: Sequence[str], wanted: "Sequence[WaitCondition]", missing: set[str]
) -> tuple[bool, str]:
    """Return True if all conditions hold, or the state of the first group that does not meet them."""
    for name in names:
        try:
            group = client.group(name)
        except GroupNotFound as error:
            if name not in missing:
                missing.add(name)
                guess = f", {error.hint}" if error.hint and error.hint.startswith("did you mean") else ""
                terminal.say(f"{error.sentence} yet{guess}")
            return False, error.sentence
        unmet = [one for one in wanted if not one.is_met(group)]
        if unmet:
            state = ", ".join(dict.fromkeys(one.current(group) for one in unmet))
            return False, f"{name} has {state}{_estimate(group, unmet)}"
    return True, ""


def _estimate(group: dict[str, Any], unmet: "Sequence[WaitCondition]") -> str:
    """Estimate when the lag is gone, for a condition on the lag."""
    if not any(one.word in {"lag", "behind"} for one in unmet):
        return ""
    drain = group["drain_seconds"]
    return ", not shrinking" if drain is None else f", gone in {format_duration(drain)}"


# --- conditions ---

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
_HINT = "use --for lag=0, --for 'lag<100', --for 'members>=2', --for 'behind<30s' or --for state=stable"

_COUNTS = {"lag": "total_lag", "members": "members", "in-flight": "in_flight", "waiting": "waiting", "lost": "lost"}
_SUMMED = {"in_flight", "waiting", "lost"}
_WORDS = (*_COUNTS, "behind", "state")


@dataclass(frozen=True, slots=True)
class WaitCondition:
    """A comparison with a number, a duration or the state of a group."""

    text: str
    word: str
    holds: Callable[[Any], bool]

    def is_met(self, group: Mapping[str, Any]) -> bool:
        return self.holds(_value(self.word, group))

    def current(self, group: Mapping[str, Any]) -> str:
        """Format the current value."""
        value = _value(self.word, group)
        if self.word == "behind":
            return f"behind {format_duration(value)}"
        return f"{self.word} {format_count(value) if isinstance(value, int) else value}"


def parse_condition(text: str) -> WaitCondition:
    found = _PARTS.fullmatch(text)
    if found is None:
        raise UsageInvalid(f"--for {quoted(text)} is not a condition", hint=_HINT)
    word, sign, wanted = found.groups()
    word, sign = word.replace("_", "-"), "=" if sign == "==" else sign
    if word not in _WORDS:
        guess = nearest(word, _WORDS)
        hint = f"did you mean {guess}?" if guess else f"there are {', '.join(_WORDS)}"
        raise UsageInvalid(f"--for: a group has no {quoted(word)} to wait for", hint=hint)
    compare, goal = _OPERATORS[sign], _parse_goal(word, sign, wanted)
    return WaitCondition(text, word, lambda value: compare(value, goal))


def _parse_goal(word: str, sign: str, wanted: str) -> Any:
    if word == "state":
        if wanted not in _STATES:
            raise UsageInvalid(f"--for: {quoted(wanted)} is not a state", hint=f"there are {', '.join(_STATES)}")
        if sign not in {"=", "!="}:
            raise UsageInvalid(f"--for state{sign}{wanted}: states can be compared with = and != only", hint=_HINT)
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
        return sum(one[field] for partitions in group["lag"].values() for one in partitions.values())
    return len(group[field]) if field == "members" else group[field]
