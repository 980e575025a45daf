"""Results of benchmarks: how they are printed, saved, loaded and compared."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from goqueue import __version__
from goqueue.console import terminal
from goqueue.console.failure import UsageInvalid
from goqueue.console.rows import Column
from goqueue.console.session import Session, output_flags
from goqueue.errors import PathInvalid
from goqueue.quantities import format_duration, format_size, format_time

FORMAT = 1
"""Format of a saved result. Raise it when the meaning of a figure changes."""

Result = dict[str, Any]


class BenchFigure(NamedTuple):
    """The title and format of a number, and which direction is better."""

    title: str
    show: Callable[[float], str]
    less_is_better: bool = False


def _rate(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:,.1f}"


def _milliseconds(number: float) -> str:
    return format_duration(number / 1000)


FIGURES = {
    "messages_per_second": BenchFigure("messages a second", _rate),
    "bytes_per_second": BenchFigure("bytes a second", lambda number: format_size(round(number))),
    "p50_ms": BenchFigure("half within", _milliseconds, less_is_better=True),
    "p90_ms": BenchFigure("90 % within", _milliseconds, less_is_better=True),
    "p99_ms": BenchFigure("99 % within", _milliseconds, less_is_better=True),
    "p999_ms": BenchFigure("99.9 % within", _milliseconds, less_is_better=True),
    "max_ms": BenchFigure("all within", _milliseconds, less_is_better=True),
    "mean_ms": BenchFigure("on average", _milliseconds, less_is_better=True),
    "late_p99_ms": BenchFigure("99 % sent late by at most", _milliseconds, less_is_better=True),
    "lost": BenchFigure("never arrived", lambda number: f"{number:,.0f}", less_is_better=True),
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
    """Return messages and bytes per second; bytes are those of values."""
    each = messages / max(seconds, 1e-9)
    return {"messages_per_second": round(each, 1), "bytes_per_second": round(each * size, 1)}


def write_result(session: Session, found: Result, save: Path | None) -> None:
    """Write the figures as a table, or the whole result for programs."""
    if save is not None:
        _save(found, save)
    if not session.for_people:
        session.write([found], (Column("NAME", "name"),))
        return
    rows = [
        {"title": FIGURES[name].title, "value": FIGURES[name].show(number)} for name, number in found["figures"].items()
    ]
    session.write(rows, _COLUMNS)


def check_place(save: Path | None) -> None:
    """Refuse a directory that does not exist, before anything is measured."""
    if save is not None and not save.parent.is_dir():
        raise PathInvalid(f"{save} cannot be written: there is no directory {save.parent}", hint="--save takes a file")


def _save(found: Result, path: Path) -> None:
    try:
        path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise PathInvalid(f"{path} cannot be written: {error.strerror or error}", hint="--save takes a file") from None
    terminal.say(f"saved as {path}")


def load(path: Path) -> Result:
    """Load a result that was saved, or printed as JSON."""
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
        raise UsageInvalid(f"{path} has format {found.get('format')!r}, and only {FORMAT} is supported")
    return found


# --- comparison ---

_WORSE = 0.1
"""A larger change is marked: two runs of the same broker differ by about this much."""

_COMPARISON = (
    Column("FIGURE", "title"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
    Column("RATIO", "ratio"),
    Column("VERDICT", "verdict"),
)

_Before = Annotated[Path, typer.Argument(metavar="BEFORE", help="A result that was saved with --save.")]
_After = Annotated[Path, typer.Argument(metavar="AFTER", help="Another result.")]


@output_flags
def compare(before: _Before, after: _After, *, session: Session) -> None:
    """Compare two results of a benchmark.

    \b
      goqueue-cli bench compare before.json after.json

    RATIO is the second result divided by the first. A figure that got worse by more than 10 % is marked; the exit code
    stays 0.
    """
    one, other = load(before), load(after)
    if one["name"] != other["name"]:
        raise UsageInvalid(
            f"{before} is of bench {one['name']}, {after} of bench {other['name']}",
            hint="compare results of one benchmark",
        )
    different = sorted(
        name
        for name in {**one["settings"], **other["settings"]}
        if one["settings"].get(name) != other["settings"].get(name)
    )
    if different:
        listed = ", ".join(f"{name} ({one['settings'].get(name)}, {other['settings'].get(name)})" for name in different)
        terminal.say(f"the results have different settings: {listed}")
    rows = [_row(name, one, other) for name in FIGURES if name in one["figures"] and name in other["figures"]]
    for_people = session.for_people
    session.write([_shown(row) for row in rows] if for_people else rows, _COMPARISON if for_people else ())


def _row(name: str, one: Result, other: Result) -> dict[str, Any]:
    before, after = float(one["figures"][name]), float(other["figures"][name])
    ratio = after / before if before else None
    return {"name": name, "before": before, "after": after, "ratio": ratio, "worse": _is_worse(name, before, after)}


def _is_worse(name: str, before: float, after: float) -> bool:
    if FIGURES[name].less_is_better:
        return after > before * (1 + _WORSE)
    return after < before * (1 - _WORSE)


def _shown(row: dict[str, Any]) -> dict[str, str]:
    figure = FIGURES[row["name"]]
    return {
        "title": figure.title,
        "before": figure.show(row["before"]),
        "after": figure.show(row["after"]),
        "ratio": "-" if row["ratio"] is None else f"{row['ratio']:.2f}",
        "verdict": "worse" if row["worse"] else "-",
    }
