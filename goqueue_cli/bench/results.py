"""What was measured: its figures, how they look, and how they are kept and found again."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from goqueue import __version__
from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column
from goqueue.console.session import Session
from goqueue.errors import PathInvalid
from goqueue.quantities import format_duration, format_size, format_time

FORMAT = 1
"""Of a saved result. Whoever changes what a figure means raises it."""

Result = dict[str, Any]


class Figure(NamedTuple):
    """A number, and which way is better."""

    title: str
    show: Callable[[float], str]
    less_is_better: bool = False


def _rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:,.1f}"


def _milliseconds(number: float) -> str:
    return format_duration(number / 1000)


FIGURES = {
    "messages_per_second": Figure("messages a second", _rate),
    "bytes_per_second": Figure("bytes a second", lambda number: format_size(round(number))),
    "p50_ms": Figure("half within", _milliseconds, less_is_better=True),
    "p90_ms": Figure("90 % within", _milliseconds, less_is_better=True),
    "p99_ms": Figure("99 % within", _milliseconds, less_is_better=True),
    "p999_ms": Figure("99.9 % within", _milliseconds, less_is_better=True),
    "max_ms": Figure("all within", _milliseconds, less_is_better=True),
    "mean_ms": Figure("on average", _milliseconds, less_is_better=True),
    "late_p99_ms": Figure("99 % sent late by at most", _milliseconds, less_is_better=True),
    "lost": Figure("never arrived", lambda number: f"{number:,.0f}", less_is_better=True),
}

_COLUMNS = (Column("FIGURE", "title"), Column("VALUE", "value"))


def result(kind: str, topic: str, settings: dict[str, Any], figures: dict[str, float], **more: Any) -> Result:
    return {
        "name": kind,
        "format": FORMAT,
        "at": format_time(time.time_ns()),
        "version": __version__,
        "topic": topic,
        "settings": settings,
        "figures": figures,
        **more,
    }


def rates(messages: int, size: int, seconds: float) -> dict[str, float]:
    """The two figures of throughput; the bytes are those of the values alone."""
    each = messages / max(seconds, 1e-9)
    return {"messages_per_second": round(each, 1), "bytes_per_second": round(each * size, 1)}


def tell(session: Session, found: Result, save: Path | None) -> None:
    """On stdout: for people the figures, for programs all there is."""
    if save is not None:
        _keep(found, save)
    if not session.for_people:
        session.write([found], (Column("NAME", "name"),))
        return
    rows = [
        {"title": FIGURES[name].title, "value": FIGURES[name].show(number)} for name, number in found["figures"].items()
    ]
    session.write(rows, _COLUMNS)


def check_place(save: Path | None) -> None:
    """Before anything is measured: nobody should wait for a result that cannot be kept."""
    if save is not None and not save.parent.is_dir():
        raise PathInvalid(f"{save} cannot be written: there is no directory {save.parent}", hint="--save takes a file")


def _keep(found: Result, path: Path) -> None:
    try:
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise PathInvalid(f"{path} cannot be written: {error.strerror or error}", hint="--save takes a file") from None
    terminal.say(f"kept as {path}")


def load(path: Path) -> Result:
    """A result that was saved, or that was printed as JSON."""
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise PathInvalid(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError:
        found = None
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if not isinstance(found, dict) or not isinstance(found.get("figures"), dict):
        raise UsageInvalid(f"{path} is not the result of a benchmark", hint="`goqueue-cli bench publish --save FILE`")
    if found.get("format") != FORMAT:
        raise UsageInvalid(f"{path} has the format {found.get('format')!r}, and only {FORMAT} is known")
    return found
