"""How the values of a pipeline are written."""

import re
from collections.abc import Iterable

from goqueue.config.kinds import SWITCH
from goqueue.config.problem import nearest
from goqueue.quantities import parse_duration, parse_time, quoted
from goqueue.spark.points import Bound, Moment

_NANOSECONDS = 1_000_000_000
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SINK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def bound(text: str, now_ns: int) -> Bound:
    """Where reading begins or ends: `earliest`, `latest`, `now`, a time, a day, or so long ago."""
    if text in ("earliest", "latest"):
        return Bound("earliest" if text == "earliest" else "latest")
    if text == "now":
        return Bound("latest")
    if text.startswith("-"):
        return Bound(Moment(max(0, now_ns - round(parse_duration(text[1:]) * _NANOSECONDS))))
    try:
        return Bound(Moment(parse_time(f"{text}T00:00:00Z" if _DAY.fullmatch(text) else text)))
    except ValueError:
        raise ValueError(
            f"{quoted(text)} is no place to read from or to: write earliest, latest, a time as in"
            " 2026-03-01T12:00:00Z, a day as in 2026-03-01, or -24h"
        ) from None


def identifier(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError("is no name that a query can say: letters, digits and _, and no digit first")
    return text


def sink_name(text: str) -> str:
    if not _SINK.fullmatch(text):
        raise ValueError("is no name: letters, digits, _ and -")
    return text


def switch(text: str) -> bool:
    return bool(SWITCH.parse(text))


def interval(text: str) -> float:
    found = parse_duration(text)
    if found <= 0:
        raise ValueError(f"{quoted(text)} is no time to wait")
    return found


def rows(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text)):
        raise ValueError(f"{quoted(text)} is not a number of rows from 1 to 99999")
    return int(text)


def url(text: str) -> str:
    if not re.fullmatch(r"https?://[^\s/]+/?", text):
        raise ValueError(f"{quoted(text)} is not the address of a broker, as in http://127.0.0.1:8080")
    return text.rstrip("/")


def some(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


def one_of(text: str, names: Iterable[str], what: str) -> str:
    """`text`, if it is one of these."""
    known = list(names)
    if text not in known:
        meant = nearest(text, known)
        raise ValueError(
            f"{quoted(text)} is no {what}: " + (f"did you mean {meant}?" if meant else f"there are {', '.join(known)}")
        )
    return text
