"""When messages are to be delivered, as flags say it."""

from typing import TYPE_CHECKING

from goqueue.clock import NANOSECONDS
from goqueue.console.groups import UsageInvalid
from goqueue.limits import DELAY_SECONDS_MAX
from goqueue.quantities import format_duration, parse_duration, quoted

if TYPE_CHECKING:
    from goqueue.client import Nanoseconds


def parse_delay(flag: str, text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise UsageInvalid(f"{flag}: {error}", hint=f"write it as in {flag} 5m") from None
    if seconds > DELAY_SECONDS_MAX:
        raise _too_far(flag, text)
    return seconds


def parse_shift(flag: str, text: str) -> float:
    """A duration that may have a sign."""
    if text[:1] not in {"+", "-"}:
        return parse_delay(flag, text)
    seconds = parse_delay(flag, text[1:])
    return -seconds if text[0] == "-" else seconds


def parse_at(flag: str, text: str) -> "Nanoseconds":
    from goqueue.console.places import parse_moment  # noqa: PLC0415 - with the SDK, once it is needed

    moment = parse_moment(flag, text)
    if moment > parse_moment(flag, "now") + DELAY_SECONDS_MAX * NANOSECONDS:
        raise _too_far(flag, text)
    return moment


def _too_far(flag: str, text: str) -> UsageInvalid:
    most = format_duration(DELAY_SECONDS_MAX)
    return UsageInvalid(f"{flag} {quoted(text)} is too far ahead", hint=f"{most} are the most")
