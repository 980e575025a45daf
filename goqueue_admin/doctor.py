"""`goqueue-admin doctor`: all findings with what to do about them, the worst first.

The broker reports most of them; this program adds what can only be measured from a client: the round trip, the
difference of the clocks, and the version.
"""

import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_args

import typer

from goqueue import __version__
from goqueue.clock import NANOSECONDS
from goqueue.console import exit_codes, terminal
from goqueue.console.failure import doing
from goqueue.console.rows import Column
from goqueue.console.session import Session, session_flags
from goqueue.console.table import Cell
from goqueue.quantities import format_count, format_duration, parse_time
from goqueue_admin.broker import CHECKS

if TYPE_CHECKING:
    from goqueue.client import Client


CODES = {"clock_differs": ("warning",), "round_trip_slow": ("warning", "note"), "version_differs": ("note",)}
"""The codes with their severities."""

_ROUND_TRIPS = 5  # the fastest measures the network
_CLOCK_SECONDS = 2.0  # synchronized clocks differ by less
_TRIP_SLOW_SECONDS = 0.05  # a local network takes a hundredth of it
_TRIP_BAD_SECONDS = 0.5

Finding = dict[str, Any]


class BrokerProbe(NamedTuple):
    """Measurements of a broker from this client."""

    round_trip: float
    clock_ahead: float
    """Minimum seconds by which its clock is ahead of ours; half a round trip is uncertain."""
    version: str


def probe_broker(client: "Client") -> BrokerProbe:
    trips = [_round_trip_once(client) for _ in range(_ROUND_TRIPS)]
    round_trip, ahead = min(trips)
    uncertain = round_trip / 2
    certain = max(0.0, abs(ahead) - uncertain)
    return BrokerProbe(round_trip, certain if ahead >= 0 else -certain, str(client.version().get("version", "")))


def _round_trip_once(client: "Client") -> tuple[float, float]:
    """Return the round-trip time, and how far the broker's clock was ahead."""
    began, began_ns = time.monotonic(), time.time_ns()
    there_ns = parse_time(client.health()["timestamp"])
    took = time.monotonic() - began
    return took, (there_ns - began_ns) / NANOSECONDS - took / 2


def client_findings(seen: BrokerProbe) -> list[Finding]:
    """Return findings in the format of the broker."""
    return [found for found in (_clock(seen), _round_trip(seen), _version(seen)) if found is not None]


def _clock(seen: BrokerProbe) -> Finding | None:
    if abs(seen.clock_ahead) < _CLOCK_SECONDS:
        return None
    apart = format_duration(round(abs(seen.clock_ahead), 1))
    side = "ahead of" if seen.clock_ahead > 0 else "behind"
    return _finding(
        "clock_differs",
        "warning",
        "the clock",
        f"the broker's clock is {apart} {side} this machine's: times such as --from -1h are off by that",
        "check both clocks: `timedatectl`",
        {"seconds": round(seen.clock_ahead, 3)},
    )


def _round_trip(seen: BrokerProbe) -> Finding | None:
    if seen.round_trip < _TRIP_SLOW_SECONDS:
        return None
    return _finding(
        "round_trip_slow",
        "warning" if seen.round_trip >= _TRIP_BAD_SECONDS else "note",
        "the network",
        f"the fastest of {_ROUND_TRIPS} requests took {format_duration(round(seen.round_trip, 3))}",
        "run clients closer to the broker, or let them send more per request; "
        "`goqueue-admin broker describe` shows whether the broker itself is slow",
        {"seconds": round(seen.round_trip, 6)},
    )


def _version(seen: BrokerProbe) -> Finding | None:
    if seen.version == __version__:
        return None
    return _finding(
        "version_differs",
        "note",
        "the version",
        f"the broker has version {seen.version or 'unknown'}, and this program {__version__}",
        "install the broker's version here if a command fails",
        {"broker": seen.version, "client": __version__},
    )


def _finding(code: str, severity: str, subject: str, sentence: str, hint: str, details: dict[str, Any]) -> Finding:
    return {
        "code": code,
        "severity": severity,
        "subject": subject,
        "sentence": sentence,
        "hint": hint,
        "details": details,
    }


Severity = Literal["critical", "warning", "note"]
_SEVERITIES: tuple[str, ...] = get_args(Severity)
_INDENT = 2
_WIDTH_MIN = 40  # below, lines are not wrapped

_FINDINGS = (
    Column("SEVERITY", "severity"),
    Column("CODE", "code"),
    Column("SUBJECT", "subject"),
    Column("", "sentence"),
    Column("", "hint"),
    Column("", "details"),
)

_Row = dict[str, Any]


@session_flags
def doctor(
    severity: Annotated[
        Severity,
        typer.Option(
            "--severity", metavar="SEVERITY", help="Lowest severity with exit code 1: critical, warning, note."
        ),
    ] = "warning",
    checks: Annotated[bool, typer.Option("--checks", help="Show the checks instead of the findings.")] = False,
    *,
    session: Session,
) -> None:
    """Find problems of a broker and how to solve them.

    \b
      goqueue-admin doctor
      goqueue-admin doctor --severity critical || page-on-call
      goqueue-admin doctor -o json
      goqueue-admin doctor --checks

    The broker checks its disk, logs, process and groups; this program adds the network, the clock and the version. The
    exit code is 1 for a warning or worse (see --severity), and 3 if no broker answers. docs/doctor.md explains every
    code.
    """
    with doing("examine the broker"), session.client() as client:
        found = client.doctor()
        seen = probe_broker(client)
    findings = sorted([*found["findings"], *client_findings(seen)], key=_severity_rank)
    if checks:
        session.write(found["checks"], CHECKS)
    elif session.for_people:
        _show(findings, session)
    else:
        session.write([{"name": _finding_name(one), **one} for one in findings], _FINDINGS)
    if session.for_people:
        terminal.say(_summary(findings, found["checks"]))
    if any(_severity_rank(one) <= _SEVERITIES.index(severity) for one in findings):
        raise typer.Exit(exit_codes.FAILED)


def _severity_rank(finding: _Row) -> int:
    """Rank unknown severities, of a newer broker, lowest."""
    return _SEVERITIES.index(finding["severity"]) if finding["severity"] in _SEVERITIES else len(_SEVERITIES) - 1


def _finding_name(finding: _Row) -> str:
    return f"{finding['code']} {finding['subject']}"


def _show(findings: list[_Row], session: Session) -> None:
    """Print a table line per finding, with sentence and hint below."""
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
    """Indent a text; wrap it on a terminal."""
    room, visible = terminal.width(), terminal.escape_unprintable(text)
    margin = " " * _INDENT
    if room is None or room < _WIDTH_MIN:
        yield f"{margin}{visible}"
        return
    yield from textwrap.wrap(visible, room, initial_indent=margin, subsequent_indent=margin * 2, break_on_hyphens=False)


def _summary(findings: list[_Row], checks: list[_Row]) -> str:
    looked = format_count(len(checks), "check")
    if not findings:
        return f"nothing is wrong as far as {looked} {'tells' if len(checks) == 1 else 'tell'}"
    counts = Counter(_SEVERITIES[_severity_rank(one)] for one in findings)
    plural = {"critical": "critical", "warning": "warnings", "note": "notes"}
    parts = [format_count(counts[one], one, plural[one]) for one in _SEVERITIES if counts[one]]
    return f"{', '.join(parts)}; {looked}, {format_count(sum(one['status'] == 'ok' for one in checks))} of them ok"
