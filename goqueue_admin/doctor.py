"""`goqueue-admin doctor`: what is wrong, the worst first, and what to do about it."""

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args

import typer

from goqueue.console import exits, terminal
from goqueue.console.failure import doing
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.table import Cell
from goqueue.quantities import format_count
from goqueue_admin import symptoms

Severity = Literal["critical", "warning", "note"]
_SEVERITIES: tuple[str, ...] = get_args(Severity)
_INDENT = 2
_WIDTH_MIN = 40  # below, lines are left as they are

_FINDINGS = (
    Column("SEVERITY", "severity"),
    Column("CODE", "code"),
    Column("SUBJECT", "subject"),
    Column("", "sentence"),
    Column("", "hint"),
    Column("", "details"),
)
_CHECKS = (
    Column("CHECK", "name"),
    Column("STATUS", "status"),
    Column("MESSAGE", "message"),
)

_Row = dict[str, Any]


@session_flags
def doctor(
    severity: Annotated[
        Severity,
        typer.Option("--severity", metavar="SEVERITY", help="End with 1 from here on: critical, warning, note."),
    ] = "warning",
    checks: Annotated[bool, typer.Option("--checks", help="Show what was looked at, and not what was found.")] = False,
    *,
    session: Session,
) -> None:
    """Find what is wrong, and say what to do about it.

    \b
      goqueue-admin doctor
      goqueue-admin doctor --severity critical || page-somebody
      goqueue-admin doctor -o json
      goqueue-admin doctor --checks

    The broker looks at its disk, its logs, itself and the groups; this program adds what it sees of the way to it. It
    ends with 1 where there is a warning or worse, or what --severity says, and with 3 where nobody answers. Every
    code is explained in docs/doctor.md.
    """
    with doing("examine the broker"), session.client() as client:
        found = client.doctor()
        seen = symptoms.look(client)
    findings = sorted([*found["findings"], *symptoms.findings(seen)], key=_badness)
    if checks:
        session.write(found["checks"], _CHECKS)
    elif session.for_people:
        _show(findings, session)
    else:
        session.write([{"name": _name(one), **one} for one in findings], _FINDINGS)
    if session.for_people:
        terminal.say(_summary(findings, found["checks"]))
    if any(_badness(one) <= _SEVERITIES.index(severity) for one in findings):
        raise typer.Exit(exits.FAILED)


def _badness(finding: _Row) -> int:
    """An unknown severity is of a newer broker, and taken for the least."""
    return _SEVERITIES.index(finding["severity"]) if finding["severity"] in _SEVERITIES else len(_SEVERITIES) - 1


def _name(finding: _Row) -> str:
    return f"{finding['code']} {finding['subject']}"


def _show(findings: list[_Row], session: Session) -> None:
    """A line of the table for each, and below it what there is to be said and done."""
    if not findings:
        return
    titled = [[Cell(title, "title") for title in ("SEVERITY", "CODE", "SUBJECT")]] if session.headers else []
    told = [_line(one) for one in session.ordered(findings, _FINDINGS)]
    table = terminal.table_lines([*titled, *(line for line, _ in told)], [False] * 3)
    lines = table[: len(titled)]
    for line, (_, finding) in zip(table[len(titled) :], told, strict=True):
        lines += [line, *_wrapped(finding["sentence"]), *_wrapped(f"hint: {finding['hint']}")]
    terminal.write("".join(f"{line}\n" for line in lines))


def _line(finding: Any) -> tuple[list[Cell], Any]:
    styles = {"critical": "bad", "warning": "moving"}
    severity = finding["severity"]
    return [Cell(severity, styles.get(severity, "")), Cell(finding["code"]), Cell(finding["subject"])], finding


def _wrapped(text: str) -> Iterator[str]:
    """As it stands below its line. Only a terminal has an end."""
    room, visible = terminal.width(), terminal.visible(text)
    margin = " " * _INDENT
    if room is None or room < _WIDTH_MIN:
        yield f"{margin}{visible}"
        return
    yield from textwrap.wrap(visible, room, initial_indent=margin, subsequent_indent=margin * 2, break_on_hyphens=False)


def _summary(findings: list[_Row], checks: list[_Row]) -> str:
    looked = format_count(len(checks), "check")
    if not findings:
        return f"nothing is wrong as far as {looked} {'tells' if len(checks) == 1 else 'tell'}"
    counts = Counter(_SEVERITIES[_badness(one)] for one in findings)
    plural = {"critical": "critical", "warning": "warnings", "note": "notes"}
    parts = [format_count(counts[one], one, plural[one]) for one in _SEVERITIES if counts[one]]
    return f"{', '.join(parts)}; {looked}, {format_count(sum(one['status'] == 'ok' for one in checks))} of them ok"
