"""JSON paths: find one place in a JSON value without decoding the rest.

Each step decodes into a type with a single field, so everything else is skipped: a quarter of a microsecond for a
hundred bytes, and no memory for megabytes. Skipped parts must be JSON in outline only. For a repeated name the last
value counts.
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

_NAMES_KEPT = 1_000  # requests repeat their paths, and a type takes 50 microseconds to make
_INDEXES_KEPT = FILTER_INDEX_MAX + 1  # all: making one takes up to 0.2 ms


class Absence(Enum):
    """Reason why there is nothing to compare."""

    MISSING = "the value is JSON without this path"
    UNREADABLE = "the value is not JSON"


COMPOSITE = object()
"""An object, a list, or a number out of range: it exists and equals nothing."""

JsonFound = int | float | str | bool | None | Absence | object

_NOTHING = msgspec.Raw()
_scalar = msgspec.json.Decoder(int | float | str | bool | None).decode
_outline = msgspec.json.Decoder(msgspec.Raw).decode


class JsonPath:
    """The steps from the top of a value to the tested place."""

    def __init__(self, steps: tuple[Step, ...]) -> None:
        self.steps = steps
        self._decoders = [_decoder(step) for step in steps]

    def find(self, content: bytes) -> JsonFound:
        """Return the scalar at the path; COMPOSITE for anything else, or an Absence."""
        place = self._place(content)
        if isinstance(place, Absence):
            return place
        try:
            found: JsonFound = _scalar(place)
        except msgspec.ValidationError:
            return COMPOSITE
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Absence.UNREADABLE
        return found

    def leads_somewhere(self, content: bytes) -> bool:
        """Return whether the path exists, even with null."""
        return not isinstance(self._place(content), Absence)

    def _place(self, content: bytes) -> Buffer | Absence:
        within: Buffer = content
        try:
            for decode in self._decoders:
                within = decode(within).found
                if within is _NOTHING:
                    return Absence.MISSING
        except msgspec.ValidationError:  # for example a list in place of an object
            return _absence(content) if within is content else Absence.MISSING
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return Absence.UNREADABLE
        return within


def _absence(content: bytes) -> Absence:
    """Return why the first step failed: the rest of the value may not be JSON."""
    try:
        _outline(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Absence.UNREADABLE
    return Absence.MISSING


@dataclass(frozen=True, slots=True)
class _NamedValue:
    found: msgspec.Raw


@lru_cache(_NAMES_KEPT)
def _decoder_of_name(name: str) -> _Decode:
    """Return a decoder of a type whose only field has this name."""
    try:
        found = msgspec.field(default=_NOTHING, name=name)
        kind = msgspec.defstruct("Named", [("found", msgspec.Raw, found)], gc=False)
    except ValueError:  # a name that JSON escapes
        entries = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
        return lambda content: _NamedValue(entries(content).get(name, _NOTHING))
    return msgspec.json.Decoder(kind).decode


@lru_cache(_INDEXES_KEPT)
def _decoder_of_index(index: int) -> _Decode:
    before: list[tuple[str, type, Any]] = [(f"before_{number}", msgspec.Raw, _NOTHING) for number in range(index)]
    fields = [*before, ("found", msgspec.Raw, _NOTHING)]
    return msgspec.json.Decoder(msgspec.defstruct("Item", fields, array_like=True, gc=False)).decode


def _decoder(step: Step) -> _Decode:
    return _decoder_of_index(step) if isinstance(step, int) else _decoder_of_name(step)
