"""Field types that requests share: names, numbers, durations, times and filters.

Durations and times are plain numbers once they are decoded. A field says `wait: Wait | None = None` with
`class Wait(Duration, most=60)`; its value is a float of seconds, or for a `Time` an int of nanoseconds since the epoch.
A default other than None needs `msgspec.field(default_factory=...)`, because defaults are written into the OpenAPI
document as JSON.
"""

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

from msgspec import Meta

from goqueue.broker.filters.filter_set import FilterSet
from goqueue.broker.filters.grammar import parse_filters
from goqueue.limits import (
    DELAY_SECONDS_MAX,
    EPOCH_MAX,
    FILTERS_MAX,
    OFFSET_MAX,
    PARTITIONS_MAX,
    READ_MESSAGES_MAX,
    TOPIC_NAME_CHARACTERS_MAX,
    TRANSACTIONAL_ID_CHARACTERS_MAX,
)
from goqueue.quantities import DURATION_NS_MAX, format_duration, format_time, parse_duration, parse_time

END = r"(?![\s\S])"
"""The end of the text in a pattern. A dollar sign would accept a line end."""

TopicName = Annotated[str, Meta(min_length=1, max_length=TOPIC_NAME_CHARACTERS_MAX, pattern=f"^[A-Za-z0-9._-]+{END}")]
GroupName = TopicName
PartitionNumber = Annotated[int, Meta(ge=0, le=PARTITIONS_MAX - 1)]
PartitionKey = Annotated[str, Meta(pattern=f"^(0|[1-9][0-9]{{0,8}}){END}", description="The number of a partition.")]
Offset = Annotated[int, Meta(ge=0, le=OFFSET_MAX)]
OperationNumber = Annotated[int, Meta(ge=1, le=OFFSET_MAX)]
MessageLimit = Annotated[int, Meta(ge=1, le=READ_MESSAGES_MAX)]
MemberId = Annotated[str, Meta(min_length=1, max_length=300)]
Generation = Annotated[int, Meta(ge=0, le=2**31 - 1, description="The generation that the member knows.")]
ProducerId = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Epoch = Annotated[int, Meta(ge=0, le=EPOCH_MAX, description="It increases after each transaction.")]
TransactionalId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=TRANSACTIONAL_ID_CHARACTERS_MAX,
        description="A name that the producer keeps across restarts: letters, digits and . _ - : @",
    ),
]
Filters = Annotated[
    list[str], Meta(max_length=FILTERS_MAX, description="FIELD OP TEXT, as in json.order.total>40; all must be true.")
]
"""The grammar of filters bounds the length of each."""


def filter_set(texts: Iterable[str]) -> FilterSet:
    """Compile the filters of a request. Raises RequestInvalid."""
    return FilterSet(parse_filters(texts))


class Duration(float):
    """Seconds, written as `500ms`, `1h30m` or a number of seconds. Subclasses have bounds."""

    noun: ClassVar[str] = "a duration"
    is_text = False
    """Whether the request had text, not a number."""
    least: ClassVar[float] = 0.0
    most: ClassVar[float] = DURATION_NS_MAX / 10**9

    def __init_subclass__(cls, *, least: float | None = None, most: float | None = None) -> None:
        cls.least = cls.least if least is None else least
        cls.most = cls.most if most is None else most

    @classmethod
    def read(cls, found: Any) -> Self:
        """Parse a JSON value. Raises ValueError with the end of a sentence that says what is wrong."""
        if isinstance(found, str):
            seconds = _parsed(parse_duration, found)
        elif type(found) in (int, float):
            seconds = found
        else:
            raise _unfit("is not a duration: write text such as 500ms, or a number of seconds")
        if seconds < cls.least:
            raise ValueError(f"is {_shown(seconds)}, at least {format_duration(cls.least)} is needed")
        if seconds > cls.most:
            raise ValueError(f"is {_shown(seconds)}, at most {format_duration(cls.most)} is allowed")
        duration = cls(seconds)
        duration.is_text = isinstance(found, str)
        return duration

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Return its JSON schema. JSON Schema has no bounds for the text form, so the description has them."""
        bounds = f"From {format_duration(cls.least)} to {format_duration(cls.most)}."
        return {
            "description": f"A duration such as 500ms, or a number of seconds. {bounds}",
            "anyOf": [
                {"type": "string", "examples": ["500ms", format_duration(cls.most)]},
                {"type": "number", "minimum": cls.least, "maximum": cls.most},
            ],
        }


class DelayTime(Duration, most=DELAY_SECONDS_MAX):
    """The time that a message waits before it is delivered."""

    noun = "a delay"

    @classmethod
    def read(cls, found: Any) -> Self:
        """Parse a delay. Empty text means no delay, like 0."""
        return super().read("0s" if found == "" else found)


class Shift(Duration, least=-DELAY_SECONDS_MAX, most=DELAY_SECONDS_MAX):
    """A time difference: later, or with a minus earlier."""

    noun = "a shift"

    @classmethod
    def read(cls, found: Any) -> Self:
        if isinstance(found, str) and found.startswith("-"):
            later = cls(-super().read(found[1:]))
            later.is_text = True
            return later
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
            raise _unfit("is not a time: write text such as 2026-03-01T12:00:00Z")
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


NOT_GIVEN = -(2**63)


class DueTime(Time):
    """The delivery time of a message."""

    @classmethod
    def read(cls, found: Any) -> Self:
        """Parse a time. Empty text is the same as null."""
        return cls(NOT_GIVEN) if found == "" else super().read(found)


SCALARS = (Duration, Time)


def decode_scalar(kind: type, found: Any) -> Any:
    """Decode a `Duration` or `Time` for msgspec."""
    if issubclass(kind, SCALARS):
        return found if isinstance(found, kind) else kind.read(found)
    raise TypeError(f"{kind.__name__} is not a type of a request")


def encode_scalar(value: Any) -> Any:
    """Encode a `Duration` or `Time` for msgspec."""
    if isinstance(value, Time):
        return format_time(int(value))
    if isinstance(value, Duration):
        return format_duration(value, exact=True)
    raise TypeError(f"{type(value).__name__} is not a type of an answer")


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
    """Format any number of seconds: numbers in a body have no bounds, unlike text."""
    return format_duration(seconds) if 0 <= seconds <= Duration.most else f"{seconds} seconds"
