"""Which dead letters are sent back, as it is typed, and how far that is."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from goqueue.console.redrives import is_particular
from goqueue.limits import REDRIVE_RATE_MIN
from goqueue.quantities import quoted

_RATE_MAX = 1e6
_LIMIT_MAX = 10**12


class Wishes(NamedTuple):
    """What a request says of which; at most how many altogether, and how many in a second."""

    chosen: dict[str, Any]
    limit: int | None
    rate: float | None


def parse_wishes(values: Mapping[str, str]) -> Wishes:
    chosen = {name: values[name] for name in ("error", "group", "key", "target") if values.get(name)}
    return Wishes(chosen, parse_limit(values.get("limit", "")), _rate(values.get("rate", "")))


def parse_limit(text: str) -> int | None:
    if not text:
        return None
    digits = text.replace(",", "")
    if not (digits.isascii() and digits.isdecimal() and 0 < int(digits[:15]) <= _LIMIT_MAX):
        raise ValueError(f"the limit is {quoted(text)}: write a number, as in 100")
    return int(digits[:15])


def _rate(text: str) -> float | None:
    if not text:
        return None
    try:
        rate = float(text.removesuffix("/s"))
    except ValueError:
        raise ValueError(f"the rate is {quoted(text)}: write how many go in a second, as in 50") from None
    if not REDRIVE_RATE_MIN <= rate <= _RATE_MAX:
        raise ValueError(f"the rate is {quoted(text)}, and must be from {REDRIVE_RATE_MIN:g} to {_RATE_MAX:,.0f}")
    return rate


class Outcome:
    """How far it has come: request after request, until all was looked at, or as many went as were wanted."""

    def __init__(self, limit: int | None) -> None:
        self.moved = 0
        self.scanned = 0
        self.is_complete = False
        self.is_hopeless = False
        """Whether the next ones would meet the same."""
        self.failures: Counter[str] = Counter()
        self._limit = limit

    def add(self, answer: Mapping[str, Any]) -> None:
        self.moved += answer["moved"]
        self.scanned += answer["scanned"]
        errors = [one["error"] for one in answer["results"] if one.get("error")]
        self.failures.update(f"{error['code']}: {error['error']}" for error in errors)
        self.is_hopeless = any(not is_particular(error["code"]) for error in errors)
        self.is_complete = bool(answer["complete"]) or (self._limit is not None and self.moved >= self._limit)

    @property
    def is_over(self) -> bool:
        return self.is_complete or self.is_hopeless

    def left(self, most: int) -> int:
        """How many the next request may send."""
        return most if self._limit is None else max(1, min(most, self._limit - self.moved))
