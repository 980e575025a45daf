"""How the values of a pipeline are written."""

import re
from collections.abc import Iterable

from goqueue.config.kinds import SWITCH
from goqueue.config.problem import nearest
from goqueue.quantities import parse_duration, quoted
from goqueue.spark.inspections.parameters import read_moment
from goqueue.spark.points import Bound, Moment

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SINK = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")


def bound(text: str, now_ns: int) -> Bound:
    """Where reading begins or ends: `earliest`, `latest`, `now`, a time, a day, or so long ago."""
    if text in ("earliest", "latest"):
        return Bound("earliest" if text == "earliest" else "latest")
    if text == "now":
        return Bound("latest")
    try:
        return Bound(Moment(read_moment(text, now_ns)))
    except ValueError:
        if text.startswith("-"):
            raise
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
        raise ValueError(f"{quoted(text)} is no {what}: {advice(text, known)}")
    return text


def advice(name: str, known: Iterable[str]) -> str:
    """What to write in the place of a name that is none: all that there are, and first what was probably meant."""
    names = list(known)
    meant = nearest(name, names)
    listed = f"there are {', '.join(names)}" if names else "there are none"
    return f"did you mean {meant}? {listed}" if meant else listed
