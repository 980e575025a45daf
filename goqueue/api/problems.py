"""What is wrong with a request: places, sentences, and the refusal made of them."""

from dataclasses import dataclass
from typing import Any

from goqueue.config.problem import nearest, shown_key
from goqueue.errors import RequestInvalid
from goqueue.quantities import format_count

PROBLEMS_MAX = 100  # of one request; more than a person reads, few enough for an answer


@dataclass(slots=True)  # not frozen, which would double the time that a large body takes
class Place:
    """Where in a body: a name or an index, and what it stands in. Written out only when something is wrong there."""

    key: str | int = ""
    parent: "Place | None" = None

    def __str__(self) -> str:
        steps: list[str | int] = []
        place: Place | None = self
        while place is not None and place.parent is not None:
            steps.append(place.key)
            place = place.parent
        return "".join(map(_step, reversed(steps))).removeprefix(".")


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    shown = shown_key(key)
    return f".{shown}" if shown == key else f"[{shown}]"


ROOT = Place()


class Enough(Exception):
    """As many problems as are told at once have been found."""


class Report:
    """Gathers problems. What must stay true: never more than `PROBLEMS_MAX`, in the order of the request."""

    def __init__(self, whole: str) -> None:
        self.whole = whole
        """What to call the request itself, where a problem has no place in it."""
        self.problems: list[dict[str, str]] = []

    def add(self, place: Place | str, problem: str, hint: str | None = None) -> None:
        entry = {"place": str(place), "problem": problem}
        if hint is not None:
            entry["hint"] = hint
        self.problems.append(entry)
        if len(self.problems) >= PROBLEMS_MAX:
            raise Enough

    def add_unknown(self, place: Place | str, what: str, name: str, known: list[str]) -> None:
        meant = nearest(name, known)
        if meant is not None:
            hint = f"did you mean {meant}?"
        else:
            hint = f"known are {', '.join(known)}" if known else f"there is no {what} here"
        self.add(place, f"is not a known {what}", hint)

    def refusal(self) -> RequestInvalid:
        first, others = self.problems[0], len(self.problems) - 1
        sentence = f"{first['place'] or self.whole} {first['problem']}"
        if others:
            least = "at least " if len(self.problems) == PROBLEMS_MAX else ""
            sentence += f" ({least}{format_count(others, 'more problem')})"
        details: dict[str, Any] = {"problems": self.problems}
        return RequestInvalid(sentence, hint=first.get("hint"), **details)
