"""One place in a JSON value, found without building what lies around it.

Each step decodes into a type with a single field, so everything beside the path is passed over: of a value of a
hundred bytes that costs a quarter of a microsecond, and of one of megabytes no memory. What is passed over has to be
JSON in its outline; text in it is not looked at. Of a name that comes twice, the last one counts.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec

from goqueue.broker.filters.grammar import Step
from goqueue.limits import FILTER_INDEX_MAX

Buffer = bytes | msgspec.Raw
_Decode = Callable[[Buffer], Any]

_NAMES_KEPT = 1_000  # whoever follows a topic asks the same again and again, and a type takes 50 microseconds to make
_INDEXES_KEPT = FILTER_INDEX_MAX + 1  # all: to make one takes up to a fifth of a millisecond


class Absence(Enum):
    """Why there is nothing to compare."""

    MISSING = "the value is JSON, and has no such place"
    UNREADABLE = "the value is no JSON"


COMPOSITE = object()
"""An object, a list, or a number beyond what is compared: it is there, and is like nothing."""

Found = int | float | str | bool | None | Absence | object

_NOTHING = msgspec.Raw()
_scalar = msgspec.json.Decoder(int | float | str | bool | None).decode
_outline = msgspec.json.Decoder(msgspec.Raw).decode


class Path:
    """Steps from the top of a value down to what a filter is about."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self._decoders = [_decoder(step) for step in steps]

    def find(self, content: bytes) -> Found:
        """The number, text or word that stands there; COMPOSITE for anything else, or why there is nothing."""
        place = self._place(content)
        if isinstance(place, Absence):
            return place
        try:
            found: Found = _scalar(place)
        except msgspec.ValidationError:
            return COMPOSITE
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Absence.UNREADABLE
        return found

    def leads_somewhere(self, content: bytes) -> bool:
        """Whether there is anything, be it null."""
        return not isinstance(self._place(content), Absence)

    def _place(self, content: bytes) -> Buffer | Absence:
        within: Buffer = content
        try:
            for decode in self._decoders:
                within = decode(within).found
                if within is _NOTHING:
                    return Absence.MISSING
        except msgspec.ValidationError:  # a list where an object was looked for, or the like
            return _absence(content) if within is content else Absence.MISSING
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Absence.UNREADABLE
        return within

    def __repr__(self) -> str:
        return f"<Path {self.steps}>"


def _absence(content: bytes) -> Absence:
    """The first step did not fit, and what stands behind the place where that was seen may be anything."""
    try:
        _outline(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Absence.UNREADABLE
    return Absence.MISSING


@dataclass(frozen=True, slots=True)
class _Entry:
    found: msgspec.Raw


@lru_cache(_NAMES_KEPT)
def _decoder_of_name(name: str) -> _Decode:
    """Of a type whose only field is what has this name."""
    try:
        found = msgspec.field(default=_NOTHING, name=name)
        kind = msgspec.defstruct("Named", [("found", msgspec.Raw, found)], gc=False)
    except ValueError:  # a name that JSON writes with a backslash
        entries = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        return lambda content: _Entry(entries(content).get(name, _NOTHING))
    return msgspec.json.Decoder(kind).decode


@lru_cache(_INDEXES_KEPT)
def _decoder_of_index(index: int) -> _Decode:
    before: list[tuple[str, type, Any]] = [(f"before_{number}", msgspec.Raw, _NOTHING) for number in range(index)]
    fields = [*before, ("found", msgspec.Raw, _NOTHING)]
    return msgspec.json.Decoder(msgspec.defstruct("Item", fields, array_like=True, gc=False)).decode


def _decoder(step: Step) -> _Decode:
    return _decoder_of_index(step) if isinstance(step, int) else _decoder_of_name(step)
