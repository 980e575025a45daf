"""Durations and times inside requests: types whose values are plain numbers once they have been read.

A field says `wait: Wait | None = None` with `class Wait(Duration, most=60)`; its value is then a float of
seconds, or of a `Time` an int of nanoseconds since the epoch. A default other than None goes through
`msgspec.field(default_factory=...)`, since defaults are written into the OpenAPI document as JSON and these are not.
"""

from typing import Any, ClassVar, Self

from goqueue.limits import DELAY_SECONDS_MAX
from goqueue.quantities import DURATION_NS_MAX, format_duration, format_time, parse_duration, parse_time


class Duration(float):
    """Seconds, written as `500ms`, `1h30m` or a number of seconds. Subclasses have bounds."""

    noun: ClassVar[str] = "a duration"
    least: ClassVar[float] = 0.0
    most: ClassVar[float] = DURATION_NS_MAX / 10**9

    def __init_subclass__(cls, *, least: float | None = None, most: float | None = None) -> None:
        cls.least = cls.least if least is None else least
        cls.most = cls.most if most is None else most

    @classmethod
    def read(cls, found: Any) -> Self:
        """A ValueError says, as the end of a sentence, what is wrong."""
        if isinstance(found, str):
            seconds = _parsed(parse_duration, found)
        elif type(found) in (int, float):
            seconds = found
        else:
            raise _unfit("is no duration: write text such as 500ms, or a number of seconds")
        if seconds < cls.least:
            raise ValueError(f"is {_shown(seconds)}, at least {format_duration(cls.least)} is needed")
        if seconds > cls.most:
            raise ValueError(f"is {_shown(seconds)}, at most {format_duration(cls.most)} is allowed")
        return cls(seconds)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Its JSON schema. The bounds of the text form cannot be said there, so they are said in words."""
        bounds = f"From {format_duration(cls.least)} to {format_duration(cls.most)}."
        return {
            "description": f"A duration such as 500ms, or a number of seconds. {bounds}",
            "anyOf": [
                {"type": "string", "examples": ["500ms", format_duration(cls.most)]},
                {"type": "number", "minimum": cls.least, "maximum": cls.most},
            ],
        }


class DelayTime(Duration, most=DELAY_SECONDS_MAX):
    """How long a message waits before it is delivered."""

    noun = "a delay"

    @classmethod
    def read(cls, found: Any) -> Self:
        """No text means no delay, as 0 does."""
        return cls(0) if found == "" else super().read(found)


class Shift(Duration, least=-DELAY_SECONDS_MAX, most=DELAY_SECONDS_MAX):
    """How much later, or with a minus how much earlier."""

    noun = "a shift"

    @classmethod
    def read(cls, found: Any) -> Self:
        if isinstance(found, str) and found.startswith("-"):
            return cls(-super().read(found[1:]))
        return super().read(found)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {
            "description": f"A duration as 1h or -30m, or a number of seconds; at most {format_duration(cls.most)}.",
            "anyOf": [
                {"type": "string", "examples": ["1h", "-30m"]},
                {"type": "number", "minimum": cls.least, "maximum": cls.most},
            ],
        }


class Time(int):
    """Nanoseconds since the epoch, written as RFC 3339 says."""

    noun: ClassVar[str] = "a time"

    @classmethod
    def read(cls, found: Any) -> Self:
        if not isinstance(found, str):
            raise _unfit("is no time: write text such as 2026-03-01T12:00:00Z")
        return cls(_parsed(parse_time, found))

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {
            "description": "A time with up to nine digits of a second, as in RFC 3339.",
            "type": "string",
            "format": "date-time",
        }

    def __str__(self) -> str:
        return format_time(int(self))


UNSAID = -(2**63)


class DueTime(Time):
    """When a message is to be delivered."""

    @classmethod
    def read(cls, found: Any) -> Self:
        """No text says nothing, as null does."""
        return cls(UNSAID) if found == "" else super().read(found)


SCALARS = (Duration, Time)


def decode_scalar(kind: type, found: Any) -> Any:
    """What msgspec asks for a type that it does not know."""
    if issubclass(kind, SCALARS):
        return found if isinstance(found, kind) else kind.read(found)
    raise TypeError(f"{kind.__name__} is no type of a request")


def encode_scalar(value: Any) -> Any:
    """The way back, for answers."""
    if isinstance(value, Time):
        return format_time(int(value))
    if isinstance(value, Duration):
        return format_duration(value, exact=True)
    raise TypeError(f"{type(value).__name__} is no type of an answer")


def scalar_schema(kind: type) -> dict[str, Any]:
    if issubclass(kind, SCALARS):
        return kind.schema()
    raise TypeError(f"{kind.__name__} has no schema")


def _parsed(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"cannot be read: {error}") from None


def _unfit(problem: str) -> ValueError:
    return ValueError(problem)


def _shown(seconds: float) -> str:
    """Of any size: numbers in a body are not bounded as text is."""
    return format_duration(seconds) if 0 <= seconds <= Duration.most else f"{seconds} seconds"
