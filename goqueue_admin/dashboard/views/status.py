"""The broker in two lines: who and where it is, how it does, and how fast it goes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from goqueue.clock import NANOSECONDS
from goqueue.quantities import format_count, format_duration
from goqueue_admin.dashboard.questions import Link
from goqueue_admin.dashboard.views import numbers

MARKS = {"ok": ("●", "good"), "warning": ("▲", "warn"), "critical": ("◆", "bad")}
"""A shape besides the colour, for those who do not see the one or have none."""


class Health(NamedTuple):
    """One word, with a mark and a tone."""

    mark: str
    word: str
    tone: str


class Meter(NamedTuple):
    """A number of now, and how it came to be."""

    title: str
    text: str
    points: Sequence[float]


def health(link: Link, doctor: Mapping[str, Any]) -> Health:
    """What the doctor says; a broker that is away is not well, whatever it said last."""
    if link.state == "away":
        return Health("◆", "away", "bad")
    if link.state == "asking":
        return Health("○", "asking", "muted")
    status = str(doctor.get("status", ""))
    if status not in MARKS:
        return Health("●", "here", "good")
    mark, tone = MARKS[status]
    count = len([one for one in doctor.get("findings", ()) if one.get("severity") != "note"])
    return Health(mark, status if status == "ok" else format_count(count, "alert"), tone)


def meters(stats: Mapping[str, Any], history: Mapping[str, Any]) -> list[Meter]:
    """The rates of the head, the most important first."""
    rates, series = stats.get("rates") or {}, history.get("series") or {}
    if not rates:
        return []
    latency = (series.get("publish_p99_ms") or [None])[-1]
    found = [
        Meter("in", numbers.rate(rates.get("published_per_second", 0)), series.get("published", ())),
        Meter("out", numbers.rate(rates.get("read_per_second", 0)), series.get("read", ())),
    ]
    if latency is not None:
        found.append(Meter("p99", numbers.milliseconds(latency), series.get("publish_p99_ms", ())))
    found += [
        Meter(
            "written", numbers.size_rate(rates.get("published_bytes_per_second", 0)), series.get("published_bytes", ())
        ),
        Meter("settled", numbers.rate(rates.get("settled_per_second", 0)), series.get("settled", ())),
        Meter("requests", numbers.rate(rates.get("requests_per_second", 0)), series.get("requests", ())),
    ]
    return found


def about(stats: Mapping[str, Any], version: Mapping[str, Any]) -> list[str]:
    """Which node this is, and since when it runs."""
    found = []
    if "node_id" in stats:
        found.append(f"node {stats['node_id']}")
    if version.get("version"):
        found.append(str(version["version"]))
    if "uptime" in stats:
        found.append(f"up {format_duration(stats['uptime'])}")
    return found


def trouble(link: Link, address: str, now_ns: int) -> str:
    """The line that stays for as long as there is no answer."""
    if link.state == "asking":
        return f"asking {address}"
    if link.state == "here":
        return ""
    left = max(0, -(-(link.retry_ns - now_ns) // NANOSECONDS))
    when = f"trying again in {left} s" if left else "trying again"
    return f"broker is away since {numbers.clock(link.since_ns)}, {when}"
