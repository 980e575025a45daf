"""Times as producers write them: RFC 3339, or a number since 1970 whose size tells its unit.

A number below 10^11 is seconds, which is good until the year 5138, and with each unit that is a thousand times finer
the limit is a thousand times higher: no time after 1973 is taken for another one.
"""

from functools import reduce
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from goqueue.clock import NANOSECONDS
from goqueue.quantities import TIME_NS_MAX, parse_time

_SECONDS_BELOW = 10**11
_UNITS = ((_SECONDS_BELOW, 10**9), (_SECONDS_BELOW * 10**3, 10**6), (_SECONDS_BELOW * 10**6, 10**3))
_CHARACTERS_MAX = 40

NO_TIME = -1
"""What is no time."""

Times = NDArray[np.int64]


def parse_times(texts: pa.Array) -> Times:
    """Return nanoseconds since 1970, or NO_TIME, for each text. Texts of one kind are parsed at once."""
    found = np.full(len(texts), NO_TIME, np.int64)
    known = np.flatnonzero(np.asarray(texts.is_valid()))
    chosen = texts.drop_null() if texts.null_count else texts
    if not len(chosen):
        return found
    try:
        words = chosen.cast(pa.string())
        found[known] = _all_numbers(words) if _begins_with_a_number(words) else _all_dates(words)
    except (pa.ArrowInvalid, ValueError):
        found[known] = [parse_producer_time(text) for text in chosen.to_pylist()]
    return found


def _begins_with_a_number(words: pa.Array) -> bool:
    return str(words[0]).isdecimal()


def _all_numbers(words: pa.Array) -> Times:
    numbers = words.cast(pa.int64()).to_numpy(zero_copy_only=False)
    factors = np.select([numbers < most for most, _ in _UNITS], [factor for _, factor in _UNITS], 1)
    return np.where(numbers < 0, NO_TIME, numbers * factors).astype(np.int64)


def _all_dates(words: pa.Array) -> Times:
    found: Times = pc.cast(words, pa.timestamp("ns", "UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return np.where(found < 0, NO_TIME, found)


def parse_producer_time(given: Any) -> int:
    """Return nanoseconds since 1970, or NO_TIME, for a text, bytes or a number."""
    try:
        if isinstance(given, bytes):
            given = given.decode()
        if isinstance(given, str):
            if len(given) > _CHARACTERS_MAX:
                return NO_TIME
            if not given.replace(".", "", 1).isdecimal():
                return parse_time(given)
            given = int(given) if given.isdecimal() else float(given)
        if isinstance(given, bool) or not isinstance(given, int | float) or given < 0:
            return NO_TIME
        factor = next((factor for most, factor in _UNITS if given < most), 1)
        time_ns = given * factor if isinstance(given, int) else _of_float(given, factor)
    except (ValueError, OverflowError):
        return NO_TIME
    return time_ns if time_ns <= TIME_NS_MAX else NO_TIME


def _of_float(given: float, factor: int) -> int:
    """Scale the fraction separately: a float cannot hold all digits of nanoseconds."""
    whole = int(given)
    return whole * factor + round((given - whole) * factor)


class JsonTimeField:
    """A place in JSON, as in `order.created`, read from many values. What is beside it is passed over unread."""

    def __init__(self, path: str) -> None:
        leaf: Any = int | float | str | None
        steps = path.split(".")
        self._path = ("found",) * len(steps)
        self._decoder = msgspec.json.Decoder(
            reduce(
                lambda inner, name: msgspec.defstruct("Step", [("found", inner, None)], rename={"found": name}),
                reversed(steps),
                leaf,
            )
        )

    def moments(self, values: list[bytes | None]) -> Times:
        return np.fromiter(map(self._moment, values), np.int64, len(values))

    def _moment(self, value: bytes | None) -> int:
        try:
            found: Any = self._decoder.decode(value or b"")
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError):
            return NO_TIME
        for _ in self._path:
            found = getattr(found, "found", None)
        return NO_TIME if found is None else parse_producer_time(found)


assert _UNITS[0][1] == NANOSECONDS
