"""`goqueue-cli bench compare`: one result beside another."""

from pathlib import Path
from typing import Annotated, Any

import typer

from goqueue.console import terminal
from goqueue.console.groups import UsageInvalid
from goqueue.console.rows import Column
from goqueue.console.session import Session, print_flags
from goqueue_cli.bench.results import FIGURES, Result, load

_WORSE = 0.1
"""More than this is marked: less is what two runs of the same differ by."""

_COLUMNS = (
    Column("FIGURE", "title"),
    Column("BEFORE", "before"),
    Column("AFTER", "after"),
    Column("RATIO", "ratio"),
    Column("VERDICT", "verdict"),
)

_Before = Annotated[Path, typer.Argument(metavar="BEFORE", help="A result that was kept with --save.")]
_After = Annotated[Path, typer.Argument(metavar="AFTER", help="Another one.")]


@print_flags
def compare(before: _Before, after: _After, *, session: Session) -> None:
    """Compare two results of a benchmark.

    \b
      goqueue-cli bench compare before.json after.json

    The ratio is that of the second to the first. What became worse by more than 10 % is marked; that is no failure.
    """
    one, other = load(before), load(after)
    if one["name"] != other["name"]:
        raise UsageInvalid(
            f"{before} is of bench {one['name']}, {after} of bench {other['name']}", hint="compare what is of one kind"
        )
    different = sorted(
        name
        for name in {**one["settings"], **other["settings"]}
        if one["settings"].get(name) != other["settings"].get(name)
    )
    if different:
        said = ", ".join(f"{name} ({one['settings'].get(name)}, {other['settings'].get(name)})" for name in different)
        terminal.say(f"these were made with different settings: {said}")
    rows = [_row(name, one, other) for name in FIGURES if name in one["figures"] and name in other["figures"]]
    for_people = session.for_people
    session.write([_shown(row) for row in rows] if for_people else rows, _COLUMNS if for_people else ())


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
